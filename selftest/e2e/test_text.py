# SPDX-License-Identifier: MIT
"""The text port of the real binary: every command, both HTTP requests, true health."""
import asyncio
import contextlib
import datetime
import os
import re
import signal
import socket
import subprocess
import sys

from appliance import BUILD, HANG_S, ROOT, Appliance, run, wait_for
from protocol import Client

sys.path.insert(0, os.path.join(ROOT, "tools", "sdk", "python"))
import agentix  # noqa: E402


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


def test_connections_show_the_affinity_keys_that_clients_name():
    def keys(a):
        return [line.split()[7] for line in a.text("connections").splitlines()[1:]]

    async def two(a):
        async with await agentix.connect(a.to, affinity="session/17"), await agentix.connect(a.to):
            return keys(a)
    with Appliance() as a:
        given, random = asyncio.run(two(a))
        assert given == "session/17" and len(random) == len("python-") + 16, random
        a.wait_back()
        with a.standing_still():            # so that agx is seen
            command = [os.path.join(BUILD, "agx"), "--to", a.to, "--affinity", "k" * 63,
                       "generate", "--prompt", "Hi", "--max-tokens", "2"]
            agx = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            wait_for(lambda: a.stats()["calls_open"] == 1, "its call is open")
            assert keys(a) == ["k" * 63]
        assert agx.wait(HANG_S) == 0
        command[4] += "k"
        assert subprocess.run(command, capture_output=True).returncode == 2
        for wrong in ("k" * 64, "a\0b"):
            with contextlib.suppress(ValueError):
                asyncio.run(agentix.connect(a.to, affinity=wrong))
                assert False, "it was refused"


def test_agent_check_is_one_line_and_the_end():
    with Appliance() as a:
        assert a.ask(b"agent-check\n") == "up 100%\n"
        with a.standing_still():
            with Client(a.tcp) as c:
                c.start(1, [1, 2, 3])
                wait_for(lambda: a.text("agent-check") == "up 1% #engine silent" or
                         a.text("agent-check") == "up 1% #no progress", "it is degraded")


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


def test_ended_calls_are_on_record_by_number_and_by_time():
    with Appliance() as a, Client(a.tcp) as c:
        for i in range(3):
            c.generate(i + 1, [1, 2, 3], max_tokens=4).check()
        wait_for(lambda: a.stats()["calls_open"] == 0, "all have ended")
        lines = a.text("ended").splitlines()
        assert [line.split()[0] for line in lines[:-1]] == ["0", "1", "2"], lines
        assert all(" length who=tcp program=" in line and " output=4 " in line
                   for line in lines[:-1]), lines
        minute = lines[0].split()[2][11:16]
        # The clock of people is read anew for each answer, so its milliseconds may differ by one.
        def all_else(answer):
            return [line.split()[:2] + line.split()[3:] for line in answer]
        assert all_else(a.text("ended " + minute).splitlines()[:-1]) == all_else(lines[:-1]), minute
        assert all_else(a.text("ended 2").splitlines()[:1]) == all_else(lines[2:3])
        now = lines[-1].split("now=")[1]
        assert abs(datetime.datetime.now(datetime.timezone.utc) -
                   datetime.datetime.fromisoformat(now.replace("Z", "+00:00"))
                   ) < datetime.timedelta(minutes=10), now


def report(a, *words):
    done = run("agx", "report", *words, env=dict(os.environ, AGX_TEXT="%s:%d" % a.text_address))
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_report_adds_up_what_the_record_says():
    with Appliance() as a, Client(a.tcp) as c:
        assert report(a)[0].startswith("0 calls ended from ")
        for i in range(300):            # more than a page
            c.generate(i + 1, [1, 2, 3], max_tokens=1 + i % 2).check()
        wait_for(lambda: a.stats()["calls_open"] == 0, "all have ended")
        records = [line.split() for page in ("ended 0", "ended 256")
                   for line in a.text(page).splitlines()[:-1]]
        hour = report(a, "--minutes", "60")
        assert hour[0].startswith("300 calls ended"), hour
        row = hour[2].split()
        assert row == ["tcp", "300", *row[2:7], "0%", "450", "length", "300"], hour
        assert float(row[4]) >= float(row[3]) > 0, hour
        assert hour[3].startswith("slowest first token: ") and " who=tcp " in hour[3]
        stamps = [datetime.datetime.fromisoformat(record[2][:19]) for record in records]
        of_minute = sum(stamp < stamps[0] + datetime.timedelta(minutes=1) for stamp in stamps)
        named = report(a, stamps[0].strftime("%H:%M:%S"))
        assert named[0].startswith("%d calls ended from %s" % (
            of_minute, records[0][2][:19])), (named, records[0])
        wrong = run("agx", "report", "25:00")
        assert wrong.returncode == 2 and "'25:00' is not a time of day" in wrong.stderr


def test_health_leaves_ready_when_the_worker_is_stopped():
    with Appliance() as a:
        worker = a.worker
        os.kill(worker, signal.SIGSTOP)
        try:
            wait_for(lambda: a.health().startswith("degraded("), "degraded")
        finally:
            os.kill(worker, signal.SIGCONT)
        wait_for(lambda: a.health().startswith("ready"), "ready again")


def test_every_column_is_explained_in_operations():
    with open(os.path.join(ROOT, "docs", "operations.md")) as file:
        section = file.read().partition("## What is in that column?")[2].partition("\n## ")[0]
    with Appliance() as a:
        for page in ("programs", "calls", "queues", "kv", "classes", "connections", "workflows"):
            lines = a.text(page).splitlines()
            words = {line.split()[0] for line in lines} if page == "kv" else set(lines[0].split())
            table = re.search(r"^\| `%s` \|.*\n(?:\|.*\n)+" % page, section, re.M).group(0)
            if page == "calls":     # these are under "Why is it queued?"
                words -= {"wait_ms", "service_ms", "arrival_ms", "conn", "why"}
            words -= {"slot", "queue"} if page == "queues" else {"slot"}
            firsts = re.findall(r"^\| ([^|`-]+) \|", table, re.M)
            assert words == {name for cell in firsts for name in cell.split(", ")}, page
