# SPDX-License-Identifier: MIT
"""How far the orders of workflows are from the best schedule, by the cost model. It needs highspy
(PyPI) in the Python that runs it, and build/agx; without them its tables stay as they are."""
import argparse
import importlib.util
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "flow"))

WORDS = argparse.Namespace(seconds=20, solve_up_to=10, kicks=60, kv_tokens=4096, flows=200,
                           agx="build/agx")


def summary(rows):
    """A line for the mean and one for the most; how many optima are proven."""
    names = list(rows[0][4])
    proven = f"{sum(row[3] for row in rows)} of {len(rows)}"
    return [[word, f"{pick([row[1] for row in rows]):.0f}", proven,
             *(f"{pick([row[4][name] for row in rows]):.2f} %" for name in names)]
            for word, pick in (("mean", statistics.mean), ("most", max))]


def fill(page, _runs, quick):
    if importlib.util.find_spec("highspy") is None or not pathlib.Path(WORDS.agx).exists():
        print("lab: schedules: skipped: it needs highspy and build/agx")
        return
    import optimum                  # not at the top: it imports highspy
    WORDS.flows = 20 if quick else WORDS.flows
    rows = list(optimum.of_operators(WORDS))
    page.table("schedule-operators", ["", "operators", "proven", *rows[0][4]], summary(rows))
    rows = list(optimum.of_calls(WORDS))
    page.table("schedule-calls", ["", "calls", "proven", *rows[0][4]],
               [[name, count, "yes" if proven else "no", *(f"{gap:.1f} %" for gap in gaps.values())]
                for name, count, _, proven, gaps in rows] +
               [["mean", "", "", *(f"{statistics.mean(row[4][name] for row in rows):.1f} %"
                                   for name in rows[0][4])]])
