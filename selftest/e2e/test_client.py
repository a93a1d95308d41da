# SPDX-License-Identifier: MIT
"""The command line client against the real appliance: output, exit codes, messages."""
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading

from appliance import BUILD, HANG_S, NOISE, SHARED, Appliance, run, stop, wait_for
from protocol import IGNORE_EOS, Client
from test_lab import make_trace

USAGE, CONNECT, REFUSED, INCOMPLETE = 2, 3, 4, 5
TRACE = b"""agentix-trace 1
# a chat of three turns, and a fan-out with a merge
program 0 0 chat
call 0 after=- gap=0 in=s:system:20+u:5 out=6
call 1 after=0 gap=1000 in=p:0+o:0+u:4 out=5
call 2 after=1 gap=0 in=p:1:12+o:1:2 out=4
program 1 250000 map
call 0 after=- gap=0 in=s:system:20+u:9 out=3
call 1 after=- gap=500 in=s:system:20+u:8 out=3
call 2 after=- gap=0 in=u:7 out=30
call 3 after=0,1,2 gap=0 in=o:0+o:1+o:2 out=8
"""


def agx(a, *arguments):
    return run("agx", "--to", a.to, *arguments)


def replay(content, *arguments, to="127.0.0.1:1"):
    with tempfile.NamedTemporaryFile(suffix=".trace") as file:
        file.write(content)
        file.flush()
        return run("agx", "--to", to, "replay", file.name, *arguments)


# ---- generate ------------------------------------------------------------------------------------

def test_generate_prints_the_ids_that_the_protocol_carries():
    with Appliance(NOISE) as a, Client(a.tcp) as c:
        wanted = c.generate(1, [5, 6, 7], max_tokens=20, flags=IGNORE_EOS).check().tokens
        done = agx(a, "generate", "--ids", "5,6,7", "--max-tokens", "20", "--ignore-eos",
                   "--print-ids")
        assert done.returncode == 0, done.stderr
        assert [int(word) for word in done.stdout.split()] == wanted
        assert done.stdout.endswith("\n") and done.stdout.count("\n") == 1


def test_generate_is_the_same_on_a_unix_socket():
    with Appliance(NOISE, unix=True) as a:
        ask = ("generate", "--prompt", "hello", "--max-tokens", "30", "--seed", "7",
               "--temperature", "0.9", "--top-k", "20", "--top-p", "0.9")
        tcp, unix = agx(a, *ask), run("agx", "--to", "unix:" + a.unix, *ask)
        assert tcp.returncode == unix.returncode == 0, tcp.stderr + unix.stderr
        assert tcp.stdout == unix.stdout and tcp.stdout
        other = agx(a, *[word if word != "7" else "8" for word in ask])
        assert other.stdout != tcp.stdout


def test_generate_with_an_empty_prompt_sends_bos():
    with Appliance() as a:
        done = agx(a, "generate", "--prompt", "", "--max-tokens", "4", "--stats")
        assert done.returncode == 0 and " prompt=1 " in done.stderr, done.stderr
        assert agx(a, "generate", "--prompt", "", "--no-bos").returncode == USAGE


def test_generate_without_max_tokens_takes_what_fits():
    with Appliance("limits.context_tokens=256") as a:
        done = agx(a, "generate", "--prompt", "word " * 40, "--stats", "--ignore-eos")
        assert done.returncode == 0, done.stderr
        done = agx(a, "generate", "--ids", ",".join(["9"] * 250), "--stats", "--ignore-eos")
        assert done.returncode == 0 and "generated=6 " in done.stderr, done.stderr


def test_generate_stop_text_is_not_printed():
    with Appliance(NOISE) as a:
        ask = ("generate", "--prompt", "a", "--max-tokens", "60", "--ignore-eos")
        whole = agx(a, *ask).stdout
        stop = whole[20:22]
        done = agx(a, *ask, "--stop", stop, "--stats")
        assert done.returncode == 0 and "finish=stop_text" in done.stderr, done.stderr
        assert done.stdout == whole[:whole.index(stop)]


def test_generate_deadline_is_incomplete():
    with Appliance() as a:
        done = agx(a, "generate", "--prompt", "a", "--max-tokens", "1000", "--ignore-eos",
                   "--deadline-ms", "1")
        assert done.returncode == INCOMPLETE and "deadline" in done.stderr, done.stderr


