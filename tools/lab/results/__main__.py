# SPDX-License-Identifier: MIT
"""What the papers show, run again in the lab: docs/results.md and docs/plots.

    python3 tools/lab/results [--traces DIR] [--quick] [--jobs N] [--out docs/results.md]
                              [--only figure2,waiting]

`make lab` calls it. Only build/agentix-lab computes; this script runs it, draws and writes."""
import argparse
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import breakdown    # noqa: E402
import budget       # noqa: E402
import figure2      # noqa: E402
import figure9      # noqa: E402
import hits         # noqa: E402
import latency      # noqa: E402
import makespan     # noqa: E402
import others       # noqa: E402
import present      # noqa: E402
import settings     # noqa: E402
import swaps        # noqa: E402
import waiting      # noqa: E402
import workload     # noqa: E402
from page import Page       # noqa: E402
from runs import Runs       # noqa: E402

PARTS = (workload, figure2, figure9, present, waiting, hits, latency, budget, others, makespan,
         breakdown, swaps, settings)
HERE = os.path.dirname(os.path.abspath(__file__))
NEEDED = ("sharegpt", "bfcl", "lats", "mixed", "agents", "coding", "taskpar", "tenants")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--traces", default="../shared/traces", help="folder of the traces")
    parser.add_argument("--program", default="build/agentix-lab")
    parser.add_argument("--kept", default="build/lab", help="results of earlier runs")
    parser.add_argument("--out", default="docs/results.md")
    parser.add_argument("--plots", default="docs/plots")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true", help="fewer points, shorter windows")
    parser.add_argument("--only", default="", help="parts, with commas: " + ", ".join(
        part.__name__ for part in PARTS) + "; the others as they were last time")
    chosen = parser.parse_args()
    chosen.only = [name for name in chosen.only.split(",") if name]
    strange = set(chosen.only) - {part.__name__ for part in PARTS}
    if strange:
        parser.error(f"--only: there is no {', '.join(sorted(strange))}")
    return chosen


def main():
    chosen = arguments()
    for name in NEEDED:
        path = os.path.join(chosen.traces, name + ".trace")
        if not os.path.isfile(path):
            print(f"lab: {path} is not there; nothing was run. Name the folder of the traces: "
                  "make lab TRACES=/path")
            return 0
    runs = Runs(chosen.program, chosen.traces, chosen.kept, chosen.jobs)
    page = Page(os.path.join(HERE, "page.md"), chosen.out, chosen.plots)
    page["link.lab"] = "[lab](lab.md)"
    page["note"] = "Made with --quick: fewer points, shorter windows.\n" if chosen.quick else ""
    for part in PARTS:
        if chosen.only and part.__name__ not in chosen.only:
            continue
        began, before = time.monotonic(), runs.count
        part.fill(page, runs, chosen.quick)
        print(f"lab: {part.__name__}: {runs.count - before} runs, "
              f"{time.monotonic() - began:.0f} s", flush=True)
    parts = os.path.join(chosen.kept, "parts.json")
    if chosen.only:
        page.recall(parts)
    page.keep(parts)
    missing, unused = page.write()
    if missing or unused:
        print(f"lab: page.md asks for {missing} and leaves out {unused}")
        return 1
    print(f"lab: wrote {chosen.out}")
    return 0


sys.exit(main())
