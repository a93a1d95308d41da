# SPDX-License-Identifier: MIT
"""One large program among many small ones, and how late a program can be (paper 001, theorem 1).

A round is one unit of time here, and prompts take none, as in the paper's proof."""
import functools
import math
import os
import random
import statistics

import contexts
import plot

TRACE = "taskpar"
CAPACITY = "justitia, capacity"
KV_TOKENS, BLOCK_TOKENS, CONTEXT = 7344, 16, 4096
MICE = (400, 800, 1600, 3200, 6400)
LOAD = 0.8                                  # of the KV, by mice
MOUSE = (3, 600, 100)                       # calls at once, tokens of prompt and output of each
POLICIES = {"justitia": ("justitia", ()), CAPACITY: ("justitia", (
    "--set", "sched.virtual_clock=capacity")), "srjf": ("srjf", ()), "vtc": ("vtc", ())}
LATE = {"M": 1, "4 M": 4}                   # KV, as multiples
LATE_LOAD, LATE_DEALS = 0.73, range(10)

FIGURES = {"fair-elephant": (plot.lines, {
    "elephant": {"title": "the elephant", "x": "mice", "y": "completion time, rounds",
                 "log_x": True, "x_ticks": MICE},
    "mice": {"title": "mice, mean", "x": "mice", "y": "completion time, rounds", "log_x": True,
             "x_ticks": MICE}}, 2)}


def unit(blocks):
    sets = {"kv.device_blocks": blocks, "kv.block_tokens": BLOCK_TOKENS, "sched.batch": 256,
            "limits.context_tokens": CONTEXT}
    return ("--cost", "unit",
            *(word for key, value in sets.items() for word in ("--set", f"{key}={value}")))


def cost(program):
    """In KV token-rounds, of calls that fit the context."""
    calls = []
    for line in program.lines[1:]:
        calls.append(contexts.Call(line, calls))
    return sum(prompt * call.output + call.output * (call.output + 1) // 2 for call, prompt in
               ((call, min(call.prompt, CONTEXT - call.output)) for call in calls))


def lines_of(name, at, kind, calls):
    return [f"program {name} {round(1e6 * at)} {kind}", *calls]


def write(path, folder, count):
    """So many mice, and when a hundredth of them has come the elephant, which is the largest
    program of the trace; the path of the trace."""
    calls, prompt, output = MOUSE
    gap = calls * (prompt * output + output * (output + 1) / 2) / (LOAD * KV_TOKENS)
    large = max(contexts.read(path), key=cost)
    elephant = [line.rstrip() for line in large.lines[1:]]
    mouse = [f"call {n} after=- gap=0 in=u:{prompt} out={output}" for n in range(calls)]
    lines, at, draw = ["agentix-trace 1"], 0.0, random.Random(1)
    for number in range(count):
        at -= gap * math.log(1 - draw.random())
        lines += lines_of(f"mouse-{number}", at, "mouse", mouse)
        if number == count // 100:
            lines += lines_of("elephant", at, "elephant", elephant)
    found = os.path.join(folder, f"elephant-{count}.trace")
    with open(found, "w", encoding="ascii") as file:
        file.write("\n".join(lines) + "\n")
    return os.path.abspath(found).removesuffix(".trace")


def meet(runs, traces, name, count):
    """Completion times: of the elephant, and the mean of the mice."""
    (policy, words), times = POLICIES[name], {"elephant": [], "mouse": []}
    for program in runs.programs(traces[count], policy, *unit(KV_TOKENS // BLOCK_TOKENS), *words):
        times[program["class"]].append(program["finish_s"] - program["arrival_s"])
    return times["elephant"][0], statistics.mean(times["mouse"])


def fill_elephant(page, runs):
    traces = {count: write(runs.trace(TRACE), runs.kept, count) for count in MICE}
    asked = [(policy, count) for policy in POLICIES for count in MICE]
    got = runs.each(functools.partial(meet, runs, traces), asked)
    rows, points = [], []
    for policy, count in asked:
        points += [["elephant", policy, count, got[policy, count][0]],
                   ["mice", policy, count, got[policy, count][1]]]
    for which, name in enumerate(("elephant", "mice")):
        rows += [[name, policy, *(f"{got[policy, count][which]:,.0f}" for count in MICE)]
                 for policy in POLICIES]
    page.table("justitia-elephant", ["", "", *(f"{count:,} mice" for count in MICE)], rows)
    page.figure("fair-elephant", plot.HEADS, points)


def lateness(runs, times, clock, deal):
    """Of each program, how much later than in the ideal system it ended, as a part of the bound
    2 c_max + C_max / M; c_max is the longest run of a call, one round for each of its tokens."""
    blocks, path = times * KV_TOKENS // BLOCK_TOKENS, runs.trace(TRACE)
    programs = contexts.read(path)
    costs = [cost(program) for program in programs]
    longest = max(int(line.split("out=")[1])
                  for program in programs for line in program.lines[1:])
    bound = 2 * longest + max(costs) / (times * KV_TOKENS)
    rate = LATE_LOAD * times * KV_TOKENS / statistics.mean(costs)
    found = runs.programs(TRACE, "justitia", *unit(blocks), "--rate", f"{rate:.6g}", "--seed", deal,
                          "--set", f"sched.virtual_clock={clock}")
    return [(program["finish_s"] - program["ideal_finish_s"]) / bound for program in found]


def fill_late(page, runs, dealt):
    asked = [(times, clock, deal) for times in LATE.values() for clock in ("served", "capacity")
             for deal in dealt]
    got = runs.each(functools.partial(lateness, runs), asked)
    rows = []
    for name, times in LATE.items():
        for clock in ("served", "capacity"):
            deals = [got[times, clock, deal] for deal in dealt]
            late = [value for deal in deals for value in deal]
            early = sum(value <= 0 for value in late) / len(late)
            rows.append([name, clock, f"{len(late):,}", sum(value > 1 for value in late),
                         f"{max(late):.2f}", f"{100 * early:.0f} %"])
    page.table("justitia-late", ["KV", "virtual clock", "programs", "later than the bound",
                                 "latest / bound", "not later than ideal"], rows)


def fill(page, runs, quick):
    fill_elephant(page, runs)
    fill_late(page, runs, LATE_DEALS[:1] if quick else LATE_DEALS)
