#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The effect on an honest client of the door of 500 connections that send half a request, a byte a
second, and how they end.

    tools/bench/serve/door_loris.py [--peers 500] [--seconds 70] [--phases 9] [--model MODEL.gguf]

Half of them send a head that does not end, half a body. Phases with and without them alternate, and
which comes first. In each the honest client asks for one token, again after each answer. The
figures are the 99th percentile of its waits, their median, and the CPU time of the door for a call,
which a busy machine disturbs least. A connection that is closed is opened again at once. At the end
none is opened again, and the script counts those that are closed within --seconds: a body within
door.receive, a head within three times as much."""
import argparse
import multiprocessing
import os
import socket
import statistics
import tempfile
import time
from pathlib import Path

from door import ROOT, appliance, cpu_s, first_by_door, start_door      # before the tests' door
import loris

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
HALVES = (HEAD + 4000 * b"X-Slow: y\r\n", HEAD + b"Content-Length: 4000\r\n\r\n" + 3999 * b" ")
SETTLE_S = 3                                    # until all are open, and after they have gone


def connect(port):
    return socket.create_connection(("127.0.0.1", port))


def drip(port, count, again, stops, closed):
    """Keeps `count` of them open while `again` is set, and counts those that were closed since."""
    peers = [[connect(port), 0, HALVES[i % 2]] for i in range(count)]
    for peer in peers:                          # all but the last part of a head at once
        peer[1] = peer[2].find(b"\r\n\r\n") + 4 if b"\r\n\r\n" in peer[2] else len(HEAD)
        peer[0].sendall(peer[2][:peer[1]])
    while peers and not stops.is_set():
        begun = time.monotonic()
        for peer in [each for each in peers if loris.is_closed(each[:2], each[2])]:
            peer[0].close()
            peers.remove(peer)
            closed.value += 1
            if again.value:
                peers.append([connect(port), 0, peer[2]])
        for peer in peers:
            peer[1] += 1
        stops.wait(max(0.0, 1 - (time.monotonic() - begun)))


def measure(port, door, seconds):
    """Of the waits the 99th percentile and the median; CPU time of the door for a call. In us."""
    waits, before, end = [], cpu_s(door), time.monotonic() + seconds
    with connect(port) as connection:
        while time.monotonic() < end:
            waits.append(first_by_door(connection, len(waits)) * 1e6)
    waits.sort()
    return (waits[len(waits) * 99 // 100], statistics.median(waits),
            (cpu_s(door) - before) / len(waits) * 1e6)


class Loris:
    def __init__(self, port, count):
        self.again, self.closed = multiprocessing.Value("b", 1), multiprocessing.Value("i", 0)
        self.stops = multiprocessing.Event()
        self.process = multiprocessing.Process(
            target=drip, args=(port, count, self.again, self.stops, self.closed))
        self.process.start()
        time.sleep(SETTLE_S)

    def end(self):
        self.stops.set()
        self.process.join()
        time.sleep(SETTLE_S)


def phase(port, door, options, with_them):
    slow = Loris(port, options.peers) if with_them else None
    measured = measure(port, door, options.phase_seconds)
    if slow:
        slow.end()
    return measured


def count_closed(port, options):
    slow = Loris(port, options.peers)
    slow.again.value, slow.closed.value = 0, 0
    slow.process.join(options.seconds)
    slow.end()
    return slow.closed.value


def report(rows, what, column):
    with_them, without = ([row[which][column] for row in rows] for which in (True, False))
    ratios = sorted(a / b for a, b in zip(with_them, without))
    print(f"{what}: without {statistics.median(without):.0f} us, with them "
          f"{statistics.median(with_them):.0f} us; ratio of each pair of phases, median "
          f"{statistics.median(ratios):.2f}, {ratios[0]:.2f} to {ratios[-1]:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", default=ROOT / "build/model-tiny.gguf")
    parser.add_argument("--peers", type=int, default=500)
    parser.add_argument("--seconds", type=int, default=70)
    parser.add_argument("--phases", type=int, default=9)
    parser.add_argument("--phase-seconds", type=float, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, \
            appliance(Path(directory), f"model.path={options.model}", "engine.threads=1") as to:
        door, port = start_door(Path(directory), to, options.model)
        try:
            measure(port, door.pid, 1)
            rows = []
            for number in range(options.phases):
                order = (True, False) if number % 2 else (False, True)
                rows.append({which: phase(port, door.pid, options, which) for which in order})
            print(f"load average {os.getloadavg()[0]:.1f}; {options.phases} phases each of "
                  f"{options.phase_seconds} s, beside {options.peers} slow clients")
            report(rows, "p99 of an honest client's waits", 0)
            report(rows, "their median", 1)
            report(rows, "CPU time of the door for a call", 2)
            print(f"{count_closed(port, options)} of {options.peers} closed in {options.seconds} s")
        finally:
            door.terminate()
            door.wait()


if __name__ == "__main__":
    main()
