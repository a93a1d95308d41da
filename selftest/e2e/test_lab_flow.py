# SPDX-License-Identifier: MIT
"""Workflows in the lab, and agx flow --explain against the reference of tools/lab/flow.

The reference shares no code with what it is compared with: it was written from the specification.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from appliance import BUILD, HANG_S, ROOT

sys.path.insert(0, os.path.join(ROOT, "tools", "lab", "flow"))

import compare                      # noqa: E402
import flows                        # noqa: E402
import optimise                     # noqa: E402
import orders                       # noqa: E402
from flow_file import read_flow     # noqa: E402
from random_flows import random_flow    # noqa: E402

AGX = os.path.join(BUILD, "agx")
ORDERS = ("auto", "helium", "lspf", "arrival", "random", "opwise", "querywise")
FLOW = """agentix-flow 1
each agent = anna bert
input question=60
llm say[agent] max=64 est=20 = "You are " agent s:role:40 question
llm again[agent] max=64 est=20 = "You are " agent s:role:40 question
llm answer max=64 est=30 = question {"\\nHeard: " say[*]} {"\\nHeard: " again[*]}
output answer
"""
# The second row is the first one again; the third has another question.
ROWS = "question\tout%\nq1:50\t100\nq1:50\t100\nq2:70\t50\n"


def lab(*words):
    return subprocess.run([os.path.join(BUILD, "agentix-lab"), *map(str, words)],
                          capture_output=True, text=True, timeout=HANG_S * 5)


def run(folder, batches, *words):
    """The figures of each batch."""
    (folder / "test.flow").write_text(FLOW)
    names = []
    for i, rows in enumerate(batches):
        (folder / f"{i}.tsv").write_text(rows)
        names += ["--rows", folder / f"{i}.tsv"]
    done = lab("--flow", folder / "test.flow", *names, *words, "--json", folder / "out.json")
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "out.json").read_text())["batches"]


def test_explain_is_byte_for_byte_that_of_the_reference():
    path = pathlib.Path(tempfile.mkdtemp()) / "random.flow"
    for seed in range(1, 121):
        text, shape = random_flow(seed), compare.SHAPES[seed % len(compare.SHAPES)]
        path.write_text(text, encoding="utf-8")
        expected, found = compare.of_reference(text, shape), compare.of_agx(AGX, path, shape)
        assert not compare.differ(expected, found), f"seed {seed}:\n{expected}\n{found}"


def test_explain_of_the_papers_workloads_is_that_of_the_reference():
    path = pathlib.Path(tempfile.mkdtemp()) / "some.flow"
    for roles_first in (False, True):
        for text, _ in flows.flows(False, roles_first).values():
            path.write_text(text, encoding="utf-8")
            expected = compare.of_reference(text, (40000, 16))
            assert expected == compare.of_agx(AGX, path, (40000, 16))


def test_auto_costs_no_more_than_helium():
    path = pathlib.Path(tempfile.mkdtemp()) / "random.flow"
    for seed in range(1, 41):
        path.write_text(random_flow(seed), encoding="utf-8")
        said = [subprocess.run([AGX, "flow", "--explain", "--order", order, path],
                               capture_output=True, text=True, check=True).stdout
                for order in ("auto", "helium")]
        auto, helium = (int(text.split()[-1]) for text in said)
        assert auto <= helium, f"seed {seed}"


def test_best_known_schedule_keeps_dependencies():
    workflow = optimise.build(read_flow(flows.flows(True)["debate-mmlu"][0]))
    jobs = orders.jobs_of(workflow, 4096, (80, 120))
    found = orders.best_known(jobs, orders.greedy(jobs), 5)
    assert jobs.steps(found) is not None and sorted(found) == list(range(len(jobs)))


def test_calls_are_the_fewest_possible():
    """Of five operators a row two are merged away, and one of the three rows is a repetition."""
    with tempfile.TemporaryDirectory() as name:
        batch, = run(pathlib.Path(name), [ROWS])
    assert (batch["calls"], batch["shared"], batch["failed_rows"]) == (6, 3, 0)


def test_what_was_called_before_is_fetched():
    with tempfile.TemporaryDirectory() as name:
        first, second = run(pathlib.Path(name), [ROWS, ROWS])
    assert (second["calls"], second["fetched"]) == (0, 6)
    assert second["digest"] == first["digest"]


def test_no_order_changes_an_output():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        digests = {run(folder, [ROWS], "--order", order)[0]["digest"] for order in ORDERS}
    assert len(digests) == 1


def test_same_words_give_the_same_bytes():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        words = ("--clients", 3, "--rate", 2, "--seed", 5)
        assert run(folder, [ROWS], *words) == run(folder, [ROWS], *words)


def test_rows_that_do_not_fit_are_refused():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "test.flow").write_text(FLOW)
        for rows, says in (("other\nq:1\n", "is no input"), ("out%\n50\n", "has no column"),
                           ("question\nword\n", "NAME:TOKENS"),
                           ("question\nq:1\tq:2\n", "more cells"),
                           ("question\n", "no rows")):
            (folder / "bad.tsv").write_text(rows)
            done = lab("--flow", folder / "test.flow", "--rows", folder / "bad.tsv")
            assert done.returncode == 2 and says in done.stderr, done.stderr


def test_words_that_do_not_go_together_are_refused():
    for words in (("--flow", "a"), ("--rows", "a"), ("--trace", "a", "--rows", "b"),
                  ("--flow", "a", "--flow", "b", "--rows", "c"),
                  ("--flow", "a", "--rows", "b", "--trace", "c"),
                  ("--flow", "a", "--rows", "b", "--compare", "vllm,agentix")):
        assert lab(*words).returncode == 2, words
