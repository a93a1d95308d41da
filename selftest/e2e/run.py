# SPDX-License-Identifier: MIT
"""Runs the end-to-end tests: every function test_* of the modules test_*.py, each in a process of
its own, as many at a time as there are CPUs.

usage: run.py [--jobs N] [--long] [--stalls MS] [NAME...]
    a NAME is a module (`serve`) or a test (`serve.test_x`); without one, all tests run that are
    not marked as long, or, with --long, those that are; with --stalls the machine stands still for
    up to so many milliseconds now and then (stalls.py; it takes the right to real-time priority)

A test's output appears when it has ended, above its line. A test that raises Skip is counted as
skipped and says why. The last lines say again what the tests that failed said, and sum up.
"""
import argparse
import importlib
import os
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from skip import Skip, is_long  # noqa: E402
from stalls import Stalls  # noqa: E402

PASSED, FAILED, SKIPPED = 0, 1, 2       # exit status of a test's process


def all_tests():
    """(label, function) of each."""
    for name in sorted(os.listdir(HERE)):
        if not (name.startswith("test_") and name.endswith(".py")):
            continue
        module = importlib.import_module(name[:-3])
        for attribute in sorted(vars(module)):
            if attribute.startswith("test_"):
                yield name[5:-3] + "." + attribute, getattr(module, attribute)


def tests(names, long):
    if not names:
        return [(label, test) for label, test in all_tests() if is_long(test) == long]
    every = list(all_tests())
    strange = names - {label for label, _ in every} - {label.split(".")[0] for label, _ in every}
    if strange:
        sys.exit("no module and no test is named " + ", ".join(sorted(strange)))
    return [(label, test) for label, test in every
            if label in names or label.split(".")[0] in names]


def outcome_of(test):
    """Runs the test. Its reason for not running is the last line of its output."""
    try:
        test()
        return PASSED
    except Skip as skip:
        print(skip)
        return SKIPPED
    except Exception:
        traceback.print_exc(file=sys.stdout)
        return FAILED


class Running:
    """A test in its process. What it and its children print goes to a file."""

    def __init__(self, label, test):
        self.label, self.start = label, time.monotonic()
        self.said = tempfile.TemporaryFile("w+", errors="replace")
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._become(test)

    def _become(self, test):
        status = FAILED
        try:
            os.dup2(self.said.fileno(), 1)
            os.dup2(self.said.fileno(), 2)
            status = outcome_of(test)
            sys.stdout.flush()
        finally:
            os._exit(status)

    def report(self, wait_status, cpu_seconds):
        """Prints what it said and its line; returns its outcome."""
        seconds, status = time.monotonic() - self.start, os.waitstatus_to_exitcode(wait_status)
        self.said.seek(0)
        lines = self.said.read().splitlines()
        self.said.close()
        outcome = "ok"
        if status == SKIPPED:
            outcome = "skipped: " + lines.pop()
        elif status != PASSED:
            outcome = "FAILED" if status == FAILED else "FAILED: ended with status %d" % status
        lines.append("%-64s %s (%.1f s, %.1f s of CPU)" % (self.label, outcome, seconds,
                                                           cpu_seconds))
        self.text = "\n".join(lines)
        print(self.text, flush=True)
        return status if status in (PASSED, SKIPPED) else FAILED


def run_all(wanted, jobs):
    """How many have passed, failed and been skipped, and what those that failed have said."""
    counts, failures, running, waiting = [0, 0, 0], [], {}, list(wanted)
    while waiting or running:
        while waiting and len(running) < jobs:
            test = Running(*waiting.pop(0))
            running[test.pid] = test
        pid, wait_status, used = os.wait4(-1, 0)
        test = running.pop(pid)
        outcome = test.report(wait_status, used.ru_utime + used.ru_stime)
        counts[outcome] += 1
        if outcome == FAILED:
            failures.append(test.text)
    return counts, failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--stalls", type=int, metavar="MS")
    parser.add_argument("names", nargs="*")
    words = parser.parse_args()
    stalls = Stalls(words.stalls) if words.stalls else None
    (passed, failed, skipped), failures = run_all(tests(set(words.names), words.long), words.jobs)
    if stalls is not None:
        stalls.end()
    for text in failures:
        print("again: " + text)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
