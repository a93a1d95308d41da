# SPDX-License-Identifier: MIT
"""Fair agents (paper 001): policies that do not preempt, on a machine where KV is short.

Each place is run with the programs of taskpar dealt anew over its arrivals, DEALS times; a figure
of the page is the mean over deals. A program's fair ratio is its completion time over that under
vtc."""
import itertools
import statistics

import elephant
import plot
from page import latency as show

TRACE, MACHINE = "taskpar", ("--cost", "a100-llama-2-7b")
RATES = (1.1, 0.56, 0.28, 0.19)             # programs a second
DEALS = range(5)
BASE, OURS = "vtc", "justitia"
POLICIES = (BASE, OURS, "srjf", "sjf", "fcfs", "fcfs-agent", "justitia-c", "atlas")
SHOWN = (BASE, OURS, "srjf", "sjf", "fcfs", "fcfs-agent")
FACTORS = (1, 2, 3, 10)
KNOWN = {"oracle": (), "class": ("--predict", "class"), "name": ("--predict", "name"),
         "none": ("--predict", "none"),
         "class, no retag": ("--predict", "class", "--set", "sched.retag=no"),
         "none, no retag": ("--predict", "none", "--set", "sched.retag=no"),
         "oracle, capacity": ("--set", "sched.virtual_clock=capacity")}
ROOM_RATE, ROOM, HOST_BLOCKS = 0.28, (459, 918, 1836, 3672, 26000), 8192
ROOM_POLICIES = (BASE, OURS, "srjf", "fcfs", "plas")
EQUAL = 1.01                                # a ratio up to which a program counts as not delayed
QUANTILES = 100
CDF_RATES = (1.1, 0.28)

FIGURES = {
    "fair-rates": (plot.lines, {
        "mean": {"title": "mean completion time", "x": "programs a second", "y": "seconds",
                 "log_x": True, "log_y": True, "x_ticks": RATES},
        "p90": {"title": "90th percentile", "x": "programs a second", "y": "seconds",
                "log_x": True, "log_y": True, "x_ticks": RATES}}, 2),
    "fair-ratios": (plot.lines, {
        str(rate): {"title": f"{rate} programs a second", "x": "completion time / that under vtc",
                    "y": "share of programs, %", "log_x": True, "x_ticks": (0.1, 1, 10, 100),
                    "dots": 12, "y_shows": [0, 100]} for rate in CDF_RATES}, 2),
    "fair-errors": (plot.lines, {
        str(rate): {"title": f"{rate} programs a second", "x": "error factor L",
                    "y": "mean completion time, % of vtc's", "log_x": True, "x_ticks": FACTORS,
                    "y_shows": [0, 100]} for rate in RATES[1:]}, 3),
    **elephant.FIGURES,
}


def completion(programs):
    """Of each program, in seconds."""
    return [program["finish_s"] - program["arrival_s"] for program in programs]


class Places:
    def __init__(self, runs, quick):
        self.runs, self.got = runs, {}
        self.deals = DEALS[:1] if quick else DEALS

    def run(self, policy, rate, words, deal):
        return completion(self.runs.programs(TRACE, policy, *MACHINE, "--rate", rate, *words,
                                             "--seed", deal))

    def ask(self, places):
        """(policy, rate, words): the completion times of each deal."""
        asked = [(*place, deal) for place in places for deal in self.deals]
        got = self.runs.each(self.run, asked)
        for place in places:
            self.got[place] = [got[(*place, deal)] for deal in self.deals]

    def load(self, rate):
        """Of the KV, as the lab states it."""
        return self.runs.run(TRACE, BASE, *MACHINE, "--rate", rate)["load"]

    def mean(self, *place):
        return statistics.mean(map(statistics.mean, self.got[place]))

    def p90(self, *place):
        return statistics.mean(statistics.quantiles(times, n=10)[8] for times in self.got[place])

    def against_base(self, policy, rate, words=()):
        """Mean completion time, as a part of vtc's: the mean over deals."""
        return statistics.mean(
            statistics.mean(times) / statistics.mean(base) for times, base in
            zip(self.got[policy, rate, words], self.got[BASE, rate, ()]))

    def ratios(self, policy, rate):
        """Fair ratios of the programs, by deals."""
        return [[mine / fair for mine, fair in zip(times, base)] for times, base in
                zip(self.got[policy, rate, ()], self.got[BASE, rate, ()])]


