# SPDX-License-Identifier: MIT
"""A control group runs out of memory, and the kernel kills the worker for it: that is a death as
any other. The test says who is to be killed (oom_score_adj), as a service manager may."""
import contextlib
import mmap
import os
import signal

from appliance import HANG_S, NOISE, Appliance, is_alive, memory_bytes, wait_for
from control_group import ControlGroup
from protocol import Client

PROMPT = list(range(3, 40))
LIMIT_BYTES = 256 << 20
STEP_BYTES = 1 << 20                # far less than what a worker's death gives back


def prefer(pid, thousandths):
    """As if the process had that share of the group's limit more than it has."""
    with open("/proc/%d/oom_score_adj" % pid, "w", encoding="ascii") as file:
        file.write(str(thousandths))


def spare(*pids):
    """These and their children: the next worker may take its memory before the eater has seen that
    the first one is dead, and who is killed for that is to be the eater."""
    for pid in pids:
        with contextlib.suppress(PermissionError):      # root may
            prefer(pid, -900)


def eat_until_dead(group, victim):
    """In a child, in the group: takes memory until the victim is dead, and gives it back. It may
    take too much before it sees that death, and then it is the next whom the kernel kills. What it
    has is private: the kernel takes that back before it looks for another to kill, but not what is
    shared, which goes when the process does."""
    prefer(os.getpid(), 500)
    group.enter()
    eaten = []
    while is_alive(victim) and len(eaten) * STEP_BYTES < 2 * LIMIT_BYTES:
        eaten.append(mmap.mmap(-1, STEP_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        for at in range(0, STEP_BYTES, mmap.PAGESIZE):
            eaten[-1][at] = 1


@contextlib.contextmanager
def hunger(group, victim):
    pid = os.fork()
    if pid == 0:
        try:
            eat_until_dead(group, victim)
        finally:
            os._exit(0)
    try:
        yield
    finally:
        wait_for(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid, "it has had enough", HANG_S)


def start_calls(c):
    for call_id in range(1, 9):
        c.start(call_id, PROMPT + [call_id], max_tokens=300)
    while not c.calls[1].tokens:
        c.step()


def test_a_worker_that_is_killed_for_want_of_memory_costs_time_only():
    with Appliance(NOISE) as a, Client(a.tcp) as c:
        start_calls(c)
        alone = [c.finish(call_id).check().tokens for call_id in range(1, 9)]
    with ControlGroup(LIMIT_BYTES) as group, \
            Appliance(NOISE, "engine.failures=0", preexec_fn=group.enter) as a, \
            Client(a.tcp) as c:
        core, worker = a.core, a.worker
        # Else the core that waits would still be taking its memory: it maps what is shared last.
        wait_for(lambda: memory_bytes(a.next_core, "RssShmem") >= memory_bytes(core, "RssShmem"),
                 "the next core has its memory")
        prefer(worker, 1000)
        spare(a.process.pid, core, a.next_core)
        start_calls(c)
        os.kill(worker, signal.SIGSTOP)         # so that its calls do not end before it does
        c.start(9, PROMPT + [1], max_tokens=300)
        with hunger(group, worker):
            a.wait_said("engine worker died pid=%d signal=9 status=0" % worker)
        assert group.kills() >= 1
        assert [c.finish(call_id).check().tokens for call_id in range(1, 10)] == alone + alone[:1]
        assert a.core == core and a.stats()["engine_restarts"] == 1
        a.wait_ready()
