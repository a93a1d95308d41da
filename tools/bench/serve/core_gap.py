#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How long a client hears nothing when the core is killed.

    tools/bench/serve/core_gap.py [--kills N] [--set KEY=VALUE]... BUILD...

Each BUILD is a folder with an `agentix`; all serve at once, and are killed in turn. One client each
has one call open at any time; its silence is the longest time between two of its frames around a
kill. Kills come at random moments, never within half a second of the last of the same appliance.
"""
import argparse
import os
import random
import signal
import statistics
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "selftest", "e2e"))
os.environ.setdefault("AGENTIX_HANG_S", "60")

from appliance import Appliance, wait_for                       # noqa: E402
from protocol import IGNORE_EOS, Client                         # noqa: E402

TOKENS = 400
AROUND_S = 0.5


class Stream(threading.Thread):
    """A client that always has a call open, and notes when each frame comes."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.client, self.goes_on, self.times = Client(address), True, []

    def run(self):
        c, next_id = self.client, 2
        open_ids = [1]
        for call_id in open_ids:
            c.start(call_id, [call_id + 5, 7], max_tokens=TOKENS, flags=IGNORE_EOS)
        while self.goes_on:
            c.step()
            self.times.append(time.monotonic())
            assert not c.errors, c.errors
            for call_id in list(open_ids):
                if c.calls[call_id].done is not None:
                    open_ids.remove(call_id)
                    del c.calls[call_id]
                    c.start(next_id, [next_id % 200 + 5, 7], max_tokens=TOKENS, flags=IGNORE_EOS)
                    open_ids.append(next_id)
                    next_id += 1

    def silence_ms(self, begin, end):
        times = [t for t in list(self.times) if begin - AROUND_S < t < end]
        return max(b - a for a, b in zip(times, times[1:])) * 1000


def kill_once(a, stream):
    """The client's silence, in ms."""
    core = a.core
    time.sleep(AROUND_S * random.uniform(0.5, 1))
    killed = time.monotonic()
    os.kill(core, signal.SIGKILL)
    wait_for(lambda: a.children().get("agentix-core", core) != core, "there is another core")
    time.sleep(AROUND_S)
    assert stream.is_alive()
    silence = stream.silence_ms(killed, time.monotonic())
    del stream.times[:-2]
    return silence


def report(name, values):
    values = sorted(values)
    print("%-24s %3d kills, ms: median %5.1f, 90 %% %5.1f, max %5.1f; below 100: %d of %d"
          % (name, len(values), statistics.median(values), values[int(len(values) * 0.9)],
             values[-1], sum(value < 100 for value in values), len(values)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("builds", nargs="+")
    options = parser.parse_args()
    settings = ["appliance.core_failures=0", *options.set]
    served = [Appliance(*settings, binary=os.path.abspath(os.path.join(build, "agentix")))
              for build in options.builds]
    streams = [Stream(a.tcp) for a in served]
    for stream in streams:
        stream.start()
    silences = [[] for _ in served]
    for _ in range(options.kills):
        for a, stream, values in zip(served, streams, silences):
            values.append(kill_once(a, stream))
    for name, values in zip(options.builds, silences):
        report(name, values)
    for a, stream in zip(served, streams):
        stream.goes_on = False
        stream.join(10)
        a.stop()


if __name__ == "__main__":
    main()
