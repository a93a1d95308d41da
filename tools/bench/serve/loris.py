#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The effect on an honest client and on memory of 500 connections that send half a frame, a byte a
second, and how they end: build/agentix, and beside it Redis and memcached with their defaults.

    tools/bench/serve/loris.py [--peers 500] [--seconds 30] [--phases 5]

Phases with and without them alternate. In each an honest client asks again after each answer (a
call of one token; PING; version), and the figure is the 99th percentile of its waits. A connection
that is closed is opened again at once, so their number is constant. At the end none is opened
again, and the script counts those that are closed within --seconds."""
import argparse
import multiprocessing
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import start
import protocol

SETTINGS = ("limits.connections=1024", "limits.calls=64", "engine.threads=1", "net.tcp=",
         "text.listen=", f"model.path={start.ROOT}/build/model-tiny.gguf")


def agentix(path):
    words = [str(start.ROOT / "build" / "agentix"), "--set", f"net.unix={path}"]
    for setting in SETTINGS:
        words += ["--set", setting]
    return words


class Call:
    """An honest client of the appliance: one call after the other, of one token."""
    half = protocol.hello()[:-1]

    def __init__(self, path):
        self.client, self.calls = protocol.Client(str(path)), 0

    def ask(self):
        self.calls += 1
        self.client.generate(self.calls, [1, 2, 3], max_tokens=1).check()


class Line:
    """An honest client of a server that answers a line."""
    half = b""

    def __init__(self, path):
        self.socket = start.connect(path)

    def ask(self):
        self.socket.sendall(self.question)
        self.socket.recv(4096)


class Redis(Line):
    half, question = b"*1\r\n$40\r\n" + 30 * b"x", b"PING\r\n"


class Memcached(Line):
    half, question = b"set key 0 0 40\r\n" + 30 * b"x", b"version\r\n"


SERVERS = {"agentix": (agentix, Call), "redis-server": (start.redis, Redis),
           "memcached": (start.memcached, Memcached)}


def opened(path):
    return [start.connect(path), 0]


def is_closed(peer, half):
    connection, sent = peer
    try:
        if sent < len(half):
            connection.send(half[sent:sent + 1], socket.MSG_DONTWAIT)
        peer[1] += 1
        return connection.recv(65536, socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def drip(path, half, count, again, ends, closed):
    """Keeps `count` of them open while `again` is set; then counts those closed until `ends`."""
    peers = [opened(path) for _ in range(count)]
    while peers and time.monotonic() < ends.value:
        begun = time.monotonic()
        left = []
        for peer in peers:
            if not is_closed(peer, half):
                left.append(peer)
                continue
            peer[0].close()
            closed.value += not again.value
            if again.value:
                left.append(opened(path))
        peers = left
        time.sleep(max(0.0, 1 - (time.monotonic() - begun)))


def p99_us(client, seconds):
    waits = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begun = time.perf_counter()
        client.ask()
        waits.append(time.perf_counter() - begun)
    return 1e6 * sorted(waits)[len(waits) * 99 // 100]


def resident_kib(pid):
    """Of the process and its children."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            words = dict(line.split(":", 1) for line in path.read_text().splitlines())
        except OSError:
            continue
        if str(pid) in (words["Pid"].strip(), words["PPid"].strip()):
            total += int(words.get("VmRSS", "0 kB").split()[0])
    return total


def measure(name, options):
    command, kind = SERVERS[name]
    with tempfile.TemporaryDirectory(prefix="agentix-loris-") as folder:
        path = Path(folder) / "s"
        server = subprocess.Popen(command(path), stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        try:
            start.connect(path).close()
            client = kind(path)
            client.ask()
            before = resident_kib(server.pid)
            with_them, without = [], []
            again, closed = multiprocessing.Value("b", 1), multiprocessing.Value("i", 0)
            for phase in range(options.phases):
                without.append(p99_us(client, 3))
                again.value = 1
                ends = multiprocessing.Value("d", time.monotonic() + 3600)
                dripper = multiprocessing.Process(
                    target=drip, args=(path, kind.half, options.peers, again, ends, closed))
                dripper.start()
                time.sleep(2)
                with_them.append(p99_us(client, 3))
                held = resident_kib(server.pid) - before
                again.value = 0
                last = phase == options.phases - 1
                ends.value = time.monotonic() + (options.seconds if last else 0)
                closed.value = 0
                dripper.join()
            print(f"loris {name:13} p99 without {statistics.median(without):7.0f} us, with "
                  f"{statistics.median(with_them):7.0f} us "
                  f"({statistics.median(with_them) / statistics.median(without):.2f} x); "
                  f"{closed.value} of {options.peers} closed in {options.seconds} s; "
                  f"memory {held:+d} KiB")
        finally:
            server.terminate()
            server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=int, default=500)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--phases", type=int, default=5)
    options = parser.parse_args()
    for name in SERVERS:
        if name != "agentix" and not shutil.which(name):
            print(f"{name}: not measured, not here")
            continue
        measure(name, options)


if __name__ == "__main__":
    main()
