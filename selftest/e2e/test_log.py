# SPDX-License-Identifier: MIT
"""The log says who was refused, and why, and a flood of strangers does not fill it."""
import asyncio
import os
import re
import socket
import sys

from appliance import EMBEDDED_MODEL, HANG_S, NOISE, ROOT, Appliance, TextFile, wait_for
from protocol import Client

sys.path.insert(0, os.path.join(ROOT, "tools", "sdk", "python"))
import agentix  # noqa: E402

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \d+\.\d{6} (boot|keeper|core|worker\S*) "
                  r"(info|warn|error) \S.*")
KEYS = "alice %s\n" % ("11" * 32)


def refused(a, pattern):
    return wait_for(lambda: [line for line in a.lines if re.search(pattern, line)], pattern)


async def knock(a, key, name):
    async with await agentix.connect(a.to, key=key, affinity=name, patience_s=0):
        pass


def test_a_wrong_key_and_an_unknown_one_are_in_the_log():
    with TextFile(KEYS, mode=0o600) as keys:
        with Appliance("auth.tcp=psk", "auth.keys=" + keys) as a:
            for key in (("alice", b"\x22" * 32), ("mal\x1b[2J", b"\x11" * 32)):
                try:
                    asyncio.run(knock(a, key, "bot\n7"))
                    raise AssertionError("it was admitted")
                except (agentix.Error, ValueError):
                    pass
            (line,) = refused(a, r"refused handshake from=127.0.0.1 key=alice\? name=bot.7: ")
            assert "\x1b" not in "".join(a.lines)
            assert all(LINE.fullmatch(line) for line in a.lines), a.lines


def test_the_log_says_when_it_is_ready():
    with Appliance("model.path=" + EMBEDDED_MODEL) as a:
        refused(a, r"core info ready: model=\"agentix-agent\" engines=1$")


def test_bytes_of_another_protocol_and_a_refused_call_are_in_the_log():
    with Appliance(NOISE, "limits.calls_per_connection=1") as a:
        with socket.create_connection(a.tcp, timeout=HANG_S) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            refused(a, r"refused handshake from=127.0.0.1: its bytes are HTTP, which is the door's "
                       r"\(agentix-door\)$")
        with a.standing_still(), Client(a.tcp) as c:
            c.start(1, [1, 2, 3])
            c.start(2, [1, 2, 3])
            refused(a, r"refused call from=127.0.0.1( name=\S+)? id=2: ")


def test_a_refused_call_is_in_the_log_with_the_field_that_was_wrong():
    with Appliance(NOISE) as a, Client(a.tcp) as c:
        c.start(3, [1, 4000000000])
        refused(a, r"refused call from=127.0.0.1( name=\S+)? id=3 field=prompt: token id outside "
                   r"the vocabulary \(found 4000000000, allowed 0 to \d+\)$")


def test_a_flood_is_told_in_a_few_lines_and_a_number():
    with Appliance() as a:
        for _ in range(300):
            with socket.create_connection(a.tcp, timeout=HANG_S) as stranger:
                stranger.sendall(b"rubbish, and more of it")
                stranger.recv(1)
        refused(a, r"core warn refused more=\d+$")
        told = [line for line in a.lines if "not this protocol" in line]
        left = sum(int(line.rsplit("=", 1)[1]) for line in a.lines if "refused more=" in line)
        assert len(told) < 300 and len(told) + left <= 300, a.lines
        a.wait_ready()
