#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Drafts on and off (sched.speculate), side by side: two appliances, one call at a time, in turns.

    tools/bench/speculate.py [--model build/model-15m-q8_0.gguf] [--drafts 7] [--pairs 20]

    all       every token is the same, by a bias: the most that drafts can bring
    drawn     a short prompt, at temperature 1: text that does not repeat itself
    copies    on the embedded model: a prompt of its own words, three times, beyond its answer's end
    agents    on the embedded model: the tasks of tools/model/eval

For each kind: median of the ratios of two calls that follow one another, off / on, of the time from
a call's first token to its last (agents: of engine time for a token; all tasks of a pair); rounds
that were saved, of a thousand tokens; and that both gave the same tokens (agents: as many)."""
import argparse
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

def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(BUILD / "model-15m-q8_0.gguf"))
    parser.add_argument("--drafts", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--tasks", type=int, default=12, help="of a pair; 0: no agents")
    return parser.parse_args()


class Side:
    """An appliance, and what it has counted since the last look."""

    def __init__(self, stack, folder, drafts, threads, path):
        self.port = free_port()
        self.address = stack.enter_context(appliance(
            folder, f"text.listen=127.0.0.1:{self.port}", f"sched.speculate={drafts}",
            f"engine.threads={threads}", f"model.path={path}", "kv.retain_drop=0s",
            "kv.retain_host=0s", "kv.retain_device=0s"))
        self.client = stack.enter_context(agentix.connect(self.address))
        self.before = read_stats(self.port)

    def counts(self):
        after = read_stats(self.port)
        names = ("tokens_generated", "draft_tokens", "draft_tokens_agreed", "engine_busy_us")
        counts = {name: after[name] - self.before[name] for name in names}
        self.before = after
        return counts

    def decode(self, prompt, **options):
        """Seconds from the first token to the last, and the text."""
        stamps, text = [], ""
        for piece in self.client.generate(prompt, ignore_eos=True, **options):
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
        text, per_token, tokens = evaluation.task_file(tasks, i + 1), {}, set()
        for side in (off, on) if i % 2 == 0 else (on, off):
            side.counts()
            subprocess.run([BUILD / "agx", "--to", side.address, "agent", "-"], input=text,
                           text=True, check=False, stdout=subprocess.DEVNULL)
            counts = side.counts()
            tokens.add(counts["tokens_generated"])
            per_token[side] = counts["engine_busy_us"] / counts["tokens_generated"]
            if side is on:
                total = {name: total.get(name, 0) + n for name, n in counts.items()}
        ratios.append(per_token[off] / per_token[on])
        same = same and len(tokens) == 1
    return say("agents", ratios, total, same, "as many tokens")


def main():
    a = arguments()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        sides = []
        for name, drafts in (("off", 0), ("on", a.drafts)):
            (Path(folder) / name).mkdir()
            sides.append(Side(stack, Path(folder) / name, drafts, a.threads, a.model))
        ok = calls(*sides, a.pairs, "all", lambda i: "Once upon a time", temperature=0.0,
                   logit_bias={5: 100.0}, max_tokens=a.tokens)
        ok &= calls(*sides, a.pairs, "drawn", lambda i: "Once upon a time", temperature=1.0,
                    max_tokens=a.tokens)
    if a.tasks > 0:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            sides = []
            for name, drafts in (("off", 0), ("on", a.drafts)):
                (Path(folder) / name).mkdir()
                sides.append(Side(stack, Path(folder) / name, drafts, a.threads, ""))
            said = sides[0].decode("Who are you?", max_tokens=24, temperature=0.0)[1]
            ok &= calls(*sides, a.pairs, "copies", lambda i: said * 3, temperature=0.0,
                        max_tokens=a.tokens)
            ok &= agents(*sides, max(a.pairs // 4, 2), a.tasks)
    sys.exit(not ok)


if __name__ == "__main__":
    main()
