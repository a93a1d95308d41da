# SPDX-License-Identifier: MIT
"""What a program gives the Python client wrongly is named at once, and what it forgets is no noise.

Method: wrong values against a client; programs that never call close(), in processes of their own.
"""
import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import urllib.parse

from appliance import HANG_S, NOISE, ROOT, Appliance

SDK = os.path.join(ROOT, "tools", "sdk", "python")
sys.path.insert(0, SDK)
import agentix  # noqa: E402
from agentix import frames, wire  # noqa: E402


def refusal(function, error=(TypeError, ValueError)):
    try:
        function()
    except error as wrong:
        return str(wrong)
    raise AssertionError("it was taken")


WRONG = [                               # options of a call, and what the error says
    ({"max_tokens": "5"}, "max_tokens: a whole number is needed, not '5'"),
    ({"max_tokens": 5.0}, "max_tokens: a whole number is needed, not 5.0"),
    ({"max_tokens": -1}, "max_tokens: -1 is not within 0 to 4294967295"),
    ({"seed": -1}, "seed: -1 is not within 0 to 18446744073709551615"),
    ({"seed": "7"}, "seed: a whole number is needed, not '7'"),
    ({"temperature": "x"}, "temperature: a number is needed, not 'x'"),
    ({"temperature": None}, "temperature: a number is needed, not None"),
    ({"top_p": float("nan")}, "top_p: nan is too large, or is no number"),
    ({"top_k": 1.5}, "top_k: a whole number is needed"),
    ({"logprobs": True}, "logprobs: a whole number is needed, not True"),
    ({"logit_bias": 7}, "logit_bias: a dict of token ids and numbers is needed, not 7"),
    ({"logit_bias": {"a": 1}}, "logit_bias: token id: a whole number is needed, not 'a'"),
    ({"stop": b"x"}, "stop: texts and token ids are needed, not b'x'"),
    ({"stop": [None]}, "stop: token id: a whole number is needed, not None"),
    ({"stop": list("abcde")}, "stop: at most 4 texts and 15 ids"),
    ({"stop": ""}, "stop: a text has 1 to 64 bytes"),
    ({"logit_bias": {i: 1 for i in range(65)}}, "logit_bias: at most 64 tokens"),
    ({"deadline_s": "1"}, "deadline_s: a number is needed, not '1'"),
    ({"deadline_s": -1}, "deadline_s: -1 is not within 0 to 3600 seconds"),
    ({"deadline_s": 1e9}, "deadline_s: 1000000000.0 is not within 0 to 3600 seconds"),
    ({"max": 1.5}, "max: a whole number is needed, not 1.5"),
    ({"max": 5, "max_tokens": 5}, "max and max_tokens are two names of one argument"),
    ({"max_token": 3}, "Client.call() has no argument max_token; is max_tokens meant?"),
    ({"temprature": 1}, "Client.call() has no argument temprature; is temperature meant?"),
    ({"deadline": 1}, "Client.call() has no argument deadline; is deadline_s meant?"),
    ({"qqq": 1}, "Client.call() has no argument qqq"),
    ({"thread": "a"}, "thread: a whole number is needed, not 'a'"),
    ({"program": 5}, "program: a text or 16 bytes are needed, not 5")]


def test_wrong_arguments_of_a_call_are_named():
    with Appliance(NOISE) as a, agentix.connect(a.to) as ax:
        for options, said in WRONG:
            got = refusal(lambda: ax.call([1, 2], **options))
            assert said in got, (options, got)
        for prompt in (None, 5, b"text", [1, "2"], [-1]):
            assert refusal(lambda: ax.call(prompt)).startswith("prompt: "), prompt
        assert refusal(lambda: ax.program(7)).startswith("program: a text is needed")
        assert refusal(lambda: ax.program("a", agent=7)).startswith("agent: a text is needed")
        for agent in ("a b", "x" * 33, "na\u00efve"):
            assert refusal(lambda: ax.program("a", agent=agent)).startswith(
                "agent: %r is no name of at most 32 printable ASCII" % agent)
        for options in ({"max": 3}, {"max_tokens": 3}):
            assert len(ax.call([1, 2], deadline_s=3600, ignore_eos=True, **options).tokens) == 3
        assert len(ax.call([1, 2], max_tokens=3, temperature=1, top_p=1, stop="zz").tokens) == 3
    for use in (lambda: agentix.connect().call("x"), lambda: agentix.connect().run(None, [])):
        said = refusal(use, TypeError)
        assert "`with agentix.connect() as ax:`" in said and "`async with " in said, said
    assert not hasattr(agentix.connect(), "_repr_html_") and not hasattr(agentix.connect(), "x")
    assert refusal(lambda: agentix.connect(7411)).startswith("address: a text is needed")
    assert refusal(lambda: agentix.connect(key="secret")).startswith("key: a pair is needed")


