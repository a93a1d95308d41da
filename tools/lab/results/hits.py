# SPDX-License-Identifier: MIT
"""The cached part of a prompt, by its length: from its own program and from others (Fig. 7)."""
import plot
from machine import BIG_HOST
from runs import window

LOADS = {"sharegpt": 2, "lats": 0.3, "bfcl": 1}
SECONDS = 600
SHARING = {"own program": "program", "all programs": "domain"}
LEAST = 20


FIGURES = {"fig7": (plot.lines, {
    trace: {"title": trace, "x": "prompt tokens", "y": "share that is cached", "log_x": True,
            "y_shows": [1]} for trace in LOADS}, 3)}


def grouped(calls):
    """Calls by prompt length, doubling: {number: calls}."""
    found = {}
    for call in calls:
        found.setdefault(int(call["prompt_tokens"]).bit_length(), []).append(call)
    return {number: group for number, group in sorted(found.items()) if len(group) >= LEAST}


def point(group):
    prompts = sum(call["prompt_tokens"] for call in group)
    return prompts / len(group), sum(call["cached_tokens"] for call in group) / prompts


def first_calls(calls):
    """Their cached tokens come from other programs: their own has no past."""
    return [call for call in calls if call["call"] == 0]


def fill(page, runs, quick):
    def one(trace, sharing):
        return runs.calls(trace, "agentix", *window(LOADS[trace], SECONDS), *BIG_HOST,
                          "--set", f"kv.sharing={SHARING[sharing]}")
    got = runs.each(one, [(trace, sharing) for trace in LOADS for sharing in SHARING])
    points, rows = [], []
    for trace in LOADS:
        lines = {sharing: [point(group) for group in grouped(got[trace, sharing]).values()]
                 for sharing in SHARING}
        lines["other programs: first calls"] = [
            point(group) for group in grouped(first_calls(got[trace, "all programs"])).values()]
        points += [[trace, name, *xy] for name, line in lines.items() for xy in line]
        later = {sharing: [call for call in got[trace, sharing] if call["call"] > 0]
                 for sharing in SHARING}
        rows.append([trace, *(f"{100 * point(got[trace, sharing])[1]:.0f} %"
                              for sharing in SHARING),
                     *(f"{100 * point(later[sharing])[1]:.0f} %" for sharing in SHARING),
                     f"{100 * point(first_calls(got[trace, 'all programs']))[1]:.0f} %"])
    page.figure("fig7", plot.HEADS, points)
    page.table("hits", ["", *(f"all calls: {name}" for name in SHARING),
                          *(f"but the first: {name}" for name in SHARING),
                          "first calls: all programs"], rows)
