#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Workflows on the live appliance, beside the same graphs driven from outside.

    tools/bench/workflow/live.py [--flows debate,trading] [--runs 3]

Outside, each node of each row is a task that awaits its operands and then sends a CALL, as a client
of a graph library does over a serving engine; it is the same Python client, all rows at once, a
program for each row, and a node waits for its own operands only, not for a superstep. Its texts are
tokenized before the clock starts, and it sends ids. Inside, the appliance gets the graph as one
workflow. Each run has a fresh appliance with the same settings; the two sides alternate. The tokens
of all outputs must be equal. The model has random weights, and answers have fixed lengths.

KV is short: it holds `--kv` tokens, less than the prompts of all rows that could run."""
import argparse
import asyncio
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools" / "sdk" / "python")]
import agentix                                                  # noqa: E402
from graphs import Builder, Outside, Tokens, run_outside   # noqa: E402
from appliance import BUILD, appliance, free_port, read_stats   # noqa: E402

STATS = ("cpu_s", "calls_completed", "tokens_computed", "prefix_hit_tokens", "preemptions",
         "recomputed_tokens")


async def run_inside(client, flow, rows):
    done = await flow.run(client, rows)
    for row in done:
        if row.error is not None:
            sys.exit(f"row {row.number}: {row.error}")
    return [[row.tokens[name] for name in flow.outputs] for row in done]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--flows", default="debate,trading")
    parser.add_argument("--model", type=Path, help="default: one of random weights, preset 15m")
    parser.add_argument("--rows", type=int, default=12)
    parser.add_argument("--scale", type=float, default=0.4, help="of all lengths")
    parser.add_argument("--kv", type=int, default=8192, help="tokens that KV holds")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--one-program", action="store_true", help="outside: of all rows")
    parser.add_argument("--set", action="append", default=[], help="section.key=value for all")
    return parser.parse_args()


class Live:
    def __init__(self, chosen, directory):
        self.chosen, self.directory = chosen, directory
        self.model = chosen.model or directory / "model.gguf"
        if chosen.model is None:
            subprocess.run([BUILD / "tools" / "mkmodel", "--out", self.model, "--preset", "15m",
                            "--context", "8192"], check=True)
        self.tokens = Tokens(self.model)

    def measure(self, work):
        """Seconds, tokens of the outputs, and statistics of one run on a fresh appliance; among
        these its CPU time, which other work on the machine disturbs less."""
        port = free_port()
        settings = (f"model.path={self.model}", f"kv.device_blocks={self.chosen.kv // 16}",
                    "kv.sharing=domain", "limits.calls=4096", "limits.calls_per_connection=4096",
                    "limits.calls_per_program=0", "limits.context_tokens=4096",
                    f"text.listen=127.0.0.1:{port}", *self.chosen.set)

        async def body(to):
            async with await agentix.connect(to) as client:
                begun = time.perf_counter()
                outputs = await work(client)
                return time.perf_counter() - begun, outputs
        before = cpu_s()
        with appliance(self.directory, *settings) as to:
            seconds, outputs = asyncio.run(body(to))
            stats = read_stats(port)
        return seconds, outputs, {"cpu_s": round(cpu_s() - before, 1), **stats}

    def compare(self, name):
        builder = Builder(self.chosen.scale)
        flow = getattr(builder, name)()
        rows = getattr(builder, "rows_of_" + name)(self.chosen.rows)
        outside = Outside(flow, self.tokens)
        outside.prepare(rows)
        sides = {"outside": lambda client: run_outside(client, rows, outside,
                                                       self.chosen.one_program),
                 "workflow": lambda client: run_inside(client, flow, rows)}
        taken, wanted = {side: [] for side in sides}, None
        for _ in range(self.chosen.runs):
            for side, work in sides.items():
                seconds, outputs, stats = self.measure(work)
                wanted = wanted or outputs
                if outputs != wanted:
                    sys.exit(f"{name}: the tokens of {side} differ")
                taken[side].append(seconds)
                print(f"  {name} {side:8} {seconds:6.1f} s  " + ", ".join(
                    f"{stat} {stats[stat]}" for stat in STATS if stat in stats), flush=True)
        report(name, len(rows) * len(outside.pieces), taken)


def cpu_s():
    """Of processes that we have started, and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def report(name, nodes, taken):
    pairs = [outside / inside for outside, inside in zip(*taken.values())]
    print(f"{name}: {nodes} nodes; outside {statistics.median(taken['outside']):.1f} s, workflow "
          f"{statistics.median(taken['workflow']):.1f} s; {statistics.median(pairs):.2f} times as "
          f"fast ({min(pairs):.2f} to {max(pairs):.2f} in {len(pairs)} pairs), the same tokens",
          flush=True)


def main():
    chosen = arguments()
    with tempfile.TemporaryDirectory() as directory:
        live = Live(chosen, Path(directory))
        for name in chosen.flows.split(","):
            live.compare(name)


if __name__ == "__main__":
    main()
