#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What: random flows through `agx flow --explain` and through the reference, side by side.

  tools/lab/flow/compare.py [N] [--seed FIRST] [--agx PATH] [--keep DIR]

Prints the first difference and its file; the exit status is 0 where all N plans are equal. A flow
that the reference refuses must be refused.
"""
import argparse
import difflib
import pathlib
import subprocess
import sys
import tempfile

from explain import explain
from flow_file import FlowError
from random_flows import random_flow

SHAPES = [(4096, 16), (300, 16), (40000, 16), (4096, 1), (1, 4), (4096, 64)]


def of_reference(text, shape):
    try:
        return explain(text, *shape)
    except FlowError as error:
        return f"refused: {error}"


def of_agx(agx, path, shape):
    done = subprocess.run([agx, "flow", "--explain", "--order", "helium", "--kv-tokens",
                           str(shape[0]), "--share-min", str(shape[1]), str(path)],
                          capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else f"refused: {done.stderr}"


def differ(expected, found):
    both_refuse = expected.startswith("refused") and found.startswith("refused")
    return expected != found and not both_refuse


def main():
    parser = argparse.ArgumentParser(description="Random flows: agx against the reference.")
    parser.add_argument("count", type=int, nargs="?", default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--agx", default="build/agx")
    parser.add_argument("--keep", default=tempfile.gettempdir(), help="where a flow is written")
    words = parser.parse_args()
    path = pathlib.Path(words.keep) / "random.flow"
    refused = ops = 0
    for seed in range(words.seed, words.seed + words.count):
        text, shape = random_flow(seed), SHAPES[seed % len(SHAPES)]
        path.write_text(text, encoding="utf-8")
        expected, found = of_reference(text, shape), of_agx(words.agx, path, shape)
        refused += expected.startswith("refused")
        ops += expected.count("\nop ")
        if differ(expected, found):
            print(f"seed {seed}: the plans of {path} differ "
                  f"(--kv-tokens {shape[0]} --share-min {shape[1]})")
            sys.stdout.writelines(difflib.unified_diff(
                expected.splitlines(True), found.splitlines(True), "reference", "agx"))
            return 1
    print(f"{words.count} flows, {ops} operators, equal plans; {refused} of them are refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
