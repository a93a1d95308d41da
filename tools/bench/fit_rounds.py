#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The lab's preset `cpu`, fitted to rounds of the CPU engine.

    build/bench-rounds build/model-110m.gguf --threads 2 --runs 9 | tools/bench/fit_rounds.py

Reads the table of bench-rounds, which may come several times: each round counts with its least
time, because other work on the machine only adds. Fits launch, overlap, bandwidth and rate of the
formula in tools/lab/device/cost.h, so that the sum of squared logarithms of measured over modelled
is least, and prints that ratio for each round. Rounds without a row that decodes are left out: they
use no output matrix, which the model does not know.
"""
import math
import sys

WEIGHTS_BYTES, TOKEN_OPERATIONS = 440e6, 2 * 110e6      # as in tools/lab/device/cost.c
POSITION_BYTES, PAIR_OPERATIONS = 2.0 * 12 * 768 * 4, 4.0 * 12 * 768
POSITIONS = 256                                         # of a row before the round


def read_table(lines):
    table = {}
    for line in lines:
        if line.startswith("#") or not line.strip():
            continue
        prompt, rows, least_ms, _ = line.split()
        key = int(prompt), int(rows)
        table[key] = min(table.get(key, math.inf), float(least_ms) / 1e3)
    return {key: taken for key, taken in table.items() if key[1] > 0}


def modelled(key, launch, overlap, bandwidth, rate):
    prompt, rows = key
    positions = prompt + rows * (POSITIONS + 1)
    pairs = prompt * (prompt + 1) / 2 + rows * (POSITIONS + 1)
    read = (WEIGHTS_BYTES + positions * POSITION_BYTES) / bandwidth
    compute = ((prompt + rows) * TOKEN_OPERATIONS + pairs * PAIR_OPERATIONS) / rate
    return launch + max(read, compute) + (1 - overlap) * min(read, compute)


def loss(table, point):
    launch, overlap, bandwidth, rate = point
    if launch < 0 or not 0 <= overlap <= 1 or min(bandwidth, rate) <= 0:
        return math.inf
    return sum(math.log(taken / modelled(key, *point)) ** 2 for key, taken in table.items())


def fit(table):
    """Coordinate by coordinate, with steps that shrink; from several starts."""
    best = None
    for overlap in (0.0, 0.5, 1.0):
        point, steps = [1e-3, overlap, 40e9, 300e9], [1e-3, 0.2, 10e9, 100e9]
        value = loss(table, point)
        while max(s / scale for s, scale in zip(steps, (1e-3, 1, 40e9, 300e9))) > 1e-5:
            moved = False
            for i in range(len(point)):
                for step in (steps[i], -steps[i]):
                    tried = point[:i] + [point[i] + step] + point[i + 1:]
                    if loss(table, tried) < value:
                        point, value, moved = tried, loss(table, tried), True
            if not moved:
                steps = [step / 2 for step in steps]
        best = min(best or (value, point), (value, point))
    return best[1]


def main():
    table = read_table(sys.stdin)
    point = fit(table)
    spread = math.sqrt(loss(table, point) / len(table))
    print(f"launch {point[0] * 1e3:.2f} ms, overlap {point[1]:.2f}, {point[2] / 1e9:.1f} GB/s, "
          f"{point[3] / 1e9:.0f} GFLOP/s; "
          f"off by {100 * math.expm1(spread):.0f} % (root mean square)")
    prompts, rows = (sorted({key[i] for key in table}) for i in (0, 1))
    print("| prompt tokens | " + " | ".join(f"{r} rows" for r in rows) + " |")
    print("|---" * (len(rows) + 1) + "|")
    for prompt in prompts:
        ratios = [f"{table[prompt, r] / modelled((prompt, r), *point):.2f}" for r in rows]
        print(f"| {prompt} | " + " | ".join(ratios) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
