# SPDX-License-Identifier: MIT
"""Offline: all programs at once, and the time until the last one ends (Fig. 16)."""
import plot
from machine import BIG_HOST

PROGRAMS = (1000, 2000, 4000)
MACHINES = {"host 1.2 TB": BIG_HOST, "host 64 GiB": ()}
NAMES = ("vllm", "vllm-opt", "mlfq", "agentix")

FIGURES = {"fig16": (plot.lines, {
    machine: {"title": machine, "x": "programs", "y": "makespan, s"} for machine in MACHINES}, 2)}


def fill(page, runs, quick):
    sizes = PROGRAMS[::2] if quick else PROGRAMS

    def one(machine, name, programs):
        return runs.run("sharegpt", name, "--offline", "--programs", programs,
                        *MACHINES[machine])
    got = runs.each(one, [(m, n, p) for m in MACHINES for n in NAMES for p in sizes])
    points, rows = [], []
    for machine in MACHINES:
        points += [[machine, name, p, got[machine, name, p]["makespan_s"]] for name in NAMES
                   for p in sizes if got[machine, name, p]]
        for name in NAMES:
            results = [got[machine, name, p] for p in sizes]
            last = results[-1]
            rows.append([machine, name, *(f"{r['makespan_s']:,.0f}" if r else "refused"
                                          for r in results),
                         *(("-",) * 3 if not last else
                           (f"{last['prefix_hit_ratio']:.2f}", f"{last['preemptions']:,}",
                            f"{last['swap_in_blocks']:,}"))])
    page.figure("fig16", plot.HEADS, points)
    page.table("makespans", ["machine", "", *(f"{p:,}" for p in sizes), "prefix hits",
                               "preemptions", "blocks in"], rows)
