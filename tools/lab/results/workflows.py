# SPDX-License-Identifier: MIT
"""Workflows (the Helium paper): orders against each other, with much KV and with little; what each
part of the design is worth; many clients; how far an order is from the best schedule."""
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "flow"))

import flows                        # noqa: E402

ORDERS = ("auto", "helium", "lspf", "arrival", "random", "opwise", "querywise")
BASE = "helium"
FEW = (BASE, "random", "arrival", "opwise")
ROWS, SEED, SEEDS_MORE = 48, 1, (2, 3, 4, 5)
MEMORY = (1250, 2500, 5000, 10000, 26875)
TIGHT, AMPLE = 2500, 26875          # KV blocks of 16 tokens: 40,000 and 430,000
CLIENTS, LOAD, SEEDS = (4, 8, 16), 0.9, (0, 1, 2)
BETWEEN = (("fcfs", "helium"), ("justitia", "arrival"), ("justitia", "helium"),
           ("justitia", "auto"), ("plas", "auto"))


def kv(blocks):
    """No host tier: the paper has none."""
    return "--set", f"kv.device_blocks={blocks}", "--set", "kv.host_ratio=0"


class Flows:
    """The workloads as files, and their runs."""

    def __init__(self, runs, rows, seed=SEED):
        self.runs, self.rows, self.folders = runs, rows, {}
        for name, roles_first in (("shared", False), ("roles", True)):
            folder = pathlib.Path(runs.kept) / f"flows-{name}-{rows}-{seed}"
            flows.write(folder, flows.flows(False, roles_first), rows, seed)
            self.folders[name] = folder

    def run(self, layout, name, order, words, days=1):
        folder = self.folders[layout]
        rows = [folder / f"{name}{'.2' if day else ''}.tsv" for day in range(days)]
        return self.runs.flows([(folder / f"{name}.flow", path) for path in rows], "--order", order,
                               *words)

    def names(self):
        return list(flows.flows(False))


def makespans(made, layout, blocks, orders):
    """{(name, order): the first batch's figures}"""
    asked = [(name, order) for name in made.names() for order in orders]
    got = made.runs.each(lambda name, order: made.run(layout, name, order, kv(blocks)), asked)
    return {place: result["batches"][0] for place, result in got.items()}


def against(got, name, order):
    return got[name, order]["makespan_s"] / got[name, BASE]["makespan_s"]


def fill_orders(page, made):
    got = makespans(made, "shared", TIGHT, ORDERS)
    digests = {name: {got[name, order]["digest"] for order in ORDERS} for name in made.names()}
    assert all(len(found) == 1 for found in digests.values()), "an order has changed an output"
    rows = [[name, f"{got[name, BASE]['makespan_s']:.1f}",
             *(f"{against(got, name, order):.2f}" for order in ORDERS if order != BASE)]
            for name in made.names()]
    rows.append(["mean", "", *(f"{statistics.mean(against(got, n, o) for n in made.names()):.2f}"
                               for o in ORDERS if o != BASE)])
    page.table("workflow-orders", ["", f"{BASE}, s", *(o for o in ORDERS if o != BASE)], rows)
    shown = [BASE, "random", "arrival", "opwise"]
    page.table("workflow-batches", ["trading", "prompt tokens found cached", "rows in a round",
                                    "tokens of KV in a round"],
               [[order, f"{100 * got['trading', order]['hit_ratio']:.0f} %",
                 f"{got['trading', order]['round_rows']:.1f}",
                 f"{got['trading', order]['round_tokens']:,.0f}"] for order in shown])
    return got


def means(made, got):
    """Cells: all makespans of helium together; the others of FEW against it."""
    return [f"{sum(got[name, BASE]['makespan_s'] for name in made.names()):.0f}",
            *(f"{statistics.mean(against(got, name, order) for name in made.names()):.2f}"
              for order in FEW[1:])]


