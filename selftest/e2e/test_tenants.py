# SPDX-License-Identifier: MIT
"""Tenants: trust domains share the engine by their weights, whatever programs they name."""
import threading

from appliance import NOISE, Appliance, TextFile
from protocol import Client

ALICE, BOB = (b"alice", bytes(range(32))), (b"bob", bytes(range(32, 64)))
KEYS = "alice %s red 100 3\nbob %s blue\n" % (ALICE[1].hex(), BOB[1].hex())
CALLS, TOKENS = 32, 300
# Calls have rows in the order of their arrival.
SETTINGS = ("auth.tcp=psk", "sched.policy=fcfs", "sched.batch=4", "limits.context_tokens=512",
            "kv.device_blocks=1024", "sched.active_set=off")


def keyed(path, *settings):
    return Appliance(NOISE, "auth.keys=" + path, *SETTINGS, *settings)


def attack(client):
    """Many calls, each of a program of its own."""
    for number in range(1, CALLS + 1):
        client.start(number, [3 + number] * 20, program=b"attack %09d" % number, max_tokens=TOKENS)


def read_all(client):
    for number in range(1, CALLS + 1):
        client.finish(number).check()


def ends_before_bob(a, tokens=16):
    """How many calls of alice end before one that bob makes while they are open."""
    with Client(a.tcp, key=ALICE) as alice, Client(a.tcp, key=BOB) as bob:
        attack(alice)
        reader = threading.Thread(target=read_all, args=(alice,))
        reader.start()              # a client that does not read has its calls paused
        a.wait_stats(calls_accepted=CALLS)
        bob.generate(1, list(range(3, 20)), max_tokens=tokens).check()
        before = a.stats()["calls_completed"] - 1
        reader.join()
        return before


def test_fresh_programs_do_not_keep_others_waiting():
    with TextFile(KEYS, 0o600) as path:
        with keyed(path) as a:
            before = ends_before_bob(a)
            assert before < CALLS / 4, before
        with keyed(path, "sched.tenants=off") as a:
            before = ends_before_bob(a)
            assert before > CALLS * 3 / 4, before


def test_the_text_port_shows_accounts():
    with TextFile(KEYS, 0o600) as path, keyed(path) as a:
        ends_before_bob(a, TOKENS)      # of 16 tokens, a thousandth may be nothing
        lines = [line.split() for line in a.text("tenants").splitlines()]
        names = {line[-1]: line for line in lines if line[:1] != ["slot"]}
        assert names["red"][1] == "3" and names["blue"][1] == "1", lines
        assert int(names["red"][5]) > int(names["blue"][5]) > 0, lines

