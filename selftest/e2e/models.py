# SPDX-License-Identifier: MIT
"""Models of tests and their prompts: random models of each family (tools/mkmodel), and the embedded
model with held-out tasks, which its training has not seen (tools/model)."""
import contextlib
import os
import random
import subprocess
import sys
import tempfile

from appliance import BUILD, HANG_S, ROOT, Appliance
from protocol import Client

FAMILIES = ("llama", "qwen2", "qwen3")
HEADS = {"qwen3": ["--head-dim", "24"]}         # dim / heads is 16
VOCAB = 512
PROMPTS, PROMPT_TOKENS, TOKENS = 2, 20, 16
EMBEDDED = os.path.join(ROOT, "tools", "model")
EMBEDDED_SEED = "2"


# ---- random models -------------------------------------------------------------------------------

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


# ---- the embedded model --------------------------------------------------------------------------

def task_file(count):
    """`count` tasks as `agx agent` reads them."""
    done = subprocess.run([os.path.join(EMBEDDED, "eval"), "--write", "--tasks", str(count),
                           "--seed", EMBEDDED_SEED], text=True, capture_output=True,
                          timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def held_out_prompts(count):
    """The text before one answer of each of these tasks: of its first call, its second, ..."""
    sys.path.insert(0, EMBEDDED)
    import tasks
    texts = []
    for i in range(count):
        calls = tasks.draw(tasks.TEST, "%s/%d" % (EMBEDDED_SEED, i)).transcripts[0]
        before = calls[:i % len(calls)]
        texts.append("".join(a + b for a, b in before) + calls[len(before)][0])
    return texts
