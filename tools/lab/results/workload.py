# SPDX-License-Identifier: MIT
"""The contents of the traces (Fig. 11)."""
import statistics

PAPER = {"sharegpt": ("6.66", "256", "277"), "bfcl": ("10.75", "735", "34"),
         "lats": ("159.7", "467", "73"), "mixed": ("-", "-", "-")}


def programs(path):
    """Of each program a list of (prompt tokens, output tokens)."""
    found = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if line.startswith("program"):
                found.append([])
            elif line.startswith("call"):
                ins = next(word[3:] for word in words if word.startswith("in="))
                out = int(next(word[4:] for word in words if word.startswith("out=")))
                found[-1].append((sum(part_tokens(part, found[-1]) for part in ins.split("+")),
                                  out))
    return found


def part_tokens(part, calls):
    """s:name:n, u:n, p:call[:n], o:call[:n]"""
    kind, *rest = part.split(":")
    if kind in ("s", "u"):
        return int(rest[-1])
    return int(rest[1]) if len(rest) > 1 else calls[int(rest[0])]["po".index(kind)]


def left(work, share):
    """Mean output still to come of those that outlive this share of the programs, over the mean."""
    work = sorted(work)
    at = work[int(share * len(work))]
    longer = [value - at for value in work if value > at]
    return f"{statistics.mean(longer) / statistics.mean(work):.2f}"


def fill(page, runs, quick):
    rows = []
    for trace, paper in PAPER.items():
        found = programs(runs.trace(trace))
        calls = [call for program in found for call in program]
        work = [sum(out for _, out in program) for program in found]
        rows.append([trace, f"{len(found):,}", f"{len(calls) / len(found):.1f}", paper[0],
                     max(map(len, found)), f"{statistics.mean(c[0] for c in calls):,.0f}",
                     paper[1], f"{statistics.mean(c[1] for c in calls):,.0f}", paper[2],
                     f"{statistics.pstdev(work) / statistics.mean(work):.2f}",
                     *(left(work, share) for share in (0.1, 0.5, 0.9))])
    page.table("workload", ["", "programs", "calls a program", "paper", "most",
                              "prompt of a call", "paper", "output of a call", "paper",
                              "spread of a program's output", "left at 10 %", "at 50 %",
                              "at 90 %"], rows)
