#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What steps that are computed twice cost (engine.doubt): appliances side by side, in turns.

    tools/bench/doubt.py [--model build/model-15m-q8_0.gguf] [--rounds 16] [--threads 1]

One appliance with each value, and one more without: what those two differ by is noise. For each:
median, least and most of the worker's CPU time for the same calls, over that of the first one. CPU
time, because a step waits for its CPUs where a machine has other work; with several threads it
contains their waiting for one another. Also that all gave the same tokens."""
import argparse
import re
import socket
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[1]
sys.path[:0] = map(str, (TOOLS, TOOLS / "sdk/python"))
import agentix                                              # noqa: E402
from appliance import BUILD, appliance, free_port, read_stats   # noqa: E402

VALUES = ("0", "0", "0.001", "1")
CALLS, TOKENS = 6, 96


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(BUILD / "model-15m-q8_0.gguf"))
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def worker_of(port):
    """The worker's process id, from the line of `health`."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"health\nquit\n")
        text = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    return int(re.search(r"worker_pid=(\d+)", text).group(1))


class Side:
    def __init__(self, stack, folder, value, arguments):
        folder.mkdir()
        self.value, self.port = value, free_port()
        address = stack.enter_context(appliance(
            folder, f"text.listen=127.0.0.1:{self.port}", f"engine.doubt={value}",
            f"engine.threads={arguments.threads}", f"model.path={arguments.model}",
            "engine.canary=0", "engine.hang=60s"))
        self.client = stack.enter_context(agentix.connect(address))
        self.worker = worker_of(self.port)

    def cpu_ns(self):
        tasks = Path(f"/proc/{self.worker}/task").glob("*/schedstat")
        return sum(int(task.read_text(encoding="utf-8").split()[0]) for task in tasks)

    def run(self, seed):
        """CPU time of the worker, and the texts."""
        before = self.cpu_ns()
        texts = ["".join(self.client.generate(f"Once upon a time {call}", ignore_eos=True,
                                              seed=seed * CALLS + call, temperature=1.0,
                                              max_tokens=TOKENS)) for call in range(CALLS)]
        return self.cpu_ns() - before, texts


def main():
    options = arguments()
    same, ratios = True, [[] for _ in VALUES]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        sides = [Side(stack, Path(folder) / str(i), value, options)
                 for i, value in enumerate(VALUES)]
        for turn in range(options.rounds):
            first = turn % len(sides)
            got = {side: side.run(turn + 1) for side in sides[first:] + sides[:first]}
            for side, own in zip(sides, ratios):
                own.append(got[side][0] / got[sides[0]][0])
                same = same and got[side][1] == got[sides[0]][1]
        for side, own in zip(sides[1:], ratios[1:]):
            stats = read_stats(side.port)
            print(f"engine.doubt={side.value:5} {statistics.median(own):.3f} times the CPU time "
                  f"({min(own):.3f} to {max(own):.3f}); {stats['steps_doubted']} of "
                  f"{stats['steps']} steps twice")
    print("the same tokens" if same else "OTHER TOKENS")
    sys.exit(not same)


if __name__ == "__main__":
    main()
