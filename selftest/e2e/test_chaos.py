# SPDX-License-Identifier: MIT
"""Whatever dies, stands still, is read again or is upgraded, at whatever moment: each call has its
tokens, and connections stay.

Method: clients ask without a pause, while what happens, and to which process, is drawn. Two things
may come of it that are no fault: a connection that has not been greeted yet ends with its core, and
a call that was alone on two engines that died is refused as poison.
"""
import os
import random
import signal
import threading
import time

from appliance import HANG_S, NOISE, is_alive
from frames import STATUSES
from protocol import Client, Closed
from skip import long
from test_worker import PROMPT
from upgrade import Upgrade, family

CLIENTS, KINDS, EVENTS = 10, 12, 120
PATIENCE = ("appliance.core_failures=0", "engine.failures=0", "limits.calls=64")


def call_of(kind):
    """A call of many tokens or few, greedy or by lot."""
    draw = random.Random(kind)
    return {"prompt": PROMPT + [kind], "max_tokens": draw.choice([1, 5, 40, 150, 400]),
            "seed": draw.randrange(1000), "temperature": draw.choice([0.0, 0.8, 1.2])}


def is_poison(outcome):
    return outcome.done["status"] in STATUSES and \
        STATUSES[outcome.done["status"]][0] == "DEVICE_POISON"


class Chaos:
    """What goes on at once: clients, events, and the appliance that serves at the moment."""

    def __init__(self, a, seed):
        self.a, self.draw, self.faults, self.calls = a, random.Random(seed), [], 0
        self.is_over = False
        with Client(a.tcp) as c:
            self.right = [c.generate(kind, **call_of(kind)).check().tokens for kind in range(KINDS)]
        self.threads = [threading.Thread(target=self.guarded, args=(self.ask, number), daemon=True)
                        for number in range(CLIENTS)]
        self.events = threading.Thread(target=self.guarded, args=(self.happen,), daemon=True)
        for thread in self.threads + [self.events]:
            thread.start()

    def goes_on(self):
        return not self.is_over and not self.faults

    def guarded(self, work, *arguments):
        try:
            work(*arguments)
        except BaseException as fault:
            self.faults.append((work.__name__, arguments, repr(fault)))

    def connect(self):
        while True:
            try:
                return Client(self.a.tcp)
            except Closed:
                pass

    def ask(self, number):
        draw, call, client = random.Random(number), 0, self.connect()
        while self.goes_on():
            call, kind = call + 1, draw.randrange(KINDS)
            program = b"%08d%08d" % (number, call % 7)
            outcome = client.generate(call, program=program, **call_of(kind))
            assert outcome.error is None, (call, outcome.error)
            if not is_poison(outcome):
                assert outcome.check().tokens == self.right[kind], (call, kind, outcome.done)
            self.calls += 1
            if draw.random() < 0.05:
                client.close()
                client = self.connect()
        client.close()

    # ---- what happens ----------------------------------------------------------------------------

    def pids(self, name=""):
        """Of the children with that in their names."""
        return [pid for child, pid in self.a.all_children() if name in child]

    def hold(self, pid, most_s):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(self.draw.random() * most_s)
        os.kill(pid, signal.SIGCONT)

    def kill(self, pids):
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def happens(self):
        name = self.draw.choice(["core", "core", "next", "writer", "worker", "worker"])
        what = self.draw.choices(["one", "workers", "reload", "hold", "hold keeper", "end upgrade"],
                                 [6, 2, 1, 3, 2, 1])[0]
        members = self.a.family[-2:]
        if what == "one":
            self.kill([self.draw.choice(self.pids(name))])
        elif what == "workers":
            self.kill(self.pids("worker"))
        elif what == "reload":
            os.kill(self.a.process.pid, signal.SIGHUP)
        elif what == "hold":
            self.hold(self.draw.choice(self.pids()), 0.3)
        elif what == "hold keeper":
            self.hold(self.draw.choice(members).process.pid, 0.5)
        elif members[-1] is not self.a and members[-1].launcher.poll() is None:
            members[-1].launcher.send_signal(signal.SIGTERM)

    def happen(self):
        for _ in range(EVENTS):
            try:
                self.happens()
            except (OSError, AttributeError, IndexError):
                pass                    # it has ended, or is not there yet
            time.sleep(self.draw.choice([0, 0.001, 0.01, 0.05, 0.2, 0.5]))

    # ---- upgrades --------------------------------------------------------------------------------

    def upgrade(self, settings):
        """By a command that may be refused, die or be ended: then the one that serves goes on."""
        old = self.a
        new = Upgrade(old, NOISE, *settings, wait=False)
        if new.launcher.wait(HANG_S) == 0:
            self.a = new
            assert old.process.wait(HANG_S) == 0, old.lines[-20:]
            return 1
        assert is_alive(old.process.pid), new.lines[-20:]
        return 0

    def join(self):
        self.events.join()
        self.is_over = True
        for thread in self.threads:
            thread.join(HANG_S)
            assert not thread.is_alive(), self.a.health()
        assert not self.faults, self.faults[:3]


@long
def test_whatever_happens_each_call_has_its_tokens():
    for seed, settings in ((1, ("engine.workers=1", "kv.device_blocks=128")),
                           (2, ("engine.workers=3",))):
        settings = PATIENCE + settings
        with family(NOISE, *settings) as a:
            chaos, upgrades, asked = Chaos(a, seed), 0, 0
            while chaos.events.is_alive() and not chaos.faults:
                upgrades, asked = upgrades + chaos.upgrade(settings), asked + 1
                time.sleep(chaos.draw.random())
            chaos.join()
            assert upgrades > 0 and chaos.calls > 0
            chaos.a.wait_ready()
            print("  %d calls, %d of %d upgrades, %d events: each call right" %
                  (chaos.calls, upgrades, asked, EVENTS))
