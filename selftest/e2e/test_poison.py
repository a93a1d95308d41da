# SPDX-License-Identifier: MIT
"""A call of which each worker dies ends by itself, with a status of its own; others that were in
its steps end with their tokens. The test is the poison: it kills the worker whenever a step has the
call."""
import contextlib
import itertools
import os
import signal

from appliance import NOISE, Appliance, wait_for
from protocol import FAILED, Client
from test_worker import PROMPT

DEVICE_POISON = 67
LONG = [7, 8, 9, 10] * 200      # its first step takes many times as long as a look at `calls`
ONE_THREAD = ("engine.threads=1", "engine.failures=0", "sched.prefill_tokens=1024")


def is_running(a):
    """True when the step in flight has the call: it alone has so long a prompt."""
    head, *rows = [line.split() for line in a.text("calls").splitlines()]
    state, prompt = head.index("state"), head.index("prompt")
    return any(row[state] == "running" and row[prompt] == str(len(LONG)) for row in rows)


def end_of_poison(a, c):
    """How the call ends. Where the test was too slow to kill, there is another one."""
    for call_id in itertools.count(99):
        c.start(call_id, LONG, max_tokens=100)
        wait_for(lambda: a.stats()["calls_accepted"] > call_id - 99 + 8, "it is accepted")
        while a.stats()["calls_open"] > 0 and a.stats()["calls_failed"] == 0:
            if is_running(a):
                with contextlib.suppress(ProcessLookupError):       # it is being replaced already
                    os.kill(a.worker, signal.SIGKILL)
        done = c.finish(call_id).check().done
        if done["finish"] == FAILED:
            return done
    return None


def test_a_call_that_kills_workers_ends_alone():
    with Appliance(NOISE, *ONE_THREAD) as a, Client(a.tcp) as c, Client(a.tcp) as poisoner:
        alone = [c.generate(i, PROMPT + [i], max_tokens=100).check().tokens for i in range(1, 5)]
        for i in range(1, 5):
            c.start(10 + i, PROMPT + [i], max_tokens=100)
        done = end_of_poison(a, poisoner)
        assert done["finish"] == FAILED and done["status"] == DEVICE_POISON, done
        for i in range(1, 5):
            assert c.finish(10 + i).check().tokens == alone[i - 1]
        a.wait_ready()
        assert a.stats()["calls_poisonous"] == 1 == a.stats()["calls_failed"]
