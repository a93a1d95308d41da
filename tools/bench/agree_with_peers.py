#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Do the engine and llama.cpp's agree on the same files?

    tools/bench/agree_with_peers.py --peer-bin DIR [--shapes 15m,110m,1.1b] [--threads 1]

greedy       F32 weights, prompts of random ids: the next ids of both engines. Where they differ,
             the two largest logits must be within 1e-4.
perplexity   two texts, the same in every type. One is drawn from our F32 engine at temperature 1:
             it is unlikely for an engine that computes something else, even if only less exactly.
             One has random ids, which favour no engine and show little. Rounding is chance, and
             only a long text shows a difference; so each is scored twice: by its own ids, and by
             all ids at each place, with the probabilities of our F32 engine (kept in build/
             meanwhile: 16 MB a window). Beside the ratio stand its standard error, from the
             differences between windows, and the mean difference of log-probabilities, place by
             place.

Exit status 1 if a bound is broken: 95 of 100 prompts the same; perplexity within 0.1 % by all ids,
and by its own ids unless that is chance (two standard errors). Without `llamacpp` in a peer's
folder it says "not measured"."""
import argparse
import json
import math
import random
import statistics
import sys
import tempfile

from peers import BUILD, SHAPES, TYPES, NotMeasured, add_arguments, model, run

SAME_LEAST, GAP_MOST, PERPLEXITY_MOST = 0.95, 1e-4, 0.001
BOS, PLAIN_FIRST, VOCAB = 1, 3, 32000
WINDOW_TOKENS = 128


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser, SHAPES, TYPES)
    parser.add_argument("--prompts", type=int, default=100, help="0: not asked")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--windows", type=int, default=32, help="of 128 tokens, of each text")
    parser.add_argument("--texts", default="drawn,random", help="of drawn, random")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def ask(words, lists):
    """One JSON value for each list of ids."""
    said = run(*words, lines="".join(json.dumps(ids) + "\n" for ids in lists))
    return [json.loads(line) for line in said.splitlines()]


def ours(path, threads, verb, *more):
    return [BUILD / "bench-scores", path, verb, *more, "--threads", threads]


def theirs(peer, path, threads, verb, *more):
    return [peer.tool("llamacpp"), path, verb, *more, threads]


def prompts(chosen):
    chance = random.Random(chosen.seed)
    return [[BOS] + [chance.randrange(PLAIN_FIRST, VOCAB) for _ in range(chance.randint(4, 32))]
            for _ in range(chosen.prompts)]


def parting(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def compare_greedy(chosen, peer, path):
    """True if the bound holds."""
    asked = prompts(chosen)
    mine = ask(ours(path, chosen.threads, "greedy", chosen.tokens), asked)
    other = ask(theirs(peer, path, chosen.threads, "greedy", chosen.tokens), asked)
    assert len(mine) == len(other) == len(asked)
    parted = [(i, parting(mine[i], other[i])) for i in range(len(asked)) if mine[i] != other[i]]
    ways = [asked[i] + mine[i][:at + 1] for i, at in parted]
    gaps = [scores["gap"][-1] for scores in
            ask(ours(path, chosen.threads, "score"), ways)] if ways else []
    same = len(asked) - len(parted)
    good = same >= SAME_LEAST * len(asked) and all(gap <= GAP_MOST for gap in gaps)
    print(f"  {peer.name}, greedy: {same} of {len(asked)} prompts the same for {chosen.tokens} ids"
          + "".join(f"; prompt {i} parts at {at}, logits {gap:.1e} apart"
                    for (i, at), gap in zip(parted, gaps))
          + ("" if good else ": NOT WITHIN BOUNDS"), flush=True)
    return good


def perplexity(windows):
    return math.exp(-statistics.fmean(value for window in windows for value in window))


def compare_windows(label, mine, other):
    """Windows of log-probabilities: the difference of perplexities, and its standard error."""
    apart = [[a - b for a, b in zip(*pair, strict=True)] for pair in zip(mine, other, strict=True)]
    here, there = perplexity(mine), perplexity(other)
    ratio = here / there - 1
    means = [statistics.fmean(window) for window in apart]
    error = statistics.stdev(means) / math.sqrt(len(means)) if len(means) > 1 else math.inf
    each = statistics.fmean(abs(value) for window in apart for value in window)
    print(f"  {label}: perplexity {here:.4f} and {there:.4f}, {100 * ratio:+.4f} % "
          f"(standard error {100 * error:.4f}); log-probabilities {each:.1e} apart", flush=True)
    return abs(ratio), error


def compare_text(label, mine, other):
    """Answers for each window. True if the bound holds."""
    own, all_ids = (compare_windows(f"{label}, {what}", *([line[key] for line in lines]
                                                          for lines in (mine, other)))
                    for what, key in (("its ids", "logprob"), ("all ids", "expected")))
    good = all_ids[0] <= PERPLEXITY_MOST and own[0] - 2 * own[1] <= PERPLEXITY_MOST
    if not good:
        print(f"  {label}: NOT WITHIN BOUNDS", flush=True)
    return good


def compare_perplexity(chosen, peer, path, kind, texts, chances):
    """All texts in one run: models take time to load."""
    lines = [line for text in texts.values() for line in text]
    mine = ask(ours(path, chosen.threads, "score") + ["--expect", chances], lines)
    other = ask(theirs(peer, path, chosen.threads, "score") + [chances], lines)
    if "expected" not in other[0]:
        raise NotMeasured(f"{peer.name}: its llamacpp is of an older llamacpp.cpp")
    good, first = True, 0
    for name, text in texts.items():
        part = slice(first, first + len(text))
        first += len(text)
        good = compare_text(f"{peer.name}, {kind}, {name}", mine[part], other[part]) and good
    return good


def attempt(what, *words):
    """A comparison that cannot be made has neither failed nor passed."""
    try:
        return what(*words)
    except NotMeasured as reason:
        print(f"  not measured: {reason}", flush=True)
        return True


def compare_type(chosen, shape, kind, texts, chances):
    path = model(shape, kind)
    return all([attempt(compare_perplexity, chosen, peer, path, kind, texts, chances)
                for peer in chosen.peer_bin])


def drawn_text(chosen, path):
    starts = [[BOS, PLAIN_FIRST + i] for i in range(chosen.windows)]
    drawn = ask(ours(path, chosen.threads, "sample", WINDOW_TOKENS - 2), starts)
    return [start + ids for start, ids in zip(starts, drawn)]


def random_text(chosen, _):
    chance = random.Random(chosen.seed + 1)
    return [[BOS] + [chance.randrange(PLAIN_FIRST, VOCAB) for _ in range(WINDOW_TOKENS - 1)]
            for _ in range(chosen.windows)]


TEXTS = {"drawn": drawn_text, "random": random_text}


def compare_shape(chosen, shape):
    path = model(shape, "f32")
    print(f"{shape}:", flush=True)
    good = []
    if chosen.prompts > 0:
        good = [attempt(compare_greedy, chosen, peer, path) for peer in chosen.peer_bin]
    texts = {name: TEXTS[name](chosen, path) for name in chosen.texts.split(",")}
    with tempfile.NamedTemporaryFile(dir=BUILD) as kept:
        ask(ours(path, chosen.threads, "score") + ["--keep", kept.name],
            [line for text in texts.values() for line in text])
        return all(good + [attempt(compare_type, chosen, shape, kind, texts, kept.name)
                           for kind in chosen.types.split(",")])


def main():
    chosen = arguments()
    if not chosen.peer_bin:
        print("no peer is named (--peer-bin): not measured")
        return 0
    return 0 if all([compare_shape(chosen, shape) for shape in chosen.shapes.split(",")]) else 1


if __name__ == "__main__":
    sys.exit(main())
