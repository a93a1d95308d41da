# SPDX-License-Identifier: MIT
"""One setting changed at a time, under load: sensitivity, and moves between the tiers."""
from latency import BIG_HOST
from page import latency as show

BATCH_64 = ("--set", "sched.batch=64", *BIG_HOST)
LOADS = {"sharegpt, batch 64, 4 a second": ("sharegpt", 4, BATCH_64),
         "mixed, 2 a second": ("mixed", 2, BIG_HOST),
         "bfcl, 4 a second": ("bfcl", 4, BIG_HOST),
         "lats, 1 a second": ("lats", 1, BIG_HOST)}
SENSITIVITY = (
    ("sched.beta", ("0", "2", "8", "16", "32")),
    ("sched.wait_max", ("0", "10s", "1min", "5min", "10min")),
    ("sched.quantum", ("100ms", "500ms", "1s", "2s", "8s")),
    ("sched.queues", ("2", "4", "8", "12")),
    ("sched.steps_per_plan", ("1", "4", "8", "16")),
    ("sched.cut_steps", ("no", "yes")),
    ("kv.block_tokens", ("16", "32", "64")),
)
MOVES = (
    "as it is", "sched.beta=0", "sched.beta=8", "sched.cut_steps=no",
    "sched.steps_per_plan=1", "sched.standby=0", "kv.retain_drop=0",
    "kv.retain_device=1min", "sched.prefetch=yes", "kv.host_ratio=0",
)
NEEDS = ("kv.device_blocks=26000", "kv.device_blocks=52000", "kv.device_blocks=104000")
SECONDS = 600


def words(assignment, base):
    """The base with one assignment more; blocks of more tokens are fewer."""
    key, value = assignment.split("=") if "=" in assignment else (None, None)
    more = ["--set", assignment] if key else []
    if key == "kv.block_tokens":
        more += ["--set", f"kv.device_blocks={26000 * 16 // int(value)}"]
    return (*base, *more)


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
    changes = [f"{key}={value}" for key, values in SENSITIVITY for value in values]
    asked = [(load, "agentix", change) for load in LOADS for change in changes]
    asked += [(load, "vllm-opt", "as it is") for load in LOADS]
    got = runs.each(one, asked)
    rows = [["vllm-opt", *(cell for load in LOADS
                           for cell in cells(got[load, "vllm-opt", "as it is"])[:2])]]
    rows += [[change, *(cell for load in LOADS for cell in cells(got[load, "agentix", change])[:2])]
             for change in changes]
    heads = [f"{load.split(',')[0]}: {head}" for load in LOADS for head in HEADS[:2]]
    page.table("sensitivity", ["agentix with", *heads], rows)
    load = next(iter(LOADS))
    moves = runs.each(one, [(load, "agentix", change) for change in MOVES])
    page.table("moves", ["agentix with", *HEADS],
                          [[change, *cells(moves[load, "agentix", change])]
                           for change in MOVES])
    needs = runs.each(one, [("bfcl, 4 a second", name, change)
                            for change in NEEDS for name in ("vllm-opt", "agentix")])
    page.table("bfcl-needs", ["", "", *HEADS], [[change, name, *cells(result)]
                                                  for (_, name, change), result in needs.items()])
