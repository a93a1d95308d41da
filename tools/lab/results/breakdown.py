# SPDX-License-Identifier: MIT
"""The parts of a token's time: waiting, prompts, decoding, copies (Fig. 17)."""
import bars
from machine import BIG_HOST, WINDOW_S
from runs import window
from waiting import programs_of, total

ALONE = ("--block-copies",)
# By block: with a transfer for each block, as vLLM 0.6.1 has it.
NAMES = {"vllm-opt": ("vllm-opt", ()), "mlfq, by block": ("mlfq", ALONE),
         "mlfq": ("mlfq", ()), "agentix, by block": ("agentix", ALONE),
         "agentix": ("agentix", ())}
BATCH_64 = ("--set", "sched.batch=64")
LOADS = {"sharegpt, 6 a second": ("sharegpt", 6, ()), "lats, 0.45 a second": ("lats", 0.45, ()),
         "sharegpt, batch of 64, 4 a second": ("sharegpt", 4, BATCH_64)}


FIGURES = {"fig17": (bars.stacked, {
    load: {"title": load.replace(" a second", "/s"), "y": "ms a token"} for load in LOADS}, 3)}


def parts_of(calls):
    """Milliseconds for each token: the mean of the programs."""
    parts = {"waiting": 0, "prompts": 0, "decoding": 0, "copies": 0}
    programs = programs_of(calls)
    for program in programs:
        scale = 1e3 / total(program, "output_tokens") / len(programs)
        prompts, copies = total(program, "prefill_s"), total(program, "copy_s")
        parts["waiting"] += scale * total(program, "wait_s")
        parts["prompts"] += scale * prompts
        parts["copies"] += scale * copies
        parts["decoding"] += scale * (total(program, "run_s") - prompts - copies)
    return parts


def fill(page, runs, quick):
    seconds = WINDOW_S // 2 if quick else WINDOW_S

    def one(load, name):
        trace, rate, machine = LOADS[load]
        system, extra = NAMES[name]
        return parts_of(runs.calls(trace, system, *window(rate, seconds), *BIG_HOST, *machine,
                                   *extra))
    got = runs.each(one, [(load, name) for load in LOADS for name in NAMES])
    page.figure("fig17", bars.HEADS, [
        [load, "", name, part, value] for (load, name), parts in got.items()
        for part, value in parts.items()])
    rows = [[load, name, *(f"{value:.1f}" for value in got[load, name].values())]
            for load in LOADS for name in NAMES]
    page.table("breakdown", ["", "ms a token", *got[next(iter(got))]], rows)
