# SPDX-License-Identifier: MIT
"""A restart or a broken connection loses nothing: every call that was begun is answered once, whole
and with the right tokens, and a call that has ended is not executed again.

Method: the appliance is killed, or told to end, and started again on its port under running
clients; a proxy cuts connections at chosen frames. The answers of an undisturbed one are right.
"""
import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading

from appliance import BUILD, HANG_S, NOISE, ROOT, Appliance, is_alive, run, stop, wait_for
from protocol import DONE, IGNORE_EOS, LENGTH, WANT_TEXT, Client, Closed

CALLS, TOKENS = 50, 200
FLOW_ROWS = ["bees", "bears", "birds"]
SDK_PYTHON = os.path.join(ROOT, "tools", "sdk", "python")
places = []                         # of the appliances


def prompt(number):
    return [3 + (number * 29 + i * 11) % 400 for i in range(5 + number % 9)]


def agx(to, *arguments):
    return subprocess.Popen([os.path.join(BUILD, "agx"), "--to", to] + list(arguments), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def generate(to, number, tokens):
    return agx(to, "generate", "--ids", ",".join(map(str, prompt(number))), "--print-ids",
               "--ignore-eos", "--max-tokens", str(tokens), "--stats")


def right_answers(count, tokens):
    with Appliance(NOISE) as a, Client(a.tcp) as c:
        for number in range(count):
            c.start(number, prompt(number), max_tokens=tokens)
        return [c.finish(number).check().tokens for number in range(count)]


def kill_all(a):
    """Kills keeper, cores and worker at once."""
    pids = [a.process.pid] + list(a.children().values())
    assert len(pids) >= 3
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):       # the others end with the keeper
            os.kill(pid, signal.SIGKILL)
    assert a.stop() == -signal.SIGKILL
    wait_for(lambda: not any(map(is_alive, pids)), "all are gone")


def first(*settings):
    """An appliance on a port that stays reserved while it is down: another socket is bound to it
    and does not listen. So no process gets the port, not even a client that keeps connecting."""
    place = socket.socket()
    places.append(place)
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    place.bind(("127.0.0.1", 0))
    return Appliance("net.tcp=127.0.0.1:%d" % place.getsockname()[1], *settings)


def again(a, *settings):
    """Another appliance on the addresses of `a`."""
    return Appliance("net.tcp=" + a.to, *settings)


def open_calls(a, count, tokens):
    """Clients whose calls are all accepted and still open."""
    with a.standing_still():
        clients = [generate(a.to, number, tokens) for number in range(count)]
        wait_for(lambda: a.stats()["calls_accepted"] == count, "all are accepted")
    return clients


def stop_with_one_more(a, clients, tokens):
    """Stops the worker while the call of one more client is open. Returns the number of open calls,
    without those that have ended."""
    stop(a.worker)
    clients.append(generate(a.to, len(clients), tokens))
    wait_for(lambda: a.stats()["calls_open"] == sum(c.poll() is None for c in clients),
             "who has not ended has a call that is open")
    return a.stats()["calls_open"]


def expect_ids(client, tokens):
    out, err = client.communicate(timeout=HANG_S)
    assert client.returncode == 0, err
    assert [int(word) for word in out.split()] == tokens, err
    return err


# ---- restarts ------------------------------------------------------------------------------------

