#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a tenant's calls take while another one attacks: build/agentix with a key for each.

    tools/bench/serve/attack.py [--rounds 5] [--calls 6] [--set KEY=VALUE]

The attacker has --open calls open all the time: of one program, or of a fresh program for each
call (`agx replay`). Bob has one program and makes one call after the other. A round has an
appliance for each of: no attack, one program, fresh programs, with sched.tenants = fair and off.
Figures are medians over the rounds: of the mean of bob's calls, and of his first one."""
import argparse
import collections
import contextlib
import itertools
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "selftest" / "e2e"))
from appliance import Appliance, TextFile      # noqa: E402
from protocol import Client                    # noqa: E402

MALLORY, BOB = (b"mallory", bytes(range(32))), (b"bob", bytes(range(32, 64)))
KEYS = "mallory %s\nbob %s\n" % (MALLORY[1].hex(), BOB[1].hex())
BOB_PROMPT, BOB_TOKENS = 60, 16
ATTACKS = ("none", "one", "fresh")
CALLS_MAX = 100000                  # of the attacker: more than a measurement lasts


def traces(options):
    """A program of one call; and one program whose calls follow each other in --open lines."""
    tail = "gap=0 in=u:%d out=%d\n" % (options.prompt, options.output)
    lines = ("call %d after=%s %s" % (i, i - options.open if i >= options.open else "-", tail)
             for i in range(2000))
    head = "agentix-trace 1\nprogram 0 0 attack\n"
    return {"fresh": head + "call 0 after=- " + tail, "one": head + "".join(lines)}


@contextlib.contextmanager
def attacked(a, kind, options, key_file):
    """The appliance, with so many calls of the attacker open."""
    if kind == "none":
        yield
        return
    with TextFile(traces(options)[kind]) as trace:
        count = ["--sessions", options.open] if kind == "fresh" else []
        programs = CALLS_MAX if kind == "fresh" else 1
        words = [ROOT / "build/agx", "--to", a.to, "--key-file", key_file, "replay", trace,
                 "--programs", programs, *count]
        with subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as process:
            try:
                a.wait_stats(calls_open=options.open)
                time.sleep(options.warm)        # until the load is steady
                yield
                assert process.poll() is None, "the attack has ended"
            finally:
                process.kill()


def bobs_calls(client, options):
    """Seconds of each."""
    chance, taken = random.Random(2), []
    for number in range(options.calls):
        prompt = [chance.randrange(3, 256) for _ in range(BOB_PROMPT)]
        begun = time.monotonic()
        client.generate(number + 1, prompt, max_tokens=BOB_TOKENS).check()
        taken.append(time.monotonic() - begun)
    return taken


def measure(path, options, kind, tenants):
    settings = ["auth.tcp=psk", "auth.keys=" + path, "sched.tenants=" + tenants,
                "limits.context_tokens=1024", "limits.calls_per_program=0", *options.set]
    with TextFile(KEYS.splitlines()[0] + "\n", 0o600) as key_file, Appliance(*settings) as a, \
            attacked(a, kind, options, key_file), Client(a.tcp, key=BOB) as bob:
        return bobs_calls(bob, options)


def main():
    parser = argparse.ArgumentParser()
    for name, value in (("rounds", 5), ("calls", 6), ("open", 32), ("prompt", 500),
                        ("output", 400)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--warm", type=float, default=5.0)
    parser.add_argument("--tenants", default="fair,off")
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    seconds = collections.defaultdict(list)
    with TextFile(KEYS, 0o600) as path:
        for _ in range(options.rounds):
            for tenants, kind in itertools.product(options.tenants.split(","), ATTACKS):
                taken = measure(path, options, kind, tenants)
                seconds[tenants, kind, "calls"].append(statistics.mean(taken))
                seconds[tenants, kind, "first"].append(taken[0])
                print(tenants, kind, " ".join("%.3f" % each for each in taken), flush=True)
    for tenants, what in itertools.product(options.tenants.split(","), ("calls", "first")):
        none, one, fresh = (statistics.median(seconds[tenants, kind, what]) for kind in ATTACKS)
        print("sched.tenants=%s, %s: alone %.3f s, one program %.3f s, fresh programs %.3f s, "
              "%.2f times as long" % (tenants, what, none, one, fresh, fresh / one))


if __name__ == "__main__":
    main()
