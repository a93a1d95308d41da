#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Speed of the engine beside llama.cpp's: the rows of build/bench, the same files and threads.

    tools/bench/against_peers.py --peer-bin DIR [--peer-bin NAME=DIR]... [--shapes 15m,110m]

All engines run a row before any engine runs the next one; the first round is dropped. The result is
the ratio within a round: medians, least and most. decode-N and prefill-N are llama-batched-bench's
own figures; it does not sample, we do. Of 64 calls it decodes a quarter of the tokens that we
decode, to save time: so it attends to fewer positions. Each engine keeps keys and values in its
default type. Without a peer's binary a row says "not measured". Do not give it real-time priority:
the thread with which llama-batched-bench prints then gets no CPU, and its row is lost."""
import argparse
import json
import statistics
import tempfile
from pathlib import Path

from peers import BUILD, NotMeasured, add_arguments, model, run, spread

ROWS = "decode-1,decode-4,decode-16,decode-64,prefill-512,prefill-4096,mixed"
PROMPT_TOKENS, DECODE_TOKENS = 16, 64       # as in tools/bench/bench.c
THEIR_TOKENS_MOST = 1024                    # of all calls of a row that decodes
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
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="appends a line for each row and round")
    return parser.parse_args()


def ours(path, row, chosen):
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        run(BUILD / "bench", path, "--threads", chosen.threads, "--weights", chosen.weights,
            "--row", row, "--runs", 1, "--json", report)
        return json.loads(report.read_text(encoding="utf-8"))["rows"][0]


def batched_bench(peer, path, chosen, prompt, decode, calls):
    """Tokens/s of prefill and of decode, from its table."""
    tool = peer.tool("llama-batched-bench")
    repacking = [] if chosen.no_repacking else peer.repacks(tool)
    context = calls * ((prompt + decode + 255) // 256 * 256)
    for _ in range(ATTEMPTS):
        said = run(tool, "-m", path, "-c", context, "-npp", prompt, "-ntg", decode, "-npl", calls,
                   "-t", chosen.threads, "-tb", chosen.threads, *repacking, both=True)
        for line in said.splitlines():
            cells = [cell.strip() for cell in line.strip("| ").split("|")]
            if len(cells) == 10 and cells[0].isdigit():
                return float(cells[5]), float(cells[7])
    raise NotMeasured(f"llama-batched-bench printed no row, {ATTEMPTS} times")


def theirs(peer, path, row, chosen):
    kind, _, count = row.partition("-")
    if kind == "mixed":
        return float(run(peer.tool("llamacpp"), path, "mixed", chosen.threads))
    if kind == "prefill":
        return batched_bench(peer, path, chosen, int(count), 1, 1)[0]
    each = min(DECODE_TOKENS, THEIR_TOKENS_MOST // int(count))
    return batched_bench(peer, path, chosen, PROMPT_TOKENS, each, int(count))[1]


class Row:
    """A row of the table: the figures of all engines, round by round."""
    def __init__(self, chosen, path, name):
        self.chosen, self.path, self.name = chosen, path, name
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
        self.ours.append(ours(self.path, self.name, self.chosen))
        for peer in self.theirs:
            if peer not in self.reasons:
                try:
                    self.theirs[peer].append(theirs(peer, self.path, self.name, self.chosen))
                except NotMeasured as reason:
                    self.reasons[peer] = str(reason)

    def cells(self):
        yield spread([taken["tokens_s"] for taken in self.ours], 1)
        yield " / ".join(f"{100 * statistics.median(taken[what] for taken in self.ours):.0f} %"
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
            json.dump({"shape": shape, "type": kind, "threads": self.chosen.threads,
                       "weights": self.chosen.weights, **mine, "peers": others}, file)
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
