# SPDX-License-Identifier: MIT
"""Traces beyond the paper's: the highest rate at equal latency, and the latency at one rate."""
from latency import Latency, SHORT
from page import latency as show, rate as show_rate

# Where the search begins, and a rate above saturation.
RATES = {"agents": (0.5, 1), "coding": (0.1, 0.15), "taskpar": (1.5, 2), "tenants": (30, 40)}
NAMES = (*SHORT[:3], "plas", *SHORT[3:])


def fill(page, runs, quick):
    it = Latency(runs, quick)
    for (trace,), value in runs.each(it.idle, [(trace,) for trace in RATES]).items():
        it.unloaded[trace] = value
    known = {(trace, name): RATES[trace][0] for trace in RATES for name in NAMES}
    found = it.bound_rates("host 1.2 TB", 10, False, known, names=NAMES, traces=tuple(RATES))
    page.table(
        "others-rates",
        ["", "unloaded, s", *NAMES],
        [[trace, show(it.unloaded[trace]), *(show_rate(found[trace, name]) for name in NAMES)]
         for trace in RATES])

    def at(trace, name):
        return it.at(trace, name, "host 1.2 TB", RATES[trace][1])
    got = runs.each(at, [(trace, name) for trace in RATES for name in NAMES])
    rows = []
    for (trace, name), result in got.items():
        rows.append([trace, show_rate(RATES[trace][1]), name,
                     *(show(result and result[f"token_latency_s_{what}"])
                       for what in ("mean", "p50", "p95", "p99"))])
    page.table("others", ["", "programs a second", "", "mean", "p50", "p95", "p99"], rows)
