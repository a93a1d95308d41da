# SPDX-License-Identifier: MIT
"""The Python client (tools/sdk/python) against the real appliance: calls, streams, breaks, keys,
and chat formats beside `agx render`."""
import asyncio
import json
import os
import random
import struct
import sys
import tempfile

import conversations
from appliance import HANG_S, NOISE, ROOT, Appliance, TextFile, run
from protocol import ERROR, LAYOUTS, WELCOME, frame, pack
from protocol import Client as Reference

sys.path.insert(0, os.path.join(ROOT, "tools", "sdk", "python"))
import agentix  # noqa: E402
from agentix import chat  # noqa: E402

SECRET = "ab" * 32
PROMPT = [5, 6, 7]


def against(a, test, **options):
    """Runs test(client) to its end."""
    async def body():
        async with await agentix.connect(a.to, patience_s=HANG_S, **options) as client:
            return await asyncio.wait_for(test(client), HANG_S)
    return asyncio.run(body())


def break_off(client):
    """As when the network fails."""
    client._connection.writer.transport.abort()


def expected(a, prompt, **options):
    with Reference(a.tcp) as c:
        return c.generate(1, prompt, **options).check()


def test_calls_in_parallel_get_the_tokens_of_another_client():
    async def many(client):
        return await asyncio.gather(*(client.call([5, 6, n], max_tokens=20, ignore_eos=True)
                                      for n in range(40)))
    with Appliance(NOISE, "limits.calls_per_connection=8") as a:
        replies = against(a, many)
        for n in (0, 7, 39):
            assert replies[n].tokens == expected(a, [5, 6, n], max_tokens=20).tokens
        a.wait_back()


def test_text_streams_and_stops():
    async def both(client):
        pieces = [piece async for piece in client.call("User: What do bees make?\nBot:")]
        reply = await client.call("User: What do bees make?\nBot:", stop=["honey"])
        return "".join(pieces), reply
    with Appliance() as a:
        streamed, stopped = against(a, both)
        assert "honey" in streamed and stopped.finish == "stop_text"
        assert stopped.text == streamed.split("honey")[0]


def test_penalties_biases_and_log_probabilities_are_those_of_a_call():
    async def ask(client):
        return await client.call(PROMPT, max_tokens=20, ignore_eos=True, presence_penalty=0.5,
                                 frequency_penalty=-0.25, logit_bias={40: 2.5, 7: -100})
    with Appliance(NOISE) as a:
        wanted = expected(a, PROMPT, max_tokens=20, presence_penalty=0.5, frequency_penalty=-0.25,
                          biases=((7, -100), (40, 2.5)))
        assert against(a, ask).tokens == wanted.tokens
        assert wanted.tokens != expected(a, PROMPT, max_tokens=20).tokens

    async def logprobs(client):
        call = client.call(PROMPT, max_tokens=20, ignore_eos=True, logprobs=2)
        await anext(aiter(call))
        break_off(client)
        return await call
    with Appliance(NOISE) as a:
        wanted = expected(a, PROMPT, max_tokens=20, logprobs=1, top_logprobs=2).logprobs
        assert against(a, logprobs).logprobs == wanted and len(wanted) == 20
    try:
        agentix.Flow().llm("x", presence_penalty=1)
    except ValueError as error:
        assert "workflow" in str(error)
    else:
        raise AssertionError("a workflow would ignore it")


def test_a_refusal_says_what_was_found_and_what_is_allowed():
    async def refused(client):
        for prompt, max_tokens, found in ((PROMPT, 10 ** 6, len(PROMPT) + 10 ** 6),
                                          ("x " * 300, 4, 306)):     # BOS, 300 words, a space
            try:
                await client.call(prompt, max_tokens=max_tokens)
            except agentix.Refused as error:
                assert (error.status, error.max) == ("BAD_PROMPT_LENGTH", 256), error
                assert error.found == found and not error.is_busy, error
            else:
                raise AssertionError("a prompt that is too long was taken")
    with Appliance("limits.context_tokens=256") as a:
        against(a, refused)


