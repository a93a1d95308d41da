# SPDX-License-Identifier: MIT
"""A machine that stands still now and then, as a virtual one does whose CPUs others use: a test
that takes a moment for enough, or reads what may not be there yet, fails then.

One process at real-time priority for each CPU takes it for up to `most_ms` at a time; half of the
times all do at once."""
import os
import random
import signal
import time

PRIORITY = 50


def take(cpu, most_ms, parent):
    chance, at = random.Random(most_ms), time.monotonic()       # the same for every CPU
    while os.getppid() == parent:
        at += chance.uniform(0, 2 * most_ms) / 1000
        time.sleep(max(0, at - time.monotonic()))
        at += chance.uniform(0, most_ms) / 1000
        whose = chance.choice((None, None, 0, 1))
        while whose in (None, cpu % 2) and time.monotonic() < at:
            pass


class Stalls:
    def __init__(self, most_ms):
        self.pids = [self._begin(cpu, most_ms) for cpu in sorted(os.sched_getaffinity(0))]

    def _begin(self, cpu, most_ms):
        parent, pid = os.getpid(), os.fork()
        if pid == 0:
            take(cpu, most_ms, parent)
            os._exit(0)
        os.sched_setaffinity(pid, {cpu})
        os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(PRIORITY))
        return pid

    def end(self):
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
