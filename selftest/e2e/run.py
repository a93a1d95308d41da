# SPDX-License-Identifier: MIT
"""Runs the end-to-end tests: every function test_* of the modules test_*.py, one after the other.

usage: run.py [NAME...]     a NAME is a module (`serve`) or a test (`serve.test_x`)

A test that raises Skip is counted as skipped and says why. The last line is the summary.
"""
import importlib
import os
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from skip import Skip  # noqa: E402


def tests(wanted):
    for name in sorted(os.listdir(HERE)):
        if not (name.startswith("test_") and name.endswith(".py")):
            continue
        module = importlib.import_module(name[:-3])
        for attribute in sorted(vars(module)):
            label = name[5:-3] + "." + attribute
            if attribute.startswith("test_") and (
                    not wanted or label in wanted or name[5:-3] in wanted):
                yield label, getattr(module, attribute)


def main():
    passed, failed, skipped = 0, 0, 0
    for label, test in tests(set(sys.argv[1:])):
        start = time.monotonic()
        try:
            test()
            passed += 1
            outcome = "ok"
        except Skip as skip:
            skipped += 1
            outcome = "skipped: %s" % skip
        except Exception:
            failed += 1
            outcome = "FAILED"
            traceback.print_exc(file=sys.stdout)
        print("%-64s %s (%.1f s)" % (label, outcome, time.monotonic() - start), flush=True)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
