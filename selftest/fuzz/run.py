# SPDX-License-Identifier: MIT
"""Runs the fuzz targets that `make MODE=fuzz CC=clang fuzzers` has built.

usage: run.py can               exit status 0 when a clang here can build them
       run.py short [TARGET..]  SECONDS_SHORT each, one seed, from the checked-in corpus, which
                                does not change
       run.py long [TARGET..]   FUZZ_RUNS executions or FUZZ_SECONDS each, whichever comes first.
                                The corpus grows in build/fuzz/corpus. Every second slice takes
                                inputs of a quarter of the length: these are faster, and reach
                                nearly as much. build/fuzz/ledger notes the clean executions, at
                                least every SLICE_SECONDS
       run.py corpus [TARGET..] adds to the checked-in corpus inputs that reach an edge which a run
                                of SECONDS_EASY from it does not reach
       run.py ledger            adds build/fuzz/ledger to docs/testing.md, and empties it

The first finding ends the run. Its input is then in build/fuzz/found; `build/fuzz/fuzz_x FILE`
runs it again. After the fix the input goes into the corpus, and the bug gets a unit test.
"""
import datetime
import os
import re
import shutil
import signal
import subprocess
import sys

# The longest input of each target that is worth its time.
TARGETS = {"ini": 2048, "boot": 1024, "gguf": 4096, "wire": 512, "frame": 512, "proxy": 1024,
           "text": 700, "sdk": 1024, "vocab": 512, "keys": 1024, "predictor": 1024, "chat": 4600,
           "answer": 2600, "door": 1024, "http": 1024, "flow": 1024, "trace": 2048, "core": 16384}
UNITS = {"core": "passes"}      # unit of a target's count, where it is not "inputs"
HERE = "selftest/fuzz/corpus"
BUILD = "build/fuzz"
LEDGER = BUILD + "/ledger"
PAGE = "docs/testing.md"
SECONDS_SHORT = 7
SECONDS_EASY = 20
SLICE_SECONDS = 300
INTERRUPTED = 72                # libFuzzer's exit status
TINY = "#include <stdint.h>\nint LLVMFuzzerTestOneInput(void) { return 0; }\n"


def can_build():
    clang = shutil.which("clang")
    command = [clang, "-x", "c", "-", "-fsanitize=fuzzer,address,undefined", "-o", os.devnull]
    return clang is not None and subprocess.run(command, input=TINY.encode(),
                                                stderr=subprocess.DEVNULL).returncode == 0


class Stop:
    """SIGINT and SIGTERM end the slice that runs; its executions still count."""
    asked = False
    child = None

    def __init__(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.ask)

    def ask(self, number, frame):
        self.asked = True
        if self.child is not None:
            self.child.send_signal(signal.SIGINT)


def binary(target):
    return "%s/fuzz_%s" % (BUILD, target)


def command(target, *flags):
    return [binary(target), "-max_len=%d" % TARGETS[target], "-dict=%s.dict" % binary(target),
            "-artifact_prefix=%s/found/%s-" % (BUILD, target), "-timeout=60", "-verbosity=0",
            "-print_final_stats=1", *flags]


def execute(stop, target, *flags):
    """Number of inputs executed, or of passes of the core; exits at a finding."""
    stop.child = subprocess.Popen(command(target, *flags), stderr=subprocess.PIPE, text=True,
                                  errors="replace", start_new_session=True)
    said = stop.child.stderr.read()
    status = stop.child.wait()
    stop.child = None
    count = (re.search(r"stat::simulated_passes:\s*(\d+)", said) or
             re.search(r"stat::number_of_executed_units:\s*(\d+)", said))
    if status not in (0, INTERRUPTED) or count is None:
        sys.exit("%s\nfuzz_%s: FAILED, status %d; the input lies in %s/found" %
                 (said, target, status, BUILD))
    return int(count.group(1))


def commit():
    return subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True,
                          text=True, check=True).stdout.strip()


def run_short(stop, targets):
    for target in targets:
        if stop.asked:
            sys.exit("interrupted")
        # A folder would be written to.
        seeds = ["%s/%s/%s" % (HERE, target, name)
                 for name in sorted(os.listdir("%s/%s" % (HERE, target)))]
        count = execute(stop, target, "-seed=1", "-max_total_time=%d" % SECONDS_SHORT,
                        "-seed_inputs=" + ",".join(seeds))
        print("fuzz_%-6s %10d %s" % (target, count, UNITS.get(target, "inputs")), flush=True)


