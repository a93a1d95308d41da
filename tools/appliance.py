# SPDX-License-Identifier: MIT
"""A private appliance for tools that measure: starts the build on a socket in a folder."""
import contextlib
import socket
import subprocess
import sys
import time
from pathlib import Path

BUILD = Path(__file__).resolve().parents[1] / "build"


def listens(path: Path) -> bool:
    """True when a process listens: the socket has its name earlier than that."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


@contextlib.contextmanager
def appliance(directory: Path, *assignments: str):
    """Runs build/agentix with these section.key=value; yields the address for agx."""
    path = directory / "agentix.sock"
    words = [word for each in ("net.tcp=", "text.listen=", f"net.unix={path}", "memory.lock=no",
                               *assignments) for word in ("--set", each)]
    with (directory / "log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen([BUILD / "agentix", *words], stderr=log)
    try:
        while not listens(path):
            if process.poll() is not None:
                sys.exit((directory / "log").read_text(encoding="utf-8"))
            time.sleep(0.02)
        yield f"unix:{path}"
    finally:
        process.terminate()
        process.wait()
        path.unlink(missing_ok=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def read_stats(port: int) -> dict:
    """The lines of `stats` from the text port, by name."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"stats\nquit\n")
        text = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
