# SPDX-License-Identifier: MIT
"""The event log of the real binary, and the picture that `agx trace` draws from it."""
import json
import os
import signal
import socket
import subprocess
import tempfile

from appliance import BUILD, HANG_S, NOISE, Appliance, run, wait_for
from protocol import IGNORE_EOS, Client

ENGINE = 1


def text_of(a):
    return "%s:%d" % a.text_address


def events(a):
    """Every event in the event log: (number, time, kind, fields), page by page."""
    found, at, end = [], 0, 1
    while at < end:
        for line in a.text("events %d" % at).split("\n"):
            words = line.split(" ")
            fields = dict(word.split("=") for word in words if "=" in word)
            if line.startswith("next="):
                at, end = int(fields["next"]), int(fields["end"])
            else:
                found.append((int(words[0]), int(words[1]), words[3], fields))
    return found


class Trace:
    """The events of a file that `agx trace` wrote."""

    def __init__(self, path):
        with open(path) as file:
            self.events = json.load(file)["traceEvents"]
        check_format(self.events)

    def named(self, name, phase="X"):
        return [e for e in self.events if e["name"] == name and e["ph"] == phase]

    def sum_of(self, name, call):
        return sum(e["dur"] for e in self.named(name) if e["args"]["call"] == call)


def just_now(a):
    """The output and the picture of `agx trace --seconds 0`."""
    with tempfile.TemporaryDirectory(prefix="agentix-e2e-") as directory:
        path = os.path.join(directory, "t.json")
        done = run("agx", "trace", "--text", text_of(a), "--seconds", "0", "--out", path)
        assert done.returncode == 0 and done.stderr == "", done.stderr
        return done.stdout, Trace(path)


def check_format(trace):
    """Checks the trace event format, as far as we use it; nothing overlaps on a track."""
    tracks, processes = {}, set()
    for e in trace:
        assert isinstance(e["name"], str) and e["pid"] > 0 and e["tid"] > 0, e
        if e["ph"] == "M":
            assert e["name"] in ("process_name", "process_sort_index", "thread_name",
                                 "thread_sort_index"), e
            if e["name"] == "process_name":
                processes.add(e["pid"])
        elif e["ph"] == "i":
            assert isinstance(e["ts"], int) and e["s"] == "t", e
        else:
            assert e["ph"] == "X" and isinstance(e["ts"], int) and e["dur"] > 0, e
            tracks.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))
    assert all(e["pid"] in processes for e in trace)
    for stretches in tracks.values():
        stretches.sort()
        for before, after in zip(stretches, stretches[1:]):
            assert before[1] <= after[0], (before, after)


def serve(a, client, programs, calls, tokens, prompt=24):
    """`calls` of each program at once; {call id: terminal frame}."""
    done, accepted = {}, a.stats()["calls_accepted"] + programs * calls
    with a.standing_still():
        for p in range(programs):
            for n in range(calls):
                client.start(1 + p * calls + n, list(range(3, 3 + prompt)), max_tokens=tokens,
                             program=b"trace-program-%02d" % p, flags=IGNORE_EOS)
        a.wait_stats(calls_accepted=accepted)
    for call in range(1, 1 + programs * calls):
        done[call] = client.finish(call).check().done
    return done


def test_events_are_in_order_and_whole():
    with Appliance(NOISE) as a, Client(a.tcp) as c:
        done = serve(a, c, 2, 3, 40)
        found = events(a)
        assert [number for number, _, _, _ in found] == list(range(len(found)))
        assert all(one[1] <= other[1] for one, other in zip(found, found[1:]))
        for call, frame in done.items():
            own = [(kind, fields) for _, _, kind, fields in found
                   if fields.get("id") == str(call)]
            kinds = [kind for kind, _ in own]
            assert kinds[0] == "queued" and kinds[-1] == "finished", kinds
            assert kinds.count("first_token") == kinds.count("queued") == 1, kinds
            ran = [fields for kind, fields in own if kind == "ran"]
            assert sum(int(f["us"]) for f in ran) == frame["service_us"]
            assert sum(int(f["tokens"]) for f in ran) == frame["generated_tokens"] == 40