def test_generate_refusals_name_the_field():
    with Appliance() as a:
        done = agx(a, "generate", "--ids", "1,2,4000000000")
        assert done.returncode == REFUSED, done.stderr
        assert "refused: the prompt: token id" in done.stderr, done.stderr
        assert "found 4000000000" in done.stderr, done.stderr
        done = agx(a, "generate", "--prompt", "a", "--max-tokens", "1000000")
        assert done.returncode == REFUSED and "context" in done.stderr, done.stderr
        done = agx(a, "generate", "--prompt", "a", "--temperature", "0.005")
        assert done.returncode == USAGE and done.stderr == \
            "agx: --temperature: expected 0, for the most likely token always, or 0.01 to 100\n"
        done = agx(a, "generate", "--prompt", "a", "--stop", "x" * 65)
        assert done.returncode == USAGE, done.stderr
        assert done.stderr.startswith("agx: --stop: expected a text of 1 to 64 bytes"), done.stderr


def test_generate_own_program_ends_and_a_named_one_stays():
    with Appliance() as a:
        assert agx(a, "generate", "--prompt", "a", "--max-tokens", "2").returncode == 0
        assert a.stats()["programs_ended"] == 1 and a.stats()["programs_open"] == 0
        for _ in range(2):
            agx(a, "generate", "--prompt", "a", "--max-tokens", "2", "--program", "mine")
        assert a.stats()["programs_started"] == 2 and a.stats()["programs_open"] == 1


def test_generate_is_complete_whether_or_not_the_appliance_goes_on():
    """It drains and goes with the last answer, and hears of the program's end or does not."""
    with Appliance(NOISE) as a:
        with a.standing_still():
            started = begin(a, "generate", "--prompt", "a", "--max-tokens", "9", "--ignore-eos",
                            "--print-ids")
            a.wait_stats(calls_open=1)
            a.process.send_signal(signal.SIGTERM)
        out, err = end(started)
    assert len(out.split()) == 9 and "Connection refused" not in err, (out, err)


# ---- an appliance that starts --------------------------------------------------------------------

def test_generate_waits_for_an_appliance_that_does_not_answer_yet():
    """The listener is there before the model: here the core is stopped instead."""
    with Appliance() as a:
        core = a.core
        stop(core)
        try:
            started = begin(a, "generate", "--prompt", "a", "--max-tokens", "2")
            said = started.stderr.readline()
            probe = agx(a, "ping")
        finally:
            os.kill(core, signal.SIGCONT)
        out, _ = end(started)
        assert "does not answer yet" in said and out, (said, out)
        assert probe.returncode == CONNECT and "no answer in time" in probe.stderr, probe


# ---- a busy appliance ----------------------------------------------------------------------------

