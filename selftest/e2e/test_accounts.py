# SPDX-License-Identifier: MIT
"""A trust domain is an account: whatever a tenant takes, another has its minimum of connections,
calls, programs and kept replies, and its handshakes."""
import socket
import struct
import threading
import time

from appliance import HANG_S, NOISE, Appliance, TextFile
from protocol import ERROR, Client
from test_auth import ALICE, BOB, PROMPT

BUSY_CALLS, BUSY_CALLS_OF_KEY, BUSY_CONNS_OF_KEY = 1, 8, 12
KEYS = "alice %s red\nbob %s blue\n" % (ALICE[1].hex(), BOB[1].hex())


def keyed(path, *settings, **options):
    return Appliance(NOISE, "auth.tcp=psk", "auth.keys=" + path, *settings, **options)


def knock(a, key):
    """A client, or the status of the ERROR that it gets for its proof."""
    c = Client(a.tcp, greet=False)
    c.greet()
    try:
        c.authenticate(key)
        return c
    except AssertionError as answer:
        assert answer.args[0] == ERROR, answer
        c.close()
        return None


def knock_until_refused(a, key):
    clients = []
    while True:
        client = knock(a, key)
        if client is None:
            return clients
        clients.append(client)


def close_all(clients):
    for client in clients:
        client.close()


# ---- T1: connections and calls -------------------------------------------------------------------

def test_a_tenant_cannot_hold_all_connections():
    with TextFile(KEYS, 0o600) as path, \
            keyed(path, "limits.connections=32", "net.preauth=4") as a:
        mallory = knock_until_refused(a, ALICE)
        bob = knock_until_refused(a, BOB)
        assert (len(mallory), len(bob)) == (21, 7), (len(mallory), len(bob))     # of 28
        bob[3].close()
        a.wait_stats(connections_open=27)
        assert knock(a, ALICE) is None
        with Client(a.tcp, key=BOB) as again:
            again.generate(1, PROMPT).check()
        close_all(mallory + bob)


def start_until_refused(client, first=1):
    """How many calls it could start, and the refusal."""
    number = first
    while True:
        client.start(number, PROMPT, max_tokens=400)
        outcome = client.calls[number]
        while not outcome.accepted and outcome.error is None:
            client.step()
        if outcome.error is not None:
            return number - first, outcome.error
        number += 1


def test_a_tenant_cannot_hold_all_calls():
    with TextFile(KEYS, 0o600) as path, \
            keyed(path, "limits.calls=16", "limits.calls_per_connection=16") as a, \
            Client(a.tcp, key=ALICE) as alice, Client(a.tcp, key=BOB) as bob, \
            a.standing_still():
        count, error = start_until_refused(alice)
        assert (count, error["status"], error["max"]) == (12, BUSY_CALLS_OF_KEY, 12), error
        count, error = start_until_refused(bob)
        assert (count, error["status"]) == (4, BUSY_CALLS), error


def test_a_line_gives_a_domain_its_own_numbers():
    keys = "alice %s red calls=1..3\nbob %s blue calls=12\n" % (ALICE[1].hex(), BOB[1].hex())
    with TextFile(keys, 0o600) as path, \
            keyed(path, "limits.calls=16", "limits.calls_per_connection=16") as a, \
            Client(a.tcp, key=ALICE) as alice, Client(a.tcp, key=BOB) as bob, \
            a.standing_still():
        assert start_until_refused(alice)[0] == 3
        assert start_until_refused(bob)[0] == 13
