# SPDX-License-Identifier: MIT
"""The cliff: what is served when more programs are open than the KV holds (ours).

A closed load: so many sessions, as multiples of those that fit (contexts.py). The same programs
run at every number of sessions, those of the largest number, and figures are of the whole run: what
the middle of a run serves depends on which programs the order lets end there. The setup of the
picture runs at all multiples, those of edges.py at few. Medians over the seeds."""
import functools
import itertools
import statistics

import contexts
import plot
from machine import EQUAL
from page import latency as show

TRACES = ("bfcl", "agents", "coding", "sharegpt", "mixed")
MACHINES = {"a100": ("a100-llama-3.1-8b", 26000), "h200": ("h200-llama-3.1-8b", 52800)}
BLOCK_TOKENS = 16
KV = {"all": 1, "a quarter": 4}
CONTEXT_MAX = 131072                        # positions that the models know
TIMES = (1, 2, 4, 8, 16)                    # sessions, as multiples of what fits
AT_EDGES = {"agentix": (1, 16), "agentix, all active": (1, 2, 4, 16), "vllm-opt": (16,)}
FEW = {"agents": (1, 4, 16), "mixed": (1, 4, 16)}   # of those, where runs take long
BETWEEN, FIXED_MAX = (1.4, 2.8), 4          # where else the best fixed number may be
PICTURE = ("a100", "all", "program")
OFF = ("--set", "sched.active_set=off")
RUSHES = {"bfcl, 400 at once": ("bfcl", ("--programs", 400, "--offline")),
          "bfcl, 800, 1.4 a second": ("bfcl", ("--programs", 800, "--rate", 1.4)),
          "sharegpt, 4,000 at once": ("sharegpt", ("--programs", 4000, "--offline"))}
RUSH_SEEDS = range(5)
OURS, ALL, BEST = "agentix", "agentix, all active", "best fixed number"
SYSTEMS = {OURS: ("agentix", ()), ALL: ("agentix", OFF), "vllm-opt": ("vllm-opt", EQUAL)}

PANELS = {trace: {"title": trace, "x": "sessions / those that fit",
                  "y": "tokens a second, % of the best", "log_x": True, "x_ticks": TIMES,
                  "y_shows": [0, 100]} for trace in TRACES}
FIGURES = {"cliff": (plot.lines, PANELS, 3)}


class Setup:
    """A trace on a machine with so much KV, shared so."""
    def __init__(self, runs, trace, machine, kv, sharing):
        preset, blocks = MACHINES[machine]
        blocks //= KV[kv]
        context = min(CONTEXT_MAX, 1 << (blocks * BLOCK_TOKENS).bit_length() - 1)
        path = contexts.whole(runs.trace(trace), context, runs.kept)
        programs = contexts.read(path)
        self.trace, self.count = path.removesuffix(".trace"), len(programs)
        self.tokens_each = sum(program.tokens_of_calls for program in programs) / len(programs)
        self.fit = contexts.fit(programs, sharing, blocks * BLOCK_TOKENS)
        self.words = ("--cost", preset, "--set", f"kv.device_blocks={blocks}", "--set",
                      f"kv.sharing={sharing}", "--set", f"limits.context_tokens={context}")

    def sessions(self, times):
        return max(1, round(times * self.fit))

    def load(self, times):
        return "--sessions", self.sessions(times), "--programs", self.programs()

    def programs(self):
        """Three times as many as the most sessions, and all that the trace has."""
        return max(3 * self.sessions(TIMES[-1]), self.count)

    def tokens(self):
        """Of all prompts and outputs."""
        return self.programs() * self.tokens_each


class Cliff:
    """Runs at these places: (trace, machine, kv, sharing)."""
    def __init__(self, runs, places):
        self.runs, self.places = runs, places

    @functools.cache
    def setup(self, *place):
        return Setup(self.runs, *place)

    def run(self, place, system, words, times, seed):
        setup = self.setup(*place)
        seeded = ("--seed", seed) if seed else ()
        return self.runs.run(setup.trace, system, *setup.load(times), *setup.words, *words, *seeded)

    def times_of(self, place, name):
        """Multiples at which it runs: all for the picture, few for the table of edges."""
        if place[1:] != PICTURE:
            return AT_EDGES[name]
        times = FEW.get(place[0], TIMES)
        return (*times, *BETWEEN) if name == ALL else times

    def asked(self):
        """(place, name, times)"""
        for place in self.places:
            for name in SYSTEMS:
                for times in self.times_of(place, name):
                    yield place, name, times

    def one(self, place, name, times, seed):
        system, words = SYSTEMS[name]
        return self.run(place, system, words, times, seed)

    def fixed(self, place, active, seed):
        """At the most sessions, with so many active."""
        words = ("--set", f"sched.active_set={active}")
        return self.run(place, "agentix", words, TIMES[-1], seed)

    def medians(self, function, asked):
        """{words of function but the last, a seed: the median over the seeds}"""
        got = self.runs.each(function, [(*key, seed) for key in asked
                                        for seed in range(self.runs.seeds)])
        found = {}
        for key in asked:
            results = [got[(*key, seed)] for seed in range(self.runs.seeds)]
            found[key] = None if None in results else median(results, FIGURES_OF_LOAD)
        return found


