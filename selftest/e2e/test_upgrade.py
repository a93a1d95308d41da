# SPDX-License-Identifier: MIT
"""agentix --upgrade: another process takes over from one that serves. Connections stay, and their
calls go on with the next token; who cannot take over leaves the other one as it was; whichever of
the two dies, and when, the other goes on.

Method: both are the binary under test, on one machine; clients read along, and a process is killed
when a line of the log, or a client's frame, says how far it is.
"""
import contextlib
import os
import random
import signal
import socket
import struct
import time

from appliance import EXIT, HANG_S, NOISE, is_alive, stop, wait_for
from frames import STATUSES
from protocol import PING, PROGRAM, TOKENS as TOKENS_FRAME, Client, frame
from skip import Skip, long
from test_auth import ALICE, BOB, CAROL
from test_core import KINDS, program_of, said, serve_until_it_shows, start_all
from test_reload import is_refused, served
from test_systemd import QUIET_S, Manager
from test_worker import PROMPT
from upgrade import Upgrade, family

CLIENTS = 200


def without_manager():
    """It gets the manager's address from the one before it."""
    return {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}


def ends(a):
    """The appliance that was taken over from ends by itself, and its children with it."""
    children = a.children()
    assert a.process.wait(HANG_S) == 0, a.lines
    assert not any(is_alive(pid) for pid in children.values())


def test_a_client_sees_nothing_of_upgrades():
    """Each frame once and in order, on the connection that it has; a frame that it has sent in
    halves is not lost either."""
    with family(NOISE) as a:
        with Client(a.tcp) as c:
            start_all(c)
            right = [said(c.finish(number)) for number in range(len(KINDS))]
        with Client(a.tcp) as c:
            start_all(c)
            for upgrades in range(1, 6):
                while c.step() != TOKENS_FRAME:
                    pass
                ping = frame(PING, struct.pack("<Q", upgrades))
                c.send(ping[:9])
                b = Upgrade(a, NOISE)
                ends(a)
                c.send(ping[9:])
                a = b
                stats = a.stats()
                assert stats["connections_kept"] == 1 and stats["upgrades"] == upgrades, stats
                assert stats["core_restarts"] == 0, stats
            assert [said(c.finish(number)) for number in range(len(KINDS))] == right
            c.send(frame(PING, struct.pack("<Q", 0)))
            while 0 not in c.pongs:
                c.step()
            assert c.pongs == list(range(1, 6)) + [0] and not c.errors
        a.wait_ready()
        assert "upgrades=5 " in a.health(), a.health()
        assert a.stop() == 0


def test_two_hundred_clients_lose_nothing():
    """Half of them on the unix socket."""
    with family(NOISE, "limits.calls=256", unix=True) as a:
        with Client(a.tcp) as c:
            right = [c.generate(number, PROMPT + [number], max_tokens=60).check().tokens
                     for number in range(CLIENTS)]
        clients = [Client(a.tcp if number % 2 else a.unix) for number in range(CLIENTS)]
        stop(a.worker)
        for number, client in enumerate(clients):
            client.start(number, PROMPT + [number], max_tokens=60)
        a.wait_stats(calls_open=CLIENTS)
        b = Upgrade(a, NOISE, "limits.calls=256")
        ends(a)
        stats = b.stats()
        assert os.path.exists(a.unix) and stats["connections_kept"] == CLIENTS, stats
        assert stats["connections_accepted"] == 0, stats
        for number, client in enumerate(clients):
            assert client.finish(number).check().tokens == right[number]
            client.close()
        assert b.stop() == 0 and not os.path.exists(a.unix)


def test_replies_and_programs_are_there_after_an_upgrade():
    with family(NOISE) as a:
        with Client(a.tcp) as c:
            serve_until_it_shows(a, c, PROGRAM, 2)
            first = c.generate(1, PROMPT, program=PROGRAM, max_tokens=50).check()
        had = program_of(a, PROGRAM)
        b = Upgrade(a, NOISE)
        ends(a)
        assert program_of(b, PROGRAM) == had and int(had["service_ms"]) > 0
        with Client(b.tcp) as c:
            again = c.generate(1, PROMPT, again=True, program=PROGRAM, max_tokens=50).check()
            other = c.generate(1, PROMPT, program=PROGRAM, max_tokens=51)
            assert STATUSES[other.error["status"]][0] == "BAD_CALL_REUSED", other.error
        assert again.tokens == first.tokens and b.stats()["tokens_generated"] == 0
        assert b.stop() == 0


