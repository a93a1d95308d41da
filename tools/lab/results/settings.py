# SPDX-License-Identifier: MIT
"""One setting changed at a time, under load: sensitivity, and moves between the tiers."""
from machine import BIG_HOST
from page import latency as show

LOADS = {"sharegpt, 6 a second": ("sharegpt", 6, BIG_HOST),
         "mixed, 1.2 a second": ("mixed", 1.2, BIG_HOST),
         "bfcl, 5 a second": ("bfcl", 5, BIG_HOST),
         "lats, 0.45 a second": ("lats", 0.45, BIG_HOST),
         "taskpar, 2 a second": ("taskpar", 2, BIG_HOST)}
AS_IT_IS = "as it is"
SENSITIVITY = (
    ("sched.service", ("snapshot",)),
    ("sched.beta", ("0", "8")),
    ("sched.wait_max", ("0", "10s", "1min")),
    ("sched.quantum", ("100ms", "8s")),
    ("sched.queues", ("4", "12")),
    ("sched.steps_per_plan", ("1",)),
    ("sched.cut_steps", ("no",)),
)
MOVES = (
    AS_IT_IS, "sched.beta=0", "sched.beta=8", "sched.cut_steps=no",
    "sched.steps_per_plan=1", "sched.standby=0", "kv.retain_drop=0",
    "kv.retain_device=1min", "sched.prefetch=yes", "kv.host_ratio=0",
)
SECONDS = 600


def words(assignment, base):
    """The base with one assignment more."""
    return base if assignment == AS_IT_IS else (*base, "--set", assignment)


def cells(result):
    if result is None:
        return ["refused"] + ["-"] * 6
    return [show(result["token_latency_s_mean"]), show(result["token_latency_s_p99"]),
            f"{result['makespan_s']:,.0f}", f"{result['preemptions']:,}",
            f"{result['swap_out_blocks']:,}", f"{result['swap_in_blocks']:,}",
            f"{result['swap_transfers']:,}"]


HEADS = ["mean, s", "p99, s", "makespan, s", "preemptions", "blocks out", "blocks in", "transfers"]


def fill(page, runs, quick):
    seconds = SECONDS // 2 if quick else SECONDS

    def one(load, system, assignment):
        trace, rate, base = LOADS[load]
        return runs.window(trace, system, rate, seconds, *words(assignment, base))
    changes = [AS_IT_IS] + [f"{key}={value}" for key, values in SENSITIVITY for value in values]
    asked = [(load, "agentix", change) for load in LOADS for change in changes]
    asked += [(load, "vllm-opt", AS_IT_IS) for load in LOADS]
    got = runs.each(one, asked)
    rows = [["vllm-opt", *(cell for load in LOADS
                           for cell in cells(got[load, "vllm-opt", AS_IT_IS])[:2])]]
    rows += [[change, *(cell for load in LOADS for cell in cells(got[load, "agentix", change])[:2])]
             for change in changes]
    heads = [f"{load.split(',')[0]}: {head}" for load in LOADS for head in HEADS[:2]]
    page.table("sensitivity", ["agentix with", *heads], rows)
    load = next(iter(LOADS))
    moves = runs.each(one, [(load, "agentix", change) for change in MOVES])
    page.table("moves", ["agentix with", *HEADS],
                          [[change, *cells(moves[load, "agentix", change])]
                           for change in MOVES])
