# SPDX-License-Identifier: MIT
"""The paper's opening example: four programs, two rows, time in decoding rounds (Fig. 2)."""
import os

import gantt
from sheet import BOLD

TRACE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inputs", "figure2")
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
# Of these the charts; MLFQ with a first quantum of 4 does what FCFS does.
DRAWN = {"fcfs": ("FCFS: calls in the order of their arrival", ROWS[0]),
         "mlfq": ("MLFQ: each call begins anew (first quantum of 1)", ROWS[2]),
         "plas": ("PLAS: programs that had least go first (levels of one unit)",
                  ROWS[3]),
         "shipped": ("PLAS, as shipped (levels that double)", ROWS[5])}
# The short programs stand out.
COLOURS = {"A": ("#ececec", "#222"), "B": ("#c9c9c9", "#222"), "C": ("#f0a000", "#000"),
           "D": ("#0072b2", "#fff")}


def ends(boxes):
    """{program: when it ended}"""
    found = {}
    for program, _, _, _, end in boxes:
        found[program] = max(end, found.get(program, 0))
    return found


def waiting(boxes):
    """Of programs that begin at 0 and have one call at a time: the time that they do not run."""
    return sum(ends(boxes).values()) - sum(end - start for _, _, _, start, end in boxes)


def notes(boxes):
    end = ends(boxes)
    return ((f"waiting: {waiting(boxes)} units", BOLD),
            (f"C ends at {end['C']}, D at {end['D']}", ""),
            (f"A ends at {end['A']}, B at {end['B']}", ""))


FIGURES = {"fig2": (gantt.chart, {
    name: {"title": title, "colours": COLOURS, "notes": notes}
    for name, (title, _) in DRAWN.items()}, {
        "long program A": COLOURS["A"], "long program B": COLOURS["B"],
        "short program C": COLOURS["C"], "short program D": COLOURS["D"]})}


def fill(page, runs, quick):
    boxes, rows = [], []
    for name, (_, (_, _, policy, extra)) in DRAWN.items():
        _, events = runs.events(TRACE, policy, *UNIT, *extra)
        boxes += gantt.rows_of(name, "ABCD", events)
    page.figure("fig2", gantt.HEADS, boxes)
    for words, paper, policy, extra in ROWS:
        result = runs.run(TRACE, policy, *UNIT, *extra)
        rows.append([words, paper, f"{result['wait_s_total']:.0f}",
                     f"{result['makespan_s']:.0f}", f"{result['jct_s_mean']:.2f}"])
    page.table("figure2", ["", "waiting, paper", "waiting, ours", "makespan",
                           "mean completion time"], rows)
