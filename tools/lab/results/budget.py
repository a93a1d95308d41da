# SPDX-License-Identifier: MIT
"""Prompt tokens of a round: the rate that each system sustains, and the time of a token."""
from latency import BIG_HOST, Latency, MACHINES, RATES, SHORT
from page import latency as show, rate as show_rate, ratio

PRESET = 2048
BUDGETS = (512, PRESET, 4096)
NAMES = (*SHORT[:2], "vllm-opt, cut", *SHORT[2:])
OVER = ("vllm-opt", "mlfq", "vllm-opt, cut", "mlfq, cut")
# A rate at which the preset is near saturation, or above it.
LOADED = {"sharegpt": 6, "lats": 0.65, "mixed": 1.5, "agents": 1, "coding": 0.15, "taskpar": 2}


def machine(budget):
    """Its name in MACHINES."""
    name = "host 1.2 TB" if budget == PRESET else f"{budget} prompt tokens"
    MACHINES.setdefault(name, ("--set", f"sched.prefill_tokens={budget}", *BIG_HOST))
    return name


def best(found, trace, name):
    return max(rates[trace, name] for rates in found.values())


def fill(page, runs, quick):
    it = Latency(runs, quick)
    found = {}
    for budget in sorted(BUDGETS, key=lambda tokens: tokens != PRESET):     # the others start there
        found[budget] = it.bound_rates(machine(budget), 10, False, found.get(PRESET), names=NAMES)
    page.table(
        "budget-rates",
        ["", "prompt tokens a round", *NAMES],
        [[trace, f"{budget:,}", *(show_rate(found[budget][trace, name]) for name in NAMES)]
         for trace in RATES for budget in BUDGETS])
    page.table(
        "budget-gains",
        ["agentix over", *(f"{at}: {name}" for at in ("both at 512", "each at its best")
                           for name in OVER)],
        [[trace, *(ratio(found[512][trace, "agentix"], found[512][trace, name]) for name in OVER),
          *(ratio(best(found, trace, "agentix"), best(found, trace, name)) for name in OVER)]
         for trace in RATES])

    def at(trace, budget, name):
        return it.at(trace, name, machine(budget), LOADED[trace])
    got = runs.each(at, [(trace, budget, name) for trace in LOADED for budget in BUDGETS
                         for name in NAMES])
    page.table(
        "budget-latency",
        ["", "programs a second", "prompt tokens a round", *NAMES],
        [[trace, show_rate(LOADED[trace]), f"{budget:,}",
          *(show(got[trace, budget, name] and got[trace, budget, name]["token_latency_s_mean"])
            for name in NAMES)] for trace in LOADED for budget in BUDGETS])
