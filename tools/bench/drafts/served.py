#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What drafts do to the time of programs that arrive at random: agents on an appliance that serves.

    tools/bench/drafts/served.py --model WIDE.gguf [--loads 0.33,1.3] [--pairs 8] [--programs 60]

WIDE.gguf is the embedded model inside a larger shape (tools/model/widen.py). Programs are the tasks
of tools/model/eval, each an `agx agent` of its own, and arrive as a Poisson process; load 1 is what
the appliance without drafts ends in a second when all are there at once. Two appliances, with and
without drafts, take turns with the same programs at the same times; while one serves, the other is
idle. A program's time is that of its process.

For each load: medians over pairs, and their range, of off / on of the mean time and of the longest
in ten, and the rounds that drafts saved of a thousand tokens."""
import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from importlib.machinery import SourceFileLoader
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2]
sys.path[:0] = map(str, (TOOLS, TOOLS / "model"))
sys.dont_write_bytecode = True
from appliance import BUILD, appliance, free_port, read_stats   # noqa: E402

EVAL = SourceFileLoader("evaluation", str(TOOLS / "model/eval")).load_module()
NAMES = ("tokens_generated", "draft_tokens_agreed")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--loads", default="0.33,1.3")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--programs", type=int, default=60, help="of a turn")
    parser.add_argument("--drafts", type=int, default=7)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--sharing", default="domain", help="kv.sharing: whose texts are recalled")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


class Side:
    """An appliance with drafts of so many tokens."""

    def __init__(self, stack, folder, drafts, a):
        folder.mkdir()
        self.port = free_port()
        self.address = stack.enter_context(appliance(
            folder, f"text.listen=127.0.0.1:{self.port}", f"sched.speculate={drafts}",
            f"model.path={a.model}", f"kv.sharing={a.sharing}", f"sched.batch={a.batch}",
            "engine.threads=2"))

    def agent(self, text, parallel=1):
        subprocess.run([BUILD / "agx", "--to", self.address, "agent", "--class", "eval",
                        "--parallel", str(parallel), "-"], input=text, text=True, check=False,
                       stdout=subprocess.DEVNULL)

    def rate(self, a):
        """Programs a second, when there is always another one."""
        begin = time.monotonic()
        self.agent(EVAL.task_file(4 * a.programs, f"{a.seed}/rate"), parallel=2 * a.batch)
        return 4 * a.programs / (time.monotonic() - begin)

    def serve(self, programs, times):
        """The seconds of each program, and what was counted meanwhile."""
        before, took = read_stats(self.port), [0.0] * len(programs)
        begin = time.monotonic()

        def run(i):
            time.sleep(max(begin + times[i] - time.monotonic(), 0))
            self.agent(programs[i])
            took[i] = time.monotonic() - begin - times[i]

        threads = [threading.Thread(target=run, args=(i,)) for i in range(len(programs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        after = read_stats(self.port)
        return took, {name: after[name] - before[name] for name in NAMES}


def tail_of(times):
    return statistics.quantiles(times, n=10)[-1]


def turn(sides, a, pair, rate):
    drawn = random.Random(f"{a.seed}/{pair}")
    programs = [EVAL.task_file(1, f"{a.seed}/{pair}/{i}") for i in range(a.programs)]
    times, now = [], 0.0
    for _ in programs:
        times.append(now)
        now += drawn.expovariate(rate)
    order = sides if pair % 2 == 0 else sides[::-1]
    return {side: side.serve(programs, times) for side in order}


def say(load, rate, pairs):
    ratios = [(statistics.mean(off) / statistics.mean(on), tail_of(off) / tail_of(on))
              for (off, _), (on, _) in pairs]
    counts = [on for _, (_, on) in pairs]
    tokens, agreed = (sum(count[name] for count in counts) for name in NAMES)
    off_s = statistics.median(statistics.mean(off) for (off, _), _ in pairs)
    texts = [f"{statistics.median(each):.2f} times ({min(each):.2f} to {max(each):.2f})"
             for each in zip(*ratios)]
    print(f"load {load:.2f}, {rate:.2f} programs a second, {off_s:.3f} s without drafts: mean "
          f"{texts[0]}, longest tenth {texts[1]}; {1000 * agreed // tokens} rounds of a thousand "
          "saved", flush=True)


def main():
    a = arguments()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        off, on = (Side(stack, Path(folder) / name, drafts, a)
                   for name, drafts in (("off", 0), ("on", a.drafts)))
        capacity = off.rate(a)
        on.rate(a)
        print(f"capacity: {capacity:.2f} programs a second", flush=True)
        for load in map(float, a.loads.split(",")):
            turns = [turn((off, on), a, pair, load * capacity) for pair in range(a.pairs)]
            say(load, load * capacity, [(each[off], each[on]) for each in turns])


if __name__ == "__main__":
    main()
