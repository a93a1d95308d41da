# SPDX-License-Identifier: MIT
"""A worker writes anything to the words that are its own, at any time: what it says is believed
once, or with a proof, or not at all. Calls end in time and with the right tokens."""
import os
import random
import signal
import struct
import threading

from appliance import NOISE, Appliance, stop, wait_for
from protocol import CANCELLED, DEADLINE, FAILED, Client, Outcome, call
from test_worker import PROMPT, open_of, poke, shared_parts, start_calls, undisturbed

PAGE = 4096
# Of appliance/control.h: of the worker's page, and of that before it, the keeper's and core's.
DONE, ANSWERED, READY, PROOF, HEARTBEAT = 0, 4, 8, 16, 64
EPOCH, SUBMITTED = -PAGE + 4, -PAGE + 68
WILD_WRITES, WILD_BATCHES = 100000, 10


class Words:
    """The words of the worker's page, through the core's eyes: also when no worker lives."""

    def __init__(self, a):
        self.core, self.page = a.core, shared_parts(a.worker)[1][0]
        assert self.read(READY) == self.read(EPOCH) > 0, "the words are where this file looks"
        assert self.read(SUBMITTED) - self.read(DONE) in (0, 1) and self.read(SUBMITTED) > 0

    def write(self, at, value, form="<I"):
        poke(self.core, self.page + at, struct.pack(form, value))

    def read(self, at):
        with open_of(self.core, "mem", "rb") as memory:
            memory.seek(self.page + at)
            return struct.unpack("<I", memory.read(4))[0]

    def scribble(self, draw, writes, wait_a_pass):
        """Any number anywhere, some of them in each pass of the core."""
        with open_of(self.core, "mem", "r+b") as memory:
            for number in range(writes):
                memory.seek(self.page + draw.randrange(HEARTBEAT + 5))
                memory.write(struct.pack("<I", draw.choice((0, 1, draw.getrandbits(32)))))
                if number % 100 == 0:
                    wait_a_pass()


class BeatingHeart:
    """A heartbeat that grows while the block lasts, whatever the worker does."""

    def __init__(self, words):
        self.words, self.enough = words, threading.Event()
        self.thread = threading.Thread(target=self._beat)

    def _beat(self):
        beat = 1 << 40
        while not self.enough.wait(0.02):
            beat += 1
            self.words.write(HEARTBEAT, beat, "<Q")

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.enough.set()
        self.thread.join()


def in_flight(a, c, *calls):
    """Calls that come together, to a worker that is stopped: a step of theirs is in flight."""
    stop(a.worker)
    frames = b""
    for call_id, options in enumerate(calls, 1):
        c.calls[call_id] = Outcome()
        frames += call(call_id, PROMPT + [call_id], program=c.program, **options)
    c.send(frames)
    wait_for(lambda: a.stats()["calls_running"] > 0, "a step has calls")


def test_a_worker_cannot_take_back_that_it_is_ready():
    with Appliance(NOISE) as a, Client(a.tcp) as c:
        tokens = c.generate(1, PROMPT, max_tokens=50).check().tokens
        words, worker = Words(a), a.worker
        for call_id, lie in enumerate((0, 0xffffffff, words.read(READY) + 1), 2):
            words.write(READY, lie)
            assert c.generate(call_id, PROMPT, max_tokens=50).check().tokens == tokens
            a.wait_ready()
        assert a.worker == worker and a.stats()["engine_restarts"] == 0


def test_a_step_that_stands_still_ends_whatever_the_heart_says():
    with Appliance(NOISE, "engine.hang=2s", "engine.failures=0") as a, Client(a.tcp) as c:
        wait_for(lambda: a.stats()["canaries"] > 0, "a step has been measured")
        words, worker = Words(a), a.worker
        with BeatingHeart(words):
            in_flight(a, c, {"max_tokens": 300, "deadline": 100000}, {"max_tokens": 300},
                      {"max_tokens": 300})
            c.cancel(2)
            wait_for(lambda: a.health().startswith("degraded(engine late)"), "health says so")
            assert c.finish(1).check().done["finish"] == DEADLINE
            assert c.finish(2).check().done["finish"] == CANCELLED
            a.wait_said("engine worker was hung pid=%d" % worker)
        third = c.finish(3).check().tokens
        assert c.generate(4, PROMPT + [3], max_tokens=300).check().tokens == third
        assert a.stats()["engine_late"] == 1
        a.wait_ready()


