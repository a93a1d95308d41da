#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the front door costs, beside the binary protocol: CPU time of streams, and the time to the
first token.

    tools/bench/serve/door.py [--model MODEL.gguf] [--streams 64] [--tokens 128] [--pairs 200]

Streams: so many at once, through the door as SSE and over the binary protocol, in turns. CPU time
is that of the appliance's processes and of the door, from /proc; the client's does not count. First
token: single calls of one token, the door's and the protocol's in turns, each first in half of the
pairs; medians."""
import argparse
import json
import os
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "selftest/e2e"))
from protocol import Client                     # noqa: E402
sys.path.insert(0, str(ROOT / "tools"))
del sys.modules["appliance"]                    # that of the tests has the same name
from appliance import BUILD, appliance          # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def processes(pid):
    """The process and all below it."""
    found = [pid]
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found += processes(int(child))
    return found


def start_door(directory, to, model):
    words = ["--set", f"net.unix={to.removeprefix('unix:')}", "--set", "door.listen=127.0.0.1:0",
             "--set", f"model.path={model}"]
    process = subprocess.Popen([BUILD / "agentix-door", *words], stderr=subprocess.PIPE, text=True)
    return process, int(process.stderr.readline().split()[-1])



def text(number):
    return f"Number {number * 7919 % 1000} is a number, and "


def post(port, body):
    data = json.dumps(body).encode()
    head = (f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n"
            "Connection: close\r\n\r\n").encode()
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(head + data)
    return connection


def read_all(connections):
    """Reads until all are closed; returns the bytes of each."""
    selector, got = selectors.DefaultSelector(), {each: b"" for each in connections}
    for each in connections:
        selector.register(each, selectors.EVENT_READ)
    left = len(connections)
    while left:
        for key, _ in selector.select():
            data = key.fileobj.recv(1 << 16)
            got[key.fileobj] += data
            if not data:
                selector.unregister(key.fileobj)
                key.fileobj.close()
                left -= 1
    return list(got.values())


def streams_by_door(port, count, tokens):
    body = {"max_tokens": tokens, "stream": True, "ignore_eos": True}
    got = read_all([post(port, {**body, "prompt": text(i)}) for i in range(count)])
    assert all(each.startswith(b"HTTP/1.1 200") and b"[DONE]" in each for each in got), got[0][:300]


def streams_by_protocol(to, count, tokens):
    clients = [Client(to.removeprefix("unix:")) for _ in range(count)]
    for i, client in enumerate(clients):
        client.start(i + 1, text(i).encode(), max_tokens=tokens)
    for i, client in enumerate(clients):
        client.finish(i + 1)
        client.close()


def measure_streams(to, port, pids, door, chosen):
    rows = []
    for _ in range(chosen.runs):
        before = sum(map(cpu_s, pids))
        streams_by_protocol(to, chosen.streams, chosen.tokens)
        middle, door_before = sum(map(cpu_s, pids)), cpu_s(door)
        streams_by_door(port, chosen.streams, chosen.tokens)
        rows.append((middle - before, sum(map(cpu_s, pids)) - middle, cpu_s(door) - door_before))
    alone, behind, own = (statistics.median(column) for column in zip(*rows))
    count = chosen.streams * chosen.tokens
    print(f"{chosen.streams} streams of {chosen.tokens} tokens, median of {chosen.runs}: CPU of "
          f"the appliance {alone:.2f} s by the protocol, {behind:.2f} s behind the door;\n"
          f"of the door {own:.2f} s = {own / count * 1e6:.1f} us a token = "
          f"{own / behind * 100:.1f} % of the appliance's")


def first_by_protocol(client, number):
    began = time.perf_counter()
    client.start(number, text(number).encode(), max_tokens=1)
    client.finish(number)
    return time.perf_counter() - began


def first_by_door(connection, number):
    data = json.dumps({"max_tokens": 1, "ignore_eos": True, "prompt": text(number)}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
    began = time.perf_counter()
    connection.sendall(head.encode() + data)
    got = connection.recv(1 << 16)
    assert got.startswith(b"HTTP/1.1 200"), got
    return time.perf_counter() - began


def measure_first(to, port, pairs):
    client = Client(to.removeprefix("unix:"))
    connection = socket.create_connection(("127.0.0.1", port))
    rows = []
    for i in range(1, pairs + 1):
        if i % 2:
            rows.append((first_by_protocol(client, i), first_by_door(connection, i)))
        else:
            rows.append((first_by_door(connection, i), first_by_protocol(client, i))[::-1])
    protocol, door = (statistics.median(column) * 1000 for column in zip(*rows))
    print(f"a call of one token, median of {pairs}: {protocol:.3f} ms by the protocol, {door:.3f} "
          f"ms by the door: {door - protocol:+.3f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", default="")
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args()
    settings = [f"model.path={chosen.model}", "engine.threads=1"]
    with tempfile.TemporaryDirectory() as directory, \
            appliance(Path(directory), *settings) as to:
        door, port = start_door(Path(directory), to, chosen.model)
        try:
            keeper = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                      if is_child_of_ours(pid) and pid != door.pid]
            pids = [pid for each in keeper for pid in processes(each)]
            measure_first(to, port, chosen.pairs)
            measure_streams(to, port, pids, door.pid, chosen)
        finally:
            door.terminate()
            door.wait()


def is_child_of_ours(pid):
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[1]) == os.getpid()
    except OSError:
        return False


if __name__ == "__main__":
    main()
