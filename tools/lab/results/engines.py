# SPDX-License-Identifier: MIT
"""Several engines in one box (paper 000, 4.3 and 6.4): which engine a call goes to, by
sched.balance; from one to eight engines; an engine that dies.

All have the same policy. The load is that of an engine: the rate of E engines is E times as high.
Figures are of the steady state; use and hits of the whole run."""
import itertools

import capacity
import plot
from machine import BIG_HOST, WINDOW_S
from page import latency as show, rate as show_rate
from runs import window

AUTO, LOCAL, PROGRAM, RR, LEAST, PREBLE = "auto", "local", "program", "rr", "least", "preble"
OTHERS = (AUTO, LOCAL, PROGRAM, PREBLE, RR)     # beside least
LOADS = (0.7, 1.0, 1.3)
MOST = 4                                    # engines
# Where each sched.balance runs: engines and loads; elsewhere it would take the lab long.
PLACES = {"sharegpt": ((2, MOST), LOADS), "bfcl": ((2, MOST), LOADS), "taskpar": ((MOST,), (1.0,)),
          "tenants": ((MOST,), (1.0,)), "mixed": ((MOST,), (1.0,)), "agents": ((MOST,), (1.0,)),
          "lats": ((MOST,), (1.0,)), "coding": ((2,), LOADS)}
PROGRAMS = {"lats": 100, "agents": 250, "coding": 50}   # for each engine, of what takes long
PROGRAMS_ELSE = 1000
THRESHOLDS = (256, 512, 1024, 2048, 4096)
THRESHOLD_TRACES = ("sharegpt", "mixed", "bfcl")
SCALED = (1, 2, 4, 8)
SCALED_BY = (AUTO, LOCAL, PROGRAM, PREBLE, LEAST, RR)
SCALED_LOAD = 0.9
OVERLOAD = 2
ONE = "sharegpt"                            # the trace of what is shown for one
EQUAL_AT = ((2, 0.03), (2, 0.05), (4, 0.03))    # engines, seconds a token: three, five times idle
DEATH_LOADS = (0.7, 1.0)
DEATH_S = 5

PANELS = {"hits": {"title": "found in the cache", "y": "% of prompt tokens"},
          "latency": {"title": "latency", "y": "seconds a token, mean"}}
FIGURES = {
    "engines": (plot.lines, {name: {**panel, "x": "engines", "log_x": True, "x_ticks": SCALED,
                                    "y_shows": [0]} for name, panel in PANELS.items()}, 2)}


def balance(name, threshold=None):
    chosen = ("--set", f"sched.balance={name}")
    return (*chosen, "--set", f"sched.balance_tokens={threshold}") if threshold else chosen


def steady(result):
    return result["steady"]["token_latency_s_mean"]


def emptiest(result):
    """The use of the engine that is used least."""
    return min(engine["busy_share"] for engine in result["engines"])


def percent(share):
    return f"{100 * share:.0f} %"


class Engines:
    def __init__(self, runs, quick):
        self.runs, self.quick = runs, quick
        self.capacity = {trace: rate for (trace,), rate in runs.each(
            lambda trace: capacity.measure(runs, 256, trace),
            [(trace,) for trace in PLACES]).items()}

    def programs(self, trace):
        return PROGRAMS.get(trace, PROGRAMS_ELSE) // (5 if self.quick else 1)

    def over(self, trace, count, rate, seconds, *words):
        return self.runs.run(trace, "agentix", *window(rate, seconds), *BIG_HOST,
                             "--engines", count, *words)

    def at(self, trace, count, load, *words):
        rate = load * self.capacity[trace]
        return self.over(trace, count, count * rate, self.programs(trace) / rate, *words)


# ---- by load --------------------------------------------------------------------------------


def fill_loads(page, it):
    """Each sched.balance, beside least."""
    places = [(trace, count, load) for trace, (counts, loads) in PLACES.items()
              for count in counts for load in loads]
    got = it.runs.each(lambda place, name: it.at(*place, *balance(name)),
                       itertools.product(places, (LEAST, *OTHERS)))
    rows, uses = [], []
    for place in places:
        trace, count, load = place
        base = steady(got[place, LEAST])
        rows.append([trace, count, f"{load:.1f}", show(base),
                     *(f"{steady(got[place, name]) / base:.2f}" for name in OTHERS)])
        if load == 1.0:
            uses.append([trace, count, *(percent(emptiest(got[place, name]))
                                         for name in (*OTHERS, LEAST))])
    page.table("engines-loads", ["", "engines", "load", "least, s", *OTHERS], rows)
    page.table("engines-use", ["", "engines", *OTHERS, LEAST], uses)


# ---- one trace ------------------------------------------------------------------------------