def test_waits_and_runs_of_the_picture_are_those_of_the_terminal_frame():
    with Appliance(NOISE, "sched.batch=2", "sched.quantum=1us") as a, Client(a.tcp) as c:
        done = serve(a, c, 3, 3, 60)
        said, trace = just_now(a)
        assert " 9 calls, 3 programs; 0 events lost" in said, said
        for call, frame in done.items():
            assert trace.sum_of("wait", call) == frame["wait_us"], frame
            assert trace.sum_of("run", call) == frame["service_us"], frame
        assert any(frame["wait_us"] > 0 for frame in done.values())
        assert len(trace.named("finished length", "i")) == 9
        assert len(trace.named("demoted", "i")) == a.stats()["demotions"] > 0
        # The engine: a batch of two has two slots, or standbys too; each step is there.
        assert len(trace.named("step")) == a.stats()["steps"]
        slots = {e["tid"] for e in trace.events if e["pid"] == ENGINE and e["ph"] == "X"}
        assert len(slots) >= 3, slots
        # Calls of a program that are open at once have tracks of their own.
        assert len({e["tid"] for e in trace.named("queued", "i") if e["pid"] == 2}) == 3


def test_a_gap_lies_between_the_calls_of_a_program():
    with Appliance(NOISE) as a, Client(a.tcp) as c:
        for call in (1, 2, 3):
            c.generate(call, [1, 2, 3], max_tokens=4).check()
        _, trace = just_now(a)
        assert len(trace.named("gap")) == 2
        ends = [e["ts"] for e in trace.named("finished length", "i")]
        assert [e["ts"] for e in trace.named("gap")] == ends[:2]


def test_preemptions_and_swaps_appear():
    with Appliance(NOISE, "kv.block_tokens=8", "kv.device_blocks=32", "kv.host_ratio=1",
                   "sched.quantum=1us", "limits.context_tokens=256",
                   "sched.active_set=off", "kv.sharing=off") as a, Client(a.tcp) as c:
        done = serve(a, c, 8, 2, 100)
        stats, (_, trace) = a.stats(), just_now(a)
        assert stats["preemptions"] > 0 and stats["swap_out_blocks"] > 0, stats
        assert len(trace.named("preempted", "i")) == stats["preemptions"]
        for call, frame in done.items():
            mine = [e for e in trace.named("preempted", "i") if e["args"]["call"] == call]
            assert len(mine) == frame["preemptions"]
            assert trace.sum_of("wait", call) == frame["wait_us"]
            assert trace.sum_of("run", call) == frame["service_us"]
        for name, count in (("swapped_in", "swap_in_blocks"), ("swapped_out", "swap_out_blocks")):
            blocks = sum(e["args"]["blocks"] for e in trace.named(name, "i"))
            assert blocks == stats[count], (name, blocks, stats)


def test_a_dead_worker_is_in_the_picture():
    with Appliance(NOISE) as a, Client(a.tcp) as c:
        c.start(1, [1, 2, 3], max_tokens=200, flags=IGNORE_EOS)
        os.kill(a.worker, signal.SIGKILL)
        c.finish(1).check()
        wait_for(lambda: a.stats()["engine_restarts"] == 1, "the worker is back")
        _, trace = just_now(a)
        assert len(trace.named("engine_lost", "i")) == 1


def test_a_small_event_log_says_what_it_forgot():
    with Appliance(NOISE, "limits.events=16") as a, Client(a.tcp) as c:
        serve(a, c, 1, 1, 200)
        found = events(a)
        assert len(found) == 16 and found[0][0] > 0
        last = a.text("events 0").split("\n")[-1]
        assert "lost=%d " % found[0][0] in last, last
        said, _ = just_now(a)
        assert ", %d forgotten before" % found[0][0] in said, said


