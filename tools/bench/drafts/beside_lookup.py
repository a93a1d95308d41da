#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Decode with drafts beside llama.cpp's own (llama-lookup), in turns, one call at a time.

    tools/bench/drafts/beside_lookup.py MODEL.gguf --peer FOLDER [--pairs 9] [--tokens 384]
                                        [--temperature 1]

FOLDER has llama-lookup and llama-bench. MODEL is a trained one, such as tools/model/widen.py makes:
greedy, beyond the end of its answer it comes to say the same again; at a temperature of 1 or more
it does not. Prints tokens a second of each, from the first token on, and the ratios of each turn:
medians (least to most)."""
import argparse
import re
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import speculate                                            # noqa: E402

THREADS, CONTEXT, TRIES = 2, 1024, 20


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--peer", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=384)
    parser.add_argument("--drafts", type=int, default=7)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.set_defaults(threads=THREADS, sharing="program")
    return parser.parse_args()


def said_by(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def peer_speed(a, prompt, drafts):
    """Tokens a second that it says itself. At times llama-lookup ends before it has said them."""
    if drafts == 0:
        said = said_by(a.peer / "llama-bench", "-m", a.model, "-p", 0, "-n", a.tokens, "-t",
                       a.threads, "-r", 1, "-o", "json")
        return float(re.search(r'"avg_ts": ([\d.]+)', said).group(1))
    for _ in range(TRIES):
        said = said_by(a.peer / "llama-lookup", "-m", a.model, "-p", prompt, "-c", CONTEXT, "-t",
                       a.threads, "--temp", a.temperature, "--ignore-eos", "--spec-draft-n-max",
                       drafts, "-n", a.tokens)
        found = re.search(r"decoded +(\d+) tokens in +([\d.]+) seconds", said)
        if found:
            return int(found.group(1)) / float(found.group(2))
    raise SystemExit("llama-lookup does not say how fast it is:\n" + said[-2000:])


def own_speed(a, side, prompt):
    took, _ = side.decode(prompt, temperature=a.temperature, seed=1, max_tokens=a.tokens)
    return (a.tokens - 1) / took


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main():
    a = arguments()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        sides = {}
        for name, drafts in (("ours, off", 0), ("ours, on", a.drafts)):
            (Path(folder) / name).mkdir()
            sides[name] = speculate.Side(stack, Path(folder) / name, drafts, a.model, a)
        speeds = {}
        for i in range(a.pairs):
            prompt = speculate.QUESTIONS[i % len(speculate.QUESTIONS)]
            turn = [(name, lambda side=side: own_speed(a, side, prompt))
                    for name, side in sides.items()]
            turn += [(f"peer, {n or 'off'}", lambda n=n: peer_speed(a, prompt, n))
                     for n in (0, 3, a.drafts)]
            for name, measure in turn if i % 2 == 0 else reversed(turn):
                speeds.setdefault(name, []).append(measure())
    for name, values in speeds.items():
        ratios = [own / other for own, other in zip(speeds["ours, on"], values)]
        print(f"{name:10} {spread(values)} tokens/s; ours with drafts over it: {spread(ratios)}")


if __name__ == "__main__":
    main()