def test_a_busy_appliance_is_asked_again():
    async def many(client):
        return await asyncio.gather(*(client.call([5, n], max_tokens=8) for n in range(20)))
    with Appliance(NOISE, "limits.calls=16", "limits.calls_per_program=2") as a:
        assert len(against(a, many)) == 20


def test_a_task_that_is_cancelled_cancels_its_call():
    check_cancel(asyncio.ensure_future)
    check_cancel(lambda call: asyncio.create_task(call.result()))


def check_cancel(start):
    async def cancelled(client):
        with a.standing_still():
            task = start(client.call(PROMPT, max_tokens=900, ignore_eos=True))
            while a.stats()["calls_open"] == 0:
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.wait([task])
            await client.ping()                 # the appliance has acted on what came before
        a.wait_stats(calls_open=0, calls_cancelled=1)
        return task.cancelled()
    with Appliance(NOISE) as a:
        assert against(a, cancelled)


def test_a_call_and_a_run_are_coroutines_where_asyncio_insists():
    async def tasks(client):
        flow = agentix.Flow()
        flow.output(flow.llm(flow.input("x"), max=4, name="said"))
        call = asyncio.create_task(client.call(PROMPT, max_tokens=4, ignore_eos=True).result())
        rows = asyncio.create_task(flow.run(client, ["a"]).result())
        return await call, await rows
    with Appliance(NOISE) as a:
        reply, rows = against(a, tasks)
        assert len(reply.tokens) == 4 and not rows[0].error


def test_a_call_that_ends_early_keeps_what_had_come():
    async def hurried(client):
        """Deadlines are longer and longer, until one falls within the answer."""
        for step in range(40):
            try:
                await client.call(PROMPT, max_tokens=900, ignore_eos=True,
                                  deadline_s=0.001 * 1.3 ** step)
            except agentix.Failed as error:
                assert error.reply.finish == "deadline" and error.tokens == error.reply.tokens
                if error.tokens:
                    return error
        raise AssertionError("no deadline fell within the answer")

    async def broken(client):
        call = client.call(PROMPT, max_tokens=900, ignore_eos=True)
        first = await anext(aiter(call))
        break_off(client)
        while client.is_connected:
            await asyncio.sleep(0)
        call.cancel()
        try:
            await call
        except agentix.Failed as error:
            assert error.text.startswith(first) and error.reply.finish == "cancelled"
            return error
    with Appliance(NOISE) as a:
        whole = expected(a, PROMPT, max_tokens=900)
        for test in (hurried, broken):
            error = against(a, test)
            assert 0 < len(error.tokens) < 900 and error.text == error.reply.text, error.tokens
            assert error.tokens == whole.tokens[:len(error.tokens)]
    assert agentix.Failed("row 0", 0).text == ""


def test_calls_go_on_after_a_break_with_the_same_tokens():
    async def broken(client):
        call = client.call(PROMPT, max_tokens=400, ignore_eos=True)
        first = await call.__anext__()
        break_off(client)
        rest = "".join([piece async for piece in call])
        return first + rest, await call
    with Appliance(NOISE) as a:
        text, reply = against(a, broken)
        assert reply.tokens == expected(a, PROMPT, max_tokens=400).tokens
        assert text == reply.text


def test_an_idle_connection_that_was_closed_is_opened_again():
    async def idle(client):
        before = await client.call(PROMPT, max_tokens=4)
        break_off(client)
        await asyncio.sleep(0)
        return before, await client.call(PROMPT, max_tokens=4), await client.ping()
    with Appliance(NOISE) as a:
        before, after, _ = against(a, idle)
        assert before.tokens == after.tokens


def test_a_client_proves_its_key_and_asks_for_the_same():
    with TextFile("one %s\n" % SECRET, 0o600) as keys, \
            Appliance(NOISE, "auth.tcp=psk", "auth.keys=" + keys) as a:
        async def one(client):
            return await client.call(PROMPT, max_tokens=4)
        assert len(against(a, one, key_file=keys).tokens) == 4
        for key in (None, ("one", bytes(32)), ("two", bytes.fromhex(SECRET))):
            try:
                against(a, one, key=key)
            except agentix.Error:
                continue
            raise AssertionError(key)
    with Appliance(NOISE) as a:
        try:
            against(a, one, key=("one", bytes(32)))
            raise AssertionError("it sent a call without a proof")
        except agentix.Error as error:
            assert "does not ask" in str(error)


