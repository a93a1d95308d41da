# SPDX-License-Identifier: MIT
"""Programs of the Python client, for asyncio: they begin and end with their block, their calls run
in threads, and whatever is left is cancelled; breaks cost only time."""
import asyncio
import contextlib
import os
import signal
import sys

from appliance import HANG_S, NOISE, ROOT, Appliance
from protocol import Client as Reference
from test_class import classes

sys.path.insert(0, os.path.join(ROOT, "tools", "sdk", "python"))
import agentix  # noqa: E402

LONG = {"max_tokens": 900, "ignore_eos": True}


def against(a, test):
    """Runs test(client) to its end."""
    async def body():
        async with agentix.connect(a.to, patience_s=HANG_S) as client:
            return await asyncio.wait_for(test(client), HANG_S)
    return asyncio.run(body())


def expected(a, prompt, max_tokens):
    with Reference(a.tcp) as c:
        return c.generate(1, prompt, max_tokens=max_tokens).check().tokens


async def stats_are(a, **wanted):
    """Waits for these statistics while the client goes on."""
    while not wanted.items() <= a.stats().items():
        await asyncio.sleep(0.01)


def test_a_program_begins_and_ends_with_its_block():
    async def review(client):
        async with client.program("review", agent="reviewer") as p:
            replies = [await p.call([5, 6, n], max_tokens=8) for n in range(3)]
            stream = p.generate([7, 8, 9], max_tokens=8)
            text = "".join([piece async for piece in stream])
            replies.append(stream.reply)
            during = p.totals
        return replies, text, during, p.totals
    with Appliance(NOISE) as a:
        replies, text, during, totals = against(a, review)
        (row,) = classes(a)["reviewer"]
        assert row["programs"] == "1", row
        a.wait_stats(programs_open=0)
    assert text == str(replies[-1]) == replies[-1].text
    assert totals.calls == during.calls == 4, (totals, during)
    for totalled in (during, totals):
        assert totalled.prompt_tokens == sum(reply.prompt_tokens for reply in replies) == 12
        assert totalled.generated_tokens == sum(reply.generated_tokens for reply in replies)
    assert totals.service_s > 0


def test_replies_are_gathered_in_order_each_from_a_thread_of_its_own():
    prompts = [[5, 6, n] for n in range(9)]
    threads = []

    async def gathered(client):
        start = client.call
        client.call = lambda prompt, thread=0, **options: \
            threads.append(thread) or start(prompt, thread=thread, **options)
        async with client.program() as p:
            await p.call([1], max_tokens=1)
            replies = await p.gather(prompts, max_tokens=12, ignore_eos=True)
            await p.gather([[1]], max_tokens=1)
            return replies
    with Appliance(NOISE) as a:
        replies = against(a, gathered)
        for prompt, reply in zip(prompts, replies):
            assert reply.tokens == expected(a, prompt, 12), prompt
    assert threads == list(range(11)), threads


@contextlib.asynccontextmanager
async def standing_still_until_cancelled(a, client, count):
    """A step that runs ends no call, so the worker stands still until the appliance has so many
    cancellations: then none of these calls ends by itself, however fast the engine."""
    calls, start = [], client.call

    def call(*args, **options):
        calls.append(start(*args, **options))
        return calls[-1]

    async def go_on():
        while sum(call.is_cancelled for call in calls) < count:
            await asyncio.sleep(0.01)
        await client.ping()                     # the appliance has acted on what came before
        still.close()
    client.call = call
    with contextlib.ExitStack() as still:
        still.enter_context(a.standing_still())
        task = asyncio.create_task(go_on())
        yield
        await task


def test_the_first_of_the_gathered_that_fails_cancels_the_others():
    async def refused(client):
        async with standing_still_until_cancelled(a, client, 2), client.program() as p:
            try:
                await p.gather([[1], [2], list(range(1, 900))], max_tokens=300, ignore_eos=True)
                raise AssertionError("it was taken")
            except agentix.Refused as error:
                return error.status
    with Appliance(NOISE) as a:
        assert against(a, refused) == "BAD_PROMPT_LENGTH"
        a.wait_stats(calls_open=0, calls_cancelled=2)


