# SPDX-License-Identifier: MIT
"""At and below capacity: the latency of a token by load, and what the gain is made of (ours)."""
import math
import statistics

import plot
from machine import BIG_HOST, CUT, EQUAL, WINDOW_S
from page import latency as show, rate as show_rate, ratio
from runs import window

# What is offered where the capacity is measured: more than it can serve.
OFFERED = {256: {"sharegpt": 9.2, "bfcl": 7.8, "lats": 0.7, "mixed": 1.9, "agents": 0.45,
                 "coding": 0.0104, "taskpar": 3.1, "tenants": 38},
           32: {"sharegpt": 3.2, "bfcl": 5.8, "lats": 0.4, "mixed": 1, "agents": 0.34,
                "taskpar": 1.7, "tenants": 22}}
LOADS = (0.7, 0.9, 1.0, 1.3)
LONG_LOADS = (1.0, 1.3)                     # of traces that take long
SEEDS = 3                                   # with the first batch, from capacity up
SECONDS = {"coding": 20000}                 # of arrivals; else
BATCH = {256: (), 32: ("--set", "sched.batch=32")}
SYSTEMS = {"vllm-opt": ("vllm-opt", EQUAL), "mlfq": ("mlfq", EQUAL),
           "agentix, snapshot": ("agentix", ("--set", "sched.service=snapshot")),
           "agentix": ("agentix", ()), "srpt": ("srpt", ())}
STEPS = {"as published": ("vllm-opt", ()), "+ host": ("vllm-opt", EQUAL),
         "+ early step ends": ("vllm-opt", CUT), "+ order": ("agentix", ())}
TAILS = ("vllm-opt", "mlfq", "agentix")
SPLIT_AT = (1.0, 1.3)

PANELS = {trace: {"title": trace, "x": "load", "y": "latency / agentix's", "log_y": True,
                  "y_shows": [0.5, 2]} for trace in OFFERED[256]}
FIGURES = {"capacity": (plot.lines, PANELS, 3)}


def seeded(seed):
    return ("--seed", seed) if seed else ()


def at(runs, batch, trace, system, rate, *words):
    arrivals = window(rate, SECONDS.get(trace, WINDOW_S))
    return runs.run(trace, system, *arrivals, *BIG_HOST, *words, *BATCH[batch])


def measure(runs, batch, trace):
    """Programs a second of the engine's time, while more are there than it can serve."""
    result = at(runs, batch, trace, "agentix", OFFERED[batch][trace])
    return result["programs"] / result["engine_busy_s"]


class Capacity:
    def __init__(self, runs, quick):
        self.runs = runs
        self.seeds = 1 if quick else SEEDS
        self.capacity = runs.each(lambda *place: measure(runs, *place),
                                  [(batch, trace) for batch in OFFERED for trace in OFFERED[batch]])

    def seeds_of(self, batch, trace, load):
        return range(self.seeds if batch == 256 and trace not in SECONDS and load >= 1 else 1)

    def each_seed(self, asked):
        """Asked: {key: (batch, trace, load, system, words)}; {key: [result of each seed]}"""
        def one(key, seed):
            batch, trace, load, system, words = asked[key]
            return at(self.runs, batch, trace, system, load * self.capacity[batch, trace], *words,
                      *seeded(seed))
        got = self.runs.each(one, [(key, seed) for key, place in asked.items()
                                   for seed in self.seeds_of(*place[:3])])
        return {key: [got[key, seed] for seed in self.seeds_of(*place[:3])]
                for key, place in asked.items()}


def loads(batch, trace):
    if trace in SECONDS:
        return LONG_LOADS
    return LOADS if batch == 256 else LOADS[1:]


def values(results, what):
    """Of each seed; none where a call was refused."""
    return [] if None in results else [result[f"token_latency_s_{what}"] for result in results]


def cell(found):
    if len(found) < 2:
        return show(found[0]) if found else "refused"
    mean = statistics.mean(found)
    return f"{show(mean)} ± {100 * statistics.stdev(found) / mean:.0f} %"


def tail(results):
    found = values(results, "p99")
    return show(statistics.mean(found)) if found else "refused"


def fill_loads(page, it):
    asked = {(batch, trace, load, name): (batch, trace, load, system, words)
             for batch in OFFERED for trace in OFFERED[batch]
             for load in loads(batch, trace) for name, (system, words) in SYSTEMS.items()}
    got = it.each_seed(asked)
    means = {key: values(results, "mean") for key, results in got.items()}
    for batch in OFFERED:
        rows = [[trace, f"{load:.1f}", show_rate(load * it.capacity[batch, trace]),
                 *(cell(means[batch, trace, load, name]) for name in SYSTEMS),
                 *(tail(got[batch, trace, load, name]) for name in TAILS)]
                for trace in OFFERED[batch] for load in loads(batch, trace)]
        page.table(f"capacity-{batch}", ["", "load", "programs a second", *SYSTEMS,
                                         *(f"p99: {name}" for name in TAILS)], rows)
    page.figure("capacity", plot.HEADS, [
        [trace, name, load, statistics.mean(means[256, trace, load, name]) /
         statistics.mean(means[256, trace, load, "agentix"])]
        for trace in OFFERED[256] for name in SYSTEMS for load in loads(256, trace)
        if means[256, trace, load, name] and means[256, trace, load, "agentix"]])


def fill_split(page, it):
    got = it.each_seed({(trace, load, step): (256, trace, load, system, words)
                        for trace in OFFERED[256] for load in SPLIT_AT
                        for step, (system, words) in STEPS.items()})
    rows = []
    for trace in OFFERED[256]:
        for load in SPLIT_AT:
            found = [statistics.mean(values(got[trace, load, step], "mean") or [math.nan])
                     for step in STEPS]
            rows.append([trace, f"{load:.1f}", *(show(value) for value in found),
                         ratio(found[0], found[-1]),
                         *(ratio(*pair) for pair in zip(found, found[1:]))])
    page.table("split", ["", "load", *(f"s: {step}" for step in STEPS), "all",
                         *list(STEPS)[1:]], rows)


def fill(page, runs, quick):
    it = Capacity(runs, quick)
    fill_loads(page, it)
    fill_split(page, it)
