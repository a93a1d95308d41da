# SPDX-License-Identifier: MIT
"""Calls in the engine over an hour: those that run, and those that wait (Fig. 4)."""
import plot
from machine import BIG_HOST
from runs import window

RATE, SECONDS, GRAIN_S = 5.1, 3600, 60
NAMES = {"vllm-opt": "vllm-opt", "mlfq": "mlfq", "agentix": "agentix"}

FIGURES = {"fig4": (plot.lines, {
    name: {"title": f"calls that {words}", "x": "minutes", "y": "calls, mean of a minute",
           "x_zero": True, "dots": 5}
    for name, words in (("running", "run"), ("waiting", "wait"))}, 2)}


def presence(stretches, seconds):
    """Mean number of stretches that are open, for each grain of time."""
    counts = [0.0] * (seconds // GRAIN_S)
    for event in stretches:
        start, end = event["ts"] / 1e6, (event["ts"] + event["dur"]) / 1e6
        grain = int(start / GRAIN_S)
        while grain < len(counts) and grain * GRAIN_S < end:
            inside = min(end, (grain + 1) * GRAIN_S) - max(start, grain * GRAIN_S)
            counts[grain] += inside / GRAIN_S
            grain += 1
    return counts


def fill(page, runs, quick):
    seconds = SECONDS // 4 if quick else SECONDS

    def one(name):
        programs, slots = runs.events("sharegpt", NAMES[name], *window(RATE, seconds), *BIG_HOST)
        return (presence(slots, seconds),
                presence([event for event in programs if event["name"] == "wait"], seconds))
    got = runs.each(one, [(name,) for name in NAMES])
    minutes = [(i + 0.5) * GRAIN_S / 60 for i in range(seconds // GRAIN_S)]
    page.figure("fig4", plot.HEADS, [
        [panel, name, *point] for part, panel in enumerate(("running", "waiting"))
        for name in NAMES for point in zip(minutes, got[name,][part])])
    rows = []
    for name in NAMES:
        running, waiting = (values[len(minutes) // 4:] for values in got[name,])
        result = runs.run("sharegpt", NAMES[name], *window(RATE, seconds), *BIG_HOST)
        rows.append([name, f"{sum(running) / len(running):.0f}",
                     f"{sum(waiting) / len(waiting):.1f}",
                     f"{result['token_latency_s_mean']:.3g}"])
    page.table("present", ["", "running", "waiting", "mean latency, s"], rows)
