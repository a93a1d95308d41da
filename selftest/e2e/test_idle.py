# SPDX-License-Identifier: MIT
"""An appliance with nothing open sleeps: at most two wake-ups a second of all its processes."""
import os
import re
import time

from appliance import Appliance, stop, wait_for
from protocol import Client

RATE_MAX = 2            # wake-ups a second
WAKES = 4               # of the core, in a window


def wakes(pid):
    """How often the threads of the process have slept so far, of their own accord."""
    count = 0
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/status" % (pid, task)) as file:
            count += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", file.read(), re.M)[1])
    return count


def rate(a):
    """Of all processes, until the core has been awake some times. A process that gets the
    processor late wakes up less often, never more often."""
    wait_for(lambda: "agentix-next" in a.children(), "a core waits")
    pids = [a.process.pid, *a.children().values()]
    assert len(pids) == 4, pids
    began, before = time.monotonic(), sum(map(wakes, pids))
    core, core_before = a.core, wakes(a.core)
    wait_for(lambda: wakes(core) >= core_before + WAKES, "the core looks at its engine")
    return (sum(map(wakes, pids)) - before) / (time.monotonic() - began)


def test_an_idle_appliance_sleeps():
    with Appliance() as a:
        # It may still have a canary, or a connection of the test to close.
        wait_for(lambda: rate(a) <= RATE_MAX, "all sleep")


def test_a_client_that_is_connected_and_asks_for_nothing_costs_no_wake_up():
    with Appliance() as a, Client(a.tcp) as c:
        wait_for(lambda: rate(a) <= RATE_MAX, "all sleep")
        c.generate(1, [1, 2, 3]).check()


def test_a_worker_that_is_stopped_in_its_sleep_is_noticed_without_a_peer():
    with Appliance("engine.hang=1s", "engine.failures=0") as a:
        wait_for(lambda: rate(a) <= RATE_MAX, "all sleep")
        worker = a.worker
        stop(worker)
        wait_for(lambda: a.said("worker was hung pid=%d" % worker), "the keeper replaces it")
        a.wait_ready()