def copying(result):
    return 100 * result["copy_s"] / result["engine_busy_s"]


def fed_again(result):
    return 100 * result["recomputed_tokens"] / result["tokens_computed"]


FIGURES_OF_LOAD = {
    "tokens": lambda it: it["tokens_generated"] / it["makespan_s"],
    "hits": lambda it: 100 * it["prefix_hit_ratio"],
    "latency": lambda it: it["token_latency_s_mean"],
    "copies": copying,
    "again": fed_again,
}
FIGURES_OF_RUSH = {
    "makespan, s": lambda it: it["makespan_s"],
    "hits": lambda it: 100 * it["prefix_hit_ratio"],
    "latency, s": lambda it: it["token_latency_s_mean"],
    "p99, s": lambda it: it["token_latency_s_p99"],
    "completion, s": lambda it: it["jct_s_mean"],
    "copying": copying,
    "fed again": fed_again,
}


def median(results, figures):
    return {name: statistics.median(map(value, results)) for name, value in figures.items()}


class Found:
    """What was measured, by place. The best fixed number of active programs is searched with as
    many sessions, all of them active: fewer programs have to be played. For the picture the best
    one runs with the option."""
    def __init__(self, it):
        self.it = it
        asked = sorted(it.asked(), key=lambda key: -key[2])     # the longest first
        self.got = it.medians(it.one, asked)
        active = {place: it.setup(*place).sessions(self.best_fixed(place))
                  for place in it.places if place[1:] == PICTURE}
        got = it.medians(it.fixed, list(active.items()))
        self.fixed = {place: result["tokens"] for (place, _), result in got.items()}

    def at(self, place, name, times, what):
        result = self.got[place, name, times]
        return None if result is None else result[what]

    def best_fixed(self, place):
        """How many active programs serve most, as a multiple of those that fit."""
        asked = [times for times in self.it.times_of(place, ALL) if times <= FIXED_MAX]
        return max(asked, key=lambda times: self.at(place, ALL, times, "tokens") or 0)

    def best(self, place):
        """The most tokens a second that any served."""
        return max(self.fixed.get(place, 0),
                   *(self.at(*key, "tokens") or 0 for key in self.got if key[0] == place))


def cell(value, form):
    return "refused" if value is None else form(value)


def percent(value):
    return f"{value:.0f} %"


def tenths(value):
    return f"{value:.1f} %"


def tokens(value):
    return f"{value:,.0f}"


def fill_curves(page, found):
    """The setup of the picture, in numbers."""
    rows, points = [], []
    for place, level in found.fixed.items():
        for name in SYSTEMS:
            served = {times: found.at(place, name, times, "tokens")
                      for times in found.it.times_of(place, name) if times in TIMES}
            rows.append([place[0], name, *(cell(served[times], tokens) if times in served else "-"
                                     for times in TIMES),
                         *(cell(found.at(place, name, times, what), form)
                           for what, form in (("hits", percent), ("latency", show))
                           for times in (TIMES[0], TIMES[-1]))])
            points += [[place[0], name, times, 100 * value / found.best(place)]
                       for times, value in served.items() if value is not None]
        points.append([place[0], BEST, "", 100 * level / found.best(place)])
    page.table("cliff-sessions", ["", "tokens a second", *(f"{times} x" for times in TIMES),
                         *(f"{what}, {times} x" for what in ("hits", "latency, s")
                           for times in (TIMES[0], TIMES[-1]))], rows)
    page.figure("cliff", plot.HEADS, points)


def rush(runs, name, system, seed):
    """So many programs and no others, on the machine and KV of the picture."""
    (trace, load), (policy, words) = RUSHES[name], SYSTEMS[system]
    return runs.run(trace, policy, *load, "--set", f"kv.sharing={PICTURE[-1]}", *words,
                    "--seed", seed)


def fill_rushes(page, runs):
    got = runs.each(functools.partial(rush, runs),
                    itertools.product(RUSHES, (OURS, ALL), RUSH_SEEDS))
    rows = []
    for name, system in itertools.product(RUSHES, (OURS, ALL)):
        found = median([got[name, system, seed] for seed in RUSH_SEEDS], FIGURES_OF_RUSH)
        rows.append([name, system, *(form(found[what]) for what, form in zip(
            FIGURES_OF_RUSH, (tokens, percent, show, show, tokens, tenths, tenths)))])
    page.table("cliff-rush", ["", "system", *FIGURES_OF_RUSH], rows)


def fill(page, runs, _quick):
    fill_rushes(page, runs)
    fill_curves(page, Found(Cliff(runs, [(trace, *PICTURE) for trace in TRACES])))
