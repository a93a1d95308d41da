# SPDX-License-Identifier: MIT
"""Drafts change no token (decision 0089): greedy or drawn, alone or together, with short KV, over
deaths of workers and of the core. What they saved is told in stats and events."""
import collections
import contextlib
import os
import random
import re
import signal
import sys

from appliance import NOISE, ROOT, Appliance, run, wait_for
from models import model
from protocol import IGNORE_EOS, WANT_DRAFTS, Client
from skip import long
from test_core import kill_core

sys.path.insert(0, os.path.join(ROOT, "tools", "sdk", "python"))
import agentix  # noqa: E402

TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_k", "q6_k")
SHAPE = ("--layers", "1", "--dim", "256", "--ffn", "256", "--context", "192")

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


def speculate(c):
    """A text of one token, alone, in a core that has not learnt yet what drafts cost this machine:
    so there are drafts, and they agree, however soon they turn out to be too dear."""
    c.generate(99, PROMPT, biases=((5, 100.0),), max_tokens=24, flags=IGNORE_EOS).check()


def start_all(c):
    for number in range(CALLS):
        prompt, sampling = ask_of(number)
        c.start(number + 1, prompt, max_tokens=TOKENS, **sampling)


def finish_all(c):
    return [c.finish(number + 1).check().tokens for number in range(CALLS)]


def answers(*settings):
    """Of calls together and of each alone, and what stats and all events say of drafts."""
    with Appliance(NOISE, *TIGHT, "limits.events=1000000", *settings) as a, Client(a.tcp) as c:
        speculate(c)
        start_all(c)
        tokens = finish_all(c)
        for number in range(CALLS):
            prompt, sampling = ask_of(number)
            alone = c.generate(100 + number, prompt, max_tokens=TOKENS, **sampling).check().tokens
            assert alone == tokens[number], number
        events = run("agx", "ask", "--text", "%s:%d" % a.text_address, "--all", "events 0")
        assert events.returncode == 0 and "lost=0" in events.stdout, events.stderr
        return tokens, a.stats(), events.stdout


def test_tokens_are_those_without_drafts():
    right, none, _ = answers("sched.speculate=0")
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


def test_the_client_of_python_is_told_of_drafts():
    with Appliance(NOISE, "sched.speculate=7") as a, agentix.connect(a.to) as client:
        reply = client.call(PROMPT, logit_bias={5: 100.0}, max_tokens=60, ignore_eos=True,
                            drafts=True)
        assert 0 < reply.drafts.agreed <= reply.drafts.tokens
        assert client.call([5, 6], max_tokens=2).drafts is None


def test_tokens_are_the_same_over_deaths():
    right, _, _ = answers("sched.speculate=0")
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
            speculate(c)
            start_all(c)
            assert finish_all(c) == right
            assert a.stats()["draft_tokens_agreed"] > 0


# ---- ten thousand calls --------------------------------------------------------------------------

EACH = 96                       # calls of a run; runs: a type of weights and a length of drafts
RUNS = tuple((kind, most) for most in range(1, 16) for kind in TYPES)
# A run draws one of each: chunks of prompts, steps, rows, threads, memory, sharing, order.
TURNS = (("sched.prefill_tokens=5", "sched.prefill_tokens=64"),
         ("sched.steps_per_plan=3", "sched.steps_per_plan=8", "sched.steps_per_plan=16"),
         ("sched.batch=3", "sched.batch=16", "sched.batch=48"),
         ("engine.threads=1", "engine.threads=2"),
         ("kv.host_ratio=0", "kv.host_ratio=1", "kv.host_ratio=3"),
         ("kv.sharing=domain", "kv.sharing=program", "kv.sharing=off"),
         ("sched.policy=plas", "sched.policy=rr", "sched.policy=fcfs"))
SMALL = ("limits.context_tokens=192", "kv.block_tokens=8", "kv.device_blocks=60",
         "sched.quantum=1us", "engine.failures=0",
         "limits.calls_per_connection=%d" % EACH)
COUNTED = ("draft_tokens", "draft_tokens_agreed", "preemptions", "prefix_hit_tokens",
           "swap_in_blocks", "steps_lost", "standbys_entered")


def many_asked():
    """Beginnings that several have, then a text that repeats itself; greedy, drawn and with
    penalties. The output of most is of one, two or three tokens: drafts agree, or nearly."""
    chance = random.Random(29)
    begins = [[chance.randrange(3, 500) for _ in range(chance.randrange(1, 60))] for _ in range(8)]
    for number in range(EACH):
        period = [chance.randrange(3, 500) for _ in range(chance.randrange(1, 9))]
        sampling = ({}, {"temperature": 0.7, "top_k": 2, "seed": number},
                    {"temperature": 0.4, "top_p": 0.5, "repeat_penalty": 1.1, "seed": number},
                    {"presence_penalty": 0.5, "frequency_penalty": 0.1})[number % 4]
        few = {"biases": tuple((token, 50.0) for token in (7, 9, 11)[:1 + number % 3])}
        bias = few if number % 5 else {}
        yield begins[number % 8] + period * 4, {**sampling, **bias,
                                                "max_tokens": 8 + number % 41}


def answer_many(a, asked, deaths):
    """The tokens of all, in seven programs, sent at once; the worker dies so many times."""
    with Client(a.tcp) as c:
        for number, (prompt, options) in enumerate(asked):
            c.start(number, prompt, program=b"program-%08d" % (number % 7), **options)
        for death in range(deaths):
            c.finish(len(asked) * (death + 1) // (deaths + 2))
            os.kill(a.worker, signal.SIGKILL)
        return [c.finish(number).check().tokens for number in range(len(asked))]


@long
def test_ten_thousand_calls_have_the_tokens_of_single_rounds():
    asked, total, agreed = list(many_asked()), collections.Counter(), collections.Counter()
    with contextlib.ExitStack() as stack:
        paths = {kind: stack.enter_context(model("llama", *SHAPE, "--type", kind))
                 for kind in TYPES}
        right = {}
        for kind, path in paths.items():
            with Appliance("model.path=" + path, *SMALL[-1:]) as a:
                right[kind] = answer_many(a, asked, 0)
        for number, (kind, most) in enumerate(RUNS):
            turns = [random.Random(number).choice(settings) for settings in TURNS]
            with Appliance("model.path=" + paths[kind], "sched.speculate=%d" % most, *SMALL,
                           *turns) as a:
                assert answer_many(a, asked, number % 3) == right[kind], (kind, most, turns)
                stats = a.stats()
            total.update({name: stats[name] for name in COUNTED})
            agreed[most] += stats["draft_tokens_agreed"]
    assert len(RUNS) * len(asked) >= 10000
    assert min(total.values()) > 0 and min(agreed.values()) > 0, (total, agreed)
    print("  %d calls, each with the tokens of single rounds; %s"
          % (len(RUNS) * len(asked), ", ".join("%s %d" % each for each in total.items())))
