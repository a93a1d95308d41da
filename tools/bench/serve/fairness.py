#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How fairly tenants share the engine in the lab: each class of a trace is a trust domain.

    tools/bench/serve/fairness.py TRACE [--programs N] [--load 1.5] [--cost PRESET]
                                    [--set KEY=VALUE]

Programs arrive at --load times the rate at which the lab serves all of them when they come at once.
A tenant's service is the row time of its calls (each step that a call is in counts its duration),
from a tenth of the arrivals to the last one: then all that want more still do. Asked is the row
time, to its end, of each call that had arrived by then. The fair share is the weighted max-min
share of all that was served, at equal weights. Prints the least of served / fair and Jain's index
of these ratios."""
import argparse
import csv
import json
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
US = 1e6


def lab(options, *words):
    command = [ROOT / "build/agentix-lab", "--trace", options.trace, "--cost", options.cost,
               "--programs", options.programs, *words]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)


def saturation(options, folder):
    """Programs a second."""
    lab(options, "--offline", "--json", folder / "offline.json")
    figures = json.loads((folder / "offline.json").read_text())
    return options.programs / figures["makespan_s"]


def slots(folder):
    """Each stay of a call in the batch: program, begin and end in seconds."""
    for event in json.loads((folder / "timeline.json").read_text())["traceEvents"]:
        if event["ph"] == "X" and event["pid"] == 1:
            begin = event["ts"] / US
            yield event["args"]["program"], begin, begin + event["dur"] / US


def fair_shares(asked, whole):
    """Water filling: no tenant gets more than it asked for."""
    shares = {}
    for i, tenant in enumerate(sorted(asked, key=asked.get)):
        shares[tenant] = min(asked[tenant], whole / (len(asked) - i))
        whole -= shares[tenant]
    return shares


def measure(options, folder, rate, setting):
    lab(options, "--tenants", "--rate", rate, "--calls-out", folder / "calls.csv", "--trace-out",
        folder / "timeline.json", *(word for one in (setting, *options.set)
                                    for word in ("--set", one)))
    lines = [line.split() for line in open(options.trace) if line.startswith("program")]
    with open(folder / "calls.csv", newline="") as file:
        due = {int(row["program"]): float(row["due_s"]) for row in csv.DictReader(file)}
    end = max(due.values())
    begin, asked, served = end / 10, defaultdict(float), defaultdict(float)
    for program, since, until in slots(folder):
        tenant = lines[program % len(lines)][3]
        served[tenant] += max(0, min(until, end) - max(since, begin))
        asked[tenant] += max(0, until - max(since, begin)) if due[program] < end else 0
    fair = fair_shares(asked, sum(served.values()))
    ratios = [served[tenant] / fair[tenant] for tenant in fair if fair[tenant] > 0]
    jain = sum(ratios) ** 2 / (len(ratios) * sum(ratio ** 2 for ratio in ratios))
    print("%-20s %d tenants, %.1f programs a second: served / fair %.3f to %.3f, Jain %.4f"
          % (setting, len(ratios), rate, min(ratios), max(ratios), jain), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trace")
    parser.add_argument("--programs", type=int, default=6000)
    parser.add_argument("--load", type=float, default=1.5)
    parser.add_argument("--cost", default="a100-llama-3.1-8b")
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rate = options.load * saturation(options, Path(folder))
        for setting in ("sched.tenants=fair", "sched.tenants=off"):
            measure(options, Path(folder), rate, setting)


if __name__ == "__main__":
    main()
