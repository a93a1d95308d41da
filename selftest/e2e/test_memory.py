# SPDX-License-Identifier: MIT
"""Nothing grows: memory maps, resident sets and page faults of the processes are the same before
and after many calls (SOAK_CALLS), many visits (SOAK_VISITS) and many visits that end in mid-call
(SOAK_LEAVERS)."""
import os
import socket
import time

import protocol
from appliance import HANG_S, NOISE, Appliance, run, wait_for
from skip import inside, long

CALLS = int(os.environ.get("SOAK_CALLS", "200000"))
VISITS = int(os.environ.get("SOAK_VISITS", "10000"))
LEAVERS = int(os.environ.get("SOAK_LEAVERS", "1000"))


def faults(pid):
    """Page faults of all threads so far, minor and major."""
    fields = open("/proc/%d/stat" % pid).read().rpartition(")")[2].split()
    return int(fields[7]), int(fields[9])


def memory(pid):
    """A process's mappings and, in KiB, its sizes. Without its shares of common memory (Pss,
    Locked), which change when other processes come and go."""
    maps = open(inside(pid, "maps")).read()
    rollup = dict(line.split()[:2] for line in open(inside(pid, "smaps_rollup"))
                  if line.split()[0] in ("Rss:", "Anonymous:"))
    status = dict(line.split()[:2] for line in open("/proc/%d/status" % pid)
                  if line.split()[0] in ("VmPeak:", "VmSize:", "VmData:", "VmLck:"))
    return maps, rollup, status


def sleeps(pid):
    """Number of voluntary context switches of a process."""
    return next(int(line.split()[1]) for line in open("/proc/%d/status" % pid)
                if line.startswith("voluntary_ctxt_switches"))


def quiet(pids, work):
    """Asserts that `work` leaves memory as it was. The kernel may cause a page fault when it moves
    a page, but not in each of three rounds."""
    before = {role: memory(pid) for role, pid in pids.items()}
    for _ in range(3):
        faulted = {role: faults(pid) for role, pid in pids.items()}
        work()
        for role, pid in pids.items():
            assert before[role] == memory(pid), (role, before[role][1:], memory(pid)[1:])
        after = {role: faults(pid) for role, pid in pids.items()}
        if faulted == after:
            return
        print("  page faults: %s, then %s" % (faulted, after))
    raise AssertionError("page faults in every round")


def load(a, calls):
    done = run("agx", "--to", a.to, "load", "--calls", str(calls), "--in-flight", "64",
               "--max-tokens", "4", timeout=HANG_S * 20)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def visit(a, last_words, answer):
    """Connects, sends HELLO and these bytes, waits for the beginning of the answer, and leaves."""
    with socket.create_connection(a.tcp, timeout=HANG_S) as peer:
        peer.sendall(HELLO + last_words)
        received = b""
        while len(received) < answer:
            got = peer.recv(65536)
            assert got, received
            received += got


HELLO = protocol.hello()
WELCOME_BYTES, ACCEPT_BYTES, TOKENS_BYTES = 16 + 144, 16 + 16, 16 + 24 + 4


def test_many_visits_leave_memory_as_it_was():
    """Of the leavers, one in ten leaves while its prompt is computed, the others while decoding."""
    endless = [protocol.call(call_id, list(range(3, 40)), max_tokens=200) for call_id in range(10)]
    decoding = WELCOME_BYTES + ACCEPT_BYTES + TOKENS_BYTES
    with Appliance(NOISE) as a:
        for _ in range(100):
            visit(a, endless[1], decoding)
        a.wait_back()

        def all_visits():
            count = a.stats()["connections_accepted"]
            for _ in range(VISITS):
                visit(a, b"", WELCOME_BYTES)
            for i in range(LEAVERS):
                visit(a, endless[i % 10], WELCOME_BYTES + ACCEPT_BYTES if i % 10 == 0 else decoding)
            a.wait_back()
            assert a.stats()["connections_accepted"] == count + VISITS + LEAVERS, a.stats()
        quiet({"core": a.core, "worker": a.worker}, all_visits)
        print("  %d visits, %d left in mid-call" % (VISITS + LEAVERS, LEAVERS))


def drip(peers, words):
    """Sends the next byte to each peer that is still connected; returns these."""
    there = []
    for peer, sent in peers:
        try:
            if sent < len(words):
                peer.send(words[sent:sent + 1])
            peer.setblocking(False)
            closed = peer.recv(1 << 16) == b""
        except BlockingIOError:
            closed = False
        except (ConnectionResetError, BrokenPipeError):
            closed = True
        if closed:
            peer.close()
        else:
            there.append((peer, sent + 1))
    return there


def test_half_frames_that_drip_are_closed_and_leave_memory_as_it_was():
    """Each byte comes in time, but the frame never ends: a HELLO, and a CALL after a good HELLO."""
    half_call = protocol.call(1, list(range(3, 60)))[:-8]
    with Appliance(NOISE, "limits.connections=512", "net.preauth=512", "net.handshake=5s",
                   "net.frame_deadline=1s") as a, protocol.Client(a.tcp) as honest:
        honest.generate(1, [5, 6, 7], max_tokens=4).check()
        before = memory(a.core)
        strangers = [(socket.create_connection(a.tcp), 0) for _ in range(250)]
        members = [(socket.create_connection(a.tcp), 0) for _ in range(250)]
        for peer, _ in members:
            peer.sendall(HELLO)
        rounds = 0
        while strangers or members:
            rounds += 1
            strangers = drip(strangers, HELLO[:-1])
            members = drip(members, half_call)
            honest.generate(1 + rounds, [5, 6, 7], max_tokens=4).check()
            time.sleep(0.05)
        after = memory(a.core)
        assert before == after, (before[1:], after[1:])
        stats = a.stats()
        assert stats["connections_open"] == 1 and stats["calls_accepted"] == 1 + rounds, stats


@long
def test_many_calls_leave_memory_as_it_was():
    """After a fork, the keeper's first write to each page faults once more. It has written to all
    of them when it has waited ten times."""
    with Appliance(NOISE) as a:
        load(a, 500)
        pids = {"core": a.core, "worker": a.worker, "keeper": a.process.pid}
        begun = sleeps(a.process.pid)
        wait_for(lambda: sleeps(a.process.pid) >= begun + 10, "the keeper has waited ten times")

        def all_calls():
            count = a.stats()["calls_completed"]
            load(a, CALLS)
            assert a.stats()["calls_completed"] == count + CALLS
            a.wait_back()
        quiet(pids, all_calls)
        print("  %d calls: %s" % (CALLS, memory(a.core)[1]))
