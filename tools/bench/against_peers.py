#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Speed of the engine beside llama.cpp's: rows of build/bench and build/bench-context, the same
files and threads.

    tools/bench/against_peers.py --peer-bin DIR [--peer-bin NAME=DIR]... [--shapes 15m,110m]

All engines run a row before any engine runs the next one; the first round is dropped. The result is
the ratio within a round: medians, least and most. Beside the rows that --rows has by default there
are prefill-N of any N, and context-N and context-NxC: decode of one call, or of C that share
nothing, behind N tokens each. Peers' rows are llama-batched-bench's own figures; it does not
sample, we do. Of 64 calls it decodes a quarter of the tokens that we decode, to save time: so it
attends to fewer positions. All keep keys and values in the same type, and peers attend without a
matrix of scores (-fa). Without a peer's binary a row says "not measured". Do not give it real-time
priority: the thread with which llama-batched-bench prints then gets no CPU, and its row is lost."""
import argparse
import json
import statistics
import tempfile
from pathlib import Path

from peers import BUILD, NotMeasured, add_arguments, model, run, spread

ROWS = "decode-1,decode-4,decode-16,decode-64,prefill-512,prefill-4096,mixed"
PROMPT_TOKENS, DECODE_TOKENS = 16, 64       # as in tools/bench/bench.c
CONTEXT_TOKENS = 32                         # decoded: as in tools/bench/context.c
THEIR_TOKENS_MOST = 1024                    # of all calls of a row that decodes
LONG_PROMPT = 4096                          # the longest that build/bench has
KV_NAMES = {"f32": "f32", "f16": "f16", "q8": "q8_0"}       # ours: theirs
ATTEMPTS = 8                                # a short run may end before its row is printed


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser, "15m,110m", "f32,f16,q8_0")
    parser.add_argument("--rows", default=ROWS)
    parser.add_argument("--no-repacking", action="store_true",
                        help="peers use weights as the file has them (ik_llama.cpp: no -rtr)")
    parser.add_argument("--weights", choices=("file", "bf16"), default="file",
                        help="ours: as model.weights (docs/config.md)")
    parser.add_argument("--kv", choices=KV_NAMES, default="f16", help="type of keys and values")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="appends a line for each row and round")
    return parser.parse_args()


class Asked:
    """What a row's name asks for."""
    def __init__(self, name):
        self.name = name
        self.kind, _, counts = name.partition("-")
        count, _, calls = counts.partition("x")
        self.count, self.calls = int(count or 0), int(calls or 1)
        self.is_context = self.kind == "context"
        self.is_long = self.is_context or self.kind == "prefill" and self.count > LONG_PROMPT


def our_report(*words):
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        run(*words, "--runs", 1, "--json", report)
        return json.loads(report.read_text(encoding="utf-8"))


def ours(path, asked, chosen):
    common = ("--threads", chosen.threads, "--kv", chosen.kv)
    if not asked.is_long:
        return our_report(BUILD / "bench", path, *common, "--weights", chosen.weights,
                          "--row", asked.name)["rows"][0]
    blank = ["--blank"] if asked.is_context else []
    taken = our_report(BUILD / "bench-context", path, *common, "--context", asked.count,
                       "--calls", asked.calls, *blank)
    return taken if asked.is_context else {"tokens_s": taken["prompt_tokens_s"]}


