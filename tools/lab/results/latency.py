# SPDX-License-Identifier: MIT
"""Latency against rate (Fig. 12), the rate at equal latency, and tails (Fig. 13)."""
import plot
from page import latency as show, rate as show_rate, ratio

WINDOW_S = 600
# The rates of a sweep, and of vllm, which sustains less.
RATES = {"sharegpt": (0.5, 1, 2, 3, 4, 4.5, 5, 5.5, 6, 6.5, 7, 8),
         "bfcl": (0.5, 1, 2, 3, 3.5, 4, 4.5, 5),
         "lats": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1),
         "mixed": (0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.4, 1.7, 2, 2.5, 3)}
VLLM_RATES = {"sharegpt": (0.5, 1, 2, 2.5, 3, 3.5, 4, 5), "bfcl": (0.06, 0.1, 0.15, 0.2, 0.3, 0.5),
              "lats": (0.1, 0.2, 0.3, 0.4), "mixed": (0.05, 0.1, 0.2, 0.3, 0.4)}
SHOWN_MAX_S = 5
# 1.2 TB of host memory are 572,000 blocks of 16 tokens; the preset has 64 GiB.
BIG_HOST = ("--set", "kv.host_ratio=22")
MACHINES = {
    "host 1.2 TB": BIG_HOST,
    "host 64 GiB": (),
    "batch 64": ("--set", "sched.batch=64", *BIG_HOST),
    "6,500 blocks": ("--set", "kv.device_blocks=6500", "--set", "kv.host_ratio=88"),
}
CUT = ("--set", "sched.cut_steps=yes")      # what agentix has, and the paper's systems have not
SINGLE = ("sharegpt", "bfcl")               # one thread: atlas is plas
SHORT = ("vllm-opt", "mlfq", "agentix", "mlfq, cut", "srpt")
OTHERS = ("vllm", "vllm-opt", "mlfq", "vllm-opt, cut", "mlfq, cut")
PAPER = {"sharegpt": {"vllm": "8", "vllm-opt": "2", "mlfq": "1.5"},
         "bfcl": {"vllm": "8", "vllm-opt": "2", "mlfq": "1.5"},
         "lats": {"vllm": "5", "vllm-opt": "2", "mlfq": "2.5"},
         "mixed": {"vllm": "15", "vllm-opt": "5", "mlfq": "5.5"}}


def contestants():
    """Name, system or policy, settings."""
    return {"vllm": ("vllm", ()), "vllm-opt": ("vllm-opt", ()), "mlfq": ("mlfq", ()),
            "agentix": ("agentix", ()), "plas": ("plas", ()), "srpt": ("srpt", ()),
            "vllm-opt, cut": ("vllm-opt", CUT), "mlfq, cut": ("mlfq", CUT)}


def for_trace(all_of_them, trace):
    return [name for name in all_of_them if name != "plas" or trace not in SINGLE]


def mean(result, steady):
    if result is None:
        return None
    return (result["steady"] if steady else result)["token_latency_s_mean"]


LEVEL = "10 x unloaded"
PANELS = {trace: {"title": trace, "x": "programs a second", "y": "mean token latency, s",
                  "log_y": True, "log_x": trace == "bfcl", "x_zero": True} for trace in RATES}
FIGURES = {name: (plot.lines, PANELS, 2) for name in ("fig12", "fig12-steady", "fig12-small-host")}