def test_what_is_taken_over_is_its_domains_own():
    """Also where the file of keys has changed since the start, which numbers domains."""
    with served() as (files, a):
        with Client(a.tcp, key=BOB) as c:
            right = c.generate(1, PROMPT, program=PROGRAM, max_tokens=50).check().tokens
        files.write_keys(BOB, CAROL)
        a.family = [a]
        b = Upgrade(a, NOISE, "auth.tcp=psk", "auth.keys=" + files.keys)
        ends(a)
        for key, again in ((CAROL, False), (BOB, True)):
            with Client(b.tcp, key=key) as c:
                got = c.generate(1, PROMPT, again=again, program=PROGRAM, max_tokens=50).check()
                assert got.tokens == right
        assert b.stop() == 0


def test_a_core_that_dies_after_an_upgrade_has_a_successor():
    with family(NOISE) as a:
        with Client(a.tcp) as c:
            right = c.generate(1, PROMPT, max_tokens=400).check().tokens
        with Client(a.tcp) as c:
            stop(a.worker)
            c.start(2, PROMPT, max_tokens=400)
            b = Upgrade(a, NOISE)
            ends(a)
            core = b.core
            os.kill(core, signal.SIGKILL)
            assert c.finish(2).check().tokens == right
            wait_for(lambda: b.core != core, "another core")
        assert b.stop() == 0


def test_the_service_manager_learns_of_the_next_process():
    """From the one that it knows; and the next one says nothing before that."""
    with Manager() as m, family(environment=m.environment) as a:
        m.hear("READY=1")
        b = Upgrade(a, "model.path=", env=without_manager())
        lines = m.hear("MAINPID=%d" % b.process.pid)
        assert not any(line.startswith(("STOPPING", "STATUS=loading")) for line in lines), lines
        assert "READY=1" in m.hear("READY=1")
        ends(a)
        m.heard()
        m.hear("WATCHDOG=1")
        assert b.stop() == 0
        assert "STOPPING=1" in m.hear("STOPPING=1")


def parent_of(pid):
    with open("/proc/%d/stat" % pid) as file:
        return int(file.read().rpartition(")")[2].split()[1])


def test_the_service_manager_is_told_of_a_process_that_is_its_own():
    """Not of a child of the command: systemd would kill that, where it is to end. So also where
    the command takes its time to end; and what the next process is told meanwhile, it does."""
    for settings in ((NOISE,), (NOISE, "limits.calls=7")):
        with Manager() as m, family(NOISE, environment=m.environment) as a:
            m.hear("READY=1")
            reader = held_reader(a) if len(settings) == 1 else None
            b = Upgrade(a, *settings, wait=False, env=without_manager())
            stop(b.launcher.pid)
            wait_for(lambda: "upgrades=1 " in b.health(), "the next one's core is there")
            b.wait_ready()
            time.sleep(QUIET_S)
            assert not any(line.startswith("MAINPID") for line in m.heard())
            assert parent_of(b.process.pid) == b.launcher.pid
            os.kill(b.launcher.pid, signal.SIGCONT)
            m.hear("MAINPID=%d" % b.process.pid)
            assert parent_of(b.process.pid) != b.launcher.pid
            if reader is not None:
                reader.ends_well()          # by the next process
            ends(a)
            assert b.stop() == 0


def test_a_reload_that_comes_in_between_is_done_when_it_is_over():
    """Trust domains are numbered alike on both sides until then."""
    with served() as (files, a):
        a.family = [a]
        stop(a.core)
        b = Upgrade(a, NOISE, "auth.tcp=psk", "auth.keys=" + files.keys, wait=False)
        a.wait_said("waits: this one's ends")
        stop(b.process.pid)
        files.write_keys(ALICE, CAROL)
        reloads = a.said("reloaded")
        core = a.core
        a.process.send_signal(signal.SIGHUP)
        wait_for(lambda: core not in a.children().values(), "a core that does not end is killed")
        assert a.said("reloaded") == reloads
        b.process.kill()
        b.fails()
        wait_for(lambda: a.said("reloaded") > reloads, "it is done")
        assert is_refused(a, BOB) and not is_refused(a, CAROL)


# ---- who does not take over ----------------------------------------------------------------------