MESSAGES = [                            # of a conversation, and what the error says
    ("Hello", "messages: a list of pairs of a role and a text is needed, not 'Hello'"),
    ([], "messages: a list of pairs"), (None, "messages: a list of pairs"),
    ([("user", "a"), ("user",)], "messages[1]: a role and a text are needed, not ('user',)"),
    ([("user", "a"), "b"], "messages[1]: a role and a text are needed, not 'b'"),
    ([("wizard", "a")], "messages[0]: a role is system, user or assistant, not 'wizard'"),
    ([{"content": "a"}], "messages[0]: a role is system, user or assistant, not None"),
    ([{"role": "user"}], "messages[0]: content: a text is needed, not None"),
    ([{"role": "user", "content": [{"type": "text", "text": "a"}]}],
     "messages[0]: content: a text is needed, not [{"),
    ([("user", "a"), ("assistant", "b")], "a conversation ends with a question")]


def test_wrong_messages_of_a_conversation_are_named():
    with Appliance(NOISE) as a, agentix.connect(a.to) as ax, ax.program("a") as program:
        for chat in (ax.chat, program.chat):
            for messages, said in MESSAGES:
                got = refusal(lambda: chat(messages, max_tokens=1))
                assert got.startswith(said), got
            for messages in ([("user", "a")], [{"role": "user", "content": "a"}]):
                assert len(chat(messages, max_tokens=1).tokens) == 1
    flow = agentix.Flow()
    assert refusal(lambda: flow.chat([("user", ["a"])])).startswith("messages[0]: content: a text")
    assert refusal(lambda: agentix.headers("a", "x")).startswith("thread: a whole number")


def test_a_stream_of_a_program_ends_when_its_conversation_is_wrong():
    async def body(to):
        noise = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: noise.append(what))
        async with agentix.connect(to) as ax, ax.program("a") as program:
            for use in (program.generate, program.call):
                try:
                    async for _ in use([("wizard", "a")]):
                        raise AssertionError("something was said")
                    raise AssertionError("it was taken")
                except ValueError as error:
                    assert "messages[0]: a role is" in str(error), error
        gc.collect()
        await asyncio.sleep(0)
        assert not noise, noise
    with Appliance(NOISE) as a:
        asyncio.run(asyncio.wait_for(body(a.to), HANG_S))


def test_wrong_arguments_of_a_flow_are_named_and_no_file_is_emptied():
    flow = agentix.Flow()
    for bad, said in ((lambda: flow.llm("x", max="9"), "max: a whole number"),
                      (lambda: flow.llm("x", est=-2), "est: -2 is not within"),
                      (lambda: flow.llm("x", max_token=3), "Flow.llm() has no argument max_token; "
                                                           "is max_tokens meant?"),
                      (lambda: flow.chat([("user", "x")], seeds=1), "Flow.chat() has no argument "
                                                                    "seeds; is seed meant?"),
                      (lambda: flow.map("{}", ["x"], heat=1), "Flow.llm() has no argument heat"),
                      (lambda: flow.llm("x", max=1, max_tokens=1), "max and max_tokens are two"),
                      (lambda: flow.input(5), "name: a text is needed, not 5"),
                      (lambda: flow.output("a"), "output: a node of the flow is needed")):
        assert refusal(bad).startswith(said), said
    flow = agentix.Flow()
    assert [flow.llm("x").max, flow.llm("x", max=5).max, flow.llm("x", max_tokens=5).max,
            flow.chat([("user", "x")], max_tokens=6).max,
            flow.apply(len, "x", max_tokens=7).max] == [128, 5, 5, 6, 7]
    flow = agentix.Flow()
    flow.output(flow.chat([("user", "hello")], name="greeting"))
    for begin in (flow.run, flow.profile):
        for client in (agentix.connect(), None, "127.0.0.1:7411"):
            assert "async with agentix.connect()" in refusal(lambda: begin(client, []), TypeError)
        for rows in ("hello", {"q": "hello"}, None, 5):
            assert refusal(lambda: begin(None, rows)).startswith("rows: a list of rows"), rows
        assert refusal(lambda: begin(None, [], keeps=1)) == \
            f"Flow.{begin.__name__}() has no argument keeps; is keep meant?"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.flow")
        with open(path, "w", encoding="utf-8") as file:
            file.write("kept")
        assert "flow.save(path, await client.chat_format())" in refusal(lambda: flow.save(path))
        assert refusal(lambda: flow.save(path, "chatml")).startswith("format: an agentix.Format")
        assert refusal(lambda: flow.save(1)).startswith("path: the path of a file is needed")
        with open(path, encoding="utf-8") as file:
            assert file.read() == "kept"


