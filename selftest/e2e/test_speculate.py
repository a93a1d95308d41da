# SPDX-License-Identifier: MIT
"""Drafts change no token (decision 0089): greedy or drawn, alone or together, with short KV, over
deaths of workers and of the core. What they saved is told in stats and events."""
import os
import signal

from appliance import NOISE, Appliance, wait_for
from protocol import Client
from test_core import kill_core

# So little KV that calls preempt each other.
TIGHT = ("limits.context_tokens=192", "kv.block_tokens=8", "kv.device_blocks=40",
         "sched.quantum=1us", "sched.batch=6")
CALLS, TOKENS = 24, 90


def ask_of(number):
    """Texts that repeat themselves, in most; a random model's greedy text soon does, too."""
    sampling = ({}, {"temperature": 0.8, "top_k": 3, "seed": number},
                {"temperature": 0.5, "repeat_penalty": 1.2, "seed": number})[number % 3]
    return [5 + (number + i % (2 + number % 5)) % 300 for i in range(20 + number)], sampling


def start_all(c):
    for number in range(CALLS):
        prompt, sampling = ask_of(number)
        c.start(number + 1, prompt, max_tokens=TOKENS, **sampling)


def finish_all(c):
    return [c.finish(number + 1).check().tokens for number in range(CALLS)]


def answers(*settings):
    """Of calls together and of each alone, and what stats and events say of drafts."""
    with Appliance(NOISE, *TIGHT, *settings) as a, Client(a.tcp) as c:
        start_all(c)
        tokens = finish_all(c)
        for number in range(CALLS):
            prompt, sampling = ask_of(number)
            alone = c.generate(100 + number, prompt, max_tokens=TOKENS, **sampling).check().tokens
            assert alone == tokens[number], number
        return tokens, a.stats(), a.text("events")


def test_tokens_are_those_without_drafts():
    right, none, _ = answers()
    assert none["draft_tokens"] == 0
    for most in (1, 4, 15):
        tokens, stats, events = answers("sched.speculate=%d" % most)
        assert tokens == right
        assert 0 < stats["draft_tokens_agreed"] <= stats["draft_tokens"], stats
        assert "drafted" in events
        print("  %d: %d of %d tokens of drafts were right, %d preemptions"
              % (most, stats["draft_tokens_agreed"], stats["draft_tokens"], stats["preemptions"]))


def test_tokens_are_the_same_over_deaths():
    right, _, _ = answers()
    with Appliance(NOISE, *TIGHT, "sched.speculate=7", "engine.failures=0",
                   "appliance.core_failures=0") as a:
        with Client(a.tcp) as c:
            start_all(c)
            for _ in range(3):
                worker = a.worker
                os.kill(worker, signal.SIGKILL)
                wait_for(lambda w=worker: a.children().get("agentix-worker", w) != w, "another")
                a.wait_ready()
            assert finish_all(c) == right
        kill_core(a)
        with Client(a.tcp) as c:
            start_all(c)
            assert finish_all(c) == right
            assert a.stats()["draft_tokens_agreed"] > 0
