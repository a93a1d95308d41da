#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What: how far the orders are from the best schedule, by the cost model: an offline tool.

  tools/lab/flow/optimum.py [--seconds 60] [--kv-tokens M] [--flows N] [--agx build/agx]

It needs highspy (PyPI), in an environment outside the repository. The schedule is a mixed integer
program: who follows whom, and when each job starts. Where HiGHS cannot prove the optimum in its
time, the best known stands for it: the better one of HiGHS's and of an iterated local search.

Two tables. Operators of random flows, N of them: what `agx flow --explain` says of helium and auto,
and the reference's baselines. Calls of the paper's small workloads (table 6: rows of a batch are
calls of their own), in the order in which they would be released.
"""
import argparse
import random
import statistics
import subprocess
import tempfile

import highspy

import flows
import optimise
import orders
from flow_file import read_flow
from random_flows import random_flow

BASELINES = ("lspf", "arrival", "random", "opwise", "querywise")
SCALE = 1e-6                        # of token steps, for the solver's tolerances


class Program:
    """The schedule of some jobs as a mixed integer program."""

    def __init__(self, jobs, seconds, known):
        self.jobs, self.count = jobs, len(jobs)
        self.big = jobs.steps(known) * SCALE
        self.model = highspy.Highs()
        self.model.setOptionValue("output_flag", False)
        self.model.setOptionValue("time_limit", float(seconds))
        self.model.setOptionValue("mip_rel_gap", 1e-6)
        self.variables()
        self.constraints()
        self.hint(known)

    def variables(self):
        """follows[i, j]: j comes right after i, -1: first; before[i, j]: somewhere before."""
        m, n = self.model, range(self.count)
        self.follows = {(i, j): m.addBinary() for i in (-1, *n) for j in n if i != j}
        self.before = {(i, j): m.addBinary() for i in n for j in n if i < j}
        self.start = [m.addVariable(lb=0, ub=self.big) for _ in n]
        self.end = m.addVariable(lb=0, ub=self.big)

    def is_before(self, i, j):
        return self.before[i, j] if i < j else 1 - self.before[j, i]

    def use(self, j):
        """Token steps of j, by the job before it."""
        return sum(SCALE * self.jobs.use(i if i >= 0 else None, j) * self.follows[i, j]
                   for i in (-1, *range(self.count)) if i != j)

    def constraints(self):
        m, n, jobs = self.model, range(self.count), self.jobs
        m.addConstr(sum(self.follows[-1, j] for j in n) == 1)
        for j in n:
            m.addConstr(sum(self.follows[i, j] for i in (-1, *n) if i != j) == 1)
            if self.count > 1:
                m.addConstr(sum(self.follows[j, k] for k in n if k != j) <= 1)
            m.addConstr(self.end >= self.start[j] + self.use(j))
            for d in jobs.depends[j]:
                m.addConstr(self.start[j] >= self.start[d] + self.use(d) +
                            SCALE * jobs.kv_tokens * jobs.out[d])
                m.addConstr(self.is_before(d, j) == 1)
        for i in n:
            for j in n:
                if i != j:
                    m.addConstr(self.start[j] >= self.start[i] + self.use(i) -
                                self.big * (1 - self.is_before(i, j)))
                    m.addConstr(self.follows[i, j] <= self.is_before(i, j))
        m.addConstr(self.end >= sum(self.use(j) for j in n))

    def hint(self, order):
        """The solver begins at a schedule that is known."""
        values = [0.0] * self.model.getNumCol()
        pairs = set(zip([-1] + order, order))
        for pair, variable in self.follows.items():
            values[variable.index] = float(pair in pairs)
        for (i, j), variable in self.before.items():
            values[variable.index] = float(order.index(i) < order.index(j))
        now, completion, last = 0, {}, None
        for job in order:
            begin = max(now, self.jobs.earliest(job, completion))
            values[self.start[job].index] = begin * SCALE
            now = completion[job] = begin + self.jobs.use(last, job)
            last = job
        values[self.end.index] = now * SCALE
        solution = highspy.HighsSolution()
        solution.col_value = values
        self.model.setSolution(solution)

    def solve(self):
        """(token steps of its best schedule, a lower bound of any)"""
        self.model.minimize(self.end)
        values = self.model.getSolution().col_value
        order = sorted(range(self.count), key=lambda j: values[self.start[j].index])
        info = self.model.getInfo()
        return self.jobs.steps(order), info.mip_dual_bound / SCALE


def best(jobs, starts, words):
    """(token steps of the best known schedule, True when no schedule is better)"""
    known = orders.best_known(jobs, starts, words.kicks)
    steps = jobs.steps(known)
    if len(jobs) > words.solve_up_to:
        return steps, False
    found, bound = Program(jobs, words.seconds, known).solve()
    steps = min(steps, found or steps)
    return steps, bound >= steps * (1 - 1e-5)


def gap(steps, least):
    return 100 * (steps / least - 1)


def of_calls(words):
    """Rows of the first table: the paper's small workloads."""
    draw = random.Random(1)
    for name, (text, _) in flows.flows(small=True).items():
        workflow = optimise.build(read_flow(text))
        rows = 4 if "mmlu" in name else 2
        scales = [round(100 * draw.lognormvariate(0, 0.3)) for _ in range(rows)]
        jobs = orders.jobs_of(workflow, words.kv_tokens, scales)
        chosen = {"helium": optimise.Helium(workflow, words.kv_tokens).cost.order,
                  "auto": orders.auto(workflow, words.kv_tokens)}
        made = {n: jobs.steps(orders.release(jobs, orders.by_sequences(workflow, o, 16)))
                for n, o in chosen.items()}
        starts = orders.greedy(jobs)
        for other in BASELINES:
            seeds = range(1, 21) if other == "random" else (1,)
            made[other] = statistics.mean(jobs.steps(orders.baseline(jobs, other, seed))
                                          for seed in seeds)
        least, proven = best(jobs, starts, words)
        yield name, len(jobs), least, proven, {n: gap(s, least) for n, s in made.items()}