def test_a_program_has_the_name_that_agx_gives_it():
    async def named(client):
        await client.call(PROMPT, max_tokens=4, program="mine")
    with Appliance(NOISE) as a:
        against(a, named)
        run("agx", "--to", a.to, "generate", "--prompt", "x", "--max-tokens", "1", "--program",
            "mine")
        assert a.stats()["programs_started"] == 1


async def hostile(rng, reader, writer):
    """Greets, and then says anything: good frames of every type with any payload."""
    await reader.readexactly(16 + 68)
    writer.write(frame(WELCOME, pack(WELCOME, version=1, frame_bytes_max=4096,
                                     context_tokens_max=64, calls_per_connection_max=4)))
    head = await reader.readexactly(16)
    asked = await reader.readexactly(int.from_bytes(head[8:12], "little"))
    for _ in range(rng.randint(1, 4)):
        kind = rng.choice([*LAYOUTS, 0xff])
        size = struct.calcsize("<" + "".join(LAYOUTS.get(kind, {}).values()))
        payload = asked[:8] * rng.randint(0, 1) + rng.randbytes(rng.choice([0, 7, size, size + 9]))
        if kind == ERROR:               # a pause of a minute would be obeyed
            payload = payload[:6] + bytes(2) + payload[8:]
        writer.write(frame(kind, payload[:max(size, len(payload) - 8)]))
    writer.close()


async def ask_hostile(seed):
    rng = random.Random(seed)
    server = await asyncio.start_server(lambda *ends: hostile(rng, *ends), "127.0.0.1", 0)
    to = "127.0.0.1:%d" % server.sockets[0].getsockname()[1]
    flow = agentix.Flow()
    flow.output(flow.llm(flow.input("x")))
    async with await agentix.connect(to, patience_s=0.05) as client:
        what = client.call("x") if seed % 2 else flow.run(client, ["a"])
        try:
            await asyncio.wait_for(what.result(), HANG_S)
        except agentix.Error:
            return True
        finally:
            server.close()
    return False


def test_an_appliance_that_says_anything_is_refused_and_nothing_hangs():
    async def all_seeds():
        return [await ask_hostile(seed) for seed in range(300)]
    assert all(asyncio.run(all_seeds()))


def rendered(name, chats):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write("\n".join(json.dumps({"messages": messages}) for messages in chats))
        file.flush()
        done = run("agx", "render", "--format", name, "--bos", "<s>", "--eos", "</s>", file.name)
    return [json.loads(line) for line in done.stdout.splitlines()]


def drawn_chat(rng, recalls):
    """A conversation whose end is a question."""
    messages = [{"role": "system", "content": conversations.text(rng)}] * rng.randint(0, 1)
    for turn in range(rng.randint(1, 3) if recalls else 1):
        if turn > 0:
            messages.append({"role": "assistant", "content": conversations.text(rng)})
        messages.append({"role": "user", "content": conversations.text(rng)})
    return messages


def test_chat_formats_are_those_of_the_appliance():
    rng = random.Random(1)
    rng.texts = conversations.TEXTS
    for name, row in chat.ROWS.items():
        chats = [drawn_chat(rng, row.recalls) for _ in range(100)]
        own = [chat.Format(name, "<s>", "</s>").prompt(messages) for messages in chats]
        theirs = rendered(name, chats)
        assert len(theirs) == len(chats)
        for prompt, wanted in zip(own, theirs):
            assert "".join(prompt.parts) == wanted["text"], (name, prompt.parts, wanted)
            sizes = [len(part.encode()) for part in prompt.parts]
            assert sizes == wanted["parts"], (name, sizes, wanted)


def test_a_chat_prompt_is_answered_like_that_of_agx():
    async def asked(client):
        return await client.call(await client.chat_prompt([("user", "What do bees make?")]),
                                 stop=["\nUser:"])
    with Appliance() as a:
        told = run("agx", "--to", a.to, "generate", "--chat", "--prompt", "What do bees make?")
        assert against(a, asked).text.strip() == told.stdout.strip()
