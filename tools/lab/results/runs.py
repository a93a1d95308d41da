# SPDX-License-Identifier: MIT
"""Runs of build/agentix-lab: words in, its JSON, calls or events out.

The same words, program and trace give the same bytes, so a result is kept under build/ with a name
made of all three; after a change of the binary no old result matches. Runs use as many threads as
asked for, each of which waits for one process."""
import csv
import hashlib
import json
import math
import os
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

REFUSED = 3
FILES = {"--json": ".json", "--calls-out": ".csv", "--trace-out": ".events",
         "--programs-out": ".programs"}
SYSTEMS = ("vllm", "vllm-opt", "mlfq", "agentix")


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def window(rate, seconds):
    """The words for the programs that arrive in so many seconds."""
    return "--rate", f"{rate:.6g}", "--programs", max(20, round(rate * seconds))


class Runs:
    def __init__(self, program, traces, kept, jobs, seeds):
        self.program, self.traces, self.kept, self.jobs = program, traces, kept, jobs
        self.seeds = seeds                  # of parts that have no number of their own
        self.count, self.digests = 0, {}
        os.makedirs(kept, exist_ok=True)

    def trace(self, name):
        return os.path.join(self.traces, name + ".trace")

    def digest(self, path):
        if path not in self.digests:
            self.digests[path] = digest(path)
        return self.digests[path]

    def key(self, trace, words):
        """A word that is a file counts with what is in it."""
        parts = [self.digest(self.program), self.digest(self.trace(trace)),
                 *(self.digest(word) if os.path.isfile(word) else word for word in words)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    def file(self, option, trace, system, words):
        """The file that a run writes for this option. A system is also a policy, for agentix's
        rest."""
        words = ["--system" if system in SYSTEMS else "--policy", system, *map(str, words)]
        kept = os.path.join(self.kept, self.key(trace, words) + FILES[option])
        if not os.path.exists(kept):
            self.count += 1
            fresh = f"{kept}.{threading.get_ident()}"
            done = subprocess.run([self.program, "--trace", self.trace(trace), *words,
                                   option, fresh], capture_output=True, text=True)
            if done.returncode not in (0, REFUSED):
                raise RuntimeError(f"{' '.join([trace, *words])}: {done.stderr.strip()}")
            os.replace(fresh, kept)
        return kept

    def flows(self, batches, *words):
        """One run of workflows: (file, file of rows) for each batch."""
        files = [digest(path) for path in (self.program, *(p for batch in batches for p in batch))]
        words = [str(word) for word in words]
        key = hashlib.sha256("\0".join([*files, *words]).encode()).hexdigest()[:32]
        kept = os.path.join(self.kept, key + ".json")
        if not os.path.exists(kept):
            self.count += 1
            fresh = f"{kept}.{threading.get_ident()}"
            done = subprocess.run([self.program, *(
                word for flow, rows in batches
                for word in ("--flow", str(flow), "--rows", str(rows))), *words, "--json", fresh],
                capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError(f"{batches} {' '.join(words)}: {done.stderr.strip()}")
            os.replace(fresh, kept)
        with open(kept, encoding="utf-8") as file:
            return json.load(file)

    def run(self, trace, system, *words):
        """One run; None where a call was refused."""
        with open(self.file("--json", trace, system, words), encoding="utf-8") as file:
            result = json.load(file)
        return result if result["refused_calls"] == 0 else None

    def calls(self, trace, system, *words):
        """Of one run a dictionary for each call, all values numbers."""
        with open(self.file("--calls-out", trace, system, words), encoding="ascii") as file:
            return [{name: float(value) for name, value in call.items()}
                    for call in csv.DictReader(file)]

    def programs(self, trace, system, *words):
        """Of one run a dictionary for each program: all values numbers but the class; None: it has
        none."""
        with open(self.file("--programs-out", trace, system, words), encoding="ascii") as file:
            return [{name: value if name == "class" else float(value) if value else None
                     for name, value in program.items()} for program in csv.DictReader(file)]

    def events(self, trace, system, *words):
        """The stretches of one run: those of programs, and those of the engine's slots."""
        with open(self.file("--trace-out", trace, system, words), encoding="utf-8") as file:
            stretches = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
        slots = [event for event in stretches if "args" in event]
        return [event for event in stretches if "args" not in event], slots

    def window(self, trace, system, rate, seconds, *words):
        """The programs that arrive in so many seconds, repeated as often as needed."""
        return self.run(trace, system, *window(rate, seconds), *words)

    def each(self, function, items):
        """function(*item) for each item; the items side by side."""
        items = list(items)
        with ThreadPoolExecutor(self.jobs) as pool:
            return dict(zip(items, pool.map(lambda item: function(*item), items)))

    def highest_rate(self, latency, bound, known, precision=1.04):
        """The highest rate at which latency(rate) is at most the bound, from rates that are known
        (or one to begin with); 0: not even a hundredth of the lowest. Latency need not grow with
        the rate everywhere: this is the crossing above the last known rate that keeps it."""
        def keeps(rate):
            value = latency(rate)
            return value is not None and value <= bound
        known = sorted(known)
        low = max(filter(keeps, known), default=0)
        high = next((rate for rate in known if rate > low), 0)
        while not high:
            low, high = (low * 1.25, 0) if keeps(low * 1.25) else (low, low * 1.25)
        while not low and high > known[0] / 100:
            low, high = (high / 1.25, high) if keeps(high / 1.25) else (0, high / 1.25)
        while low and high > low * precision:
            rate = math.sqrt(low * high)
            low, high = (rate, high) if keeps(rate) else (low, rate)
        return low
