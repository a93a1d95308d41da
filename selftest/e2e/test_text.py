# SPDX-License-Identifier: MIT
"""The text port of the real binary: every command, both HTTP requests, true health."""
import os
import signal
import socket

from appliance import HANG_S, Appliance, wait_for
from protocol import Client


def test_every_command_answers():
    with Appliance() as a:
        for command, word in (("help", "health"), ("stats", "calls_accepted"), ("programs", ""),
                              ("classes", "name"), ("calls", ""), ("queues", "0"), ("kv", "blocks"),
                              ("config", "sched.policy")):
            assert word in a.text(command), command
        assert "unknown" in a.text("nonsense")


def test_lines_are_at_most_512_bytes():
    with Appliance() as a:
        for command in ("help", "health", "stats", "programs", "classes", "calls", "queues", "kv",
                        "config"):
            for line in a.ask(command.encode() + b"\n").split("\n"):
                assert len(line) <= 512


def test_http_get_health_and_stats():
    with Appliance() as a:
        answer = a.ask(b"GET /health HTTP/1.0\r\n\r\n")
        assert answer.startswith("HTTP/1.0 200") and "\r\n\r\nready" in answer, answer
        assert "calls_accepted" in a.ask(b"GET /stats HTTP/1.1\r\nHost: x\r\n\r\n")
        assert a.ask(b"GET / HTTP/1.0\r\n\r\n").startswith("HTTP/1.0 404")


def test_many_telnets_and_half_lines_do_not_disturb_others():
    with Appliance() as a:
        held = [socket.create_connection(a.text_address, timeout=HANG_S) for _ in range(7)]
        for s in held:
            s.sendall(b"hea")
        a.wait_ready()
        with Client(a.tcp) as c:
            c.generate(1, [1, 2, 3]).check()
        for s in held:
            s.close()


def test_stats_count_what_happened():
    with Appliance() as a:
        with Client(a.tcp) as c:
            for i in range(5):
                c.generate(i + 1, [1, 2, 3], max_tokens=4).check()
        stats = a.stats()
        assert stats["calls_accepted"] == 5 and stats["calls_completed"] == 5, stats
        assert stats["tokens_generated"] == 20 and stats["tokens_prompt"] == 15, stats
        wait_for(lambda: a.stats()["connections_open"] == 0, "connection is counted out")
        assert a.stats()["kv_blocks_used"] == 0 and a.stats()["calls_open"] == 0


def test_health_leaves_ready_when_the_worker_is_stopped():
    with Appliance() as a:
        worker = a.worker
        os.kill(worker, signal.SIGSTOP)
        try:
            wait_for(lambda: a.health().startswith("degraded("), "degraded")
        finally:
            os.kill(worker, signal.SIGCONT)
        wait_for(lambda: a.health().startswith("ready"), "ready again")
