# SPDX-License-Identifier: MIT
"""Stalls of other engines: clients that leave, pools that are full, calls that starve.

As in test_others_failures.py, docstrings say what happened there, and a witness runs beside."""
import contextlib
import socket

from appliance import EXIT, NOISE, Appliance, run, wait_for
from protocol import CANCELLED, DEADLINE, LENGTH, Client, Closed, call, cancel
from witness import (BAD_CALL_UNKNOWN, BAD_PROMPT_LENGTH, BUSY_CALLS, LONG, PROMPT, reference,
                     refused, start_together, witnessed)


# ---- clients that leave or cancel --------------------------------------------------------------

def gone_when(a, reached, prompt=PROMPT, max_tokens=100):
    """A client that leaves as soon as its call has reached this point."""
    with Client(a.tcp) as c:
        outcome = c.start(1, prompt, max_tokens=max_tokens)
        while not reached(outcome):
            c.step()


def test_clients_that_leave_while_their_prompt_is_computed():
    """llama.cpp#24496, ds4#333: five prefills of a conversation for clients that had left."""
    with witnessed("sched.prefill_tokens=16", "kv.sharing=off") as a:
        before = a.stats()["tokens_computed"]
        for _ in range(5):
            with a.standing_still():
                gone_when(a, lambda outcome: outcome.accepted, LONG)
                a.wait_stats(connections_open=1)
        wait_for(lambda: a.stats()["calls_cancelled"] == 5, "the leavers' calls are gone")
        computed = a.stats()["tokens_computed"] - before
        assert computed < 5 * len(LONG), computed


def test_clients_that_leave_in_mid_answer():
    """llama.cpp#13262, Rapid-MLX#1759: slots stayed taken for clients that had left."""
    with witnessed("sched.batch=2") as a:
        for _ in range(20):
            gone_when(a, lambda outcome: outcome.tokens)


def test_clients_that_leave_in_the_queue():
    """am17an/llama.cpp#20: a slot was wedged for 14 hours."""
    with witnessed("sched.batch=1", "sched.standby=0", max_tokens=200) as a:
        for _ in range(20):
            gone_when(a, lambda outcome: outcome.accepted)


def test_clients_that_close_one_half():
    """vllm#44100: a client that had half-closed was taken for one that reads."""
    with witnessed() as a:
        for _ in range(10):
            with Client(a.tcp) as c:
                c.start(1, PROMPT, max_tokens=100)
                c.socket.shutdown(socket.SHUT_WR)
                with contextlib.suppress(Closed):
                    while True:
                        c.step()


def test_an_abort_that_stops_all_service():
    """llama.cpp#27604: after an abort no client was served."""
    with witnessed() as a, Client(a.tcp) as c:
        for call_id in range(1, 101):
            c.start(call_id, PROMPT, max_tokens=100)
            c.send(cancel(call_id))
            assert c.finish(call_id).check().done["finish"] in (CANCELLED, LENGTH)


def test_a_cancel_that_hits_another_client():
    """ik_llama.cpp#1929: one client's cancel ended another's decoding."""
    with witnessed() as a, Client(a.tcp) as c:
        for program in (b"the witness ....", b"e2e-program-0001"):
            for call_id in (0, 1, 2, 2 ** 64 - 1):
                c.send(cancel(call_id, program))
                assert c.error()["status"] == BAD_CALL_UNKNOWN


def test_a_result_for_a_client_that_has_left():
    """LMCache#4185: a late completion of an aborted request ended the engine."""
    with witnessed("limits.calls=2", "sched.steps_per_plan=16") as a:
        for i in range(60):
            with Client(a.tcp) as c:
                c.start(1, PROMPT, max_tokens=100, program=b"late %011d" % i)
                if i % 3:
                    c.step()


# ---- pools that are full -----------------------------------------------------------------------

def test_a_call_that_can_never_fit():
    """vllm#35541: it waited for ever, and so did all calls after it."""
    with witnessed("limits.context_tokens=256") as a:
        refused(a, call(7, [5] * 200, max_tokens=57), BAD_PROMPT_LENGTH)
        refused(a, call(7, [5], max_tokens=256), BAD_PROMPT_LENGTH)
        with Client(a.tcp) as c:
            c.generate(1, [5] * 200, max_tokens=56).check()
    done = run("agentix", "--set", "kv.device_blocks=3", "--check")
    assert done.returncode == EXIT["CONFIG"] and "kv.device_blocks" in done.stderr, done.stderr


def many_calls_through(a, calls, max_tokens):
    with Client(a.tcp) as c:
        with a.standing_still():
            for call_id in range(1, calls + 1):
                c.start(call_id, PROMPT, max_tokens=max_tokens, program=b"many %011d" % call_id)
            while not all(call.accepted for call in c.calls.values()):
                c.step()
        for call_id in range(1, calls + 1):
            assert c.finish(call_id).check().tokens == reference(max_tokens)


