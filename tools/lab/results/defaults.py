# SPDX-License-Identifier: MIT
"""The defaults against settings drawn by lot: is there a better one for a trace? (ours)"""
import math
import random
from statistics import mean

from machine import BIG_HOST
from page import latency as show, rate as show_rate
from runs import window

# What is offered where the capacity is measured: more than it can serve. Seconds of arrivals.
MACHINES = {"a100": ("a100-llama-3.1-8b", 300,
                     {"sharegpt": 9.2, "bfcl": 7.8, "lats": 0.7, "mixed": 1.9, "agents": 0.45,
                      "taskpar": 3.1, "tenants": 38}),
            "cpu": ("cpu", 1800,
                    {"sharegpt": 0.4, "bfcl": 0.28, "lats": 0.07, "mixed": 0.14, "agents": 0.026,
                     "taskpar": 0.22, "tenants": 3})}
LOAD, TRIED, SEEDS = 1.3, 8, (1, 2, 3, 4, 5)
CLOSE = 2                                   # so many of the best by one seed get all seeds
DRAWN, JUDGED, OTHERS = 200, 6, (2, 3, 4, 5, 6)     # of many settings the best get others alone
DRAWN_FROM = {"sched.queues": [str(n) for n in range(3, 13)],
              "sched.quantum_growth": ["2", "3", "4"], "sched.beta": ["0", "8", "32", "128"],
              "sched.wait_max": ["0", "1min", "5min", "15min"]}
QUANTUM_MS = (5, 20000)                     # drawn evenly on a log scale
DEFAULT = ()


def settings(count):
    """The same ones each time."""
    lot = random.Random(20)
    found = []
    for _ in range(count):
        low, high = QUANTUM_MS
        quantum = round(low * (high / low) ** lot.random())
        found.append((f"sched.quantum={quantum}ms",
                      *(f"{key}={lot.choice(values)}" for key, values in DRAWN_FROM.items())))
    return found


def words(assignments):
    return [word for value in assignments for word in ("--set", value)]


class Defaults:
    def __init__(self, runs, quick):
        self.runs, self.quick = runs, quick
        self.capacity = runs.each(self.measure, [(machine, trace) for machine in MACHINES
                                                 for trace in MACHINES[machine][2]])

    def at(self, machine, trace, rate, seconds, *more):
        return self.runs.run(trace, "agentix", *window(rate, seconds), *BIG_HOST, "--cost",
                             MACHINES[machine][0], *more)

    def measure(self, machine, trace):
        result = self.at(machine, trace, MACHINES[machine][2][trace], MACHINES[machine][1])
        return result["programs"] / result["engine_busy_s"]

    def latency(self, machine, trace, tried, seed):
        result = self.at(machine, trace, LOAD * self.capacity[machine, trace],
                         MACHINES[machine][1], "--seed", seed, *words(tried))
        return result["token_latency_s_mean"] if result else math.inf


def above(of, tried):
    """The defaults over a setting, pairs of equal seeds: another one deals other programs to the
    arrivals."""
    return [a / b for a, b in zip(of[DEFAULT], of[tried])]


def beside_the_best(of):
    """Of the settings that were run with as many seeds as the defaults."""
    best = max((tried for tried in of if tried != DEFAULT and len(of[tried]) == len(of[DEFAULT])),
               key=lambda tried: mean(above(of, tried)))
    ratios = above(of, best)
    return best, [f"{mean(ratios):.2f}", f"{min(ratios):.2f}", f"{max(ratios):.2f}"]


def name(tried):
    return " ".join(value.split("=")[1] for value in tried)


def few_row(it, place, of):
    """`of`: latencies by setting, those of all seeds or of the first."""
    best, ratios = beside_the_best(of)
    worst = min(of, key=lambda tried: above(of, tried)[0])
    return [*place, show_rate(LOAD * it.capacity[place]), show(mean(of[DEFAULT])),
            show(mean(of[best])), *ratios, f"{1 / above(of, worst)[0]:.2f}", name(best)]


def search(it, runs, drawn, close, seeds):
    """For each place latencies by setting: all of them by the first seed; and by these seeds the
    defaults and so many of those that are best by the first."""
    tried = (DEFAULT, *drawn)
    first = runs.each(it.latency, [(*place, one, SEEDS[0]) for place in it.capacity
                                   for one in tried])
    best = {place: (DEFAULT, *sorted(drawn, key=lambda one: first[*place, one, SEEDS[0]])[:close])
            for place in it.capacity}
    got = runs.each(it.latency, [(*place, one, seed) for place, near in best.items()
                                 for one in near for seed in seeds])
    return ({place: {one: [first[*place, one, SEEDS[0]]] for one in tried} for place in best},
            {place: {one: [got[*place, one, seed] for seed in seeds] for one in near}
             for place, near in best.items()})


def few(it, runs, quick):
    first, judged = search(it, runs, settings(4 if quick else TRIED), CLOSE,
                           SEEDS[:1] if quick else SEEDS)
    return [few_row(it, place, first[place] | judged[place]) for place in it.capacity]


def many_row(place, of):
    best, ratios = beside_the_best(of)
    return [*place, show(mean(of[DEFAULT])), *ratios, name(best)]


def many(it, runs, quick):
    """The best are known by one seed, and judged by others."""
    _, judged = search(it, runs, settings(4 if quick else DRAWN), JUDGED,
                       OTHERS[:1] if quick else OTHERS)
    return [many_row(place, judged[place]) for place in it.capacity]


def fill(page, runs, quick):
    it = Defaults(runs, quick)
    ratios = ["defaults / best", "least of a seed", "most of a seed"]
    setting = "best: quantum, queues, growth, beta, wait_max"
    page.table("defaults", ["machine", "", "programs a second", "defaults, s", "best drawn, s",
                            *ratios, "worst drawn / defaults", setting], few(it, runs, quick))
    page.table("settings", ["machine", "", "defaults, s", *ratios, setting],
               many(it, runs, quick))
