# SPDX-License-Identifier: MIT
"""Random models of each family (tools/mkmodel), and the appliance's answers to random prompts."""
import contextlib
import os
import random
import subprocess
import tempfile

from appliance import BUILD, Appliance
from protocol import Client

FAMILIES = ("llama", "qwen2", "qwen3")
HEADS = {"qwen3": ["--head-dim", "24"]}         # dim / heads is 16
VOCAB = 512
PROMPTS, PROMPT_TOKENS, TOKENS = 2, 20, 16


@contextlib.contextmanager
def model(family, *options):
    """The path of a model that mkmodel makes."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "model.gguf")
        subprocess.run([os.path.join(BUILD, "tools", "mkmodel"), "--out", path, "--family", family,
                        *HEADS.get(family, []), *options], check=True)
        yield path


def draw_prompts(seed):
    """Lists of ids, each longer than the one before."""
    chance = random.Random(seed)
    return [[chance.randrange(3, VOCAB) for _ in range(PROMPT_TOKENS + 13 * i)]
            for i in range(PROMPTS)]


def answers(path, prompts):
    """Greedy answers of TOKENS ids, to all prompts at once: rows of one batch."""
    with Appliance("model.path=" + path) as a, Client(a.tcp) as c:
        for call_id, prompt in enumerate(prompts):
            c.start(call_id, prompt, max_tokens=TOKENS)
        return [c.finish(call_id).check().tokens for call_id in range(len(prompts))]
