# SPDX-License-Identifier: MIT
"""Three boxes with a door each behind the real HAProxy: requests of one program reach one box, a
drained box moves only its own, and the death of one is an error that a client may retry."""
import contextlib
import collections
import http.client
import json
import os
import subprocess

from appliance import BUILD, HANG_S, NOISE, wait_for
from boxes import Fleet, free_ports
from test_fleet import moved

TOKEN = "fleet-token-1"
PROGRAMS = 60


class Doors(contextlib.ExitStack):
    """A door beside each box of a fleet, in its network."""

    def __init__(self, fleet):
        super().__init__()
        self.fleet, self.processes = fleet, {}
        self.tokens = os.path.join(fleet.directory, "tokens")
        with open(os.open(self.tokens, os.O_WRONLY | os.O_CREAT, 0o600), "w",
                  encoding="ascii") as file:
            file.write(TOKEN + "\n")
        for number in fleet.boxes:
            self.start(number)
        fleet.start_haproxy()
        wait_for(lambda: all(state == "UP" for state in self.states().values()),
                 "HAProxy sees three doors")

    def start(self, number):
        real = self.fleet.network.is_real
        port = self.fleet.doors.setdefault(number, 8080 if real else free_ports(1)[0])
        host = "0.0.0.0" if real else "127.0.0.1"
        with self.fleet.boxes[number].inside():
            process = subprocess.Popen(
                [os.path.join(BUILD, "agentix-door"), "--set", NOISE,
                 "--set", "net.unix=" + self.fleet.boxes[number].unix,
                 "--set", "door.listen=%s:%d" % (host, port),
                 "--set", "door.tokens=" + self.tokens],
                stderr=subprocess.PIPE, text=True)
            assert "listening" in process.stderr.readline()
        self.processes[number] = process
        self.callback(self._end, process)

    @staticmethod
    def _end(process):
        process.kill()
        process.wait(HANG_S)
        process.stderr.close()

    def states(self):
        lines = self.fleet.admin("show stat").splitlines()
        rows = [dict(zip(lines[0].lstrip("# ").split(","), line.split(","))) for line in lines[1:]
                if line]
        return {int(row["svname"][4:]): row["status"].split()[0] for row in rows
                if row["pxname"] == "doors" and row["svname"].startswith("door")}

    def ask(self, program, **headers):
        """(status, answer) of a request through HAProxy, on a connection of its own."""
        connection = http.client.HTTPConnection(*self.fleet.http_front, timeout=HANG_S)
        try:
            connection.request("POST", "/v1/completions", json.dumps(
                {"prompt": "Hello", "max_tokens": 4, "seed": 1}), {
                    "Authorization": "Bearer " + TOKEN, "X-Agentix-Program": program, **headers})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()

    def ask_until_served(self, program):
        """As a client that retries: its answer."""
        found = []

        def is_served():
            try:
                found.append(self.ask(program))
            except (OSError, http.client.HTTPException, ValueError):
                return False
            return found[-1][0] == 200
        wait_for(is_served, "a box serves " + program)
        return found[-1][1]


def accepted(fleet):
    return {n: box.stats()["calls_accepted"] for n, box in fleet.boxes.items()}


def boxes_of(fleet, doors, programs):
    """The box that serves each program."""
    found = {}
    for program in programs:
        before = accepted(fleet)
        doors.ask_until_served(program)
        now = accepted(fleet)
        found[program] = next(n for n in now if now[n] > before[n])
    return found


def names():
    return ["program-%d" % i for i in range(PROGRAMS)]


def test_requests_of_a_program_stay_with_a_box_and_a_drain_moves_only_its_own():
    with Fleet() as f, Doors(f) as doors:
        before = boxes_of(f, doors, names())
        assert len(set(before.values())) == 3, before
        assert boxes_of(f, doors, names()) == before
        assert f.admin("set server doors/door2 state drain").strip() == ""
        wait_for(lambda: doors.states()[2] == "DRAIN", "door 2 drains")
        after = boxes_of(f, doors, names())
        assert moved(before, after) == {2: collections.Counter(before.values())[2]}
        assert f.admin("set server doors/door2 state ready").strip() == ""
        wait_for(lambda: doors.states()[2] == "UP", "door 2 is back")
        assert boxes_of(f, doors, names()) == before


def test_a_box_that_dies_costs_its_programs_a_retry():
    with Fleet() as f, Doors(f) as doors:
        answer = doors.ask("first")[1]["choices"]
        f.boxes[2].die()                        # its door lives, and says so
        for program in names():
            assert doors.ask_until_served(program)["choices"] == answer, "the same tokens"
        wait_for(lambda: doors.states()[2] == "DOWN", "HAProxy sees that door 2 serves no more")


def test_a_request_without_a_token_reaches_no_appliance():
    with Fleet() as f, Doors(f) as doors:
        before = accepted(f)
        assert doors.ask("any", Authorization="Bearer wrong")[0] == 401
        assert accepted(f) == before
