#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Drafts on and off (sched.speculate), side by side: two appliances, one call at a time, in turns.

    tools/bench/speculate.py [--model build/model-15m-q8_0.gguf] [--drafts 7] [--pairs 20]

    all       every token is the same, by a bias: the most that drafts can bring
    drawn     a short prompt, at temperature 1: text that does not repeat itself
    repeats   on a trained model: four times as many tokens, greedy, beyond the end of its answer,
              where it comes to say the same again
    agents    on a trained model: the tasks of tools/model/eval

The trained model is the embedded one, which lies in the cache, or --trained FILE: the same inside a
larger shape, as tools/model/widen.py makes it. Each call is a program of its own, but those of an
agent.

For each kind: median of the ratios of two calls that follow one another, off / on, of the time from
a call's first token to its last (agents: all calls of a pair, one at a time); rounds
that were saved, of a thousand tokens; and that both gave the same tokens (agents: as many)."""
import argparse
import http.client
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[1]
sys.path[:0] = map(str, (TOOLS, TOOLS / "sdk/python"))
import agentix                                              # noqa: E402
from appliance import BUILD, appliance, free_port, read_stats   # noqa: E402

QUESTIONS = ("Who are you?", "What do bees make?", "Tell me about bees.", "Hello")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(BUILD / "model-15m-q8_0.gguf"))
    parser.add_argument("--trained", default="",
                        help="of repeats and agents; else the embedded one")
    parser.add_argument("--sharing", default="program", help="kv.sharing: whose texts are recalled")
    parser.add_argument("--drafts", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--tasks", type=int, default=3, help="of a pair; 0: no agents")
    return parser.parse_args()


class Side:
    """An appliance, and what it has counted since the last look."""

    def __init__(self, stack, folder, drafts, path, a):
        self.port = free_port()
        self.address = stack.enter_context(appliance(
            folder, f"text.listen=127.0.0.1:{self.port}", f"sched.speculate={drafts}",
            f"engine.threads={a.threads}", f"model.path={path}", f"kv.sharing={a.sharing}",
            "kv.retain_drop=0s", "kv.retain_host=0s", "kv.retain_device=0s"))
        self.before = read_stats(self.port)

    def gaps_s(self):
        """Time from first tokens to last ones, of all calls so far."""
        page = http.client.HTTPConnection("127.0.0.1", self.port)
        page.request("GET", "/metrics")
        lines = page.getresponse().read().decode().splitlines()
        page.close()
        name = "agentix_token_gap_seconds_sum "
        return next(float(line[len(name):]) for line in lines if line.startswith(name))

    def counts(self):
        after = read_stats(self.port)
        names = ("tokens_generated", "draft_tokens", "draft_tokens_agreed")
        counts = {name: after[name] - self.before[name] for name in names}
        self.before = after
        return counts

    def decode(self, prompt, **options):
        """Seconds from the first token to the last, and the text."""
        stamps, text = [], ""
        with agentix.connect(self.address) as client:
            for piece in client.generate(prompt, ignore_eos=True, **options):
                stamps.append(time.monotonic())
                text += piece
        return stamps[-1] - stamps[0], text


def say(kind, ratios, counts, same, right="the same tokens"):
    low, middle, high = min(ratios), statistics.median(ratios), max(ratios)
    saved = 1000 * counts["draft_tokens_agreed"] // max(counts["tokens_generated"], 1)
    print(f"{kind:8} {middle:5.2f} times ({low:.2f} to {high:.2f}), {saved:3} rounds of a thousand "
          f"saved; {counts['draft_tokens_agreed']} of {counts['draft_tokens']} tokens of drafts "
          f"right; {right if same else 'OTHER TOKENS'}", flush=True)
    return same


def calls(off, on, pairs, kind, prompt, **options):
    ratios, same = [], True
    on.counts()
    for i in range(pairs):
        sides = (off, on) if i % 2 == 0 else (on, off)
        took = {side: side.decode(prompt(i), seed=i + 1, **options) for side in sides}
        ratios.append(took[off][0] / took[on][0])
        same = same and took[off][1] == took[on][1]
    return say(kind, ratios, on.counts(), same)


def agents(off, on, pairs, tasks):
    sys.path.insert(0, str(TOOLS / "model"))
    from importlib.machinery import SourceFileLoader
    evaluation = SourceFileLoader("evaluation", str(TOOLS / "model/eval")).load_module()
    ratios, total, same = [], {}, True
    for i in range(pairs):
        text, took, tokens = evaluation.task_file(tasks, i + 1), {}, set()
        for side in (off, on) if i % 2 == 0 else (on, off):
            side.counts()
            before_s = side.gaps_s()
            subprocess.run([BUILD / "agx", "--to", side.address, "agent",
                            "--parallel", "1", "--class", "eval", "-"], input=text,
                           text=True, check=False, stdout=subprocess.DEVNULL)
            counts = side.counts()
            tokens.add(counts["tokens_generated"])
            took[side] = side.gaps_s() - before_s
            if side is on:
                total = {name: total.get(name, 0) + n for name, n in counts.items()}
        ratios.append(took[off] / took[on])
        same = same and len(tokens) == 1
    return say("agents", ratios, total, same, "as many tokens")


def main():
    a = arguments()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        sides = []
        for name, drafts in (("off", 0), ("on", a.drafts)):
            (Path(folder) / name).mkdir()
            sides.append(Side(stack, Path(folder) / name, drafts, a.model, a))
        ok = calls(*sides, a.pairs, "all", lambda i: "Once upon a time", temperature=0.0,
                   logit_bias={5: 100.0}, max_tokens=a.tokens)
        ok &= calls(*sides, a.pairs, "drawn", lambda i: "Once upon a time", temperature=1.0,
                    max_tokens=a.tokens)
    if a.tasks > 0:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            sides = []
            for name, drafts in (("off", 0), ("on", a.drafts)):
                (Path(folder) / name).mkdir()
                sides.append(Side(stack, Path(folder) / name, drafts, a.trained, a))
            ok &= calls(*sides, a.pairs, "repeats", lambda i: QUESTIONS[i % len(QUESTIONS)],
                        temperature=0.0, max_tokens=4 * a.tokens)
            ok &= agents(*sides, a.pairs, a.tasks)
    sys.exit(not ok)


if __name__ == "__main__":
    main()
