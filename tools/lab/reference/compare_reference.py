#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What: runs the lab and the reference on the same traces, and says whether they agree.

usage: compare_reference.py --traces DIR [--trace NAME,...] [--system NAME,...] [--load L,...]
                            [--memory ample|tight] [--share 0.1]

Load 1 is the rate that the a100 preset just bears (CAPACITY). Both sides get the same options.
Exit status 1: means that differ by more than 10 %, or a run failed.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = os.path.join(HERE, "..", "..", "..", "build", "agentix-lab")
REFERENCE = os.path.join(HERE, "reference.py")

# Trace: programs a second at load 1, seconds of arrivals.
CAPACITY = {
    "taskpar": (1.5, 300), "sharegpt": (4.5, 300), "lats": (0.3, 300), "mixed": (0.8, 300),
    "bfcl": (3.8, 300), "agents": (0.2, 300), "tenants": (30, 300), "coding": (0.005, 10000),
}
SNAPSHOT = ["--set", "sched.service=snapshot"]
WHOLE = ["--set", "sched.cut_steps=no"]
VLLM_HOST = ["--host", "0.004"]
LIVE = ["--cut", "--service", "live"]
# System: what the lab is told, and the reference.
SYSTEMS = {
    "vllm-opt": (["--system", "vllm-opt"], ["--policy", "fcfs"] + VLLM_HOST),
    "mlfq": (["--system", "mlfq"], ["--policy", "mlfq"] + VLLM_HOST),
    "plas": (["--policy", "plas"] + SNAPSHOT, ["--policy", "plas", "--cut"]),
    "atlas": (["--policy", "atlas"] + SNAPSHOT, ["--policy", "atlas", "--cut"]),
    "plas-whole": (["--policy", "plas"] + SNAPSHOT + WHOLE, ["--policy", "plas"]),
    "atlas-whole": (["--policy", "atlas"] + SNAPSHOT + WHOLE, ["--policy", "atlas"]),
    "plas-live": (["--policy", "plas"], ["--policy", "plas"] + LIVE),
    "atlas-live": (["--policy", "atlas"], ["--policy", "atlas"] + LIVE),
}
# Learnt levels and the ageing of KV are not the paper's; the reference has neither.
ALL = (["--set", "sched.quantum=1s", "--set", "sched.queues=8",
        "--set", "kv.retain_device=240h", "--set", "kv.retain_drop=240h",
        "--set", "kv.host_ratio=22"],
       ["--quantum", "1", "--queues", "8", "--host-ratio", "22"])
# KV blocks on the device: memory plays no role, or the machine's own.
MEMORY = {"ample": 400000, "tight": 26000}
MEAN, P99 = "token_latency_s_mean", "token_latency_s_p99"


def result_of(command):
    with tempfile.NamedTemporaryFile("r", suffix=".json", encoding="ascii") as file:
        done = subprocess.run(command + ["--json", file.name], capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            sys.exit("%s\n%s" % (" ".join(command), done.stderr))
        return json.load(file)


def both(trace, system, words, blocks, extra=((), ())):
    """The results of the lab and of the reference. words: options that both have."""
    words = ["--trace", trace] + words
    own = [ALL[side] + SYSTEMS[system][side] + list(extra[side]) for side in (0, 1)]
    lab = result_of([LAB] + words + ["--set", "kv.device_blocks=%d" % blocks] + own[0])
    reference = result_of([sys.executable, REFERENCE] + words + ["--blocks", str(blocks)] + own[1])
    return lab, reference


def difference(lab, reference, key=MEAN):
    """0.1: the two values are 10 % apart, seen from the smaller one."""
    low, high = sorted((lab[key], reference[key]))
    return high / low - 1


def report(name, system, load, lab, reference):
    print("%-9s %-11s %4.1f  %9.5f %9.5f %6.3f  %9.5f %9.5f %6.3f" % (
        name, system, load, lab[MEAN], reference[MEAN], reference[MEAN] / lab[MEAN],
        lab[P99], reference[P99], reference[P99] / lab[P99]), flush=True)


def listed(text, known):
    names = text.split(",") if text else list(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit("unknown: %s; there are %s" % (", ".join(unknown), ", ".join(known)))
    return names


def options():
    parser = argparse.ArgumentParser(description="Do the lab and the reference agree?")
    parser.add_argument("--traces", required=True, help="folder of NAME.trace")
    parser.add_argument("--trace", help="default: all of them")
    parser.add_argument("--system", help="default: all of them")
    parser.add_argument("--load", default="0.7,1.0,1.3")
    parser.add_argument("--memory", choices=MEMORY, default="ample")
    parser.add_argument("--share", type=float, default=0.1, help="how far means may be apart")
    return parser.parse_args()


def main():
    o, apart = options(), 0
    print("trace     system      load   mean: lab reference  ratio   p99: lab reference  ratio")
    for name in listed(o.trace, CAPACITY):
        for load in map(float, o.load.split(",")):
            rate, seconds = CAPACITY[name][0] * load, CAPACITY[name][1]
            words = ["--rate", "%g" % rate, "--programs", str(int(rate * seconds))]
            for system in listed(o.system, SYSTEMS):
                path = os.path.join(o.traces, name + ".trace")
                lab, reference = both(path, system, words, MEMORY[o.memory])
                report(name, system, load, lab, reference)
                apart += difference(lab, reference) > o.share
    print("%d outside %g %%" % (apart, 100 * o.share))
    return 1 if apart else 0


if __name__ == "__main__":
    sys.exit(main())
