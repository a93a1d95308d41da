# SPDX-License-Identifier: MIT
"""How much of their time calls and programs wait, by load and by length (Fig. 5 and 6)."""
import bars
import plot
from machine import BIG_HOST, WINDOW_S
from runs import window

NAMES = {"fcfs": "vllm-opt", "mlfq": "mlfq", "agentix": "agentix"}
LOADS = {"sharegpt": (3, 5, 6, 7), "bfcl": (2, 3.5, 4, 4.5), "lats": (0.3, 0.5, 0.65, 0.8)}
LENGTHS_AT = {"sharegpt": 6, "lats": 0.65}
LEAST = 20                                  # calls or programs of a point

LENGTHS = {"calls": "output tokens of a call", "programs": "calls of a program"}
FIGURES = {
    "fig5": (bars.stacked, {trace: {"title": trace, "y": "seconds of a program, mean",
                                    "x": "programs a second"} for trace in LOADS}, 3),
    "fig6": (plot.lines, {
        f"{trace}, {things}": {"title": f"{trace} at {rate:g} a second: {things}", "x": words,
                               "y": "waiting / execution", "log_x": True}
        for trace, rate in LENGTHS_AT.items() for things, words in LENGTHS.items()}, 2)}


def programs_of(calls):
    found = {}
    for call in calls:
        found.setdefault(call["program"], []).append(call)
    return list(found.values())


def total(calls, name):
    return sum(call[name] for call in calls)


def share(calls):
    waited, ran = total(calls, "wait_s"), total(calls, "run_s")
    return waited / (waited + ran)


def ratios(things, length):
    """[(mean length, waiting over execution)] of things (lists of calls) by length, doubling."""
    found = {}
    for calls in things:
        found.setdefault(int(length(calls)).bit_length(), []).append(calls)
    points = []
    for _, group in sorted(found.items()):
        if len(group) >= LEAST:
            points.append((sum(map(length, group)) / len(group),
                           sum(total(calls, "wait_s") for calls in group) /
                           sum(total(calls, "run_s") for calls in group)))
    return points


def output(calls):
    return calls[0]["output_tokens"]


def fill_loads(page, got):
    bars_of, rows = [], []
    for trace, rates in LOADS.items():
        for rate in rates:
            for name in NAMES:
                calls = got[trace, name, rate]
                count = len(programs_of(calls))
                bars_of += [[trace, f"{rate:g}", name, part, total(calls, timed) / count]
                            for part, timed in (("execution", "run_s"), ("waiting", "wait_s"))]
            shares = [[share(program) for program in programs_of(got[trace, name, rate])]
                      for name in NAMES]
            rows.append([trace, f"{rate:g}",
                         *(f"{100 * share(got[trace, name, rate]):.0f} %" for name in NAMES),
                         *(f"{100 * sum(values) / len(values):.0f} %" for values in shares)])
    page.figure("fig5", bars.HEADS, bars_of)
    page.table("waiting", ["", "programs a second", *(f"all time: {name}" for name in NAMES),
                             *(f"mean of programs: {name}" for name in NAMES)], rows)


def fill(page, runs, quick):
    seconds = WINDOW_S // 2 if quick else WINDOW_S

    def one(trace, name, rate):
        return runs.calls(trace, NAMES[name], *window(rate, seconds), *BIG_HOST)
    got = runs.each(one, [(trace, name, rate) for trace in LOADS for rate in LOADS[trace]
                          for name in NAMES] +
                    [(trace, name, rate) for trace, rate in LENGTHS_AT.items() for name in NAMES
                     if rate not in LOADS[trace]])
    fill_loads(page, got)
    page.figure("fig6", plot.HEADS, [
        [f"{trace}, {things}", name, *point] for trace, rate in LENGTHS_AT.items()
        for things, split, length in (("calls", lambda calls: [[call] for call in calls], output),
                                      ("programs", programs_of, len))
        for name in NAMES for point in ratios(split(got[trace, name, rate]), length)])