def test_a_kill_under_fifty_calls_each_completes_once():
    right = right_answers(CALLS + 1, TOKENS)
    a = first(NOISE)
    clients = open_calls(a, CALLS, TOKENS)
    wait_for(lambda: a.stats()["tokens_generated"] > CALLS * TOKENS // 10, "it is amid them")
    still_open = stop_with_one_more(a, clients, TOKENS)
    kill_all(a)
    with again(a, NOISE) as b:
        broken = ["broke" in expect_ids(client, tokens) for client, tokens in zip(clients, right)]
        stats = b.stats()
    print("  killed under %d calls" % still_open)
    assert sum(broken) == still_open > 0, (still_open, broken)
    assert stats["calls_accepted"] == stats["calls_completed"] == still_open, stats
    assert stats["calls_replayed"] == 0, "another boot has no record"


def test_repeated_kills_calls_still_complete():
    right = right_answers(8 + 3, 900)
    a = first(NOISE)
    clients = open_calls(a, 8, 900)
    for _ in range(3):
        wait_for(lambda: a.stats()["tokens_generated"] > 300, "calls are open")
        stop_with_one_more(a, clients, 900)
        kill_all(a)
        a = again(a, NOISE)
    with a:
        for client, tokens in zip(clients, right):
            expect_ids(client, tokens)


def test_an_orderly_restart_loses_no_call():
    right = right_answers(8 + 1, 900)
    a = first(NOISE, "limits.drain=0")
    clients = open_calls(a, 8, 900)
    wait_for(lambda: a.stats()["tokens_generated"] > 100, "tokens come")
    still_open = stop_with_one_more(a, clients, 900)
    assert a.stop() == 0
    with again(a, NOISE) as b:
        for client, tokens in zip(clients, right):
            expect_ids(client, tokens)
        assert b.stats()["calls_accepted"] >= still_open


FLOW = "agentix-flow 1\ninput x\nllm a max=300 ignore-eos=1 = \"Say: \" x\noutput a\n"
IN_PYTHON = """
import agentix, asyncio, sys

async def main():
    flow = agentix.Flow()
    flow.output(flow.llm("Say: ", flow.input("x"), max=300, ignore_eos=True), "a")
    async with agentix.connect(sys.argv[1]) as client:
        for row in await flow.run(client, sys.argv[2:]):
            print(row["a"])
asyncio.run(main())
"""


def flow_of_agx(to, folder):
    for name, text in (("flow", FLOW), ("rows", "\n".join(["x", *FLOW_ROWS, ""]))):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    return agx(to, "flow", "--inputs", os.path.join(folder, "rows"), os.path.join(folder, "flow"))


def flow_in_python(to, _folder):
    return subprocess.Popen(
        [sys.executable, "-c", IN_PYTHON, to, *FLOW_ROWS], text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": SDK_PYTHON})


def test_rows_that_the_end_cuts_off_are_done_by_the_next():
    for begin in (flow_of_agx, flow_in_python):
        with tempfile.TemporaryDirectory() as folder:
            with Appliance(NOISE) as a:
                right, _ = begin(a.to, folder).communicate(timeout=HANG_S)
            a = first(NOISE, "limits.drain=0")
            stop(a.worker)
            client = begin(a.to, folder)
            wait_for(lambda: a.stats()["calls_open"] == len(FLOW_ROWS), "all rows are open")
            assert a.stop() == 0
            with again(a, NOISE):
                out, err = client.communicate(timeout=HANG_S)
            assert client.returncode == 0 and right, (begin, err)
            assert sorted(out.split("\n")) == sorted(right.split("\n")), (begin, out, right)


def test_many_calls_of_one_connection_go_on_after_a_restart():
    a = first(NOISE)
    load = agx(a.to, "load", "--calls", "2000", "--in-flight", "50", "--max-tokens", "20")
    breaks = 0
    for _ in range(2):
        wait_for(lambda: load.poll() is not None or a.stats()["calls_completed"] > 100,
                 "calls complete")
        stop(a.worker)
        wait_for(lambda: load.poll() is not None or a.stats()["calls_open"] > 0,
                 "it has ended, or has a call that is open")
        breaks += load.poll() is None
        kill_all(a)
        a = again(a, NOISE)
    with a:
        out, err = load.communicate(timeout=HANG_S * 2)
        tokens = sum(1 + i // 64 % 20 for i in range(2000))     # tools/agx/load.c
        assert load.returncode == 0, err
        assert out.startswith("2000 calls, %d tokens, " % tokens), out
    assert err.count("broke") == breaks, (breaks, err)


def test_agents_get_the_same_answers_over_restarts():
    with tempfile.NamedTemporaryFile("w", suffix=".tasks") as file:
        file.write("".join("task react sum-%d\n> Task: What is %d plus %d?\n= %d\n"
                           % (i, 20 + i, 31, 51 + i) for i in range(40)))
        file.write("".join("task chat name-%d\n> My name is Mara.\n= Mara\n> Who am I?\n= Mara\n"
                           % i for i in range(20)))
        file.flush()
        ask = ("agent", "--verbose", "--parallel", "16", file.name)
        with Appliance() as a:
            alone = run("agx", "--to", a.to, *ask)
        a = first()
        agents = agx(a.to, *ask)
        wait_for(lambda: a.stats()["calls_completed"] > 10, "agents are at work")
        kill_all(a)
        with again(a):
            out, err = agents.communicate(timeout=HANG_S * 2)
    assert agents.returncode == alone.returncode == 0, err
    # Agents end in another order, but with the same answers.
    assert sorted(out.split("---- ")) == sorted(alone.stdout.split("---- "))


def test_replay_goes_on_after_a_restart():
    with tempfile.TemporaryDirectory(prefix="agentix-e2e-") as directory:
        trace, report = os.path.join(directory, "trace"), os.path.join(directory, "report")
        with open(trace, "w") as file:
            file.write("agentix-trace 1\nprogram 0 0 chat\n"
                       "call 0 after=- gap=0 in=u:20 out=60\n"
                       "call 1 after=0 gap=1000 in=p:0+o:0+u:4 out=60\n")
        a = first(NOISE)
        replay = agx(a.to, "replay", trace, "--programs", "40", "--rate", "200", "--json", report)
        wait_for(lambda: a.stats()["calls_completed"] > 10, "calls complete")
        kill_all(a)
        with again(a, NOISE):
            out, err = replay.communicate(timeout=HANG_S * 2)
        assert replay.returncode == 0, out + err
        with open(report) as file:
            told = json.load(file)
    assert told["completed"] == 40 and told["failed"] == 0, told
    assert told["calls"] == 80 and told["generated_tokens"] == 80 * 60, told


# ---- connections that are cut --------------------------------------------------------------------

class Proxy:
    """Passes frames on. The first connection gets only `frames` frames of the appliance, or all
    before its first DONE when that is None; then it is cut."""

    def __init__(self, a, frames=None):
        self.a, self.frames, self.cuts = a, frames, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.to = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.address = self.listener.getsockname()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.a.tcp)
            threading.Thread(target=self._to_server, args=(client, server), daemon=True).start()
            with contextlib.suppress(OSError):          # either side may be gone
                self._to_client(server, client, self.cuts == 0)
            for side in (client, server):
                side.close()

    @staticmethod
    def _to_server(client, server):
        try:
            while data := client.recv(65536):
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def _to_client(self, server, client, cuts):
        buffer, count = b"", 0
        while data := server.recv(65536):
            buffer += data
            while len(buffer) >= 16:
                length = 16 + int.from_bytes(buffer[8:12], "little")
                if len(buffer) < length:
                    break
                is_here = buffer[4] == DONE if self.frames is None else count == self.frames
                if cuts and is_here:
                    self.cuts += 1
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(buffer[:length])
                buffer, count = buffer[length:], count + 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


def test_answer_whose_end_was_lost_is_not_executed_again():
    with Appliance(NOISE) as a, Proxy(a) as proxy:
        ask = {"max_tokens": 40, "flags": IGNORE_EOS | WANT_TEXT, "program": b"lost-in-transit!"}
        with Client(proxy.address) as c:
            cut = c.start(1, prompt(1), **ask)
            try:
                c.finish(1)
                raise AssertionError("DONE has come")
            except Closed:
                assert proxy.cuts == 1 and len(cut.tokens) == 40
        before = a.stats()
        with Client(proxy.address) as c:
            whole = c.generate(1, prompt(1), again=True, **ask).check()
            assert whole.tokens == cut.tokens and whole.text == cut.text
            assert whole.done["finish"] == LENGTH
            other = c.generate(1, prompt(2), **ask)
            assert "has ended" in other.error["text"], other.error
        after = a.stats()
        assert before["calls_accepted"] == after["calls_accepted"] == 1
        for name in ("steps", "tokens_generated", "tokens_computed"):
            assert before[name] == after[name], name
        assert after["calls_replayed"] == 1


def test_client_gets_the_end_that_was_lost_without_a_second_execution():
    right = right_answers(2, 40)
    with Appliance(NOISE) as a, Proxy(a) as proxy:
        assert "broke" in expect_ids(generate(proxy.to, 1, 40), right[1])
        stats = a.stats()
        assert proxy.cuts == 1 and stats["calls_replayed"] == 1
        assert stats["calls_accepted"] == 1 and stats["tokens_generated"] == 40


def test_connection_cut_at_any_frame_costs_nothing():
    right = right_answers(1, 24)
    with Appliance(NOISE) as a:
        for frames in itertools.count():            # the first is WELCOME
            with Proxy(a, frames) as proxy:
                err = expect_ids(generate(proxy.to, 0, 24), right[0])
                assert proxy.cuts == err.count("broke")
                if proxy.cuts == 0:
                    break
        assert frames > 5, "a program's start, ACCEPT, TOKENS, DONE, its end"
        wait_for(lambda: a.stats()["calls_open"] == 0, "calls are back")


def test_call_that_is_open_elsewhere_is_busy_until_its_connection_ends():
    with Appliance(NOISE) as a, Client(a.tcp) as old, Client(a.tcp) as new:
        with a.standing_still():
            old.start(1, prompt(0), max_tokens=900)
            old.step()
            refused = new.generate(1, prompt(0), max_tokens=900, program=old.program)
            assert "another connection" in refused.error["text"]
            old.close()
            a.wait_stats(connections_open=1)
        wait_for(lambda: a.stats()["calls_cancelled"] == 1, "the break is seen")
        assert new.generate(1, prompt(0), max_tokens=900, program=old.program).check()
