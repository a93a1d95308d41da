# SPDX-License-Identifier: MIT
"""One program of parallel calls, two rows: which policy follows the critical path (Fig. 9)."""
import os

import gantt
from figure2 import HEAD, UNIT
from page import table

TRACE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "figure9")
ROWS = (
    ("plas, a running call wins a tie", "14", "plas", (HEAD,)),
    ("atlas, a running call wins a tie", "11", "atlas", (HEAD,)),
    ("plas, as shipped: a demoted call goes last", "-", "plas", ()),
    ("atlas, as shipped", "-", "atlas", ()),
    ("mlfq, as shipped", "-", "mlfq", ()),
    ("fcfs", "-", "fcfs", ()),
)


def fill(page, runs, quick):
    rows, panels = [], []
    for words, paper, policy, extra in ROWS:
        result = runs.run(TRACE, policy, *UNIT, *extra)
        rows.append([words, paper, f"{result['makespan_s']:.0f}",
                     f"{result['wait_s_total']:.0f}"])
        if paper != "-":
            _, slots = runs.events(TRACE, policy, *UNIT, *extra)
            panels.append((f"{policy.upper()}: {result['makespan_s']:.0f} units", slots))
    page["figure9"] = table(["", "makespan, paper", "makespan, ours", "waiting"], rows)
    page.plot("fig9", gantt.chart(panels, ["A"]))
