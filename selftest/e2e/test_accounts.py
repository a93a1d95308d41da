# SPDX-License-Identifier: MIT
"""A trust domain is an account: whatever a tenant takes, another has its minimum of connections,
calls, programs and kept replies, and its handshakes."""
import socket
import threading
import time

from appliance import NOISE, Appliance, TextFile, wait_for
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


# ---- T2: programs, their KV, kept replies --------------------------------------------------------

TABLES = ("limits.programs=64", "limits.replies=64")
LONG = [3 + i % 200 for i in range(100)]


def displace(client, count, first=1):
    """So many calls of a token each, every one of a program of its own, a few at a time."""
    for number in range(first, first + count, 4):
        for call in range(number, number + 4):
            client.start(call, PROMPT, program=b"displace %07d" % call, max_tokens=1)
        for call in range(number, number + 4):
            client.finish(call).check()


def expect_kept(client, stats):
    """The reply of call 1 is on record, and the program's KV where call 2 finds it."""
    replayed = stats()["calls_replayed"]
    client.generate(1, LONG, again=True, max_tokens=8).check()
    assert stats()["calls_replayed"] == replayed + 1
    done = client.generate(2, LONG, max_tokens=8).check().done
    assert done["cached_tokens"] > 90, done


def test_a_tenant_cannot_push_out_programs_and_replies():
    with TextFile(KEYS, 0o600) as path, keyed(path, *TABLES) as a, \
            Client(a.tcp, key=ALICE) as alice, Client(a.tcp, key=BOB) as bob:
        bob.generate(1, LONG, max_tokens=8).check()
        displace(alice, 200)
        expect_kept(bob, a.stats)
        alice.generate(200, PROMPT, again=True, program=b"displace 0000200",
                       max_tokens=1).check()


def cached_after_attack(minimum):
    """How much of its prompt another domain's program finds, when fresh programs of alice have
    filled the KV several times over. `minimum`: of bob's domain, in KV blocks."""
    keys = "alice %s red\nbob %s blue kv_blocks=%d\n" % (ALICE[1].hex(), BOB[1].hex(), minimum)
    with TextFile(keys, 0o600) as path, \
            keyed(path, "limits.context_tokens=256", "kv.device_blocks=48") as a, \
            Client(a.tcp, key=ALICE) as alice, Client(a.tcp, key=BOB) as bob:
        first = bob.generate(1, LONG, max_tokens=8).check()
        displace(alice, 100)                    # three blocks each
        again = bob.generate(2, LONG, max_tokens=8).check()
        assert again.tokens == first.tokens
        return again.done["cached_tokens"]


def test_a_tenant_cannot_push_out_kv_within_the_minimum_of_another():
    kept, lost = cached_after_attack(12), cached_after_attack(0)
    print("cached of %d tokens: %d with a minimum, %d without" % (len(LONG), kept, lost))
    assert (kept, lost) == (len(LONG) - 1, 0), (kept, lost)


# ---- T3: handshakes on loopback ------------------------------------------------------------------

class Silence:
    """Connects to the appliance so many times a second, and says nothing."""

    def __init__(self, address, per_second=100):
        self.address, self.pause_s = address, 1 / per_second
        self.sockets, self.ends = [], threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.ends.is_set():
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex(self.address)
            self.sockets.append(s)
            if len(self.sockets) > 200:         # the appliance has closed it long ago
                self.sockets.pop(0).close()
            self.ends.wait(self.pause_s)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()
        close_all(self.sockets)


def handshake_ms(a, key):
    start = time.monotonic()
    Client(a.tcp, key=key).close()
    return 1000 * (time.monotonic() - start)


def timed_handshakes(a, key, count=20):
    """Prints how long they take; the machine decides, so nothing is said of it."""
    times = sorted(handshake_ms(a, key) for _ in range(count))
    print("handshakes: median %.1f ms, longest %.1f ms of %d" %
          (times[count // 2], times[-1], count))


def test_handshakes_get_through_silent_connects():
    with TextFile(KEYS, 0o600) as path, keyed(path) as a, Silence(a.tcp):
        wait_for(lambda: a.stats()["connections_displaced"] > 16, "silent ones are displaced")
        timed_handshakes(a, BOB)


# ---- all of it -----------------------------------------------------------------------------------

def test_a_tenant_that_does_all_of_it_takes_nothing_of_another():
    with TextFile(KEYS, 0o600) as path, \
            keyed(path, *TABLES, "limits.connections=32", "limits.calls=32",
                  "limits.calls_per_connection=32") as a, Client(a.tcp, key=BOB) as bob:
        bob.generate(1, LONG, max_tokens=8).check()
        with Silence(a.tcp):
            held = knock_until_refused(a, ALICE)
            displace(held[0], 100)
            for number, client in enumerate(held[1:]):
                client.start(number, PROMPT, max_tokens=400)
            timed_handshakes(a, BOB)
            for number in range(3, 11):         # its minimum is 8 calls
                bob.start(number, PROMPT, max_tokens=4)
            for number in range(3, 11):
                bob.finish(number).check()
            displace(held[0], 100, 101)
            expect_kept(bob, a.stats)
            close_all(held)
