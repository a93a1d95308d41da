# SPDX-License-Identifier: MIT
"""Swaps where the device has a quarter of its blocks: decisions, standbys, retention, and how the
blocks travel (Fig. 18)."""
from machine import WINDOW_S
from page import latency as show

MACHINE = ("--set", "kv.device_blocks=6500", "--set", "kv.host_ratio=88", "--set",
           "sched.batch=128")
BLOCK_BYTES = 16 * 131072                   # of Llama 3.1 8B: 16 positions
STEPS = {"decides at every step": ("sched.steps_per_plan=1", "sched.standby=0", "kv.retain_drop=0"),
         "+ multi-step: every 8": ("sched.cut_steps=no", "sched.standby=0", "kv.retain_drop=0"),
         "+ over-provisioning": ("sched.cut_steps=no", "kv.retain_drop=0"),
         "+ retention": ("sched.cut_steps=no",)}
ONLY = {"every step, with retention": ("sched.steps_per_plan=1", "sched.standby=0"),
        "as shipped: steps may end early": ()}
RATES = (2.5, 3, 3.5, 4)
RATE = 3.5
TURNS = ("--set", "sched.quantum=1us")
TURNS_SECONDS = 200


def words(assignments, *more):
    return [*MACHINE, *(word for value in assignments for word in ("--set", value)), *more]


def swaps(result):
    """Of calls: blocks lost to another call, and blocks back after that."""
    return result["preemptions"] + result["swap_back_calls"]


def times(base, value):
    return "-" if value == 0 else f"{base / value:.1f} x"


def cells(result, base):
    blocks = result["swap_out_blocks"] + result["swap_in_blocks"]
    history = result["swap_in_calls"] - result["swap_back_calls"]
    return [f"{swaps(result):,}", times(swaps(base), swaps(result)), f"{history:,}",
            f"{result['swap_transfers']:,}", f"{blocks:,}", f"{blocks * BLOCK_BYTES / 1e9:,.0f}",
            f"{result['copy_s']:.0f}", f"{result['tokens_computed'] / 1e6:.1f}",
            show(result["token_latency_s_mean"]), f"{result['makespan_s']:,.0f}"]


HEADS = ["swaps of calls", "fewer", "histories in", "transfers", "blocks", "GB", "copying, s",
         "M tokens fed", "mean latency, s", "makespan, s"]


def fill(page, runs, quick):
    seconds = WINDOW_S // 2 if quick else WINDOW_S
    variants = {**STEPS, **ONLY}

    def one(name, rate, *more):
        return runs.window("sharegpt", "agentix", rate, seconds, *words(variants[name], *more))
    first, last = list(STEPS)[0], list(STEPS)[-1]
    got = runs.each(one, [(name, RATE, *more) for name in variants
                          for more in ((), ("--block-copies",))] +
                    [(name, rate) for name in (first, last) for rate in RATES])
    page.table("swaps", ["", *HEADS], [[name, *cells(got[name, RATE], got[first, RATE])]
                                         for name in variants])
    rows = []
    for name in variants:
        bulk, alone = got[name, RATE], got[name, RATE, "--block-copies"]
        blocks = alone["swap_out_blocks"] + alone["swap_in_blocks"]
        rows.append([name, f"{blocks:,}", f"{bulk['swap_transfers']:,}", f"{alone['copy_s']:.0f}",
                     f"{bulk['copy_s']:.0f}", f"{alone['makespan_s']:,.0f}",
                     f"{bulk['makespan_s']:,.0f}"])
    page.table("swap-copies", ["", "transfers: block by block", "transfers: in bulk",
                                 "copying, s: block by block", "copying, s: in bulk",
                                 "makespan, s: block by block", "makespan, s: in bulk"], rows)
    rows = []
    for rate in RATES:
        base, ours = got[first, rate], got[last, rate]
        rows.append([f"{rate:g}", f"{swaps(base):,}", f"{swaps(ours):,}",
                     times(swaps(base), swaps(ours)),
                     f"{ours['swap_in_calls'] - ours['swap_back_calls']:,}",
                     times(swaps(base), ours["preemptions"] + ours["swap_in_calls"]),
                     show(base["token_latency_s_mean"]), show(ours["token_latency_s_mean"])])
    page.table(
        "swap-rates", ["programs a second", "swaps: every step", "swaps: all three", "fewer",
                       "histories in", "fewer, these counted", "mean latency, s: every step",
                       "mean latency, s: all three"], rows)
    fill_turns(page, runs)


def fill_turns(page, runs):
    """A scheduler without levels: a call that has had its turn goes last."""
    def turn(name):
        return runs.window("sharegpt", "rr", RATE, TURNS_SECONDS, *words(STEPS[name], *TURNS))
    names = list(STEPS)
    got = runs.each(turn, [(name,) for name in names])
    got[("plas",)] = runs.window("sharegpt", "agentix", RATE, TURNS_SECONDS, *words(()))
    rows = [[title, *cells(result, got[names[0],])] for title, result in
            [*((f"round-robin: {name}", got[name,]) for name in names),
             ("agentix: all three", got["plas",])]]
    page.table("swap-turns", ["", *HEADS], rows)