def test_terminal_frames_come_although_the_keeper_does_not_kill():
    """The core alone ends them: it waits for no process's end."""
    with Appliance(NOISE, "engine.hang=2s", "engine.failures=0") as a, Client(a.tcp) as c:
        wait_for(lambda: a.stats()["canaries"] > 0, "a step has been measured")
        with BeatingHeart(Words(a)):
            in_flight(a, c, {"max_tokens": 300, "deadline": 100000}, {"max_tokens": 300})
            stop(a.process.pid)
            c.cancel(2)
            assert c.finish(1).check().done["finish"] == DEADLINE
            assert c.finish(2).check().done["finish"] == CANCELLED
            assert a.health().startswith("degraded(engine restarting)"), a.health()
            os.kill(a.process.pid, signal.SIGCONT)
        c.generate(3, PROMPT).check()


def test_a_successor_is_not_taken_for_ready_because_its_predecessor_said_so():
    with Appliance(NOISE, "engine.hang=2s", "engine.failures=0") as a, Client(a.tcp) as c:
        tokens = c.generate(1, PROMPT, max_tokens=50).check().tokens
        words, worker = Words(a), a.worker
        words.write(READY, words.read(READY) + 1)
        os.kill(worker, signal.SIGKILL)
        while a.stats()["engine_restarts"] == 0:    # each question is a pass of the core's loop,
            pass
        a.stats()                                   # which now believes it, while it starts
        assert c.generate(2, PROMPT, max_tokens=50).check().tokens == tokens
        assert a.stats()["engine_restarts"] == 1
        assert a.said("was hung") == 0, a.lines


def test_done_without_the_results_costs_the_worker():
    alone = undisturbed(4)
    with Appliance(NOISE, "engine.failures=0") as a, Client(a.tcp) as c:
        start_calls(c, 4)
        words, worker = Words(a), a.worker
        stop(worker)
        done = words.read(SUBMITTED)
        if words.read(DONE) != done:            # else it has stopped between two steps
            words.write(DONE, done)
            a.wait_said("engine worker was wrong pid=%d" % worker)
        else:
            os.kill(worker, signal.SIGCONT)
        assert [c.finish(call_id).check().tokens for call_id in range(1, 5)] == alone


def test_words_that_are_overwritten_at_random_cost_time_only():
    alone = undisturbed(8)
    with Appliance(NOISE, "engine.failures=0", "engine.hang=2s") as a, Client(a.tcp) as c:
        words, lies = Words(a), iter(range(1 << 30))
        start_calls(c, 8)
        while a.stats()["engine_restarts"] < 5 and a.stats()["calls_open"] > 0:
            for at in (DONE, ANSWERED, READY, PROOF, HEARTBEAT):
                words.write(at, (0, 1, 0xffffffff, words.read(SUBMITTED))[next(lies) % 4])
        for call_id, tokens in enumerate(alone, 1):
            outcome = c.finish(call_id).check()
            assert outcome.done["finish"] == FAILED or outcome.tokens == tokens
        a.wait_ready()
        assert c.generate(9, PROMPT + [1], max_tokens=300).check().tokens == alone[0]


def test_wild_writes_without_end_cost_time_only():
    """While calls come and go. Results that are overwritten: test_worker."""
    draw, alone = random.Random(28), undisturbed(8)
    with Appliance(NOISE, "engine.failures=0", "engine.hang=2s") as a, Client(a.tcp) as c:
        words = Words(a)
        for first in range(1, 1 + 8 * WILD_BATCHES, 8):
            for number in range(8):
                c.start(first + number, PROMPT + [1 + number], max_tokens=300)
            words.scribble(draw, WILD_WRITES // WILD_BATCHES, a.stats)
            for call_id, tokens in enumerate(alone, first):
                outcome = c.finish(call_id).check()
                assert outcome.done["finish"] == FAILED or outcome.tokens == tokens
        a.wait_ready()
        assert a.stats()["engine_restarts"] > 0, "none of the writes was met"
        outcome = c.generate(1 + 8 * WILD_BATCHES, PROMPT + [1], max_tokens=300)
        assert outcome.check().tokens == alone[0]