def batched_bench(peer, path, chosen, prompt, decode, calls):
    """Tokens/s of prefill and of decode, from its table."""
    tool = peer.tool("llama-batched-bench")
    repacking = [] if chosen.no_repacking else peer.repacks(tool)
    context = calls * ((prompt + decode + 255) // 256 * 256)
    kind = KV_NAMES[chosen.kv]
    for _ in range(ATTEMPTS):
        said = run(tool, "-m", path, "-c", context, "-npp", prompt, "-ntg", decode, "-npl", calls,
                   "-t", chosen.threads, "-tb", chosen.threads, "-ctk", kind, "-ctv", kind,
                   "-fa", "on", *repacking, both=True)
        for line in said.splitlines():
            cells = [cell.strip() for cell in line.strip("| ").split("|")]
            if len(cells) == 10 and cells[0].isdigit():
                return float(cells[5]), float(cells[7])
    raise NotMeasured(f"llama-batched-bench printed no row, {ATTEMPTS} times")


def theirs(peer, path, asked, chosen):
    if asked.kind == "mixed":
        return float(run(peer.tool("llamacpp"), path, "mixed", chosen.threads))
    if asked.kind == "prefill":
        return batched_bench(peer, path, chosen, asked.count, 1, 1)[0]
    if asked.is_context:
        return batched_bench(peer, path, chosen, asked.count, CONTEXT_TOKENS, asked.calls)[1]
    each = min(DECODE_TOKENS, THEIR_TOKENS_MOST // asked.count)
    return batched_bench(peer, path, chosen, PROMPT_TOKENS, each, asked.count)[1]


class Row:
    """A row of the table: the figures of all engines, round by round."""
    def __init__(self, chosen, path, name):
        self.chosen, self.path, self.asked = chosen, path, Asked(name)
        self.ours = []
        self.theirs = {peer: [] for peer in chosen.peer_bin}
        self.reasons = {}
        for turn in range(chosen.rounds + 1):
            self.turn()
            if turn == 0:
                self.ours.clear()
                for taken in self.theirs.values():
                    taken.clear()

    def turn(self):
        self.ours.append(ours(self.path, self.asked, self.chosen))
        for peer in self.theirs:
            if peer not in self.reasons:
                try:
                    self.theirs[peer].append(theirs(peer, self.path, self.asked, self.chosen))
                except NotMeasured as reason:
                    self.reasons[peer] = str(reason)

    def cells(self):
        yield spread([taken["tokens_s"] for taken in self.ours], 1)
        yield " / ".join(f"{100 * statistics.median(taken[what] for taken in self.ours):.0f} %"
                         if what in self.ours[0] else "-"
                         for what in ("read_share", "multiply_share"))
        for peer, taken in self.theirs.items():
            if peer in self.reasons:
                yield f"not measured: {self.reasons[peer]}"
                continue
            ratios = [mine["tokens_s"] / other for mine, other in zip(self.ours, taken)]
            yield f"{statistics.median(taken):.1f}; {spread(ratios)}"

    def write(self, file, shape, kind):
        for turn, mine in enumerate(self.ours):
            others = {peer.name: taken[turn] for peer, taken in self.theirs.items()
                      if peer not in self.reasons}
            json.dump({"shape": shape, "type": kind, "row": self.asked.name, "kv": self.chosen.kv,
                       "threads": self.chosen.threads, "weights": self.chosen.weights, **mine,
                       "peers": others}, file)
            file.write("\n")


def main():
    chosen = arguments()
    if not chosen.peer_bin:
        print("no peer is named (--peer-bin): ratios are not measured")
    names = [f"{peer.name}, tokens/s; agentix over it" for peer in chosen.peer_bin]
    print(f"{chosen.threads} threads, {chosen.rounds} rounds: medians (least to most)\n")
    heads = ["model", "row", "agentix, tokens/s", "bandwidth / peak", *names]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for shape in chosen.shapes.split(","):
        for kind in chosen.types.split(","):
            for name in chosen.rows.split(","):
                try:
                    row = Row(chosen, model(shape, kind), name)
                except NotMeasured as reason:
                    print(f"| {shape} {kind} | {name} | not measured: {reason} |", flush=True)
                    continue
                print(f"| {shape} {kind} | {name} | {' | '.join(row.cells())} |", flush=True)
                if chosen.json:
                    with chosen.json.open("a", encoding="utf-8") as file:
                        row.write(file, shape, kind)


main()
