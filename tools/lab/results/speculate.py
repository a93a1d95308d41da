# SPDX-License-Identifier: MIT
"""Drafts on and off: the latency of a token by load, on traces whose texts repeat themselves as
those of the embedded model's agents do (ours)."""
import math
import os
import statistics

from machine import BIG_HOST
from page import latency as show, rate as show_rate
from runs import window

DRAFTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inputs", "embedded.drafts")
# What is offered where the capacity is measured: more than it can serve. Seconds of arrivals.
MACHINES = {"cpu": ("cpu", 3600,
                    {"sharegpt": 0.4, "bfcl": 0.28, "lats": 0.07, "mixed": 0.14, "agents": 0.026,
                     "coding": 0.001, "taskpar": 0.22, "tenants": 3}),
            "a100": ("a100-llama-3.1-8b", 600,
                     {"sharegpt": 9.2, "bfcl": 7.8, "lats": 0.7, "mixed": 1.9, "agents": 0.45,
                      "coding": 0.0104, "taskpar": 3.1, "tenants": 38})}
SECONDS = {"coding": 20000}                 # of arrivals, instead
LOADS = {"1/3": 1 / 3, "0.7": 0.7, "1.3": 1.3}
SEEDS = {"cpu": 12, "a100": 3}
OFF, ON = ("--set", "sched.speculate=0"), ()


class Speculate:
    def __init__(self, runs, quick):
        self.runs, self.quick = runs, quick
        places = [(machine, trace) for machine in MACHINES for trace in MACHINES[machine][2]]
        self.capacity = runs.each(self.measure, places)

    def at(self, machine, trace, rate, *more):
        preset, seconds, _ = MACHINES[machine]
        return self.runs.run(trace, "agentix", *window(rate, SECONDS.get(trace, seconds)),
                             *BIG_HOST, "--cost", preset, "--speculate", DRAFTS, *more)

    def measure(self, machine, trace):
        """Programs a second of the engine's time, without drafts."""
        result = self.at(machine, trace, MACHINES[machine][2][trace], *OFF)
        return result["programs"] / result["engine_busy_s"]

    def seeds(self, machine):
        return range(1, 1 + (2 if self.quick else SEEDS[machine]))

    def pair(self, machine, trace, load, seed):
        """The same programs, without drafts and with them."""
        rate = LOADS[load] * self.capacity[machine, trace]
        return [self.at(machine, trace, rate, "--seed", seed, *words) for words in (OFF, ON)]


def mean_and_error(values):
    return statistics.mean(values), statistics.stdev(values) / math.sqrt(len(values))


def row(place, rate, pairs):
    """Means over seeds; of the ratio also its standard error."""
    off = [result["token_latency_s_mean"] for result, _ in pairs]
    times, error = mean_and_error([on["token_latency_s_mean"] / result["token_latency_s_mean"]
                                   for result, on in pairs])
    p99 = statistics.mean(on["token_latency_s_p99"] / result["token_latency_s_p99"]
                          for result, on in pairs)
    drafted, agreed, tokens = (sum(on[name] for _, on in pairs) for name in
                               ("draft_tokens", "draft_tokens_agreed", "tokens_generated"))
    return [*place, show_rate(rate), show(statistics.mean(off)), f"{times:.3f}", f"{error:.3f}",
            f"{p99:.2f}", round(1000 * agreed / tokens),
            f"{100 * agreed / drafted:.0f} %" if drafted else "-"]


def fill(page, runs, quick):
    it = Speculate(runs, quick)
    asked = [(*place, load) for place in it.capacity for load in LOADS]
    got = runs.each(it.pair, [(*place, seed) for place in asked for seed in it.seeds(place[0])])
    page.table("speculate", ["machine", "", "load", "programs a second", "off, s", "on / off", "±",
                             "p99: on / off", "rounds saved of 1,000", "drafts right"],
               [row(place, LOADS[place[2]] * it.capacity[place[:2]],
                    [got[(*place, seed)] for seed in it.seeds(place[0])]) for place in asked])