def run_slice(stop, target, where, runs, seconds, longest):
    grown = "%s/corpus/%s" % (BUILD, target)
    os.makedirs(grown, exist_ok=True)
    count = execute(stop, target, "-runs=%d" % runs, "-max_total_time=%d" % seconds,
                    "-max_len=%d" % longest, grown, "%s/%s" % (HERE, target))
    with open(LEDGER, "a") as ledger:
        print(target, count, datetime.date.today(), where, file=ledger)
    return count


def run_long(stop, targets):
    runs = int(os.environ.get("FUZZ_RUNS") or (0 if os.environ.get("FUZZ_SECONDS") else 100000))
    seconds = int(os.environ.get("FUZZ_SECONDS") or 10 ** 9)
    where = commit()            # of what was built; others may come while it runs
    for target in targets:
        done, start, longest = 0, datetime.datetime.now(), TARGETS[target]
        while not stop.asked:
            spent = (datetime.datetime.now() - start).total_seconds()
            if spent >= seconds or (runs and done >= runs):
                break
            done += run_slice(stop, target, where, runs - done if runs else -1,
                              max(1, min(SLICE_SECONDS, int(seconds - spent))), longest)
            longest = TARGETS[target] // (1 if longest < TARGETS[target] else 4)
            print("fuzz_%-6s %10d %s" % (target, done, UNITS.get(target, "inputs")), flush=True)
        if stop.asked:
            sys.exit("interrupted")
        merge(target, "%s/corpus/%s" % (BUILD, target))


def merge(target, grown):
    """Reduces the corpus to fewer and shorter inputs with the same coverage."""
    fresh = grown + ".merged"
    shutil.rmtree(fresh, ignore_errors=True)
    os.makedirs(fresh)
    subprocess.run(command(target, "-merge=1", fresh, grown, "%s/%s" % (HERE, target)), check=True,
                   stderr=subprocess.DEVNULL)
    shutil.rmtree(grown)
    os.rename(fresh, grown)


def grow_corpus(stop, targets):
    """Adds only inputs that a short run does not find again, by edges: the corpus stays small."""
    for target in targets:
        kept, easy = "%s/%s" % (HERE, target), "%s/easy/%s" % (BUILD, target)
        shutil.rmtree(easy, ignore_errors=True)
        shutil.copytree(kept, easy)
        execute(stop, target, "-seed=1", "-max_total_time=%d" % SECONDS_EASY, easy)
        found = set(os.listdir(easy))
        subprocess.run(command(target, "-set_cover_merge=1", "-use_counters=0", easy,
                               "%s/corpus/%s" % (BUILD, target)), check=True,
                       stderr=subprocess.DEVNULL)
        hard = set(os.listdir(easy)) - found
        for name in hard:
            shutil.copy("%s/%s" % (easy, name), kept)
        print("fuzz_%-6s %3d inputs more" % (target, len(hard)), flush=True)


def settle_ledger():
    if not os.path.exists(LEDGER):
        sys.exit("%s: nothing to add" % LEDGER)
    with open(LEDGER) as ledger:
        entries = [line.split() for line in ledger]
    with open(PAGE) as page:
        text = page.read()
    for target, count, date, where in entries:
        row = re.search(r"^(\| fuzz_%s, [^|]*\| )([\d,]+)( \| ).*\|$" % target, text, re.M)
        if row is None:
            sys.exit("%s: no row of fuzz_%s" % (PAGE, target))
        total = "{:,}".format(int(row.group(2).replace(",", "")) + int(count))
        text = text.replace(row.group(0), "%s%s%s%s | %s |" % (row.group(1), total, row.group(3),
                                                               date, where))
    with open(PAGE, "w") as page:
        page.write(text)
    os.remove(LEDGER)


def main():
    what, targets = sys.argv[1], sys.argv[2:] or list(TARGETS)
    if what == "can":
        return 0 if can_build() else 1
    os.makedirs(BUILD + "/found", exist_ok=True)
    if what == "short":
        run_short(Stop(), targets)
    elif what == "long":
        run_long(Stop(), targets)
    elif what == "corpus":
        grow_corpus(Stop(), targets)
    elif what == "ledger":
        settle_ledger()
    else:
        sys.exit(__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
