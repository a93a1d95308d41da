#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What does KV in fewer bits cost in quality?

    tools/bench/kv_types.py [MODEL.gguf]... [--types f16,q8] [--windows 64] [--tokens 256]
        [--threads N]

For each model, a text is drawn from the engine with KV in floats, at temperature 1: it is unlikely
for an engine that computes something else, even if only less exactly. The text is scored with KV in
floats and in each other type, one token a step, as decoding does: by its own ids, and by all ids at
each place, with the probabilities of the first engine. Beside the ratio of perplexities stand its
standard error and the mean difference of log-probabilities, place by place. Last, in how many of
as many greedy continuations an id differs."""
import argparse
import os
import tempfile

from agree_with_peers import BOS, PLAIN_FIRST, ask, compare_windows, ours
from peers import BUILD

EMBEDDED = BUILD.parent / "appliance" / "embedded.gguf"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=[EMBEDDED])
    parser.add_argument("--types", default="f16,q8")
    parser.add_argument("--windows", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=256, help="of a window")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    return parser.parse_args()


def compare(chosen, path):
    path = os.path.abspath(path)        # peers.launch() runs elsewhere
    starts = [[BOS, PLAIN_FIRST + i] for i in range(chosen.windows)]
    print(f"{os.path.basename(path)}:", flush=True)

    def asked(verb, lists, *more):
        return ask(ours(path, chosen.threads, *verb) + list(more), lists)

    drawn = asked(("sample", chosen.tokens - 2), starts)
    text = [start + ids for start, ids in zip(starts, drawn, strict=True)]
    with tempfile.NamedTemporaryFile(dir=BUILD) as kept:
        asked(("score",), text, "--keep", kept.name)
        floats = asked(("score",), text, "--expect", kept.name)
        rounded = {kv: asked(("score",), text, "--expect", kept.name, "--kv", kv)
                   for kv in chosen.types.split(",")}
    greedy = asked(("greedy", chosen.tokens - 2), starts)
    for kv, scored in rounded.items():
        for what, key in (("its ids", "logprob"), ("all ids", "expected")):
            compare_windows(f"{kv}, {what}", [line[key] for line in scored],
                            [line[key] for line in floats])
        ids = asked(("greedy", chosen.tokens - 2), starts, "--kv", kv)
        differ = sum(a != b for a, b in zip(greedy, ids, strict=True))
        print(f"  {kv}, greedy: {differ} of {chosen.windows} continuations differ", flush=True)


def main():
    chosen = arguments()
    for path in chosen.models:
        compare(chosen, path)


if __name__ == "__main__":
    main()
