# SPDX-License-Identifier: MIT
"""The end of a core, or of an appliance, while a workflow is under way. With the next core, or the
next process, it goes on where it was, and its client notices nothing; after a restart its client
sends the rows again that it has not had.

Method: rows stand still between two operators, at a lambda that answers when a file is there.
"""
import os
import signal
import subprocess
import tempfile

from appliance import BUILD, HANG_S, NOISE, Appliance, wait_for
from flow_frames import INPUT, IS_TEXT, KEEP, LAMBDA, LLM, Flows, answer, node, row
from protocol import ASK, RESUMED, ROW_DONE, VALUE
from test_restart import again, first, kill_all
from test_worker import flip_weight
from upgrade import Upgrade, family

ROWS = ("x", "first", "second", "third", "fourth")
FLOW = ("agentix-flow 1\n"
        "input x\n"
        "llm a max=%d ignore-eos=1 temp=%s = \"Say: \" x\n"
        "lambda hold max=200 = a\n"
        "llm b max=30 ignore-eos=1 = \"And: \" hold\n"
        "output a b\n")
HOLD = "#!/bin/sh\nuntil [ -e '%s' ]; do sleep 0.05; done\nexec cat\n"
COUNT = len(ROWS) - 1           # of rows; each has two calls


class Held:
    """`agx flow` over the rows, all of which come to the lambda."""

    def __init__(self, to, temperature=0, tokens=20):
        self.folder = tempfile.TemporaryDirectory()
        self.gate = os.path.join(self.folder.name, "gate")
        flow, rows, hold = (self._write(name, text) for name, text in (
            ("flow", FLOW % (tokens, temperature)), ("rows", "\n".join(ROWS) + "\n"),
            ("hold", HOLD % self.gate)))
        self.process = subprocess.Popen(
            [os.path.join(BUILD, "agx"), "--to", to, "flow", "--inputs", rows, "--lambda",
             "hold=/bin/sh " + hold, flow],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def _write(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def open(self):
        self._write("gate", "")

    def values(self):
        """Opens the gate; what all rows give, in the rows' order."""
        self.open()
        out, err = self.process.communicate(timeout=HANG_S)
        assert self.process.returncode == 0, err
        self.folder.cleanup()
        return sorted(out.split("\n"))


def at_the_lambda(a):
    """The rows are, all of them."""
    wait_for(lambda: a.stats()["calls_completed"] == COUNT and a.stats()["calls_open"] == 0,
             "each row has its first value")


def undisturbed(**options):
    with Appliance(NOISE) as a:
        return Held(a.to, **options).values()


def kill_core(a):
    core = a.core
    os.kill(core, signal.SIGKILL)
    wait_for(lambda: a.core not in (None, core), "another core")
    a.wait_ready()


def check_end(a, held, right, found, **expected):
    """All is as it should be; the first values were `found`, or made again. None was fetched."""
    expected |= {"values_fetched": 0, "calls_accepted": COUNT if found else 2 * COUNT,
                 "workflows_continued": 1 if found else 0}
    assert held.values() == right
    stats = a.stats()
    assert {name: stats[name] for name in expected} == expected, expected


def test_values_outlive_the_core():
    right = undisturbed()
    with Appliance(NOISE) as a:
        held = Held(a.to)
        at_the_lambda(a)
        for _ in range(2):
            kill_core(a)
        check_end(a, held, right, found=True, core_restarts=2)


def test_after_an_upgrade_they_go_on():
    right = undisturbed()
    with family(NOISE) as a:
        held = Held(a.to)
        at_the_lambda(a)
        b = Upgrade(a, NOISE)
        check_end(b, held, right, found=True, upgrades=1)


def test_values_outlive_the_core_after_weights_were_damaged():
    right = undisturbed()
    with Appliance(NOISE, "engine.canary=0", "engine.failures=0") as a:
        flip_weight(a.process.pid)
        flip_weight(a.worker)
        wait_for(lambda: a.said("weights are read again digest="), "the weights are read again")
        a.wait_ready()
        held = Held(a.to)
        at_the_lambda(a)
        kill_core(a)
        check_end(a, held, right, found=True)


def test_a_drawn_value_is_not_drawn_again():
    right = undisturbed(temperature=0.9)
    with Appliance(NOISE) as a:
        held = Held(a.to, temperature=0.9)
        at_the_lambda(a)
        kill_core(a)
        check_end(a, held, right, found=True)


HELD = [node(INPUT), node(LLM, (IS_TEXT, 0), temperature=0.9, seed=7),
        node(LAMBDA, (1,)), node(LLM, (IS_TEXT, 2))]


def value_of(client, number, asked):
    """All that the client is told of a row; `asked`: it has to answer the lambda."""
    client.send(row(number, b"a question"))
    told = []
    while not told or told[-1][0] != ROW_DONE:
        kind, fields, rest = client.until(VALUE, ASK, ROW_DONE)
        if kind == ASK:
            assert asked, "a question that was answered is asked again"
            client.send(answer(number, 2, b"yes"))
        else:
            told.append((kind, {name: fields[name] for name in ("status", "digest", "output")
                                if name in fields}, rest))
    return told


def test_a_row_that_its_client_has_had_is_on_record_with_the_next_core():
    with Appliance(NOISE, "workflow.linger=10min") as a:
        with Flows(a.tcp) as client:
            client.open(HELD, [1, 3], flags=KEEP)
            right = value_of(client, 5, asked=True)
            kill_core(a)
            assert value_of(client, 5, asked=False) == right
        wait_for(lambda: a.stats()["connections_open"] == 0, "its client is away")
        kill_core(a)
        with Flows(a.tcp) as client:
            assert client.open(HELD, [1, 3], flags=KEEP)["flags"] & RESUMED
            assert value_of(client, 5, asked=False) == right
        assert a.stats()["calls_accepted"] == 0     # by this core


def test_where_nothing_is_kept_all_is_computed_again():
    right = undisturbed()
    a = first(NOISE)
    held = Held(a.to)
    at_the_lambda(a)
    kill_all(a)
    with again(a, NOISE) as b:
        at_the_lambda(b)
        check_end(b, held, right, found=False)


def test_a_core_that_dies_often_changes_no_value():
    right = undisturbed(tokens=150)
    with Appliance(NOISE, "appliance.core_failures=16") as a:
        held = Held(a.to, tokens=150)
        for _ in range(3):
            kill_core(a)                # wherever the first operators are
        wait_for(lambda: a.stats()["values_cached"] == COUNT, "all are at the lambda")
        kill_core(a)
        held.open()
        for _ in range(3):
            kill_core(a)                # wherever the last ones are
        assert held.values() == right
