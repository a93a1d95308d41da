# SPDX-License-Identifier: MIT
"""One program of parallel calls, two rows: which policy follows the critical path (Fig. 9)."""
import os

import gantt
from figure2 import HEAD, UNIT
from sheet import BOLD

TRACE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inputs", "figure9")
SNAPSHOT = ("--set", "sched.service=snapshot")  # the paper's letter: levels are those of arrival
ROWS = (
    ("plas, snapshot, a running call wins a tie", "14", "plas", (*SNAPSHOT, HEAD)),
    ("atlas, snapshot, a running call wins a tie", "11", "atlas", (*SNAPSHOT, HEAD)),
    ("plas, as shipped", "-", "plas", ()),
    ("atlas, as shipped", "-", "atlas", ()),
    ("mlfq, as shipped", "-", "mlfq", ()),
    ("fcfs", "-", "fcfs", ()),
)
DRAWN = {"plas": ("PLAS: charges a program all of its calls", ROWS[0]),
         "atlas": ("ATLAS: charges its longest path", ROWS[1])}
PATH, OTHER = ("#d55e00", "#fff"), ("#d4e6f1", "#222")
COLOURS = {"A": OTHER, **dict.fromkeys(("A1", "A2", "A3"), PATH)}


def notes(boxes):
    return ((f"ends at {max(end for _, _, _, _, end in boxes)}", BOLD),)


FIGURES = {"fig9": (gantt.chart, {
    name: {"title": title, "colours": COLOURS, "notes": notes}
    for name, (title, _) in DRAWN.items()}, {
        "critical path A1, A2, A3": PATH, "other calls of the program": OTHER})}


def fill(page, runs, quick):
    boxes, rows = [], []
    for words, paper, policy, extra in ROWS:
        result = runs.run(TRACE, policy, *UNIT, *extra)
        rows.append([words, paper, f"{result['makespan_s']:.0f}",
                     f"{result['wait_s_total']:.0f}"])
    for name, (_, (_, _, policy, extra)) in DRAWN.items():
        _, events = runs.events(TRACE, policy, *UNIT, *extra)
        boxes += gantt.rows_of(name, "A", events)
    page.table("figure9", ["", "makespan, paper", "makespan, ours", "waiting"], rows)
    page.figure("fig9", gantt.HEADS, boxes)