def percent(value):
    return f"{value:.0f} %"


def points(value):
    return f"{value:.1f} %"


def fill_rates(page, places):
    places.ask(list(itertools.product(POLICIES, RATES, [()])))
    rows, curve = [], []
    for rate in RATES:
        rows.append([rate, f"{places.load(rate):.2f}", show(places.mean(BASE, rate, ())),
                     *(points(100 * places.against_base(policy, rate) - 100)
                       for policy in POLICIES[1:])])
    for policy, rate in itertools.product(SHOWN, sorted(RATES)):
        curve.append(["mean", policy, rate, places.mean(policy, rate, ())])
        curve.append(["p90", policy, rate, places.p90(policy, rate, ())])
    page.table("justitia-rates", ["programs a second", "load", "vtc, s", *POLICIES[1:]], rows)
    page.figure("fair-rates", plot.HEADS, curve)


def not_delayed(deals):
    return statistics.mean(100 * sum(ratio <= EQUAL for ratio in ratios) / len(ratios)
                           for ratios in deals)


def fill_fair(page, places):
    rows, curve = [], []
    for rate, policy in itertools.product(RATES, SHOWN[1:]):
        deals = places.ratios(policy, rate)
        worst = sorted(max(ratios) for ratios in deals)
        rows.append([rate, policy, percent(not_delayed(deals)),
                     show(statistics.median(worst)), show(worst[-1])])
    for rate, policy in itertools.product(CDF_RATES, SHOWN[1:]):
        ratios = sorted(itertools.chain(*places.ratios(policy, rate)))
        curve += [[rate, policy, ratios[share * (len(ratios) - 1) // QUANTILES], share]
                  for share in range(QUANTILES + 1)]
    page.table("justitia-fair", ["programs a second", "", "not delayed", "worst ratio, median",
                                 "worst ratio"], rows)
    page.figure("fair-ratios", plot.HEADS, curve)


def fill_errors(page, places):
    words = {factor: ("--cost-error", factor) if factor > 1 else () for factor in FACTORS}
    places.ask(list(itertools.product((OURS, "srjf"), RATES, words.values())))
    rows, curve = [], []
    for rate, policy in itertools.product(RATES, (OURS, "srjf")):
        told = {factor: places.against_base(policy, rate, words[factor]) for factor in FACTORS}
        rows.append([rate, policy, *(points(100 * told[factor] / told[1] - 100)
                                     for factor in FACTORS[1:])])
        curve += [[rate, policy, factor, 100 * told[factor]] for factor in FACTORS
                  if rate in RATES[1:]]
    page.table("justitia-errors", ["programs a second", "", *(f"L = {f}" for f in FACTORS[1:])],
               rows)
    page.figure("fair-errors", plot.HEADS, curve)


def fill_known(page, places):
    places.ask(list(itertools.product([OURS], RATES, KNOWN.values())))
    rows = [[rate, *(points(100 * places.against_base(OURS, rate, words) - 100)
                     for words in KNOWN.values())] for rate in RATES]
    page.table("justitia-known", ["programs a second", *KNOWN], rows)


def fill_room(page, places):
    """With more KV, and a host tier that stays the same."""
    words = {blocks: ("--set", f"kv.device_blocks={blocks}", "--set",
                      f"kv.host_ratio={HOST_BLOCKS / blocks:.3f}") for blocks in ROOM}
    places.ask(list(itertools.product(ROOM_POLICIES, [ROOM_RATE], words.values())))
    rows = [[f"{blocks:,}", *(show(places.mean(policy, ROOM_RATE, words[blocks]))
                              for policy in ROOM_POLICIES)] for blocks in ROOM]
    page.table("justitia-room", ["KV blocks", *(f"{policy}, s" for policy in ROOM_POLICIES)], rows)


def fill(page, runs, quick):
    places = Places(runs, quick)
    fill_rates(page, places)
    fill_fair(page, places)
    fill_errors(page, places)
    fill_known(page, places)
    fill_room(page, places)
    elephant.fill(page, runs, quick)
