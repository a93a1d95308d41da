# SPDX-License-Identifier: MIT
"""Several engines in one appliance: what the text port says of each, and a load of many programs
that compares every answer with the one that a single engine gave."""
import itertools
import os
import signal
import threading

from appliance import HANG_S, Appliance, wait_for
from protocol import Client

NUMBERS = ("worker_pid", "open", "running", "waiting", "blocks_used", "steps", "restarts",
           "step_ms")


def rows(a):
    """A dict for each engine: the columns of `engines`."""
    head, *lines = a.text("engines").splitlines()
    engines = [dict(zip(head.split(), line.split())) for line in lines]
    return [{name: int(value.replace("-", "0")) if name in NUMBERS else value
             for name, value in row.items()} for row in engines]


def prompt(number):
    return [3 + (number * 37 + i * 11) % 400 for i in range(5 + number % 17)]


def sampling(number):
    """Every third call is sampled, the others are greedy."""
    return {} if number % 3 else {"temperature": 0.8, "top_k": 40, "top_p": 0.9, "seed": number,
                                  "repeat_penalty": 1.1}


def answers(count, max_tokens, *settings):
    """What one engine with one thread answers, each call alone."""
    with Appliance("engine.threads=1", *settings) as a, Client(a.tcp) as c:
        return [c.generate(number + 1, prompt(number), max_tokens=max_tokens,
                           **sampling(number)).check().tokens for number in range(count)]


class Load:
    """Programs that ask all the time while the block lasts, each over a connection of its own. At
    the end every answer has been right, and `count` says how many there were."""

    def __init__(self, a, expected, programs=6, at_once=3):
        self.a, self.expected, self.at_once = a, expected, at_once
        self.max_tokens = max(map(len, expected))
        self.enough, self.count, self.wrong, self.health = threading.Event(), 0, [], set()
        self.turns = [0] * programs     # each program's: how often all that it asked was answered
        self.threads = [threading.Thread(target=self._watch)] + [
            threading.Thread(target=self._ask, args=(i,)) for i in range(programs)]

    def _watch(self):
        while not self.enough.is_set():
            self.health.add(self.a.health().split(" last_step_ms")[0])
            self.enough.wait(0.005)

    def _ask(self, program):
        call_ids, number = itertools.count(1), program
        try:
            with Client(self.a.tcp) as c:
                while not self.enough.is_set():
                    open_calls = {}
                    for _ in range(self.at_once):
                        call_id, number = next(call_ids), (number + 1) % len(self.expected)
                        open_calls[call_id] = number
                        c.start(call_id, prompt(number), max_tokens=self.max_tokens,
                                **sampling(number))
                    for call_id, one in open_calls.items():
                        outcome = c.finish(call_id).check()
                        self.count += 1
                        if outcome.tokens != self.expected[one]:
                            self.wrong.append((one, outcome.tokens, outcome.done))
                    self.turns[program] += 1
        except Exception as error:              # the thread's end must not look like success
            self.wrong.append(repr(error))

    def is_up(self):
        return all(thread.is_alive() for thread in self.threads)

    def wait_count(self, count):
        wait_for(lambda: self.count >= count or self.wrong, "%d calls have ended" % count)
        assert not self.wrong, self.wrong[:3]

    def wait_turn(self):
        """Waits until every call that is open now has ended."""
        before = list(self.turns)

        def have_ended():
            assert self.is_up() and not self.wrong, self.wrong[:3]
            return all(now > then for now, then in zip(self.turns, before))
        wait_for(have_ended, "the calls that are open end")

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, kind, *_):
        self.enough.set()
        for thread in self.threads:
            thread.join(HANG_S * 3)
        if kind is None:
            assert not self.wrong and self.count > 0, self.wrong[:3]
            words = {word.partition("(")[0] for word in self.health}
            assert words <= {"ready", "degraded"}, self.health


def wait_busy(a, load, but=None, which=all):
    """Waits until each engine, but for one, has done steps since now; with which=any, until one
    has."""
    before = rows(a)

    def have_moved():
        assert load.is_up() and not load.wrong, load.wrong[:3]
        return which(now["steps"] > then["steps"] for i, (now, then) in enumerate(
            zip(rows(a), before)) if i != but)
    wait_for(have_moved, "engines do steps")


def kill(a, load, engine, which=all):
    """Kills the worker of an engine. The others do not notice: they keep their workers and do
    steps (any of them, where programs stay with an engine). Returns the longest time in
    milliseconds that one of them had no step while calls of its own ran.

    Calls that an earlier kill has met end first: one that is alone in its step at three deaths
    is, rightly, taken for their cause."""
    load.wait_turn()
    before, gap = rows(a), 0
    pid = before[engine]["worker_pid"]
    os.kill(pid, signal.SIGKILL)

    def is_back():
        nonlocal gap
        now = rows(a)
        for i, row in enumerate(now):
            if i != engine:
                assert row["worker_pid"] == before[i]["worker_pid"], (i, before, now)
                assert row["restarts"] == before[i]["restarts"], (i, before, now)
                gap = max(gap, row["step_ms"] if row["running"] > 0 else 0)
        assert load.is_up() and not load.wrong, load.wrong[:3]
        return now[engine]["worker_pid"] not in (0, pid) and now[engine]["state"] in ("busy",
                                                                                     "idle")
    wait_busy(a, load, but=engine, which=which)
    wait_for(is_back, "engine %d has another worker" % engine)
    return gap