def explained(agx, seed, kv_tokens, order):
    """Token steps as the appliance's optimiser says."""
    with tempfile.NamedTemporaryFile("w", suffix=".flow", encoding="utf-8") as file:
        file.write(random_flow(seed))
        file.flush()
        said = subprocess.run([agx, "flow", "--explain", "--order", order, "--kv-tokens",
                               str(kv_tokens), file.name], capture_output=True, text=True,
                              check=True).stdout
    return int(said.split()[-1])


def of_operators(words):
    """Rows of the second: random flows of four operators and more."""
    seed = 0
    for _ in range(words.flows):
        workflow = None
        while workflow is None or len(workflow.ops) < 4:
            seed += 1
            workflow = optimise.build(read_flow(random_flow(seed)))
        kv_tokens = (300, 1000, 4096, 40000)[seed % 4]
        jobs = orders.jobs_of(workflow, kv_tokens)
        helium = optimise.Helium(workflow, kv_tokens).cost.order
        greedy = orders.greedy(jobs)
        climbed = orders.auto(workflow, kv_tokens)
        made = {n: explained(words.agx, seed, kv_tokens, n) for n in ("helium", "auto")}
        made["greedy and a climb"] = jobs.steps(climbed)
        for name in ("lspf", "arrival", "random"):
            made[name] = jobs.steps(orders.baseline(jobs, name))
        least, proven = best(jobs, [helium, climbed] + greedy, words)
        least = min(least, *made.values())
        yield f"random {seed}", len(jobs), least, proven, \
            {n: gap(steps, least) for n, steps in made.items()}


def show(title, rows):
    rows = list(rows)
    names = list(rows[0][4])
    print(f"{title}: gap to the best known, %")
    print("| | jobs | proven | " + " | ".join(names) + " |")
    print("|" + "---|" * (3 + len(names)))
    if len(rows) < 20:
        for name, count, _, proven, gaps in rows:
            print(f"| {name} | {count} | {'yes' if proven else 'no'} | " +
                  " | ".join(f"{gaps[n]:.2f}" for n in names) + " |")
    for word, pick in (("mean", statistics.mean), ("most", max)):
        proven = f"{sum(r[3] for r in rows)} of {len(rows)}"
        print(f"| {word} | {pick([r[1] for r in rows]):.1f} | {proven} | " +
              " | ".join(f"{pick([r[4][n] for r in rows]):.2f}" for n in names) + " |")


def main():
    parser = argparse.ArgumentParser(description="Orders against the best schedule.")
    parser.add_argument("--seconds", type=float, default=60, help="of the solver, for each flow")
    parser.add_argument("--solve-up-to", type=int, default=16, help="jobs; more: local search")
    parser.add_argument("--kicks", type=int, default=100, help="of the local search")
    parser.add_argument("--kv-tokens", type=int, default=4096, help="M, of the calls")
    parser.add_argument("--flows", type=int, default=60, help="random ones")
    parser.add_argument("--agx", default="build/agx")
    words = parser.parse_args()
    show(f"calls, M = {words.kv_tokens}", of_calls(words))
    show("operators of random flows", of_operators(words))


if __name__ == "__main__":
    main()