def fill_layouts(page, made, tight):
    """Means over the workloads."""
    roles = makespans(made, "roles", TIGHT, FEW)
    ample = makespans(made, "shared", AMPLE, FEW)
    rows = []
    for title, got in (("40,000 tokens, what is shared first", tight),
                       ("40,000 tokens, roles first", roles),
                       ("430,000 tokens, what is shared first", ample)):
        rows.append([title, *means(made, got)])
    page.table("workflow-layouts", ["KV, prompts", f"{BASE}, s, all", *FEW[1:]], rows)


def fill_memory(page, made):
    """Means over the workloads, against helium with as much KV, and for other rows."""
    rows = []
    for blocks in MEMORY:
        got = makespans(made, "shared", blocks, FEW)
        rows.append([f"{16 * blocks:,}", *means(made, got)])
    page.table("workflow-memory", ["tokens of KV", f"{BASE}, s, all", *FEW[1:]], rows)
    rows = []
    for seed in (SEED, *SEEDS_MORE):
        got = makespans(Flows(made.runs, made.rows, seed), "shared", TIGHT, FEW)
        rows.append([seed, *means(made, got)])
    page.table("workflow-seeds", ["rows drawn with", f"{BASE}, s, all", *FEW[1:]], rows)


def fill_days(page, made):
    """The second day of trading: what the prompt cache knows is not called."""
    rows, base = [], None
    for title, order, words in (("auto", "auto", ()),
                                ("without the prompt cache", "auto", ("--set", "workflow.cache=0")),
                                ("arrival", "arrival", ()), ("random", "random", ()),
                                ("random, without the prompt cache", "random",
                                 ("--set", "workflow.cache=0"))):
        day = made.run("shared", "trading", order, (*kv(TIGHT), *words), days=2)["batches"][1]
        base = base or day
        rows.append([title, f"{day['makespan_s']:.1f}",
                     f"{day['makespan_s'] / base['makespan_s']:.2f}", f"{day['calls']:,}",
                     f"{day['fetched']:,}"])
    page.table("workflow-days", ["second day", "s", "against auto", "called", "fetched"], rows)


def mixed(made, order, words):
    """Clients of all workloads together: mean completion time, makespan, preemptions, how many."""
    folder = made.folders["shared"]
    files = [(folder / f"{name}.flow", folder / f"{name}.tsv") for name in made.names()]
    result = made.runs.flows(files, "--mix", "--order", order, *kv(TIGHT), *words)
    batches = result["batches"]
    count = sum(batch["clients"] for batch in batches)
    return sum(batch["client_s_mean"] * batch["clients"] for batch in batches) / count, \
        max(batch["makespan_s"] for batch in batches), result["preemptions"], count


def fill_clients(page, made):
    """They arrive at random, at 0.9 of the rate at which all at once are done."""
    rows = []
    for clients in CLIENTS:
        words = ("--clients", clients)
        _, makespan, _, count = mixed(made, BASE, (*words, "--policy", "fcfs"))
        rate = f"{LOAD * count / makespan:.4g}"

        def mean(policy, order, figure=0):
            return statistics.mean(mixed(made, order, (*words, "--policy", policy, "--rate", rate,
                                                       "--seed", seed))[figure]
                                   for seed in SEEDS)
        base = mean("fcfs", "arrival")
        preempted = mean("plas", "auto", 2) / mean("fcfs", "helium", 2)
        rows.append([clients, f"{base:.1f}", *(f"{mean(*place) / base:.2f}" for place in BETWEEN),
                     f"{preempted:.1f} x"])
    page.table("workflow-clients", ["clients of a workload", "fcfs, arrival, s",
                                    *(", ".join(place) for place in BETWEEN),
                                    "preemptions of plas, of fcfs's"], rows)


def fill(page, runs, quick):
    made = Flows(runs, 12 if quick else ROWS)
    tight = fill_orders(page, made)
    fill_layouts(page, made, tight)
    fill_memory(page, made)
    fill_days(page, made)
    fill_clients(page, made)
