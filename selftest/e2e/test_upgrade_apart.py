# SPDX-License-Identifier: MIT
"""agentix --upgrade to what is not alike: another model, other limits. The new process serves
beside the old one, which drains then; no client is refused.

Method: as in test_upgrade.py. The old one's worker is stopped where a call of it must be open.
"""
import os
import signal
import socket

from appliance import HANG_S, NOISE, stop, wait_for
from protocol import Client
from test_systemd import Manager
from test_upgrade import Reader, ends, held_reader, without_manager
from test_worker import PROMPT
from upgrade import Upgrade, family, is_left

DRAINS = "limits.drain=10min"


def refuses(address):
    try:
        socket.create_connection(address, HANG_S).close()
    except ConnectionRefusedError:
        return True
    return False


def test_what_is_not_alike_serves_while_the_other_drains():
    """An open call ends where it began; a client that waits for nothing, or comes, finds the new
    one."""
    for settings, why in (
            (("model.path=",), "another model"),
            ((NOISE, "kv.type=f32"), "another model"),
            ((NOISE, "limits.calls=7"), "other limits: limits.calls was 256 and is 7"),
            ((NOISE, "limits.connections=7"), "limits.connections was 256 and is 7"),
            ((NOISE, "net.send_bytes=8KiB"), "net.send_bytes was 65536 and is 8192")):
        with family(NOISE, DRAINS, unix=True) as a:
            idle, worker = [Client(a.tcp), Client(a.unix)], a.worker
            reader = held_reader(a)
            b = Upgrade(a, *settings)
            assert b.said(why) == 1, (b.lines, settings)
            a.wait_said(why)
            a.wait_said("serves, and this process drains")
            for client in idle:
                assert is_left(client)
                client.close()
            for address in (b.tcp, b.unix):
                with Client(address) as c:
                    c.generate(1, PROMPT, max_tokens=40).check()
            stats = b.stats()
            assert stats["upgrades"] == 1 and stats["connections_kept"] == 0, stats
            assert stats["connections_accepted"] == 2 and stats["calls_completed"] == 2, stats
            assert a.process.poll() is None, a.lines
            os.kill(worker, signal.SIGCONT)
            reader.ends_well()
            ends(a)
            assert os.path.exists(b.unix)
            assert b.stop() == 0 and not os.path.exists(b.unix)


def test_one_that_was_not_alike_is_upgraded_in_turn():
    """It has connections and descriptors of its own, and a core of it has successors."""
    with family(NOISE) as a:
        b = Upgrade(a, NOISE, "limits.calls=7")
        ends(a)
        reader = Reader(b)
        core = b.core
        os.kill(core, signal.SIGKILL)
        wait_for(lambda: b.core not in (None, core), "another core")
        c = Upgrade(b, NOISE, "limits.calls=7")
        ends(b)
        reader.ends_well()
        assert c.stats()["upgrades"] == 2 and c.stats()["connections_kept"] == 1
        assert c.stop() == 0


def test_one_that_drains_ends_at_once_when_it_is_told_to_twice():
    with family(NOISE, DRAINS) as a:
        reader = held_reader(a)
        b = Upgrade(a, NOISE, "limits.calls=7")
        a.wait_said("serves, and this process drains")
        a.process.send_signal(signal.SIGTERM)
        a.wait_said("draining")
        assert a.process.poll() is None
        a.process.send_signal(signal.SIGTERM)
        assert a.process.wait(HANG_S) == 0, a.lines
        assert is_left(reader.client)
        assert b.health().startswith("ready") and b.stop() == 0


def test_an_old_process_that_is_told_to_end_when_the_command_has_ended():
    """The new one has said that it serves; the path of net.unix is its own."""
    for _ in range(5):
        with family(NOISE, DRAINS, unix=True) as a:
            reader = held_reader(a)
            worker = a.worker
            b = Upgrade(a, NOISE, "limits.calls=7")
            a.process.send_signal(signal.SIGTERM)
            os.kill(worker, signal.SIGCONT)
            reader.ends_well()
            ends(a)
            with Client(b.unix) as c:
                c.generate(1, PROMPT, max_tokens=4).check()
            assert b.health().startswith("ready") and b.stop() == 0


def test_one_that_drains_does_not_hold_the_addresses():
    with family(NOISE, DRAINS) as a:
        idle, reader = Client(a.tcp), held_reader(a)
        worker = a.worker
        b = Upgrade(a, NOISE, "limits.calls=7")
        assert is_left(idle)                # its core leaves
        idle.close()
        b.process.kill()
        b.process.wait()
        wait_for(lambda: refuses(a.tcp), "no process listens")
        os.kill(worker, signal.SIGCONT)
        reader.ends_well()
        ends(a)


def test_the_service_manager_learns_of_one_that_is_not_alike():
    with Manager() as m, family(environment=m.environment) as a:
        m.hear("READY=1")
        b = Upgrade(a, "model.path=", "limits.calls=7", env=without_manager())
        lines = m.hear("MAINPID=%d" % b.process.pid)
        assert not any(line.startswith("STOPPING") for line in lines), lines
        assert "READY=1" in m.hear("READY=1")
        ends(a)
        assert not any(line.startswith("STOPPING") for line in m.heard())
        assert b.stop() == 0
        assert "STOPPING=1" in m.hear("STOPPING=1")


def test_deaths_before_one_that_is_not_alike_serves():
    """The old one's leave it alone at all addresses; the new one's change nothing."""
    with family(NOISE) as a:
        reader = Reader(a)
        b = Upgrade(a, NOISE, "limits.calls=7", wait=False)
        stop(b.process.pid)
        b.process.kill()
        b.fails()
        reader.ends_well()
        a.wait_said("it has gone")
        b = Upgrade(a, NOISE, "limits.calls=7", wait=False)
        stop(b.process.pid)
        a.process.kill()
        a.process.wait(HANG_S)
        os.kill(b.process.pid, signal.SIGCONT)
        assert b.launcher.wait(HANG_S) == 0, b.lines
        b.wait_said("before this one is gone")
        with Client(b.tcp) as c:
            assert c.generate(1, PROMPT, max_tokens=900).check().tokens == reader.right
        assert b.stop() == 0