def fill_hits(page, it):
    asked = {RR: balance(RR), LEAST: balance(LEAST), "local 2,048": balance(LOCAL, 2048),
             "local 512": balance(LOCAL, 512), "local 256": balance(LOCAL, 256),
             PROGRAM: balance(PROGRAM), AUTO: balance(AUTO), PREBLE: balance(PREBLE)}
    got = it.runs.each(lambda name: it.at(ONE, MOST, 1.0, *asked[name]),
                       [(name,) for name in asked])
    rows = []
    for name in asked:
        result = got[name,]
        rows.append([name, percent(result["prefix_hit_ratio"]), show(steady(result)),
                     percent(emptiest(result))])
    page.table("engines-hits", ["", "hits", "latency, s", "use of the emptiest"], rows)


def fill_thresholds(page, it):
    asked = {LEAST: balance(LEAST), PROGRAM: balance(PROGRAM),
             **{f"{n:,}": balance(LOCAL, n) for n in THRESHOLDS}}
    got = it.runs.each(lambda trace, name: it.at(trace, MOST, 1.0, *asked[name]),
                       itertools.product(THRESHOLD_TRACES, asked))
    names = list(asked)[1:]
    rows = [[trace, *(f"{steady(got[trace, name]) / steady(got[trace, LEAST]):.2f}"
                      for name in names)] for trace in THRESHOLD_TRACES]
    page.table("engines-threshold", ["", *names], rows)


def fill_scaling(page, it):
    """At equal rate an engine; and what is served when more comes than can be."""
    got = it.runs.each(lambda name, count: it.at(ONE, count, SCALED_LOAD, *balance(name)),
                       itertools.product(SCALED_BY, SCALED))
    full = it.runs.each(lambda count: it.at(ONE, count, OVERLOAD, *balance(AUTO)),
                        [(count,) for count in SCALED])
    served = {count: count * result["programs"] / result["engine_busy_s"]
              for (count,), result in full.items()}
    rows, points = [], []
    for name in SCALED_BY:
        rows.append([name, *(show(steady(got[name, count])) for count in SCALED),
                     *(percent(got[name, count]["prefix_hit_ratio"]) for count in SCALED)])
        for count in SCALED:
            points += [["hits", name, count, 100 * got[name, count]["prefix_hit_ratio"]],
                       ["latency", name, count, steady(got[name, count])]]
    page.table("engines-scaling", ["", *(f"s: {count}" for count in SCALED),
                                   *(f"hits: {count}" for count in SCALED)], rows)
    page.table("engines-served", ["", *map(str, SCALED)], [
        ["programs a second", *(show_rate(served[count]) for count in SCALED)],
        ["of as many times one", *(f"{served[count] / served[1] / count:.2f}"
                                   for count in SCALED)]])
    page.figure("engines", plot.HEADS, points)


def fill_equal(page, it):
    """The rate at which the mean latency is the same: of arrivals for so long, at any rate."""
    def search(count, latency, name):
        return it.runs.highest_rate(
            lambda rate: steady(it.over(ONE, count, rate, WINDOW_S, *balance(name))), latency,
            [count * load * it.capacity[ONE] for load in LOADS], 1.1 if it.quick else 1.02)
    names = (*OTHERS, LEAST)
    got = it.runs.each(search, [(*place, name) for place in EQUAL_AT for name in names])
    page.table("engines-equal", ["engines", "s a token", *names], [
        [*place, *(show_rate(got[(*place, name)]) for name in names)] for place in EQUAL_AT])


def fill_deaths(page, it):
    def one(load, name, dies):
        at_s = it.programs(ONE) / load / it.capacity[ONE] / 2
        words = ("--kill-engine", f"1@{at_s:.0f}+{DEATH_S}") if dies else ()
        return it.at(ONE, MOST, load, *balance(name), *words)
    names = (AUTO, LOCAL, PROGRAM, LEAST)
    got = it.runs.each(one, itertools.product(DEATH_LOADS, names, (False, True)))
    rows = []
    for load, name in itertools.product(DEATH_LOADS, names):
        calm, killed = got[load, name, False], got[load, name, True]
        calls = sum(engine["calls"] for engine in killed["engines"])
        rows.append([f"{load:.1f}", name, sum(e["deaths"] for e in killed["engines"]),
                     f"{calls:,} of {calm['calls']:,}", show(steady(calm)), show(steady(killed)),
                     show(calm["steady"]["token_latency_s_p99"]),
                     show(killed["steady"]["token_latency_s_p99"])])
    page.table("engines-death", ["load", "", "deaths", "calls answered", "s, none dies",
                                 "s, one dies", "p99, none dies", "p99, one dies"], rows)


def fill(page, runs, quick):
    it = Engines(runs, quick)
    fill_hits(page, it)
    fill_thresholds(page, it)
    fill_scaling(page, it)
    fill_equal(page, it)
    fill_deaths(page, it)
    fill_loads(page, it)