def test_calls_that_are_open_when_the_block_is_left_are_cancelled():
    async def left(client):
        async with standing_still_until_cancelled(a, client, 3):
            with contextlib.suppress(KeyError):
                async with client.program("left") as p:
                    calls = [p.call([1, n], **LONG) for n in range(3)]
                    await stats_are(a, calls_open=3)
                    raise KeyError("the program has a fault")
        for call in calls:
            try:
                await call
                raise AssertionError("it ended by itself")
            except agentix.Failed as error:
                assert "cancelled" in str(error)
        return p.totals
    with Appliance(NOISE) as a:
        totals = against(a, left)
        assert totals.calls == 3 and totals.generated_tokens == 0, totals
        a.wait_stats(calls_cancelled=3, programs_open=0)


def test_a_stream_that_is_left_cancels_its_call():
    async def left(client):
        async with standing_still_until_cancelled(a, client, 2):
            unread, closed = client.generate([1, 3], **LONG), client.generate([1, 4], **LONG)
            await stats_are(a, calls_open=2)
            del unread
            await closed.aclose()
            try:
                closed.reply
                raise AssertionError("it has a reply")
            except agentix.Error:
                pass
        stream = client.generate([1, 2], **LONG)
        call = stream.call
        async for piece in stream:
            assert piece
            break
        del stream
        assert call.is_cancelled or call.is_done
    with Appliance(NOISE) as a:
        against(a, left)
        a.wait_stats(calls_open=0)


def test_a_call_that_is_cancelled_in_a_break_stays_cancelled():
    async def cancelled(client):
        with a.standing_still():                # so that it does not end before
            call = client.call([1, 2], **LONG)
            await stats_are(a, calls_open=1)
            client._connection.writer.transport.abort()
            while client.is_connected:
                await asyncio.sleep(0)
            call.cancel()
        try:
            await call
            raise AssertionError("it went on")
        except agentix.Failed:
            return await client.call([1, 2], max_tokens=3)
    with Appliance(NOISE) as a:
        assert len(against(a, cancelled).tokens) == 3
        a.wait_stats(calls_open=0)


def test_a_break_and_a_dead_worker_cost_a_program_only_time():
    prompts = [[5, 6, n] for n in range(4)]

    async def broken(client):
        async with client.program("broken", agent="worker") as p:
            with a.standing_still():            # so that none of them ends before
                gathered = asyncio.ensure_future(p.gather(prompts, max_tokens=300,
                                                          ignore_eos=True))
                await stats_are(a, calls_open=4)
                client._connection.writer.transport.abort()
                await stats_are(a, connections_accepted=2)
            os.kill(a.worker, signal.SIGKILL)
            return await gathered
    with Appliance(NOISE) as a:
        replies = against(a, broken)
        for prompt, reply in zip(prompts, replies):
            assert reply.tokens == expected(a, prompt, 300), prompt


def test_a_block_that_is_left_does_not_wait_for_an_appliance_that_has_gone():
    async def left(a):
        async with agentix.connect(a.to, patience_s=1e6) as client:
            async with client.program("left") as p:
                reply = await p.call([1, 2], max_tokens=3)
                assert a.stop() == 0
            return reply, p.totals
    with Appliance(NOISE) as a:
        reply, totals = asyncio.run(asyncio.wait_for(left(a), HANG_S))
    assert totals.calls == 1 and totals.generated_tokens == len(reply.tokens), totals


def test_an_appliance_that_starts_anew_is_told_the_class_again():
    async def restarted(client):
        with contextlib.ExitStack() as block:
            async with client.program("long-lived", agent="reviewer") as p:
                await p.call([1, 2], max_tokens=3)
                first.stop()
                second = block.enter_context(Appliance(NOISE, "net.tcp=" + to))
                await p.call([1, 2], max_tokens=3)
            return classes(second)
    with Appliance(NOISE) as first:
        to = first.to
        assert "reviewer" in against(first, restarted)


def test_a_conversation_is_asked_in_the_models_format():
    messages = [("user", "What do bees make?")]

    async def asked(client):
        async with client.program() as p:
            prompt = await client.chat_prompt(messages)
            return (await p.call(prompt, stop=prompt.stop), await p.chat(messages),
                    "".join([piece async for piece in p.generate(
                        [{"role": "user", "content": messages[0][1]}])]))
    with Appliance() as a:
        by_hand, chat, streamed = against(a, asked)
    assert by_hand.tokens == chat.tokens and chat.text == streamed and "honey" in streamed
