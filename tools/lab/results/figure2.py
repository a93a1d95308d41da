# SPDX-License-Identifier: MIT
"""The paper's opening example: four programs, two rows, time in decoding rounds (Fig. 2)."""
import os

import gantt
from page import table

TRACE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "figure2")
HEAD = "--demoted-to-head"
UNIT = ("--cost", "unit", "--offline")
LEVELS = ("--set", "sched.quantum_growth=1", "--set", "sched.queues=16", HEAD)
ROWS = (
    ("fcfs", "18", "fcfs", ()),
    ("mlfq, first quantum of 4", "18", "mlfq", ("--set", "sched.quantum=4s")),
    ("mlfq, first quantum of 1", "-", "mlfq", ()),
    ("plas, 16 levels of one unit, a running call wins a tie", "12", "plas", LEVELS),
    ("plas, levels that double, a running call wins a tie", "-", "plas", (HEAD,)),
    ("plas, as shipped: levels that double, a demoted call goes last", "-", "plas", ()),
    ("srpt", "-", "srpt", ()),
)

# Of these the charts, as in the paper.
DRAWN = (("FCFS", ROWS[0]), ("MLFQ, a first quantum of 4", ROWS[1]),
         ("MLFQ, a first quantum of 1", ROWS[2]), ("PLAS, levels of one unit", ROWS[3]))


def fill(page, runs, quick):
    panels = []
    for title, (_, _, policy, extra) in DRAWN:
        waited = runs.run(TRACE, policy, *UNIT, *extra)["wait_s_total"]
        _, slots = runs.events(TRACE, policy, *UNIT, *extra)
        panels.append((f"{title}: {waited:.0f} units of waiting", slots))
    page.plot("fig2", gantt.chart(panels, "ABCD"))
    rows = []
    for words, paper, policy, extra in ROWS:
        result = runs.run(TRACE, policy, *UNIT, *extra)
        rows.append([words, paper, f"{result['wait_s_total']:.0f}",
                     f"{result['makespan_s']:.0f}", f"{result['jct_s_mean']:.2f}"])
    page["figure2"] = table(["", "waiting, paper", "waiting, ours", "makespan",
                             "mean completion time"], rows)
