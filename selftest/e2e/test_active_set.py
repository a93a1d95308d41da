# SPDX-License-Identifier: MIT
"""The active set: programs whose KV does not fit together take turns. A program that waits, is
displaced or comes back gets the tokens that it gets alone."""
import contextlib
import os
import random
import signal

from appliance import NOISE, Appliance, wait_for
from protocol import IGNORE_EOS, WANT_TEXT, Client

PROGRAMS, TURNS, TOKENS = 10, 3, 20
DEAF_CALLS = 8              # more than the kernel takes for a client that does not read
# Each program ends with 16 blocks, and a call may have 32: two programs fit, or three.
SMALL = ("limits.context_tokens=256", "kv.block_tokens=8", "kv.device_blocks=40", "sched.batch=4")
ROOMY = ("sched.active_set=off", "kv.sharing=off", "engine.threads=1")


def name_of(number):
    return b"active set %05d" % number


def options_of(number, turn):
    """Greedy for even programs; the others draw."""
    drawn = {"temperature": 0.9, "top_p": 0.95, "seed": 1000 * number + turn}
    return {"program": name_of(number), "max_tokens": TOKENS, **(drawn if number % 2 else {})}


def words(number, turn):
    """What a program says in a turn."""
    chance = random.Random(100 * number + turn)
    return [chance.randrange(3, 500) for _ in range(25)]


def no_more(client, calls):
    """Nothing happens while a turn runs."""


def take_turns(a, during=no_more):
    """The tokens of all calls. A turn begins when all programs have ended the one before: so each
    of them has its place for a time, and those that wait get it while it is idle."""
    said = [[] for _ in range(PROGRAMS)]
    answers = []
    with Client(a.tcp) as c:
        for turn in range(TURNS):
            for number in range(PROGRAMS):
                said[number] += words(number, turn)
                c.start(100 * turn + number, said[number], **options_of(number, turn))
            during(c, turn)
            for number in range(PROGRAMS):
                got = c.finish(100 * turn + number).check().tokens
                assert len(got) == TOKENS
                said[number] += got
                answers.append(got)
    return answers


def alone():
    with Appliance(NOISE, *ROOMY) as a:
        return take_turns(a)


def test_tokens_do_not_depend_on_the_active_set():
    expected = alone()
    assert len({tuple(tokens) for tokens in expected}) > len(expected) / 2, "they differ"
    for more in (("sched.active_set=off",), ("sched.active_set=auto",), ("sched.active_set=2",),
                 ("sched.active_set=1", "sched.policy=fcfs"),
                 ("sched.active_set=auto", "kv.host_ratio=2", "kv.sharing=domain")):
        with Appliance(NOISE, *SMALL, *more) as a:
            assert take_turns(a) == expected, more
            a.wait_back()
            displaced = a.stats()["programs_displaced"]
            assert (displaced == 0) == (more[0] == "sched.active_set=off"), (more, displaced)


def test_tokens_are_the_same_after_kills():
    expected = alone()
    for active in ("off", "auto", "2"):
        with Appliance(NOISE, *SMALL, "sched.active_set=" + active, "engine.failures=0") as a:

            def kill(client, turn, a=a):
                first = client.calls[100 * turn]
                while not first.tokens:
                    client.step()
                pid = a.worker
                os.kill(pid, signal.SIGKILL)
                wait_for(lambda: a.children().get("agentix-worker") not in (None, pid), "a worker")

            assert take_turns(a, kill) == expected, active
            a.wait_back()
            stats = a.stats()
            assert stats["engine_restarts"] == TURNS, stats
            assert active == "off" or stats["programs_displaced"] > 0, stats


def no_call_can_run(stats):
    return stats["calls_paused"] == stats["calls_open"] > 0


def test_programs_whose_clients_do_not_read_yield_their_places():
    """They are all that the set holds, and their calls cannot go on."""
    with Appliance(NOISE, *ROOMY) as a, Client(a.tcp) as c:
        expected = c.generate(1, words(0, 0), max_tokens=TOKENS).check().tokens
    for active in ("auto", "2"):
        with contextlib.ExitStack() as stack:
            a = stack.enter_context(Appliance(
                NOISE, "kv.block_tokens=8", "limits.context_tokens=1024", "kv.device_blocks=256",
                "net.send_bytes=4KiB", "net.unsent_tokens=1", "limits.calls_per_program=0",
                "sched.active_set=" + active))
            for number in range(2):
                deaf = stack.enter_context(Client(a.tcp, receive_bytes=4096))
                for call_id in range(DEAF_CALLS):
                    deaf.start(call_id, words(number, 0), max_tokens=900, program=name_of(number),
                               flags=IGNORE_EOS | WANT_TEXT)
            wait_for(lambda: no_call_can_run(a.stats()), "no call can run")
            c = stack.enter_context(Client(a.tcp))
            for number in range(2, PROGRAMS):
                c.start(number, words(0, 0), max_tokens=TOKENS, program=name_of(number))
            for number in range(2, PROGRAMS):
                assert c.finish(number).check().tokens == expected
            stats = a.stats()
            assert no_call_can_run(stats), stats
            assert active == "auto" or stats["programs_displaced"] > 0, stats
