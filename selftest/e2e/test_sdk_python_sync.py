# SPDX-License-Identifier: MIT
"""The Python client for code without an event loop: the same calls, streams and programs as with
asyncio, from one thread or several, and nothing is left open."""
import asyncio
import contextlib
import os
import signal
import sys
import threading

from appliance import HANG_S, NOISE, ROOT, Appliance, wait_for
from protocol import Client as Reference
from test_class import classes

sys.path.insert(0, os.path.join(ROOT, "tools", "sdk", "python"))
import agentix  # noqa: E402

LONG = {"max_tokens": 900, "ignore_eos": True}


def expected(a, prompt, max_tokens):
    with Reference(a.tcp) as c:
        return c.generate(1, prompt, max_tokens=max_tokens).check().tokens


def test_a_program_runs_without_an_event_loop():
    prompts = [[5, 6, n] for n in range(5)]
    with Appliance(NOISE) as a:
        with agentix.connect(a.to) as ax, ax.program("review", agent="reviewer") as p:
            reply = p.call([1, 2, 3], max_tokens=8, ignore_eos=True)
            stream = p.generate([1, 2, 3], max_tokens=8, ignore_eos=True)
            assert "".join(stream) == reply.text == stream.reply.text
            pieces = list(p.generate([1, 2, 3], max_tokens=8, ignore_eos=True, text=False))
            assert sum(pieces, []) == reply.tokens
            replies = p.gather(prompts, max_tokens=20, ignore_eos=True)
            assert p.name == "review" and p.totals.calls == 8
        assert p.totals.calls == 8 and p.totals.generated_tokens == 3 * 8 + 5 * 20
        assert "reviewer" in classes(a)
        for prompt, reply in zip(prompts, replies):
            assert reply.tokens == expected(a, prompt, 20), prompt
        a.wait_back()
    assert not [each for each in threading.enumerate() if each.name == "agentix"]


def test_a_conversation_and_a_flow_are_run():
    flow = agentix.Flow()
    flow.output(flow.llm("User: ", flow.input("question"), "\nBot:", max=20), "answer")
    with Appliance() as a, agentix.connect(a.to) as ax:
        assert "honey" in str(ax.chat([("user", "What do bees make?")]))
        rows = ax.run(flow, ["What do bees make?", "What do bees make?"])
        assert [("honey" in row["answer"]) for row in rows] == [True, True]
        assert [row["answer"] for row in flow.run(ax, ["What do bees make?"])] == \
            [rows[0]["answer"]]
        assert flow.profile(ax, ["What do bees make?"]) == {"llm1": flow.nodes[1].est}
        assert flow.nodes[1].est > 0
        assert ax.welcome["context_tokens_max"] > 0 and ax.ping()


def resume_once_cancelled(ax, still, stream):
    """A step that runs ends no call: the block that is left waits for the worker."""
    wait_for(lambda: stream._stream.call.is_cancelled, "the call is cancelled")
    ax.ping()                                   # the appliance has acted on what came before
    still.close()


def test_what_is_left_is_cancelled():
    with Appliance(NOISE) as a, agentix.connect(a.to) as ax:
        with a.standing_still():
            unread, closed = ax.generate([1, 3], **LONG), ax.generate([1, 4], **LONG)
            a.wait_stats(calls_open=2)
            del unread
            closed.close()
            ax.ping()
        a.wait_stats(calls_open=0, calls_cancelled=2)
        with contextlib.ExitStack() as still, contextlib.suppress(KeyError):
            still.enter_context(a.standing_still())
            with ax.program() as p:
                left = p.generate([1, 6], **LONG)
                a.wait_stats(calls_open=1)
                resuming = threading.Thread(target=resume_once_cancelled, args=(ax, still, left))
                resuming.start()
                raise KeyError("the program has a fault")
        resuming.join()
        for stream in (closed, left):
            try:
                list(stream)
                raise AssertionError("it ended by itself")
            except agentix.Failed as error:
                assert "cancelled" in str(error)
        a.wait_stats(calls_open=0, calls_cancelled=3, programs_open=1)


def test_an_interrupt_ends_the_wait_and_the_call():
    with Appliance(NOISE) as a, agentix.connect(a.to) as ax:
        def interrupt():
            while a.stats()["calls_open"] == 0:
                pass
            os.kill(os.getpid(), signal.SIGINT)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with a.standing_still():
            thread = threading.Thread(target=interrupt)
            thread.start()
            try:
                ax.call([1, 2], **LONG)
                raise AssertionError("it was not interrupted")
            except KeyboardInterrupt:
                thread.join()
                ax.ping()
        a.wait_stats(calls_open=0, calls_cancelled=1)


def test_an_interrupt_before_the_wait_begins_ends_the_call():
    with Appliance(NOISE) as a, agentix.connect(a.to) as ax:
        loop = ax._thread._loop
        ask = loop.call_soon_threadsafe

        def interrupted(*arguments, **options):
            loop.call_soon_threadsafe = ask
            ask(*arguments, **options)
            a.wait_stats(calls_open=1)
            raise KeyboardInterrupt
        with a.standing_still():
            loop.call_soon_threadsafe = interrupted
            try:
                ax.call([1, 2], **LONG)
                raise AssertionError("it was not interrupted")
            except KeyboardInterrupt:
                ax.ping()
        a.wait_stats(calls_open=0, calls_cancelled=1)


def test_a_break_and_a_dead_worker_cost_only_time():
    with Appliance(NOISE) as a, agentix.connect(a.to, patience_s=HANG_S) as ax:
        with ax.program("broken", agent="worker") as p:
            with a.standing_still():
                stream = p.generate([5, 6, 7], max_tokens=400, ignore_eos=True)
                a.wait_stats(calls_open=1)
                broken = ax._client._connection
                ax._thread.post(broken.writer.transport.abort)
                wait_for(lambda: ax._client._connection not in (None, broken), "it is back")
            text = next(stream)
            os.kill(a.worker, signal.SIGKILL)
            text += "".join(stream)
        assert stream.reply.text == text
        assert stream.reply.tokens == expected(a, [5, 6, 7], 400)


def test_threads_share_a_client():
    with Appliance(NOISE) as a, agentix.connect(a.to) as ax:
        got = {}

        def ask(number):
            got[number] = [ax.call([5, number, n], max_tokens=6).tokens for n in range(10)]
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        for number in (0, 7):
            assert got[number][3] == expected(a, [5, number, 3], 6)


def test_it_runs_beside_an_event_loop_of_the_caller():
    async def body():
        with agentix.connect(a.to) as ax:           # as in a notebook
            return ax.call([1, 2], max_tokens=3).tokens
    with Appliance(NOISE) as a:
        assert asyncio.run(body()) == expected(a, [1, 2], 3)


def test_errors_are_raised_where_the_call_is_made():
    with Appliance(NOISE) as a:
        ax = agentix.connect(a.to).open()
        for bad, error in (({"max_tokens": 10 ** 6}, agentix.Refused),
                           ({"heat": 1}, TypeError), ({"stop": "s" * 65}, ValueError)):
            try:
                ax.call([1, 2], **bad)
                raise AssertionError("it was taken")
            except error:
                pass
        ax.close()
        ax.close()
        try:
            ax.call([1, 2])
            raise AssertionError("a client that was closed has called")
        except agentix.Error:
            pass
    try:
        agentix.connect(a.to).open()
        raise AssertionError("there is no appliance")
    except agentix.Lost:
        pass
