# SPDX-License-Identifier: MIT
"""Latency against rate (Fig. 12), and the rate at equal latency."""
import capacity
import plot
from machine import BIG_HOST, CUT, WINDOW_S
from page import latency as show, rate as show_rate, ratio

# The rates of a sweep, as shares of the capacity; those of vllm, which sustains less.
LOADS = (0.7, 1.0, 1.3, 2)
VLLM_RATES = {"sharegpt": (2, 3, 4), "bfcl": (0.06, 0.15, 0.3), "lats": (0.1, 0.2, 0.3),
              "mixed": (0.1, 0.2, 0.4)}
SHOWN_MAX_S = 5
OTHERS = ("vllm", "vllm-opt", "mlfq", "vllm-opt, cut", "mlfq, cut")
PAPER = {"sharegpt": {"vllm": "8", "vllm-opt": "2", "mlfq": "1.5"},
         "bfcl": {"vllm": "8", "vllm-opt": "2", "mlfq": "1.5"},
         "lats": {"vllm": "5", "vllm-opt": "2", "mlfq": "2.5"},
         "mixed": {"vllm": "15", "vllm-opt": "5", "mlfq": "5.5"}}


def contestants():
    """Name, system or policy, settings."""
    return {"vllm": ("vllm", ()), "vllm-opt": ("vllm-opt", ()), "mlfq": ("mlfq", ()),
            "agentix": ("agentix", ()), "srpt": ("srpt", ()),
            "vllm-opt, cut": ("vllm-opt", CUT), "mlfq, cut": ("mlfq", CUT)}


def mean(result):
    return None if result is None else result["token_latency_s_mean"]


LEVEL = "10 x unloaded"
PANELS = {trace: {"title": trace, "x": "programs a second", "y": "mean token latency, s",
                  "log_y": True, "log_x": trace == "bfcl", "x_zero": True} for trace in VLLM_RATES}
FIGURES = {"fig12": (plot.lines, PANELS, 2)}


class Latency:
    def __init__(self, runs, quick):
        self.runs, self.names = runs, contestants()
        self.systems = [name for name in self.names if name != "srpt"]     # no system can be srpt
        self.window = 300 if quick else WINDOW_S
        self.capacity = {trace: capacity.measure(runs, 256, trace) for trace in VLLM_RATES}
        self.precision = 1.2 if quick else 1.12
        self.unloaded = {trace: self.idle(trace) for trace in VLLM_RATES}

    def idle(self, trace):
        result = self.runs.run(trace, "vllm-opt", "--rate", "0.01", "--programs", "100")
        return result["token_latency_s_mean"]

    def at(self, trace, name, rate):
        system, words = self.names[name]
        return self.runs.window(trace, system, rate, self.window, *BIG_HOST, *words)

    def rates(self, trace, name):
        return VLLM_RATES[trace] if name == "vllm" else \
            [load * self.capacity[trace] for load in LOADS]

    def sweep(self):
        """{(trace, name, rate): result}"""
        return self.runs.each(self.at, [(trace, name, rate) for trace in VLLM_RATES
                                        for name in self.names
                                        for rate in self.rates(trace, name)])

    def points(self, sweep):
        """The rows of a figure: the curves, and ten times the unloaded latency."""
        for trace in VLLM_RATES:
            yield [trace, LEVEL, "", 10 * self.unloaded[trace]]
            for name in self.names:
                for rate in self.rates(trace, name):
                    value = mean(sweep[trace, name, rate])
                    if value is not None and value <= SHOWN_MAX_S:
                        yield [trace, name, rate, value]

    def bound_rates(self, factor):
        """{(trace, name): rate}, of systems"""
        def search(trace, name):
            return self.runs.highest_rate(lambda rate: mean(self.at(trace, name, rate)),
                                          factor * self.unloaded[trace], self.rates(trace, name),
                                          self.precision)
        return self.runs.each(search, [(trace, name) for trace in VLLM_RATES
                                       for name in self.systems])

    def rates_table(self, found):
        rows = [[trace, *(show_rate(found[trace, name]) if found[trace, name] else "none"
                          for name in self.systems)] for trace in VLLM_RATES]
        return ["", *self.systems], rows

    def gains_table(self, found):
        """Beside the paper's."""
        rows = []
        for trace in VLLM_RATES:
            for other in OTHERS:
                rows.append([trace, other, PAPER[trace].get(other, "-"),
                             ratio(found[trace, "agentix"], found[trace, other])])
        return ["", "over", "paper, up to", "agentix"], rows


def fill(page, runs, quick):
    it = Latency(runs, quick)
    page.table("unloaded", ["", *VLLM_RATES], [
        [words, *(show(factor * it.unloaded[trace]) for trace in VLLM_RATES)]
        for words, factor in (("unloaded, s", 1), ("10 x", 10))])
    page.figure("fig12", plot.HEADS, list(it.points(it.sweep())))
    found = it.bound_rates(10)
    page.table("rates-10", *it.rates_table(found))
    page.table("gains", *it.gains_table(found))
