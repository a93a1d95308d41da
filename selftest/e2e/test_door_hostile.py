# SPDX-License-Identifier: MIT
"""Hostile clients of the door: each costs itself its connection or its request, the others are
served, and the appliance does not notice. Times are only waited for; what idle clients cost is
counted, in bytes and in ticks of the processor."""
import contextlib
import json
import os
import re
import resource
import socket
import tempfile
import time

from appliance import NOISE, Appliance, stopped, wait_for
from door_attack import (CHAT, Door, body_of, has_closed, read_all, read_answer, request,
                         status_of)
from skip import inside

LORIS = 200
IDLE_STREAMS = 1000
KILLS = 100
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: d\r\n"
QUICK = "door.receive=500ms"


def raise_descriptors(count):
    """So that this process may have as many connections."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count), hard))


def test_clients_that_dribble_are_closed_and_others_are_served():
    raise_descriptors(4096)
    with Appliance() as a, Door(a, QUICK) as d, contextlib.ExitStack() as stack:
        heads = [stack.enter_context(d.connect()) for _ in range(LORIS)]
        bodies = [stack.enter_context(d.connect()) for _ in range(LORIS)]
        for s in bodies:
            s.sendall(HEAD + b"Content-Length: 100000\r\n\r\n{")
        open_ones = set(heads + bodies)
        for s in open_ones:
            s.setblocking(False)

        def all_are_closed():
            for s in list(open_ones):
                try:
                    s.send(b"P" if s in heads else b" ")
                    closed = has_closed(s)
                except (BrokenPipeError, ConnectionResetError):
                    closed = True
                if closed:
                    open_ones.discard(s)
            status, answer = d.post("/v1/completions", {"prompt": "a", "max_tokens": 2})
            assert status == 200, answer
            return not open_ones
        wait_for(all_are_closed, "all that dribble are closed")
        d.wait_idle()


def test_idle_keep_alive_connections_are_closed():
    with Appliance() as a, Door(a, QUICK) as d, d.connect() as used, d.connect() as fresh:
        for _ in range(3):
            used.sendall(request("/tokenize", {"content": "a b"}))
            assert read_answer(used)[0] == 200
        wait_for(lambda: has_closed(used) and has_closed(fresh), "idle ones are closed")
        d.wait_idle()


def test_idle_streams_cost_nothing_visible():
    """The worker stands still, so that the streams have begun, and nothing is said."""
    raise_descriptors(4096)
    with Appliance("limits.calls=2000", "limits.programs=2000", NOISE) as a, \
            Door(a, "door.calls=%d" % (IDLE_STREAMS + 24), "door.requests=1100",
                 NOISE) as d, contextlib.ExitStack() as stack:
        with a.standing_still():
            body = {"prompt": "a", "max_tokens": 50, "stream": True, "ignore_eos": True}
            streams = []
            for _ in range(IDLE_STREAMS):
                streams.append(stack.enter_context(d.connect()))
                streams[-1].sendall(request("/v1/completions", body))
            d.wait_metrics(requests=IDLE_STREAMS + 1, calls=IDLE_STREAMS)
            for s in streams:           # the last ones may still be on their way
                assert s.recv(12, socket.MSG_WAITALL | socket.MSG_PEEK) == b"HTTP/1.1 200"
            memory, ticks, metrics = d.status("VmRSS"), d.ticks(), d.metrics()["memory_bytes"]
            seconds = 3
            time.sleep(seconds)             # what is counted is used, not how long anything takes
            used = d.ticks() - ticks
            assert used <= os.sysconf("SC_CLK_TCK") * seconds // 10, (used, "ticks while idle")
            assert d.status("VmRSS") - memory < 1024, (memory, d.status("VmRSS"))
            assert d.metrics()["memory_bytes"] == metrics
            for s in streams:
                s.close()
            d.wait_metrics(requests=1, connections=1)
        a.wait_stats(calls_open=0)
        d.wait_idle()
        assert d.metrics()["memory_bytes"] == 0


def test_bodies_that_are_no_requests_are_refused():
    deep = b"[" * 100000
    bodies = (b"", b"null", b"[]", b"{", b"\xff\xfe", b'{"prompt": "\xff"}', b"\0" * 100,
              b'{"prompt": "a\0b"}', b'{"prompt": "a", "prompt": "b"}', deep,
              b'{"prompt": ' + deep + b"]" * 100000 + b"}", b'{"a":' * 50000,
              b'{"max_tokens": 1e999, "prompt": ""}', b'{"max_tokens": ' + b"9" * 100000 + b"}",
              b'{"prompt": "\\ud800"}', b'{"prompt": "\\u12"}', b'{"prompt": 1, "n": -1}')
    wishes = (b'{"prompt": "a", "max_tokens": 0}',
              b'{"prompt": "a", "max_tokens": 9223372036854775808}',
              b'{"prompt": "a", "n": 129}', b'{"prompt": "a", "temperature": 1e308}',
              b'{"prompt": "a", "stop": ["a", "b", "c", "d", "e"]}')
    with Appliance() as a, Door(a) as d:
        for body in wishes:
            assert d.post("/v1/completions", body)[0] == 400, body
        for path in ("/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages",
                     "/v1/messages/count_tokens", "/tokenize", "/detokenize"):
            for body in bodies:
                answer = d.send(request(path, body, "Connection: close"))
                assert status_of(answer) == 400, (path, body[:40], answer)
                json.loads(body_of(answer))
        # A zero in a text is a character.
        status, answer = d.post("/tokenize", {"content": "a\0b"})
        assert status == 200 and answer["count"] > d.post("/tokenize", {"content": "a"})[1]["count"]
        d.wait_idle()
        assert d.metrics()["memory_bytes"] == 0


def test_more_requests_than_there_is_room_for_are_told_so():
    with Appliance() as a, Door(a, "door.requests=8") as d, contextlib.ExitStack() as stack:
        held = [stack.enter_context(d.connect()) for _ in range(8)]
        for s in held:
            s.sendall(HEAD + b"Content-Length: 5\r\n\r\n{")
        wait_for(lambda: d.get("/health")[0] == 503, "all requests are in use")
        assert d.post("/v1/completions", {"prompt": "a"})[0] == 503
        for s in held:
            s.close()
        wait_for(lambda: d.get("/health")[0] == 200, "there is room again")
        assert d.post("/v1/completions", {"prompt": "a", "max_tokens": 1})[0] == 200
        d.wait_idle()


def test_memory_that_is_used_up_gives_503_and_comes_back():
    with Appliance() as a, Door(a, "door.memory=1MiB", "door.body_bytes=1MiB") as d, \
            contextlib.ExitStack() as stack:
        held = [stack.enter_context(d.connect()) for _ in range(12)]
        for s in held:
            s.sendall(HEAD + b"Content-Length: 130000\r\n\r\n" + b" " * 110000)
        big = {"prompt": "word " * 20000, "max_tokens": 1}
        wait_for(lambda: d.post("/v1/completions", big)[0] == 503, "memory is used up")
        for s in held:
            s.close()
        wait_for(lambda: d.get("/metrics")[0] == 200, "metrics have room again")
        d.wait_idle()
        assert d.metrics()["memory_bytes"] == 0
        status, answer = d.post("/v1/completions", {"prompt": "a", "max_tokens": 1})
        assert status == 200, answer
        status, answer = d.post("/v1/completions", b"[" + b"[]," * 100000 + b"[]]")
        assert status == 413, answer            # no memory that comes back would do
        assert d.metrics()["memory_bytes"] == 0


def test_kept_answers_never_use_the_memory_up():
    with Appliance() as a, Door(a, "door.memory=1MiB") as d:
        body = {"input": "x" * 30000, "max_output_tokens": 1}
        statuses = {d.post("/v1/responses", body)[0] for _ in range(100)}
        assert statuses <= {200, 400}, statuses


def test_client_that_reads_nothing_is_closed():
    with Appliance(NOISE) as a, Door(a, QUICK, NOISE) as d, d.connect() as s:
        s.setsockopt(1, 8, 4096)            # SOL_SOCKET, SO_RCVBUF: what the system takes for it
        for _ in range(200):                # pipelined: more than all buffers hold
            with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
                s.setblocking(False)
                s.send(request("/tokenize", {"content": "a b c d " * 2000}))
        wait_for(lambda: d.metrics()["connections"] == 1, "it is closed")
        d.wait_idle()
        assert d.metrics()["memory_bytes"] == 0


def test_client_that_leaves_ends_its_calls():
    with Appliance(NOISE) as a, Door(a, NOISE) as d:
        for stream in (False, True):
            with a.standing_still():
                s = d.connect()
                s.sendall(request("/v1/completions", {"prompt": "a", "max_tokens": 1000, "n": 8,
                                                      "stream": stream, "ignore_eos": True}))
                d.wait_metrics(calls=8)
                s.close()
                wait_for(lambda: d.metrics()["requests"] == 1, "the request is over")
            a.wait_stats(calls_open=0)
        d.wait_idle()


def test_pipelined_requests_are_answered_in_their_order():
    with Appliance() as a, Door(a) as d, d.connect() as s:
        texts = ["one", "two words", "now three words", "a b c d"]
        s.sendall(b"".join(request("/tokenize", {"content": text}) for text in texts) +
                  request("/v1/completions", {"prompt": "a", "max_tokens": 2}) +
                  request("/tokenize", {"content": "last"}, "Connection: close"))
        answers = read_all(s)
        assert len(re.findall(rb"HTTP/1.1 200", answers)) == len(texts) + 2, answers
        counts = [int(c) for c in re.findall(rb'"count":(\d+)', answers)]
        assert counts == [d.post("/tokenize", {"content": text})[1]["count"]
                          for text in texts + ["last"]]


def test_old_clients_and_careful_ones_are_served():
    body = json.dumps(dict(CHAT, stream=True)).encode()
    with Appliance() as a, Door(a) as d:
        old = d.send(b"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" %
                     (len(body), body))
        assert status_of(old) == 200 and old.endswith(b"data: [DONE]\n\n"), old
        assert b"chunked" not in old.split(b"\r\n\r\n")[0].lower(), old
        with d.connect() as s:
            s.sendall(HEAD + b"Content-Length: 30\r\nExpect: 100-continue\r\n\r\n")
            assert s.recv(1000).startswith(b"HTTP/1.1 100"), "the body is asked for"
            s.sendall(b'{"prompt":"a","max_tokens":2 }')
            assert read_answer(s)[0] == 200
        refused = d.send(HEAD + b"Content-Length: 99999999\r\nExpect: 100-continue\r\n\r\n")
        assert status_of(refused) == 413 and b" 100 " not in refused, refused


def test_door_that_is_killed_leaves_nothing_at_the_appliance():
    """Under load, again and again; with a key of its own a request is answered alike at last."""
    keyed = "Idempotency-Key: the-same"
    body = {"prompt": "a", "max_tokens": 12, "temperature": 1, "ignore_eos": True}
    with Appliance(NOISE) as a, Door(a, NOISE) as d:
        first = d.post("/v1/completions", body, keyed)[1]["choices"]
        for i in range(KILLS):
            clients = [d.connect() for _ in range(8)]
            with stopped(a.worker):         # or calls could end before all of them are open
                for s in clients:
                    s.sendall(request("/v1/completions", dict(body, max_tokens=400, stream=True)))
                d.wait_metrics(calls=8)
                if i % 2 == 0:
                    d.kill()
            d.kill()                        # or while tokens come
            for s in clients:
                answer = read_all(s)        # an end that it has not is not pretended
                has_end = i % 2 == 1 and b'"finish_reason":"length"' in answer
                assert has_end or b"[DONE]" not in answer, answer
                s.close()
            assert a.health().startswith("ready"), a.health()
            d.start()
            wait_for(lambda: d.get("/health")[0] == 200, "the door reaches the appliance")
        a.wait_stats(calls_open=0)
        assert d.post("/v1/completions", body, keyed)[1]["choices"] == first


def kernel_status(process):
    with open(inside(process.pid, "status")) as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def test_door_is_sealed():
    with Appliance() as a, Door(a, "door.connections=100") as d:
        # It says where it listens, and is sealed then: a log may be a file, which the seal forbids.
        wait_for(lambda: kernel_status(d.process)["Seccomp"] == "2", "it is sealed")
        status = kernel_status(d.process)
        assert status["NoNewPrivs"] == "1", status
        assert {status[name] for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
        most = resource.prlimit(d.process.pid, resource.RLIMIT_NOFILE)
        assert most[0] == most[1] < 200, most
        assert d.post("/v1/chat/completions", CHAT)[0] == 200


def test_appliance_that_comes_back_is_reached_by_a_sealed_door():
    with tempfile.TemporaryDirectory(prefix="agentix-e2e-") as folder:
        unix = "net.unix=" + os.path.join(folder, "s")
        with Appliance(unix) as a:
            d = Door(a, unix)
            assert d.post("/v1/chat/completions", CHAT)[0] == 200
        with d:
            wait_for(lambda: d.get("/health")[0] == 503, "the door has seen it go")
            with Appliance(unix):
                wait_for(lambda: d.get("/health")[0] == 200, "the door is connected again")
                assert d.post("/v1/chat/completions", CHAT)[0] == 200