def goes_on(a, c, right, call_id):
    """The appliance serves, and this client has its connection still."""
    assert c.generate(call_id, PROMPT, max_tokens=40).check().tokens == right
    assert a.health().startswith("ready") and a.process.poll() is None


def test_what_cannot_boot_changes_nothing():
    with family(NOISE, unix=True) as a, Client(a.tcp) as c:
        right = c.generate(1, PROMPT, max_tokens=40).check().tokens
        b = Upgrade(a, NOISE, "engine.threads=900", wait=False)
        assert b.fails() == EXIT["CONFIG"] and b.said("engine.threads") == 1, b.lines
        goes_on(a, c, right, 2)


def test_where_no_appliance_serves_there_is_nothing_to_upgrade():
    with family(NOISE, "appliance.upgrade=off") as a:
        b = Upgrade(a, NOISE, wait=False)
        assert b.fails() == EXIT["UPGRADE"] and b.said("no appliance serves") == 1, b.lines


def test_another_user_cannot_take_over():
    """What he would get are the connections of all clients."""
    if os.geteuid() != 0:
        raise Skip("needs root, to be another user")
    with family(NOISE) as a, Client(a.tcp) as c:
        right = c.generate(1, PROMPT, max_tokens=40).check().tokens
        b = Upgrade(a, "model.path=", wait=False, user=65534, group=65534, extra_groups=[])
        assert b.fails() == EXIT["UPGRADE"] and b.said("of another user") == 1, b.lines
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            os.seteuid(65534)
            try:
                s.connect("\0agentix-upgrade/" + a.to)
            finally:
                os.seteuid(0)
            assert b"another user" in s.recv(1 << 16)
        goes_on(a, c, right, 2)


def test_one_upgrade_at_a_time():
    with family(NOISE) as a, Client(a.tcp) as c:
        right = c.generate(1, PROMPT, max_tokens=40).check().tokens
        first = Upgrade(a, NOISE, wait=False)
        stop(first.process.pid)
        second = Upgrade(a, NOISE, wait=False)
        assert second.fails() == EXIT["UPGRADE"], second.lines
        first.process.kill()
        first.fails()
        goes_on(a, c, right, 2)


# ---- deaths --------------------------------------------------------------------------------------

class Reader:
    """A client that reads along a long answer, each token once and right."""

    def __init__(self, a):
        self.client, self.call_id = Client(a.tcp), 0
        self.right = self.client.generate(0, PROMPT, max_tokens=900).check().tokens
        self.begin()

    def begin(self):
        self.call_id += 1
        self.outcome = self.client.start(self.call_id, PROMPT, max_tokens=900)
        self.client.step()              # ACCEPT

    def ends_well(self):
        assert self.client.finish(self.call_id).check().tokens == self.right
        assert not self.client.errors


def held_reader(a):
    """One whose call is accepted and gets no token before the worker goes on."""
    reader = Reader(a)
    reader.ends_well()
    stop(a.worker)
    reader.begin()
    return reader


def new_boots(a):
    """The new one is stopped before it has a worker, so before it is ready. None: it was faster."""
    b = Upgrade(a, NOISE, wait=False)
    stop(b.process.pid)
    if "agentix-worker" not in b.children():
        return b
    b.process.kill()
    b.fails()
    return None


def old_yields(a):
    """The new one's core waits, the old one's was told to end, and is stopped."""
    stop(a.core)
    b = Upgrade(a, NOISE, wait=False)
    a.wait_said("waits: this one's ends")
    return b


def old_has_no_core(a):
    """The old one's core has ended, the new one's is stopped."""
    b, core = old_yields(a), a.core
    stop(b.core)
    os.kill(core, signal.SIGCONT)
    wait_for(lambda: core not in a.children().values(), "the core has ended")
    return b


@contextlib.contextmanager
def upgrade_at(point):
    """An appliance, a reader whose call is open, and the new one, at that point of the upgrade."""
    b = None
    while b is None:
        with family(NOISE) as a:
            reader = Reader(a)
            b = point(a)
            if b is not None:
                yield a, reader, b
            else:
                a.process.kill()
                a.process.wait(HANG_S)


def test_a_new_process_that_dies_leaves_the_old_one_serving():
    for point in (new_boots, old_yields, old_has_no_core):
        with upgrade_at(point) as (a, reader, b):
            b.process.kill()
            b.fails()
            reader.ends_well()
            reader.client.close()
            a.wait_ready()
            a.wait_said("it has gone")
            c = Upgrade(a, NOISE)           # and another one can
            ends(a)
        assert c.stop() == 0


