# SPDX-License-Identifier: MIT
"""Order by what classes of programs have needed (foresight, ours), beside order by what programs
have had, and beside policies that are told the future. Names that say nothing: dealt anew among the
programs, the same for all, or none."""
import functools
import itertools
import os
import random
import statistics

import plot
from capacity import BATCH, OFFERED, measure
from machine import BIG_HOST, WINDOW_S
from page import latency as show
from runs import window

ROWS = 32                                   # of the batch: what is scarce
LOADS = (0.7, 1.0, 1.3)
BASE, OURS = "atlas", "foresight"
DEALS = range(3)
BY_CLASS, BLIND = "justitia, class", "justitia, none"
POLICIES = {BASE: (BASE, ()), "plas": ("plas", ()), OURS: (OURS, ()), "srpt": ("srpt", ()),
            "justitia": ("justitia", ()), BY_CLASS: ("justitia", ("--predict", "class")),
            BLIND: ("justitia", ("--predict", "none"))}
OTHERS = list(POLICIES)[1:]
DRAWN = (BASE, "plas", OURS, "srpt", "justitia", BY_CLASS)
NAMES = {"dealt anew": "dealt", "all alike": "alike", "none": ""}

FIGURES = {"foresight": (plot.lines, {
    trace: {"title": trace, "x": "load", "y": "latency / atlas's", "log_y": True, "x_ticks": LOADS,
            "y_shows": [0.5, 1.5]} for trace in OFFERED[ROWS]}, 3)}


def renamed(path, folder, how):
    """The trace with other classes; its name for the runs."""
    with open(path, encoding="ascii") as file:
        lines = file.read().splitlines()
    at = [number for number, line in enumerate(lines) if line.startswith("program ")]
    names = [lines[number].split()[-1] for number in at]
    random.Random(1).shuffle(names)
    for number, name in zip(at, names):
        words = lines[number].split()
        lines[number] = " ".join([*words[:-1], name if how == "dealt" else "short"])
    found = os.path.join(folder, f"{how}-{os.path.basename(path)}")
    with open(found, "w", encoding="ascii") as file:
        file.write("\n".join(lines) + "\n")
    return os.path.abspath(found).removesuffix(".trace")


class Found:
    def __init__(self, runs, quick):
        self.runs = runs
        self.deals = DEALS[:1] if quick else DEALS
        self.rates = runs.each(functools.partial(measure, runs, ROWS),
                               [(trace,) for trace in OFFERED[ROWS]])
        self.traces = {(trace, how): renamed(runs.trace(trace), runs.kept, how) if how else trace
                       for trace in OFFERED[ROWS] for how in ("", *filter(None, NAMES.values()))}
        places = itertools.product(OFFERED[ROWS], LOADS, [("", policy) for policy in POLICIES] +
                                   [(name, OURS) for name in NAMES], self.deals)
        self.got = runs.each(self.one, [(trace, load, *who, deal) for trace, load, who, deal
                                        in places])

    def one(self, trace, load, names, who, deal):
        policy, words = POLICIES[who]
        words = ("--predict", "none") if names == "none" else words
        played = self.traces[trace, NAMES.get(names, "")]
        rate = load * self.rates[trace,]
        return self.runs.run(played, policy, *window(rate, WINDOW_S), *BIG_HOST, *BATCH[ROWS],
                             *words, "--seed", deal)

    def mean(self, trace, load, policy, what):
        return statistics.mean(self.got[trace, load, "", policy, deal][what] for deal in self.deals)

    def against(self, trace, load, names, policy, what):
        """Over atlas, the mean of the deals' ratios."""
        return statistics.mean(self.got[trace, load, names, policy, deal][what] /
                               self.got[trace, load, "", BASE, deal][what] for deal in self.deals)


def fill(page, runs, quick):
    found, rows, times, points = Found(runs, quick), [], [], []
    for trace, load in itertools.product(OFFERED[ROWS], LOADS):
        ratios = {policy: found.against(trace, load, "", policy, "token_latency_s_mean")
                  for policy in POLICIES}
        names = [found.against(trace, load, name, OURS, "token_latency_s_mean") for name in NAMES]
        rows.append([trace, f"{load:.1f}", show(found.mean(trace, load, BASE,
                                                           "token_latency_s_mean")),
                     *(f"{ratios[policy]:.2f}" for policy in OTHERS),
                     *(f"{value:.2f}" for value in names)])
        times.append([trace, f"{load:.1f}", show(found.mean(trace, load, BASE, "jct_s_mean")),
                      *(f"{found.against(trace, load, '', policy, 'jct_s_mean'):.2f}"
                        for policy in OTHERS)])
        points += [[trace, policy, load, ratios[policy]] for policy in DRAWN]
    page.table("foresight-latency", ["", "load", "atlas, s", *OTHERS,
                                     *(f"names {name}" for name in NAMES)], rows)
    page.table("foresight-completion", ["", "load", "atlas, s", *OTHERS], times)
    page.figure("foresight", plot.HEADS, points)
