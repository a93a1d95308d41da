# SPDX-License-Identifier: MIT
"""The defaults against settings drawn by lot: is there a better one for a trace? (ours)"""
import math
import random

from machine import BIG_HOST
from page import latency as show, rate as show_rate, ratio
from runs import window

# What is offered where the capacity is measured: more than it can serve. Seconds of arrivals.
MACHINES = {"a100": ("a100-llama-3.1-8b", 300,
                     {"sharegpt": 9.2, "bfcl": 7.8, "lats": 0.7, "mixed": 1.9, "agents": 0.45,
                      "taskpar": 3.1, "tenants": 38}),
            "cpu": ("cpu", 1800,
                    {"sharegpt": 0.4, "bfcl": 0.28, "lats": 0.07, "mixed": 0.14, "agents": 0.026,
                     "taskpar": 0.22, "tenants": 3})}
LOAD, TRIED = 1.3, 8
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

    def mean(self, machine, trace, tried):
        result = self.at(machine, trace, LOAD * self.capacity[machine, trace],
                         MACHINES[machine][1], *words(tried))
        return result["token_latency_s_mean"] if result else math.inf


def fill(page, runs, quick):
    it = Defaults(runs, quick)
    drawn = settings(4 if quick else TRIED)
    got = runs.each(it.mean, [(*place, tried) for place in it.capacity
                              for tried in (DEFAULT, *drawn)])
    rows = []
    for place in it.capacity:
        mean = {tried: got[(*place, tried)] for tried in (DEFAULT, *drawn)}
        best, worst = min(drawn, key=mean.get), max(drawn, key=mean.get)
        rows.append([*place, show_rate(LOAD * it.capacity[place]), show(mean[DEFAULT]),
                     show(mean[best]), show(mean[worst]), ratio(mean[DEFAULT], mean[best]),
                     " ".join(value.split("=")[1] for value in best)])
    page.table("defaults", ["machine", "", "programs a second", "defaults, s", "best drawn, s",
                            "worst drawn, s", "defaults / best",
                            "best: quantum, queues, growth, beta, wait_max"], rows)
