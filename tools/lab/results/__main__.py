# SPDX-License-Identifier: MIT
"""What the papers show, run again in the lab: the tables of docs/results.md and docs/plots.

    python3 tools/lab/results [--traces DIR] [--quick] [--jobs N] [--out DIR] [--only capacity,hits]
    python3 tools/lab/results --draw        the figures, from their data and titles
    python3 tools/lab/results --check       are claims true, and figures those of their data?

`make lab`, `make lab-draw` and `make lab-check` call it. Only build/agentix-lab computes; this
script runs it, draws and writes."""
import argparse
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import check                # noqa: E402
from page import Page       # noqa: E402
from parts import PARTS     # noqa: E402
from runs import Runs       # noqa: E402

NEEDED = ("sharegpt", "bfcl", "lats", "mixed", "agents", "coding", "taskpar", "tenants")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--traces", default="../shared/traces", help="folder of the traces")
    parser.add_argument("--program", default="build/agentix-lab")
    parser.add_argument("--kept", default="build/lab", help="results of earlier runs")
    parser.add_argument("--page", default="docs/results.md")
    parser.add_argument("--out", help="folder for page and plots; the page's own, but with --quick "
                        "build/lab/quick")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true", help="fewer points, shorter windows")
    parser.add_argument("--seeds", type=int, default=1,
                        help="of cliff and edges, which show medians")
    parser.add_argument("--only", default="", help="parts, with commas: " + ", ".join(
        part.__name__ for part in PARTS) + "; the others stay as they are")
    parser.add_argument("--draw", action="store_true", help="run nothing: draw from the data")
    parser.add_argument("--check", action="store_true",
                        help="run nothing: check claims and figures")
    chosen = parser.parse_args()
    chosen.only = [name for name in chosen.only.split(",") if name]
    strange = set(chosen.only) - {part.__name__ for part in PARTS}
    if strange:
        parser.error(f"--only: there is no {', '.join(sorted(strange))}")
    chosen.out = chosen.out or \
        ("build/lab/quick" if chosen.quick else os.path.dirname(chosen.page) or ".")
    return chosen


def run(chosen, page):
    """Fills the page; 1 when something of it has no place there."""
    runs = Runs(chosen.program, chosen.traces, chosen.kept, chosen.jobs, chosen.seeds)
    for part in PARTS:
        if chosen.only and part.__name__ not in chosen.only:
            continue
        began, before = time.monotonic(), runs.count
        part.fill(page, runs, chosen.quick)
        print(f"lab: {part.__name__}: {runs.count - before} runs, "
              f"{time.monotonic() - began:.0f} s", flush=True)
    homeless = page.write()
    if homeless:
        print(f"lab: {chosen.page} has no place for {', '.join(homeless)}")
        return 1
    check.draw(page, page.drawn)
    print(f"lab: wrote {page.out}; make lab-check says which of its claims still hold")
    return 0


def main():
    chosen = arguments()
    page = Page(chosen.page, chosen.out)
    if chosen.check:
        return check.report(page)
    if chosen.draw:
        check.draw(page, [name for name in page.figures() if page.has_data(name)])
        return 0
    for name in NEEDED:
        path = os.path.join(chosen.traces, name + ".trace")
        if not os.path.isfile(path):
            print(f"lab: {path} is not there; nothing was run. Name the folder of the traces: "
                  "make lab TRACES=/path")
            return 0
    return run(chosen, page)


sys.exit(main())
