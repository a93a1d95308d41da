# SPDX-License-Identifier: MIT
"""The cliff: what is served when more programs are open than the KV holds (ours).

A closed load: so many sessions, as multiples of those that fit (contexts.py). The setup of the
picture runs at all multiples, the others at few. Figures are of the middle of a run, and medians
over the seeds; the share of copies is of the whole run."""
import functools
import itertools
import statistics
import subprocess

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
FIXED = (0.5, 0.7, 1, 1.4, 2, 2.8, 4)       # programs that may be active, likewise
PICTURE = ("a100", "all", "program")
OFF = ("--set", "sched.active_set=off")
OURS, ALL, BEST = "agentix", "agentix, all active", "best fixed number"

PANELS = {trace: {"title": trace, "x": "sessions / those that fit",
                  "y": "tokens a second, % of the best", "log_x": True, "x_ticks": TIMES,
                  "y_shows": [0, 100]} for trace in TRACES}
FIGURES = {"cliff": (plot.lines, PANELS, 3)}


def has_active_set(runs):
    """True when this lab knows the option; else its programs are all active."""
    done = subprocess.run([runs.program, "--trace", runs.trace(TRACES[0]), "--programs", "1", *OFF],
                          capture_output=True, text=True)
    return done.returncode == 0


class Setup:
    """A trace on a machine with so much KV, shared so."""
    def __init__(self, runs, trace, machine, kv, sharing):
        preset, blocks = MACHINES[machine]
        blocks //= KV[kv]
        context = min(CONTEXT_MAX, 1 << (blocks * BLOCK_TOKENS).bit_length() - 1)
        path = contexts.whole(runs.trace(trace), context, runs.kept)
        programs = contexts.read(path)
        self.trace, self.count = path.removesuffix(".trace"), len(programs)
        self.fit = contexts.fit(programs, sharing, blocks * BLOCK_TOKENS)
        self.words = ("--cost", preset, "--set", f"kv.device_blocks={blocks}", "--set",
                      f"kv.sharing={sharing}", "--set", f"limits.context_tokens={context}")

    def sessions(self, times):
        return max(1, round(times * self.fit))

    def load(self, times):
        """Three times as many programs as sessions, and all that the trace has."""
        count = self.sessions(times)
        return "--sessions", count, "--programs", max(3 * count, self.count)


class Cliff:
    def __init__(self, runs, quick):
        self.runs, self.quick = runs, quick
        self.has_active_set = has_active_set(runs)
        self.systems = {OURS: ("agentix", ()), "vllm-opt": ("vllm-opt", EQUAL)}
        if self.has_active_set:
            self.systems = {OURS: ("agentix", ()), ALL: ("agentix", OFF),
                            "vllm-opt": ("vllm-opt", (*EQUAL, *OFF))}

    def setups(self):
        if self.quick:
            return [(trace, *PICTURE) for trace in TRACES]
        return list(itertools.product(TRACES, MACHINES, KV, SHARINGS))

    @functools.cache
    def setup(self, *place):
        return Setup(self.runs, *place)

    def run(self, place, system, words, times, seed):
        setup = self.setup(*place)
        seeded = ("--seed", seed) if seed else ()
        return self.runs.run(setup.trace, system, *setup.load(times), *setup.words, *words, *seeded)

    def with_fixed(self, place, times, seed):
        """With so many active. Where there is no picture, or no option, as many sessions and all of
        them active: the same throughput, and fewer programs to play."""
        if not self.has_active_set:
            return self.run(place, "agentix", (), times, seed)
        if place[1:] != PICTURE:
            return self.run(place, "agentix", OFF, times, seed)
        active = self.setup(*place).sessions(times)
        return self.run(place, "agentix", ("--set", f"sched.active_set={active}"), TIMES[-1], seed)

    def times_of(self, place, name):
        """Multiples at which it runs: all for the picture, few for the table of edges."""
        if name == BEST:
            return FIXED
        if place[1:] == PICTURE:
            return (UNLOADED, *TIMES) if name == OURS else TIMES
        return (UNLOADED, TIMES[0], TIMES[-1]) if name == OURS else TIMES[-1:]

    def asked(self):
        for place, seed in itertools.product(self.setups(), range(self.runs.seeds)):
            for name in (*self.systems, BEST):
                for times in self.times_of(place, name):
                    yield place, name, times, seed

    def one(self, place, name, times, seed):
        if name == BEST:
            return self.with_fixed(place, times, seed)
        system, words = self.systems[name]
        return self.run(place, system, words, times, seed)

    def measure(self):
        """{(place, name, times): result}, each a median over the seeds."""
        for place in self.setups():
            self.setup(*place)                  # writes a trace that runs share, before they begin
        asked = sorted(self.asked(), key=lambda it: -it[2])     # the longest first
        got = self.runs.each(self.one, asked)
        found = {}
        for key in dict.fromkeys(key[:3] for key in asked):
            results = [got[(*key, seed)] for seed in range(self.runs.seeds)]
            found[key] = None if None in results else median(results)
        return found