def test_an_old_process_that_dies_leaves_all_to_the_new_one():
    for point in (new_boots, old_yields, old_has_no_core):
        with upgrade_at(point) as (a, reader, b):
            a.process.kill()
            a.process.wait(HANG_S)
            for pid in (b.process.pid, *b.children().values()):
                os.kill(pid, signal.SIGCONT)
            reader.ends_well()
            b.wait_ready()
            assert b.launcher.wait(HANG_S) == 0
            b.wait_said("before this one is gone")
            assert b.stop() == 0


def test_old_processes_are_killed_again_and_again():
    """At any time once the next one boots: it goes on."""
    chance = random.Random(7)
    with family(NOISE) as a:
        reader = Reader(a)
        for _ in range(12):
            b = Upgrade(a, NOISE, wait=False)
            for _ in range(chance.randrange(60)):
                if reader.outcome.done is None:
                    reader.client.step()
            a.process.kill()
            a.process.wait(HANG_S)
            assert b.launcher.wait(HANG_S) == 0, b.lines
            if reader.outcome.done is not None:
                reader.ends_well()
                reader.begin()
            a = b
        reader.ends_well()


def test_an_old_process_that_is_told_to_end_drains():
    """Before it has given all away; after that, it does so when it goes on."""
    for point in (new_boots, old_yields):
        with upgrade_at(point) as (a, reader, b):
            a.process.send_signal(signal.SIGTERM)
            if point is old_yields:
                b.process.kill()
            else:
                os.kill(b.process.pid, signal.SIGCONT)
            assert b.fails() != 0, b.lines
            reader.ends_well()
            assert a.process.wait(HANG_S) == 0, a.lines


@long
def test_a_new_process_that_stands_still_is_not_waited_for():
    """Its core would have all, and is stopped: the old one takes it back, and the new one ends when
    it learns of it."""
    with family(NOISE) as a:
        reader = Reader(a)
        b = old_has_no_core(a)
        a.wait_said("taken back")
        assert b.fails() == EXIT["UPGRADE"], b.lines
        reader.ends_well()
        reader.client.close()


def new_keeper_stands_still(a, core_has_all):
    """The old one's core has ended, and the new one's keeper is stopped, and its core: where that
    has kept memory, no core serves until it is dead."""
    b, core = old_yields(a), a.core
    new_core = b.core
    stop(b.process.pid)
    if not core_has_all:
        stop(new_core)
    os.kill(core, signal.SIGCONT)
    wait_for(lambda: core not in a.children().values(), "the core has ended")
    if core_has_all:
        wait_for(lambda: "upgrades=1 " in b.health(), "the next one's core is there")
        stop(new_core)
    return b


@long
def test_a_new_keeper_that_stands_still_is_killed():
    """It cannot hear that the old one takes all back. That does what it was told meanwhile, and has
    its client's answer first."""
    for core_has_all in (False, True):
        with family(NOISE) as a:
            reader = Reader(a)
            b = new_keeper_stands_still(a, core_has_all)
            a.wait_said("taken back")
            a.process.send_signal(signal.SIGTERM)
            a.wait_said("stands still: killed")
            assert b.fails() not in (0, EXIT["UPGRADE"]), b.lines
            reader.ends_well()
            reader.client.close()
            assert a.process.wait(HANG_S) == 0, a.lines


@long
def test_an_old_process_that_stands_still_is_not_asked_for_ever():
    """Those that have given up are still in its queue, which is full at last."""
    with family(NOISE) as a:
        stop(a.process.pid)
        for _ in range(4):
            b = Upgrade(a, NOISE, wait=False)
            assert b.fails() == EXIT["UPGRADE"] and b.said("does not answer") == 1, b.lines
        os.kill(a.process.pid, signal.SIGCONT)
        wait_for(lambda: a.said("upgrade: refused") >= 2, "it has met them")
        b = Upgrade(a, NOISE)
        ends(a)
        assert b.stop() == 0


def test_an_upgrade_that_is_told_to_end_leaves_the_old_one_serving():
    with upgrade_at(new_boots) as (a, reader, b):
        b.launcher.send_signal(signal.SIGTERM)          # which passes it on
        os.kill(b.process.pid, signal.SIGCONT)
        assert b.fails() != 0, b.lines
        reader.ends_well()
        reader.begin()
        reader.ends_well()
        reader.client.close()