class Tracing:
    """`agx trace` in the background."""

    def __init__(self, a, path, *arguments):
        self.process = subprocess.Popen(
            [os.path.join(BUILD, "agx"), "trace", "--text", text_of(a), "--out", path, *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.catch_up(a)

    @staticmethod
    def catch_up(a):
        """Waits until it has asked for all events so far: it asks, and then rests."""
        asked, mine = a.stats()["text_requests"], 0

        def has_asked():
            nonlocal mine
            mine += 1
            return a.stats()["text_requests"] - asked - mine >= 3
        wait_for(has_asked, "agx trace has asked")

    def end(self, wanted=0):
        out, error = self.process.communicate(timeout=HANG_S)
        assert self.process.returncode == wanted, (self.process.returncode, error)
        return out, error


def test_follows_until_interrupted_and_the_file_is_whole():
    with tempfile.TemporaryDirectory(prefix="agentix-e2e-") as directory:
        path = os.path.join(directory, "t.json")
        with Appliance(NOISE) as a, Client(a.tcp) as c:
            tracing = Tracing(a, path)
            done = serve(a, c, 2, 4, 100)
            tracing.process.send_signal(signal.SIGINT)
            out, _ = tracing.end()
            assert " 8 calls, 2 programs; 0 events lost" in out, out
        trace = Trace(path)
        for call, frame in done.items():
            assert trace.sum_of("run", call) == frame["service_us"]


def test_lost_events_are_counted_and_shown():
    with tempfile.TemporaryDirectory(prefix="agentix-e2e-") as directory:
        path = os.path.join(directory, "t.json")
        with Appliance(NOISE, "limits.events=1") as a, Client(a.tcp) as c:
            c.generate(100, [3, 4, 5]).check()
            tracing = Tracing(a, path)
            serve(a, c, 4, 4, 50)
            tracing.process.send_signal(signal.SIGINT)
            out, _ = tracing.end()
        trace = Trace(path)
        lost = sum(e["args"]["count"] for e in trace.named("events lost", "i"))
        assert lost > 0 and "; %d events lost" % lost in out, (lost, out)


def test_an_appliance_that_ends_leaves_a_whole_file():
    with tempfile.TemporaryDirectory(prefix="agentix-e2e-") as directory:
        path = os.path.join(directory, "t.json")
        with Appliance(NOISE) as a, Client(a.tcp) as c:
            tracing = Tracing(a, path)
            serve(a, c, 1, 1, 20)
            tracing.catch_up(a)
        _, error = tracing.end(wanted=5)
        assert "closed the connection" in error, error
        trace = Trace(path)
        assert len(trace.named("finished length", "i")) == 1


def test_what_cannot_be_traced_is_named():
    assert run("agx", "trace", "--text", "127.0.0.1:1").returncode == 3
    assert run("agx", "trace", "--text", "nowhere").returncode == 2
    assert run("agx", "trace", "--seconds", "-1").returncode == 2
    with Appliance("limits.events=0") as a, tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "t.json")
        done = run("agx", "trace", "--text", text_of(a), "--seconds", "0", "--out", path)
        assert done.returncode == 4 and "limits.events is 0" in done.stderr, done.stderr
        assert not os.path.exists(path)
        assert "limits.events is 0" in a.text("events")
    with Appliance() as a:
        done = run("agx", "trace", "--text", text_of(a), "--seconds", "0", "--out", "/nowhere/t")
        assert done.returncode == 1 and "/nowhere/t" in done.stderr, done.stderr


def test_the_text_port_refuses_bad_numbers():
    with Appliance(NOISE) as a, Client(a.tcp) as c:
        c.generate(1, [1, 2, 3], max_tokens=4).check()
        end = len(events(a))
        for word in ("-1", "0x3", "18446744073709551616", "1 2", "9" * 400, "\x00", "%n"):
            assert "error expected a number or a time of day" in a.text("events " + word), word
        for number in (end, end + 1, 2 ** 63, 2 ** 64 - 1):
            answer = a.text("events %d" % number)
            assert answer.startswith("next=%d end=%d lost=0 " % (end, end)), answer
        a.wait_ready()


def test_a_port_that_does_not_answer_is_not_asked_for_ever():
    with socket.create_server(("127.0.0.1", 0)) as listener, \
            tempfile.TemporaryDirectory(prefix="agentix-e2e-") as directory:
        path = os.path.join(directory, "t.json")
        tracing = subprocess.Popen(
            [os.path.join(BUILD, "agx"), "trace", "--out", path, "--text",
             "127.0.0.1:%d" % listener.getsockname()[1]], stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL, text=True)
        peer, _ = listener.accept()
        with peer:
            while peer.recv(100):
                peer.sendall(b"7 8 2026-11-24T12:03:07.123Z engine_lost\n"
                             b"next=3 end=9 lost=0 now_us=9\nend\n")
        _, error = tracing.communicate(timeout=HANG_S)
        assert tracing.returncode == 6 and "event 3 of 9" in error, error
        assert Trace(path).named("engine_lost", "i")
