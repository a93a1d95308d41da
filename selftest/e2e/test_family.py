# SPDX-License-Identifier: MIT
"""Models of each family say what a forward pass in double precision (reference.py) says.

Weights are random (tools/mkmodel). Each token that the appliance gives must be the best of the
reference's logits at its place, or be within TOLERANCE of the best. Logits spread by about 2; the
arithmetic of the engine differs from the reference's by less than 10^-4.
"""
import os
import random
import subprocess
import tempfile

from appliance import BUILD, Appliance
from protocol import Client
from reference import Reference

TOLERANCE = 1e-3
PROMPTS, PROMPT_TOKENS, TOKENS = 3, 20, 16
VOCAB = 512
FAMILIES = ("llama", "qwen2", "qwen3")
HEADS = {"qwen3": ["--head-dim", "24"]}         # dim / heads is 16
VARIANTS = (["--type", "f32"], ["--type", "f32", "--rope", "linear"],
            ["--type", "f32", "--rope", "llama3", "--tied"], ["--type", "f16"],
            ["--type", "q8_0"])


def make(path, family, *options):
    subprocess.run([os.path.join(BUILD, "tools", "mkmodel"), "--out", path, "--family", family,
                    *options, *HEADS.get(family, [])], check=True)


def ask(path, prompts):
    """Greedy answers, all at once: rows of one batch."""
    with Appliance("model.path=" + path) as a, Client(a.tcp) as c:
        for call_id, prompt in enumerate(prompts):
            c.start(call_id, prompt, max_tokens=TOKENS)
        return [c.finish(call_id).check().tokens for call_id in range(len(prompts))]


def compare(path, prompts, answers):
    """How many tokens could have been no other one."""
    reference, sure = Reference(path), 0
    for prompt, answer in zip(prompts, answers):
        assert len(answer) == TOKENS
        logits = reference.logits(prompt + answer[:-1])[len(prompt) - 1:]
        for i, (token, row) in enumerate(zip(answer, logits)):
            second, best = sorted(row)[-2:]
            assert best - row[token] < TOLERANCE, (i, token, row[token], best, answer)
            sure += best - second >= TOLERANCE
    return sure


def draw_prompts(seed):
    chance = random.Random(seed)
    return [[chance.randrange(3, VOCAB) for _ in range(PROMPT_TOKENS + 7 * i)]
            for i in range(PROMPTS)]


def check_family(family):
    sure = total = 0
    for seed, variant in enumerate(VARIANTS):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "model.gguf")
            make(path, family, "--seed", str(seed + 1), *variant)
            prompts = draw_prompts(seed)
            answers = ask(path, prompts)
            sure += compare(path, prompts, answers)
            total += sum(map(len, answers))
    print("  %s: %d tokens as in the reference, %d of them by more than %g" % (
        family, total, sure, TOLERANCE))
    assert sure > total * 0.9


def test_each_family_says_what_the_reference_says():
    for family in FAMILIES:
        check_family(family)