def begin(a, *arguments):
    return subprocess.Popen([os.path.join(BUILD, "agx"), "--to", a.to] + list(arguments), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def end(process):
    out, err = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, err
    return out, err


def refused_while_it_stands_still(a, refusals, *commands):
    """Starts the commands while the worker is stopped; resumes it after so many refusals."""
    with a.standing_still():
        started = [begin(a, *command) for command in commands]
        wait_for(lambda: a.stats()["calls_refused"] >= refusals, "refused")
    return [end(process) for process in started]


def test_generate_waits_until_a_busy_appliance_has_room():
    ask = ("generate", "--ids", "5,6,7", "--max-tokens", "9", "--ignore-eos", "--print-ids",
           "--retries", "1000")
    with Appliance(NOISE, "limits.calls=1") as a:
        alone = agx(a, *ask)
        assert "told to wait" not in alone.stderr, alone
        ends = refused_while_it_stands_still(a, 3, *[ask] * 4)
        assert [out for out, _ in ends] == [alone.stdout] * 4
        waits = [int(re.search(r"told to wait (\d+) times", err).group(1)) for _, err in ends
                 if err]
        assert sum(waits) == a.stats()["calls_refused"] >= 3, ends


def test_generate_asks_a_busy_appliance_as_often_as_it_may():
    ask = ("generate", "--prompt", "a", "--max-tokens", "4", "--retries")
    with Appliance(NOISE, "limits.calls=1") as a, Client(a.tcp) as c:
        with a.standing_still():
            c.start(1, [5, 6, 7], max_tokens=4)
            wait_for(lambda: a.stats()["calls_open"] == 1, "the one place is taken")
            for retries in (0, 2):
                refused = a.stats()["calls_refused"]
                done = agx(a, *ask, str(retries))
                assert done.returncode == REFUSED and "busy: no free call slot" in done.stderr, done
                assert ("told to wait 2 times" in done.stderr) == (retries == 2), done
                assert a.stats()["calls_refused"] == refused + retries + 1
        c.finish(1).check()


def test_generate_waits_for_a_place_of_its_program_and_of_its_connection():
    ask = ("generate", "--prompt", "a", "--max-tokens", "4", "--retries", "1000")
    with Appliance(NOISE, "limits.programs=1") as a, Client(a.tcp) as c:
        with a.standing_still():
            c.start(1, [5, 6, 7], max_tokens=4)
            wait_for(lambda: a.stats()["calls_open"] == 1, "the one program has a call")
            other = begin(a, *ask)
            wait_for(lambda: a.stats()["connections_open"] == 2, "the other has come")
            done = agx(a, "generate", "--prompt", "a", "--retries", "0")
            assert done.returncode == REFUSED and "PROGRAM_START" in done.stderr, done
        c.finish(1).check()
        end(other)
    with Appliance(NOISE, "limits.connections=1") as a:
        with Client(a.tcp) as c:
            assert agx(a, *ask[:-1], "0").returncode == REFUSED
            other = begin(a, *ask)
            wait_for(lambda: a.stats()["connections_refused"] >= 2, "the other is turned away")
            c.generate(1, [5, 6, 7]).check()
        _, err = end(other)
        assert "told to wait" in err, err


def test_load_and_replay_wait_where_the_appliance_is_busy():
    with Appliance(NOISE, "limits.calls=4") as a:
        loads = [("load", "--calls", "100", "--seed", seed) for seed in "123"]
        ends = refused_while_it_stands_still(a, 8, *loads)      # each has four in flight
        busy = [int(re.match(r"100 calls, \d+ tokens, (\d+) busy", out).group(1))
                for out, _ in ends]
        assert sum(busy) == a.stats()["calls_refused"] >= 8, ends
        done = agx(a, "load", "--calls", "200", "--in-flight", "4", "--retries", "0")
        assert done.returncode == 0 and " 0 busy" in done.stdout, done
    with Appliance(NOISE, "limits.calls=1") as a, \
            tempfile.NamedTemporaryFile(suffix=".trace") as file:
        file.write(TRACE)
        file.flush()
        (out, _), = refused_while_it_stands_still(
            a, 3, ("replay", file.name, "--rate", "1000", "--programs", "8"))
        assert "8 of 8 completed" in out, out
        assert "%d times busy" % a.stats()["calls_refused"] in out, out


# ---- the command line ----------------------------------------------------------------------------

def test_wrong_command_lines_are_usage_errors():
    for arguments in ((), ("nonsense",), ("--nonsense",), ("--to",), ("generate",),
                      ("generate", "--prompt"), ("generate", "--prompt", "a", "--ids", "1"),
                      ("generate", "--prompt", "a", "b"), ("generate", "--ids", "1,,2"),
                      ("generate", "--ids", "1,"), ("generate", "--ids", "4294967296"),
                      ("generate", "--prompt", "a", "--seed", "-1"),
                      ("generate", "--prompt", "a", "--seed", "18446744073709551616"),
                      ("generate", "--prompt", "a", "--seed", "1", "--seed", "2"),
                      ("generate", "--prompt", "a", "--temperature", "nan"),
                      ("generate", "--prompt", "a", "--temperature", "0x1"),
                      ("generate", "--prompt", "a", "--temperature", "101"),
                      ("generate", "--prompt", "a", "--max-tokens", "0"),
                      ("generate", "--prompt", "a", "--ignore-eos=1"), ("ping", "--count", "0"),
                      ("replay",), ("demo", "x"), ("agent",), ("load", "--calls", " 1")):
        done = run("agx", *arguments)
        assert done.returncode == USAGE and done.stderr, (arguments, done)
    assert "before the command" in run("agx", "generate", "--to", "127.0.0.1:1").stderr


def test_help_exits_with_success():
    text = run("agx", "help").stdout
    for command in ("generate", "tokenize", "replay", "agent", "demo", "load", "ping"):
        assert command in text
        done = run("agx", command, "--help")
        assert done.returncode == 0 and "usage: agx" in done.stdout, done
        assert run("agx", "help", command).stdout == done.stdout
    assert run("agx", "-h").stdout == text
    for words in (("help", "nonsense"), ("help", "ping", "x")):
        done = run("agx", *words)
        assert done.returncode == USAGE and words[-1] in done.stderr, done


def test_an_address_without_a_listener_is_an_error_with_its_cause():
    done = run("agx", "--to", "unix:/nonexistent/socket", "ping")
    assert done.returncode == CONNECT and "No such file" in done.stderr, done
    assert "net.unix" in done.stderr, done
    done = run("agx", "--to", "127.0.0.1:1", "generate", "--prompt", "x")
    assert done.returncode == CONNECT, done
    assert "127.0.0.1:1: cannot connect: Connection refused" in done.stderr, done
    assert "is the appliance running?" in done.stderr, done
    assert run("agx", "--to", "localhost:7411", "ping").returncode == USAGE


def test_another_port_of_the_appliance_is_named():
    with Appliance() as a:
        text, wire = ("%s:%d" % address for address in (a.text_address, a.tcp))
        for command in (("ping",), ("generate", "--prompt", "x")):
            done = run("agx", "--to", text, *command)
            assert done.returncode == CONNECT and "it speaks HTTP" in done.stderr, done
            assert "waiting" not in done.stderr, done
        done = run("agx", "ask", "--text", wire, "health")
        assert done.returncode != 0 and "is it a text port?" in done.stderr, done


def test_a_server_that_answers_the_greeting_by_http_is_no_appliance():
    """Some greetings hold a line feed, which a text port takes for the end of a line."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def refuse():
            while True:
                try:
                    peer = listener.accept()[0]
                except OSError:
                    return
                with peer:
                    peer.recv(1)
                    peer.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
                    peer.shutdown(socket.SHUT_WR)
                    with contextlib.suppress(ConnectionResetError):
                        while peer.recv(1024):
                            pass
        threading.Thread(target=refuse, daemon=True).start()
        done = run("agx", "--to", "127.0.0.1:%d" % listener.getsockname()[1], "ping")
        listener.shutdown(socket.SHUT_RDWR)
    assert done.returncode == CONNECT and "it speaks HTTP" in done.stderr, done


def test_a_file_that_cannot_be_read_is_named_with_the_cause():
    missing = "/no/such/file"
    for words in (("flow", missing), ("replay", missing), ("render", missing),
                  ("tokenize", "--vocab", missing, "x"), ("agent", missing)):
        done = run("agx", *words)
        assert done.returncode != 0, done
        assert missing in done.stderr and "No such file" in done.stderr, done


def test_ping_answers():
    with Appliance() as a:
        done = agx(a, "ping", "--count", "3")
        assert done.returncode == 0 and done.stdout.count("pong") == 3, done


# ---- load, replay --------------------------------------------------------------------------------

def test_load_checks_every_call():
    with Appliance("limits.calls=16") as a:
        done = agx(a, "load", "--calls", "300", "--in-flight", "32")
        assert done.returncode == 0 and done.stdout.startswith("300 calls"), done


def test_replay_sends_what_the_trace_says():
    with Appliance() as a, tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "report.json")
        done = replay(TRACE, "--rate", "50", "--programs", "5", "--json", path, to=a.to)
        assert done.returncode == 0, done.stderr
        report = json.load(open(path))
        # Programs 0 and 1 of the trace, three and two times.
        assert report["completed"] == report["programs"] == 5 and report["failed"] == 0
        assert report["calls"] == 3 * 3 + 2 * 4
        assert report["generated_tokens"] == 3 * 15 + 2 * 44
        assert report["prompt_tokens"] == 3 * (25 + 35 + 14) + 2 * (29 + 28 + 7 + 36)
        assert 0 < report["token_latency_ms"]["mean"] <= report["token_latency_ms"]["p99"]
        assert a.stats()["calls_completed"] == report["calls"]
        assert "program-level latency" in done.stdout


def test_replay_of_a_closed_load_reports_its_middle():
    with Appliance() as a, tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "report.json")
        done = replay(TRACE, "--sessions", "3", "--programs", "12", "--json", path, to=a.to)
        assert done.returncode == 0, done.stderr
        report = json.load(open(path))
        assert report["completed"] == 12 and report["sessions"] == 3 and report["rate"] == 0
        assert report["middle"]["programs"] == 6 and report["middle"]["tokens_per_s"] > 0
        assert report["middle"]["duration_s"] < report["duration_s"]
        assert "in the middle" in done.stdout
        for words in (("--sessions", "3"), ("--sessions", "1", "--rate", "1")):
            done = replay(TRACE, *words, to=a.to)
            assert done.returncode == USAGE and "--sessions" in done.stderr, done


def test_replay_latency_is_that_of_the_critical_path_without_tool_gaps():
    # Two threads of one call each after a gap, then a merge: 10 tokens. The gap of 300 ms lies
    # between response times, so it is the whole difference; parallel gaps of 400 ms count once.
    content = (b"agentix-trace 1\nprogram 0 0 a\ncall 0 after=- gap=0 in=u:3 out=2\n"
               b"call 1 after=0 gap=300000 in=u:3 out=3\n"
               b"call 2 after=0 gap=300000 in=u:3 out=3\n"
               b"call 3 after=1,2 gap=400000 in=u:3 out=2\n")
    with Appliance() as a, tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "report.json")
        done = replay(content, "--json", path, to=a.to)
        assert done.returncode == 0, done.stderr
        report = json.load(open(path))
        assert report["generated_tokens"] == 10 and report["completed"] == 1
        out, with_gaps = (report[name]["mean"] * 10 for name in
                          ("token_latency_ms", "token_latency_with_gaps_ms"))
        assert 0 < out and with_gaps >= 700, report
        assert 699 < with_gaps - out < 1e3 * report["duration_s"] - out + 1, report
        assert report["token_latency_ms"]["p95"] == report["token_latency_ms"]["mean"]


def test_replay_scales_tokens_and_cuts_prompts():
    with Appliance("limits.context_tokens=64") as a, tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "report.json")
        done = replay(TRACE, "--rate", "50", "--token-scale", "3", "--gap-scale", "0", "--json",
                      path, to=a.to)
        assert done.returncode == 0, done.stderr
        report = json.load(open(path))
        # Outputs are at most half the context: 90 becomes 32.
        assert report["generated_tokens"] == 18 + 15 + 12 + 9 + 9 + 32 + 24
        assert report["cut_prompts"] == 5, report


def test_replay_retries_what_was_busy():
    with Appliance("limits.calls=2", "limits.calls_per_connection=1") as a:
        done = replay(TRACE, "--rate", "1000", "--programs", "8", to=a.to)
        assert done.returncode == 0 and "8 of 8 completed" in done.stdout, done


def test_replay_refuses_bad_traces_by_line():
    call = b"call 0 after=- gap=0 in=u:1 out=1\n"
    start = b"agentix-trace 1\nprogram 0 5 a\n"
    for content, line in (
            (b"", 1), (b"agentix-trace 2\n", 1), (b"agentix-trace 1\n" + call, 2),
            (start, 2), (start + b"program 1 6 b\n", 3), (start + call + b"program 1 4 b\n", 4),
            (start + b"call 1 after=- gap=0 in=u:1 out=1\n", 3),
            (start + b"call 0 after=0 gap=0 in=u:1 out=1\n", 3),
            (start + b"call 0 after=- gap=-1 in=u:1 out=1\n", 3),
            (start + b"call 0 after=- gap=18446744073709551616 in=u:1 out=1\n", 3),
            (start + b"call 0 after=- gap=0 in= out=1\n", 3),
            (start + b"call 0 after=- gap=0 in=u:0 out=1\n", 3),
            (start + b"call 0 after=- gap=0 in=u:1+ out=1\n", 3),
            (start + b"call 0 after=- gap=0 in=x:1 out=1\n", 3),
            (start + b"call 0 after=- gap=0 in=s::1 out=1\n", 3),
            (start + b"call 0 after=- gap=0 in=p:0 out=1\n", 3),
            (start + b"call 0 after=- gap=0 in=u:1 out=0\n", 3),
            (start + b"call 0 after=- gap=0 in=u:1 out=1 \n", 3),
            (start + b"call 0 after=- gap=0 in=u:1 out=1\r\r\n", 3),
            (start + b"call 0 after=- gap=0 in=u:99999999 out=1\n", 3),
            (start + call + b"call 1 after=0 gap=0 in=p:0:2 out=1\n", 4),
            (start + call + b"call 1 after=0,0 gap=0 in=u:1 out=1\n", 4),
            (start + call + b"call 1 after=1 gap=0 in=u:1 out=1\n", 4),
            (start + call + b"call 1 after=- gap=0 in=o:0 out=1\n", 4)):
        done = replay(content)
        assert done.returncode == USAGE, (content, done)
        assert re.search(r"\.trace:%d: " % line, done.stderr), (content, done.stderr)


def test_traces_of_chats_trees_and_tools_replay():
    """Made-up traces, and those recorded by others where they are."""
    with tempfile.TemporaryDirectory() as directory:
        paths = [os.path.join(SHARED, "traces", name) for name in
                 ("sharegpt.trace", "bfcl.trace", "lats.trace")]
        for seed in (1, 2):
            paths.append(os.path.join(directory, "made-up-%d.trace" % seed))
            with open(paths[-1], "w", encoding="ascii") as file:
                file.write(make_trace(seed=seed))
        for path in filter(os.path.exists, paths):
            with Appliance() as a:
                done = agx(a, "replay", path, "--programs", "3", "--rate", "50", "--token-scale",
                           "0.03", "--gap-scale", "0")
                assert done.returncode == 0 and "3 of 3 completed" in done.stdout, (path, done)
