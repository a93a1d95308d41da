# SPDX-License-Identifier: MIT
"""Models of each family give the tokens of a forward pass in double precision (reference.py).

Each token of the appliance must have the best logit of the reference at its position, or one within
TOLERANCE of the best. Logits spread by about 2; those of the engine differ from the naive ones by
less than 2 * 10^-4 (unit kernels/engine). Weights are floats: with integer weights, activations
would be rounded in every family.
"""
import models
from reference import Reference

TOLERANCE = 1e-3
VARIANTS = (["--type", "f32"], ["--type", "f32", "--rope", "linear"],
            ["--type", "f32", "--rope", "llama3", "--tied"], ["--type", "f16"])


def compare(path, prompts, answers):
    """Number of tokens that are the best by more than TOLERANCE."""
    reference, sure = Reference(path), 0
    for prompt, answer in zip(prompts, answers):
        assert len(answer) == models.TOKENS
        logits = reference.logits(prompt + answer[:-1])[len(prompt) - 1:]
        for i, (token, row) in enumerate(zip(answer, logits)):
            second, best = sorted(row)[-2:]
            assert best - row[token] < TOLERANCE, (i, token, row[token], best, answer)
            sure += best - second >= TOLERANCE
    return sure


def test_each_family_gives_the_tokens_of_the_reference():
    for family in models.FAMILIES:
        sure = total = 0
        for seed, variant in enumerate(VARIANTS):
            with models.model(family, "--seed", str(seed + 1), *variant) as path:
                prompts = models.draw_prompts(seed)
                answers = models.answers(path, prompts)
                sure += compare(path, prompts, answers)
                total += sum(map(len, answers))
        print("  %s: %d tokens as in the reference, %d of them the best by more than %g" % (
            family, total, sure, TOLERANCE))
        assert sure > total * 0.9