ALTERED = [                             # a text with the node q, which a model must not get
    lambda q: json.dumps({"q": str(q)}), lambda q: repr(str(q)), lambda q: f"{q!r}",
    lambda q: f"{q=}", lambda q: str({"q": q}), lambda q: f"Q {q}".upper(),
    lambda q: f"Q {q}".lower(), lambda q: f"Q {q}".title(), lambda q: f"Q {q}".swapcase(),
    lambda q: str(q).capitalize(), lambda q: f"Q {q}"[:9], lambda q: f"Q {q}"[9:],
    lambda q: "%.5s" % q, lambda q: textwrap.fill(f"Q {q}", 12),
    lambda q: f"Q {q}".replace(q.mark[9], "zero"), lambda q: urllib.parse.quote(str(q)),
    lambda q: f"Q {q}".replace(q.mark[9], "f" if q.mark[9] == "0" else "0"),
    lambda q: f"Q {q}".encode("ascii", "ignore").decode()]


def test_a_node_whose_text_was_altered_is_refused():
    flow = agentix.Flow()
    for _ in range(20):                 # the marks are drawn
        node = flow.input("q")
        for number, alter in enumerate(ALTERED):
            for build in (flow.llm, flow.text, lambda text: flow.chat([("user", text)]),
                          lambda text: flow.apply(len, text), lambda text: flow.text([text])):
                assert "altered" in refusal(lambda: build("a " + alter(node)), ValueError), number
    assert refusal(lambda: flow.llm("x", stop=str(node))).startswith("stop: a node")
    for use in (lambda: "yes" if node else "no", lambda: not node):
        assert refusal(use, TypeError).startswith("the value of q#20 is not known"), use
    assert repr(node).startswith("<input q#20 ")


def test_a_node_that_was_not_altered_is_taken():
    flow = agentix.Flow()
    node = flow.input("q")
    for text in (f" {node} ", str(node).strip(), json.dumps(str(node), ensure_ascii=False),
                 textwrap.fill(f"Q {node}"), f"<{node}>".replace("<", "[")):
        assert node in flow.text(text).pieces[:2], text
    assert flow.text("agx  \ue0a0 0123456789abcdef0123").pieces


def names_by_answer():
    """Affinity keys, and what comes of their HELLO at the text port: it closes, or takes a HELLO
    with the end of a line in it for a question, and answers in words."""
    found = {}
    for number in range(10000):
        name = "k%d" % number
        hello = wire.frame(frames.HELLO, wire.pack(frames.HELLO, version_min=1, version_max=1,
                                                   name=name.encode()))
        found.setdefault(agentix.ProtocolError if b"\n" in hello else agentix.Lost, name)
    assert len(found) == 2, found
    return [(name, error) for error, name in found.items()]


def test_what_is_not_there_or_is_another_port_is_named():
    said = refusal(lambda: agentix.connect("127.0.0.1:1").open(), agentix.Lost)
    assert "127.0.0.1:1: " in said and "is the appliance running" in said, said

    with Appliance() as a:
        text_port = "%s:%d" % a.text_address
        for affinity, error in names_by_answer():
            said = refusal(lambda: agentix.connect(text_port, affinity=affinity).open(), error)
            assert text_port in said and "not its text port" in said, said

    async def as_http():
        async def answer(_, writer):
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            await agentix.connect(f"127.0.0.1:{port}")
        except agentix.ProtocolError as error:
            return str(error)
        finally:
            server.close()
        return ""
    assert "but HTTP" in asyncio.run(as_http())


FORGETFUL = [
    """
ax = agentix.connect(TO).open()
print(ax.call([1, 2], max_tokens=3).finish)
""", """
ax = agentix.connect(TO).open()
for piece in ax.generate([1, 2], max_tokens=100):
    break
print("length")
""", """
async def main():
    ax = await agentix.connect(TO)
    print((await ax.call([1, 2], max_tokens=3)).finish)
loop = asyncio.new_event_loop()
loop.run_until_complete(main())
loop.close()
""", """
async def main():
    ax = await agentix.connect(TO)
    ax.call([1, 2], max_tokens=100)
    return ax
loop = asyncio.new_event_loop()
ax = loop.run_until_complete(main())
print("length")
""", """
async def main():
    print((await (await agentix.connect(TO)).call([1, 2], max_tokens=3)).finish)
    gc.collect()
asyncio.run(main())
"""]


def test_a_program_that_forgets_close_makes_no_noise_and_is_warned_where_it_asks():
    with Appliance(NOISE) as a:
        for number, program in enumerate(FORGETFUL):
            text = f"import agentix, asyncio, gc\nTO = {a.to!r}\n" + program
            for flags in ((), ("-W", "always::ResourceWarning")):
                done = subprocess.run([sys.executable, *flags, "-c", text], text=True,
                                      capture_output=True, timeout=HANG_S,
                                      env={**os.environ, "PYTHONPATH": SDK})
                assert (done.returncode, done.stdout) == (0, "length\n"), (number, done)
                assert "Task was destroyed" not in done.stderr, (number, done.stderr)
                assert flags or not done.stderr, (number, done.stderr)
                # A stream keeps its client to the end of the process, where none warns any more.
                assert not flags or number == 1 or "was never closed" in done.stderr, \
                    (number, done.stderr)
