# SPDX-License-Identifier: MIT
"""Drafts change no token (decision 0089): greedy or drawn, alone or together, with short KV, over
deaths of workers and of the core. What they saved is told in stats and events."""
import os
import re
import signal
import sys

from appliance import NOISE, ROOT, Appliance, run, wait_for
from protocol import IGNORE_EOS, WANT_DRAFTS, Client
from test_core import kill_core

sys.path.insert(0, os.path.join(ROOT, "tools", "sdk", "python"))
import agentix  # noqa: E402

# So little KV that calls preempt each other.
TIGHT = ("limits.context_tokens=192", "kv.block_tokens=8", "kv.device_blocks=40",
         "sched.quantum=1us", "sched.batch=6")
CALLS, TOKENS = 24, 90
PROMPT, WANTED = [5, 6, 7] * 5, IGNORE_EOS | WANT_DRAFTS


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


def test_the_end_of_a_call_says_what_its_drafts_brought():
    with Appliance(NOISE, "sched.speculate=7") as a:
        with Client(a.tcp) as c:
            for number in range(6):         # texts of one token: drafts agree
                c.start(number, PROMPT, biases=((5, 100.0),), max_tokens=TOKENS, flags=WANTED)
            ends = [c.finish(number).check().done for number in range(6)]
            stats = a.stats()
            assert "draft_tokens" not in c.generate(6, [5, 6], max_tokens=2).done
            again = c.generate(0, PROMPT, again=True, biases=((5, 100.0),), max_tokens=TOKENS,
                               flags=WANTED)
            assert again.done == ends[0]
        for name in ("draft_tokens", "draft_tokens_agreed"):
            assert sum(end[name] for end in ends) == stats[name] > 0, (ends, stats[name])
        saved = [int(line.partition("agreed=")[2])
                 for line in a.text("ended").splitlines() if "agreed=" in line]
        assert sorted(saved) == sorted([end["draft_tokens_agreed"] for end in ends] + [0])
        told = run("agx", "--to", a.to, "generate", "--ids", "5,6,5,6,5,6", "--drafts")
        assert re.fullmatch(r"drafted=\d+ agreed=\d+\n", told.stderr), told.stderr
        with agentix.connect(a.to) as client:
            reply = client.call(PROMPT, logit_bias={5: 100.0}, max_tokens=60, ignore_eos=True,
                                drafts=True)
            assert 0 < reply.drafts.agreed <= reply.drafts.tokens
            assert client.call([5, 6], max_tokens=2).drafts is None


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