def test_a_pool_that_is_full():
    """vllm#1206, #1607, #1927, sglang#10408, #36081: no block was left, then a hang or a crash."""
    for active in ("auto", "off"):
        with witnessed("limits.context_tokens=256", "kv.device_blocks=16", "kv.host_ratio=0",
                       "sched.quantum=1ms", "sched.active_set=" + active) as a:
            many_calls_through(a, 16, 120)
            assert active == "auto" or a.stats()["recomputed_tokens"] > 0


def test_preempted_calls_that_thrash():
    """vllm#5051, #24256, inference-sim#963: calls took memory from each other without progress."""
    for active in ("auto", "off"):
        with witnessed("limits.context_tokens=256", "kv.device_blocks=16", "kv.host_ratio=1",
                       "sched.quantum=1us", "sched.steps_per_plan=1",
                       "sched.active_set=" + active) as a:
            many_calls_through(a, 16, 120)


def test_preempted_calls_that_compute_all_again():
    """vllm#18115: a preempted request could only be recomputed. With a host tier this is rare."""
    with witnessed("limits.context_tokens=256", "kv.device_blocks=16", "kv.host_ratio=20",
                   "sched.quantum=1ms", "sched.active_set=off") as a:
        many_calls_through(a, 16, 120)
        stats = a.stats()
        assert stats["preemptions"] > 0 and stats["swap_in_blocks"] > 0
        assert stats["recomputed_tokens"] * 10 < stats["restored_tokens"], stats


def test_sessions_that_hold_what_others_wait_for():
    """sglang#27024, #29099: open sessions kept their memory, and no call could go on."""
    with witnessed("limits.context_tokens=256", "kv.device_blocks=16", "kv.retain_device=1h",
              "kv.retain_host=1h", "kv.retain_drop=1h", "kv.host_ratio=0") as a:
        with Client(a.tcp) as c:
            for i in range(1, 11):
                c.generate(i, PROMPT, max_tokens=100, program=b"session %08d" % i).check()
            c.generate(99, [5] * 200, max_tokens=56, program=b"one that needs it").check()


def test_a_queue_without_an_end():
    """vllm#18826, #2901, llama.cpp PR#5018: all requests were queued, with no word of how long."""
    with witnessed("limits.calls=8", "sched.batch=1") as a, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(a.tcp)) for _ in range(4)]    # limit of each
        with a.standing_still():
            for i, c in enumerate(clients):
                start_together(c, *5 * [{"max_tokens": 100}], first=1 + 5 * i)
            for c in clients:
                while not all(call.accepted or call.error for call in c.calls.values()):
                    c.step()
        outcomes = [c.finish(call_id) for c in clients for call_id in list(c.calls)]
        errors = [outcome.error for outcome in outcomes if outcome.error is not None]
        assert len(errors) in (12, 13), len(errors)     # with or without the witness
        assert all(error["status"] == BUSY_CALLS and error["max"] == 8 for error in errors), errors


def test_an_end_in_the_queue_that_looks_like_an_answer():
    """atlas#482: a call whose deadline passed in the queue was reported as complete."""
    settings = ("sched.batch=1", "sched.standby=0", "sched.policy=fcfs")
    with witnessed(*settings) as a, Client(a.tcp) as c:
        start_together(c, {"max_tokens": 200}, {"max_tokens": 50, "deadline": 1})
        done = c.finish(2).check().done
        assert done["finish"] == DEADLINE and done["generated_tokens"] == 0, done
        assert c.finish(1).check().done["finish"] == LENGTH


# ---- order -------------------------------------------------------------------------------------

def test_priority_that_cannot_displace():
    """vllm#40004, llama.cpp#22916: a running request runs to its end, whatever waits."""
    settings = ("sched.batch=1", "sched.standby=0", "sched.quantum=1us")
    with witnessed(*settings) as a, Client(a.tcp) as c:
        start_together(c, {"max_tokens": 400}, {"max_tokens": 4})
        c.finish(2).check()
        assert c.calls[1].done is None, "the short one was done before the long one"
        c.finish(1).check()


def test_starvation_by_later_calls():
    """vllm#11067, sglang#31954: a running request starved behind a stream of new ones."""
    expected = reference(100)
    with Appliance(NOISE, "sched.batch=1", "sched.standby=0", "sched.quantum=1ms",
                   "sched.queues=8", "sched.wait_max=50ms") as a:
        with Client(a.tcp) as old, Client(a.tcp) as young:
            old.socket.setblocking(False)
            old.start(1, PROMPT, max_tokens=100, program=b"who came first..")
            in_flight = 32
            for call_id in range(1, in_flight + 1):
                young.start(call_id, PROMPT, max_tokens=8, program=b"young %010d" % call_id)
            newest = in_flight
            while old.calls[1].done is None:
                with contextlib.suppress(BlockingIOError):
                    old.step()
                young.finish(newest - in_flight + 1).check()
                newest += 1
                young.start(newest, PROMPT, max_tokens=8, program=b"young %010d" % newest)
            assert old.calls[1].check().tokens == expected
            for call_id in range(newest - in_flight + 1, newest + 1):
                young.finish(call_id)