FIGURES_OF_RUN = {
    "tokens": lambda it: it["middle"]["tokens_per_s"],
    "hits": lambda it: 100 * it["middle"]["prefix_hit_ratio"],
    "latency": lambda it: it["middle"]["token_latency_s_mean"],
    "copies": lambda it: 100 * it["copy_s"] / it["engine_busy_s"],
}


def median(results):
    return {name: statistics.median(map(value, results)) for name, value in FIGURES_OF_RUN.items()}


class Found:
    """What was measured, by place."""
    def __init__(self, it):
        self.it, self.got = it, it.measure()

    def at(self, place, name, times, what):
        result = self.got[place, name, times]
        return None if result is None else result[what]

    def best_fixed(self, place):
        """How many active programs serve most, as a multiple of those that fit."""
        return max(FIXED, key=lambda times: self.at(place, BEST, times, "tokens") or 0)

    def best(self, place):
        """The most tokens a second that any served."""
        return max(self.at(*key, "tokens") or 0 for key in self.got if key[0] == place)


def cell(value, form):
    return "refused" if value is None else form(value)


def percent(value):
    return f"{value:.0f} %"


def tokens(value):
    return f"{value:,.0f}"


def fill_curves(page, found):
    """The setup of the picture, in numbers."""
    places = [place for place in found.it.setups() if place[1:] == PICTURE]
    rows, points = [], []
    for place in places:
        for name in found.it.systems:
            served = [found.at(place, name, times, "tokens") for times in TIMES]
            rows.append([place[0], name, *(cell(value, tokens) for value in served),
                         *(cell(found.at(place, name, times, what), form)
                           for what, form in (("hits", percent), ("latency", show))
                           for times in (TIMES[0], TIMES[-1]))])
            points += [[place[0], name, times, 100 * value / found.best(place)]
                       for times, value in zip(TIMES, served) if value is not None]
        level = found.at(place, BEST, found.best_fixed(place), "tokens")
        points.append([place[0], BEST, "", 100 * level / found.best(place)])
    page.table("cliff", ["", "tokens a second", *(f"{times} x" for times in TIMES),
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
                       for name in found.it.systems),
                     f"{found.best_fixed(place):.2g}",
                     *(cell(found.at(place, OURS, times, "hits"), percent)
                       for times in (UNLOADED, last)),
                     cell(found.at(place, OURS, last, "copies"), percent)])
    page.table("cliff-edges", ["", "machine", "KV", "shared by", "fit", "best, tokens a second",
                               *(f"{name}, 16 x" for name in found.it.systems), "best fixed, x",
                               "hits unloaded", "hits, 16 x", "copying, 16 x"], rows)


def fill(page, runs, quick):
    found = Found(Cliff(runs, quick))
    fill_curves(page, found)
    fill_edges(page, found)
