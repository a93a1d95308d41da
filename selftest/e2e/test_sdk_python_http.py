# SPDX-License-Identifier: MIT
"""Programs of the Python client over HTTP: the real packages openai, anthropic and httpx, put into
a program by agentix, against a server that records headers, and against the real front door."""
import asyncio
import contextvars
import http.server
import json
import os
import sys
import threading

from appliance import HANG_S, NOISE, ROOT
from door import Door, use_clients
from test_class import classes

sys.path.insert(0, os.path.join(ROOT, "tools", "sdk", "python"))
import agentix  # noqa: E402

PROGRAM, THREAD, CLASS = "X-Agentix-Program", "X-Agentix-Thread", "X-Agentix-Class"
# The server answers these when all of them are there.
TOGETHER = ["together %d" % n for n in range(4)]


class Recorder:
    """`with Recorder() as r:` answers on r.url; r.requests has (content, headers)."""

    def __enter__(self):
        use_clients()
        recorder, self.requests, self.all_are_there = self, [], threading.Barrier(len(TOGETHER))

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                content = asked["messages"][0]["content"]
                recorder.requests.append((content, self.headers))
                if content.startswith("together"):
                    recorder.all_are_there.wait(HANG_S)
                body = json.dumps(answer(self.path, "heard: " + content)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "http" + "://127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def of(self, content):
        """What the headers were of each request that began like this."""
        return [headers for asked, headers in self.requests if asked.startswith(content)]

    def threads(self, content):
        return sorted(int(headers[THREAD]) for headers in self.of(content))


def answer(path, text):
    if path.endswith("/messages"):
        return {"id": "1", "type": "message", "role": "assistant", "model": "any",
                "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
                "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    assert path.endswith("/v1/chat/completions"), path
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "any",
            "choices": [{"index": 0, "finish_reason": "stop",
                         "message": {"role": "assistant", "content": text}}]}


def said(content):
    return {"model": "any", "max_tokens": 8, "messages": [{"role": "user", "content": content}]}


def in_threads(ask):
    """Each with a copy of the context, as executors of other packages do it."""
    threads = [threading.Thread(target=contextvars.copy_context().run, args=(ask, content))
               for content in TOGETHER]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def test_threads_of_python_are_threads_of_the_program():
    with Recorder() as r, agentix.openai("review", base_url=r.url + "/v1",
                                         agent="reviewer") as client:
        def ask(content, **options):
            return client.chat.completions.create(**said(content), **options)
        assert ask("first").choices[0].message.content == "heard: first"
        in_threads(ask)
        with agentix.thread(7):
            ask("chosen")
        ask("elsewhere", extra_headers=agentix.headers("other", 3))
        ask("again")
    for headers in r.of("first") + r.of("together") + r.of("chosen"):
        assert (headers[PROGRAM], headers[CLASS]) == ("review", "reviewer"), headers
    assert r.threads("together") == [1, 2, 3, 4], r.threads("together")
    assert r.threads("first") == r.threads("again") == [0] and r.threads("chosen") == [7]
    (elsewhere,) = r.of("elsewhere")
    assert (elsewhere[PROGRAM], elsewhere[THREAD]) == ("other", "3"), elsewhere


def test_tasks_are_threads_of_the_program():
    async def run():
        async with agentix.async_openai("review", base_url=r.url + "/v1") as client:
            def ask(content):
                return client.chat.completions.create(**said(content))
            await ask("first")
            await asyncio.gather(*(ask(content) for content in TOGETHER))
            for _ in range(3):
                await asyncio.create_task(ask("one after the other"))
            with agentix.thread(9):
                await asyncio.gather(ask("chosen"), ask("chosen"))
            await ask("again")
    with Recorder() as r:
        asyncio.run(run())
    assert all(headers[PROGRAM] == "review" and CLASS not in headers for _, headers in r.requests)
    assert r.threads("together") == [1, 2, 3, 4], r.threads("together")
    assert r.threads("one after the other") == [1, 1, 1]
    assert r.threads("first") == r.threads("again") == [0] and r.threads("chosen") == [9, 9]


def test_clients_of_anthropic_are_put_into_a_program():
    async def run():
        async with agentix.async_anthropic("async", base_url=r.url) as client:
            await client.messages.create(**said("async"))
    with Recorder() as r, agentix.anthropic("review", base_url=r.url, agent="reviewer") as client:
        assert client.messages.create(**said("first")).content[0].text == "heard: first"
        in_threads(lambda content: client.messages.create(**said(content)))
        asyncio.run(run())
    (first,), (other,) = r.of("first"), r.of("async")
    assert (first[PROGRAM], first[CLASS], first[THREAD]) == ("review", "reviewer", "0")
    assert (other[PROGRAM], other[THREAD]) == ("async", "0")
    assert r.threads("together") == [1, 2, 3, 4]


def test_the_key_of_the_vendor_is_not_sent_and_the_callers_is():
    with Recorder() as r:
        os.environ["OPENAI_API_KEY"] = "of the vendor"
        for options in ({}, {"api_key": "of the door"}):
            with agentix.openai("review", base_url=r.url + "/v1", **options) as client:
                client.chat.completions.create(**said("asked"))
    keys = [headers["Authorization"] for headers in r.of("asked")]
    assert keys == ["Bearer none", "Bearer of the door"], keys


def test_a_client_of_the_caller_keeps_what_it_has():
    async def run(package):
        own = package.AsyncOpenAI(api_key="secret", base_url=r.url + "/v1")
        client = agentix.in_program(own, "review", agent="a")
        await client.chat.completions.create(**said("async"))
    with Recorder() as r:
        import openai
        own = openai.OpenAI(api_key="secret", base_url=r.url + "/v1")
        own.chat.completions.create(**said("own"))
        agentix.in_program(own, "review").chat.completions.create(**said("put"))
        asyncio.run(run(openai))
    (own,), (put,), (other,) = r.of("own"), r.of("put"), r.of("async")
    assert PROGRAM not in own and put[PROGRAM] == other[PROGRAM] == "review"
    assert other[CLASS] == "a"
    assert own["Authorization"] == put["Authorization"] == other["Authorization"] == "Bearer secret"


def test_any_client_of_httpx_takes_the_transport():
    with Recorder() as r:
        import httpx
        import httpx2
        for package in (httpx, httpx2):
            with package.Client(transport=agentix.Transport("review")) as client:
                client.post(r.url + "/v1/chat/completions", json=said("asked")).raise_for_status()
    assert [(headers[PROGRAM], headers[THREAD]) for headers in r.of("asked")] == \
        2 * [("review", "0")]


def test_headers_are_checked():
    assert agentix.headers("a b") == {PROGRAM: "a b"}
    assert agentix.headers("a", 0, "c") == {PROGRAM: "a", THREAD: "0", CLASS: "c"}
    assert agentix.headers("a", end=True) == {PROGRAM: "a", "X-Agentix-End": "1"}
    for bad in (("",), ("a\r\nB: c",), ("\u00fc",), ("a", 1, "\n")):
        try:
            agentix.headers(*bad)
        except ValueError:
            continue
        raise AssertionError(bad)


def test_the_front_door_schedules_them_as_a_program():
    use_clients()
    with Door(NOISE) as d:
        with agentix.openai("review", base_url=d.url + "/v1", agent="reviewer") as client:
            client.chat.completions.create(**said("first"))
            in_threads(lambda content: client.chat.completions.create(**said(content)))
            client.chat.completions.create(**said("last"),
                                           extra_headers=agentix.headers("review", end=True))
        d.a.wait_stats(programs_ended=1)
        stats = d.a.stats()
        assert "reviewer" in classes(d.a) and stats["programs_started"] == 1, stats
        assert stats["calls_completed"] == 2 + len(TOGETHER), stats


def test_langchain_batches_are_threads_of_the_program():
    with Recorder() as r:
        import httpx
        from langchain_openai import ChatOpenAI
        with httpx.Client(transport=agentix.Transport("review", "reviewer")) as client:
            model = ChatOpenAI(model="any", base_url=r.url + "/v1", api_key="any",
                               http_client=client)
            model.batch(TOGETHER)
    for headers in r.of("together"):
        assert (headers[PROGRAM], headers[CLASS]) == ("review", "reviewer"), headers
    assert r.threads("together") == [0, 1, 2, 3], r.threads("together")