class Latency:
    def __init__(self, runs, quick):
        self.runs, self.names = runs, contestants()
        self.window = 300 if quick else WINDOW_S
        self.step = 2 if quick else 1
        self.precision = 1.12 if quick else 1.04
        self.unloaded = {trace: self.idle(trace) for trace in RATES}

    def idle(self, trace):
        result = self.runs.run(trace, "vllm-opt", "--rate", "0.01", "--programs", "100")
        return result["token_latency_s_mean"]

    def at(self, trace, name, machine, rate, window=None):
        system, words = self.names[name]
        return self.runs.window(trace, system, rate, window or self.window, *MACHINES[machine],
                                *words)

    def rates(self, trace, name):
        return (VLLM_RATES if name == "vllm" else RATES)[trace][::self.step]

    def sweep(self, machine, step=1):
        """{(trace, name, rate): result}"""
        asked = [(trace, name, rate) for trace in RATES
                  for name in for_trace(self.names, trace)
                  for rate in self.rates(trace, name)[::step]]
        return self.runs.each(lambda trace, name, rate: self.at(trace, name, machine, rate),
                              asked)

    def points(self, sweep, steady):
        """The rows of a figure: the curves, and ten times the unloaded latency."""
        for trace in RATES:
            yield [trace, LEVEL, "", 10 * self.unloaded[trace]]
            for name in for_trace(self.names, trace):
                for rate in self.rates(trace, name):
                    value = mean(sweep.get((trace, name, rate)), steady)
                    if value is not None and value <= SHOWN_MAX_S:
                        yield [trace, name, rate, value]

    def bound_rates(self, machine, factor, steady, known=None, window=None, names=None,
                    traces=tuple(RATES)):
        """{(trace, name): rate}; known: such rates of a machine like this one, else the sweep's."""
        def search(trace, name):
            def value(rate):
                return mean(self.at(trace, name, machine, rate, window), steady)
            start = [known[trace, name]] if known and known[trace, name] else \
                self.rates(trace, name)
            return self.runs.highest_rate(value, factor * self.unloaded[trace], start,
                                          self.precision)
        return self.runs.each(search, [(trace, name) for trace in traces
                                       for name in names or for_trace(self.names, trace)])

    def rates_table(self, found, names=None):
        rows = []
        for trace in RATES:
            cells = [trace]
            for name in names or self.names:
                value = found.get((trace, name))
                cells.append("as agentix" if value is None else
                             show_rate(value) if value else "none")
            rows.append(cells)
        return ["", *(names or self.names)], rows

    def gains_table(self, groups):
        """groups: {title: found}; paper's beside ours."""
        rows = []
        for trace in RATES:
            for other in OTHERS:
                row = [trace, other, PAPER[trace].get(other, "-")]
                for found in groups.values():
                    row += [ratio(found.get((trace, name), found[trace, "agentix"]),
                                  found[trace, other]) for name in ("agentix", "plas")]
                rows.append(row)
            rows.append([trace, "(srpt over it)", "-"] + [
                ratio(found[trace, "srpt"], found.get((trace, name), found[trace, "agentix"]))
                for found in groups.values() for name in ("agentix", "plas")])
        heads = [f"{title}: {name}" for title in groups for name in ("agentix", "plas")]
        return ["", "over", "paper, up to", *heads], rows

    def tails_table(self, rates):
        """p95 and p99 where vllm-opt just keeps ten times the unloaded latency, and 15 % above."""
        wanted = [(trace, name, factor) for trace in RATES
                  for name in for_trace(self.names, trace) if name != "vllm"
                  for factor in (1, 1.15)]
        def one(trace, name, factor):
            return self.at(trace, name, "host 1.2 TB", factor * rates[trace, "vllm-opt"])
        got = self.runs.each(one, wanted)
        rows = []
        for (trace, name, factor), result in got.items():
            rows.append([trace, show_rate(factor * rates[trace, "vllm-opt"]), name,
                         *(show(result and result[f"token_latency_s_{what}"])
                           for what in ("mean", "p50", "p95", "p99"))])
        rows.sort(key=lambda row: (list(RATES).index(row[0]), float(row[1])))
        return ["", "programs a second", "", "mean", "p50", "p95", "p99"], rows


def fill_windows(page, it, quick, known):
    rows, names, traces = [], SHORT, ("sharegpt", "mixed")
    for window in (300, 600):
        found = it.bound_rates("host 1.2 TB", 10, False, known, window, names, traces)
        for name in names:
            rows.append([f"{window // 60} min", name,
                         *(show_rate(found[trace, name]) for trace in traces)])
    page.table("windows", ["window", "", *traces], rows)


def fill(page, runs, quick):
    it = Latency(runs, quick)
    page.table("unloaded", ["", *RATES], [
        [words, *(show(factor * it.unloaded[trace]) for trace in RATES)]
        for words, factor in (("unloaded, s", 1), ("3 x", 3), ("10 x", 10))])
    for machine, name in (("host 1.2 TB", "fig12"), ("host 64 GiB", "fig12-small-host")):
        sweep = it.sweep(machine, 1 if machine == "host 1.2 TB" or quick else 2)
        page.figure(name, plot.HEADS, list(it.points(sweep, False)))
        if machine == "host 1.2 TB":
            page.figure("fig12-steady", plot.HEADS, list(it.points(sweep, True)))
    found = {key: it.bound_rates("host 1.2 TB", *key)
             for key in ((10, False), (10, True), (3, False))}
    page.table("rates-10", *it.rates_table(found[10, False]))
    page.table("rates-10-steady", *it.rates_table(found[10, True]))
    page.table("rates-3", *it.rates_table(found[3, False]))
    page.table("gains", *it.gains_table({"all, 10 x": found[10, False],
                                         "steady, 10 x": found[10, True],
                                         "all, 3 x": found[3, False]}))
    page.table("tails", *it.tails_table(found[10, False]))
    for machine, name in (("host 64 GiB", "rates-small-host"), ("batch 64", "rates-batch-64"),
                          ("6,500 blocks", "rates-small-device")):
        rates = it.bound_rates(machine, 10, False, found[10, False], names=SHORT)
        page.table(name, *it.rates_table(rates, SHORT))
    fill_windows(page, it, quick, found[10, False])
