#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Time from exec to the first useful answer: build/agentix with a model of 0.6 MiB until it has
accepted a call, and beside it Redis and memcached until their first answer of any kind. The
appliance's memory plan must be at most PLAN_MIB_MAX, or the script measures nothing.

    tools/bench/serve/start.py [--runs 100]

Each is started by posix_spawn with its smallest sensible configuration and listens on a unix socket
in a new folder. The script asks it every 0.1 ms, from the moment that the socket exists. The
servers alternate, so that other work on the machine slows all of them."""
import argparse
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "selftest" / "e2e"))
import protocol  # noqa: E402

PLAN_MIB_MAX = 4
SMALL = ("limits.calls=16", "limits.programs=16", "limits.connections=4", "limits.events=256",
         "limits.ended=256",
         "limits.context_tokens=256", "net.send_bytes=16KiB", "sched.batch=4", "sched.standby=2",
         "sched.prefill_tokens=64", "engine.threads=1", "net.tcp=", "text.listen=",
         f"model.path={ROOT}/build/model-tiny.gguf")


def agentix(path):
    words = ["--set", f"net.unix={path}"]
    for setting in SMALL:
        words += ["--set", setting]
    return [str(ROOT / "build" / "agentix"), *words]


def plan_mib():
    """The total of the memory plan, which --check prints last."""
    plan = subprocess.run([*agentix("unused"), "--check"], check=True, capture_output=True,
                          text=True).stdout
    label, mib = plan.split("\n\n")[0].splitlines()[-1].split()
    if label != "total":
        sys.exit(f"agentix --check ends with {label}, not with a total")
    return float(mib)


def redis(path):
    return ["redis-server", "--port", "0", "--unixsocket", str(path), "--save", "", "--dir",
            str(path.parent)]


def memcached(path):
    return ["memcached", "-s", str(path), "-u", "root" if os.getuid() == 0 else "", "-m", "64"]


def accepted(connection):
    connection.sendall(protocol.hello() + protocol.call(1, [1, 2, 3], max_tokens=1))
    stream = connection.makefile("rb")
    while True:
        header = stream.read(16)
        if len(header) < 16:
            return False
        if header[4] == protocol.ACCEPT:
            return True
        stream.read(int.from_bytes(header[8:12], "little"))


def says(question, answer):
    def asked(connection):
        connection.sendall(question)
        return answer in connection.recv(4096)
    return asked


SERVERS = {"agentix": (agentix, accepted),
           "redis-server": (redis, says(b"PING\r\n", b"PONG")),
           "memcached": (memcached, says(b"version\r\n", b"VERSION"))}


def connect(path):
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(path))
            return connection
        except OSError:
            connection.close()
            time.sleep(0.0001)


def start_ms(command, answers):
    with tempfile.TemporaryDirectory(prefix="agentix-start-") as folder:
        path = Path(folder) / "s"
        words = command(path)
        silent = os.open(os.devnull, os.O_RDWR)
        begun = time.perf_counter()
        child = os.posix_spawnp(words[0], words, os.environ,
                                file_actions=[(os.POSIX_SPAWN_DUP2, silent, fd) for fd in (1, 2)])
        try:
            with connect(path) as connection:
                if not answers(connection):
                    sys.exit(f"{words[0]} did not answer")
                return 1000 * (time.perf_counter() - begun)
        finally:
            os.close(silent)
            os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    runs = parser.parse_args().runs
    here = {name: SERVERS[name] for name in SERVERS
            if name == "agentix" or shutil.which(name) or print(f"{name}: not measured, not here")}
    mib = plan_mib()
    print(f"start memory plan of agentix: {mib:.1f} MiB, at most {PLAN_MIB_MAX} are allowed")
    if mib > PLAN_MIB_MAX:
        sys.exit(1)
    taken = {name: [] for name in here}
    for _ in range(runs):
        for name, (command, answers) in here.items():
            taken[name].append(start_ms(command, answers))
    for name, values in taken.items():
        values.sort()
        print(f"start {name:13} median {statistics.median(values):6.1f} ms, "
              f"p99 {values[min(len(values) - 1, len(values) * 99 // 100)]:6.1f} ms, "
              f"{len(values)} runs")


if __name__ == "__main__":
    main()
