# SPDX-License-Identifier: MIT
"""The cliff: what is served when more programs are open than the KV holds (ours).

A closed load: so many sessions, as multiples of those that fit (contexts.py). The setup of the
picture runs at all multiples, the others at few. Figures are of the middle of a run, and medians
over the seeds; the share of copies is of the whole run."""
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
SHARINGS = ("program", "domain")
CONTEXT_MAX = 131072                        # positions that the models know
TIMES = (1, 2, 4, 8, 16)                    # sessions, as multiples of what fits
UNLOADED = 0.25
FIXED = (0.5, 0.7, 1, 1.4, 2, 2.8, 4, 5.6)  # programs that may be active, likewise
SHARE_MORE = 1.2                            # a sharing that lets fewer more fit is no other setup
TOKENS_MAX = 550e6                          # of a run's calls; more would take the lab minutes
PICTURE = ("a100", "all", "program")
OFF = ("--set", "sched.active_set=off")
RUSHES = {"bfcl, 400 at once": ("bfcl", ("--programs", 400, "--offline")),
          "bfcl, 800, 1.4 a second": ("bfcl", ("--programs", 800, "--rate", 1.4)),
          "sharegpt, 4,000 at once": ("sharegpt", ("--programs", 4000, "--offline"))}
RUSH_SEEDS = range(5)
OURS, ALL, BEST = "agentix", "agentix, all active", "best fixed number"
FEW = "as many sessions, all active"
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
        count = self.sessions(times)
        return "--sessions", count, "--programs", self.programs(count)

    def programs(self, sessions):
        """Three times as many as sessions, and all that the trace has."""
        return max(3 * sessions, self.count)

    def tokens(self, times):
        """Of all prompts and outputs."""
        return self.programs(self.sessions(times)) * self.tokens_each


class Cliff:
    def __init__(self, runs, quick):
        self.runs, self.quick = runs, quick

    def setups(self):
        if self.quick:
            return [(trace, *PICTURE) for trace in TRACES]
        return [place for place in itertools.product(TRACES, MACHINES, KV, SHARINGS)
                if self.is_worthwhile(*place)]

    def is_worthwhile(self, trace, machine, kv, sharing):
        setup = self.setup(trace, machine, kv, sharing)
        apart = self.setup(trace, machine, kv, SHARINGS[0])
        return setup.tokens(TIMES[-1]) <= TOKENS_MAX and \
            (sharing == SHARINGS[0] or setup.fit > SHARE_MORE * apart.fit)

    @functools.cache
    def setup(self, *place):
        return Setup(self.runs, *place)

    def run(self, place, system, words, times, seed):
        setup = self.setup(*place)
        seeded = ("--seed", seed) if seed else ()
        return self.runs.run(setup.trace, system, *setup.load(times), *setup.words, *words, *seeded)

    def times_of(self, place, name):
        """Multiples at which it runs: all for the picture, few for the table of edges."""
        if name == FEW:
            return FIXED
        if place[1:] == PICTURE:
            return (UNLOADED, *TIMES) if name == OURS else TIMES
        return (UNLOADED, TIMES[0], TIMES[-1]) if name == OURS else TIMES[-1:]

    def asked(self):
        """(place, name, times)"""
        for place in self.setups():
            for name in (*SYSTEMS, FEW):
                for times in self.times_of(place, name):
                    yield place, name, times

    def one(self, place, name, times, seed):
        system, words = SYSTEMS.get(name, SYSTEMS[ALL])
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
            found[key] = None if None in results else median(results, FIGURES_OF_MIDDLE)
        return found


def copying(result):
    return 100 * result["copy_s"] / result["engine_busy_s"]


def fed_again(result):
    return 100 * result["recomputed_tokens"] / result["tokens_computed"]


FIGURES_OF_MIDDLE = {
    "tokens": lambda it: it["middle"]["tokens_per_s"],
    "hits": lambda it: 100 * it["middle"]["prefix_hit_ratio"],
    "latency": lambda it: it["middle"]["token_latency_s_mean"],
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
                  for place in it.setups() if place[1:] == PICTURE}
        got = it.medians(it.fixed, list(active.items()))
        self.fixed = {place: result["tokens"] for (place, _), result in got.items()}

    def at(self, place, name, times, what):
        result = self.got[place, name, times]
        return None if result is None else result[what]

    def best_fixed(self, place):
        """How many active programs serve most, as a multiple of those that fit."""
        return max(FIXED, key=lambda times: self.at(place, FEW, times, "tokens") or 0)

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
            served = [found.at(place, name, times, "tokens") for times in TIMES]
            rows.append([place[0], name, *(cell(value, tokens) for value in served),
                         *(cell(found.at(place, name, times, what), form)
                           for what, form in (("hits", percent), ("latency", show))
                           for times in (TIMES[0], TIMES[-1]))])
            points += [[place[0], name, times, 100 * value / found.best(place)]
                       for times, value in zip(TIMES, served) if value is not None]
        points.append([place[0], BEST, "", 100 * level / found.best(place)])
    page.table("cliff-sessions", ["", "tokens a second", *(f"{times} x" for times in TIMES),
                         *(f"{what}, {times} x" for what in ("hits", "latency, s")
                           for times in (TIMES[0], TIMES[-1]))], rows)
    page.figure("cliff", plot.HEADS, points)


def fill_edges(page, found):
    """Every setup, at the most sessions."""
    rows = []
    for place in found.it.setups():
        best, last = found.best(place), TIMES[-1]
        rows.append([*place, tokens(found.it.setup(*place).fit), tokens(best),
                     *(cell(found.at(place, name, last, "tokens"),
                            lambda value, best=best: percent(100 * value / best))
                       for name in SYSTEMS),
                     f"{found.best_fixed(place):.2g}",
                     *(cell(found.at(place, OURS, times, "hits"), percent)
                       for times in (UNLOADED, last)),
                     *(cell(found.at(place, OURS, last, what), tenths)
                       for what in ("copies", "again"))])
    page.table("cliff-edges", ["", "machine", "KV", "shared by", "fit", "best, tokens a second",
                               *(f"{name}, 16 x" for name in SYSTEMS), "best fixed, x",
                               "hits unloaded", "hits, 16 x", "copying, 16 x",
                               "fed again, 16 x"], rows)


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


def fill(page, runs, quick):
    fill_rushes(page, runs)
    found = Found(Cliff(runs, quick))
    fill_curves(page, found)
    fill_edges(page, found)
