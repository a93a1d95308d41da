# SPDX-License-Identifier: MIT
"""Workflows from Python against the real appliance: their tokens are those of a client that sends
each operator as a CALL (tools/bench/workflow/graphs.py), also when KV is short, the worker
dies and the connection breaks; and the example of docs/python.md runs."""
import asyncio
import contextlib
import io
import os
import re
import signal
import sys

from appliance import HANG_S, NOISE, RANDOM_MODEL, ROOT, Appliance
from test_sdk_python import against, break_off

sys.path.append(os.path.join(ROOT, "tools", "bench", "workflow"))
import agentix  # noqa: E402
import graphs  # noqa: E402

SCALE = 0.05                    # of the lengths of the paper: the context has 1,024 tokens
SHORT = ("kv.device_blocks=80", "kv.sharing=domain", "limits.context_tokens=1024")


def drawn_graph(name, count):
    """A flow, its rows, and what they must give: drawn once."""
    builder = graphs.Builder(SCALE)
    flow = getattr(builder, name)()
    rows = getattr(builder, "rows_of_" + name)(count)
    outside = graphs.Outside(flow, graphs.Tokens(RANDOM_MODEL))
    outside.prepare(rows)
    return flow, rows, outside


def values(flow, rows):
    assert not any(row.error for row in rows), rows
    return [[row.tokens[name] for name in flow.outputs] for row in rows]


def wanted(a, flow, rows, outside):
    async def calls(client):
        return await graphs.run_outside(client, rows, outside)
    return against(a, calls)


def check(name, count, *settings):
    flow, rows, outside = drawn_graph(name, count)

    async def workflow(client):
        run = flow.run(client, rows)
        return values(flow, await run), run
    with Appliance(NOISE, *SHORT, *settings) as a:
        expected = wanted(a, flow, rows, outside)
        got, run = against(a, workflow)
        assert got == expected
        a.wait_back()
    return run, len({tuple(row.values()) for row in rows})


def test_debates_give_the_tokens_of_single_calls():
    run, different = check("debate", 12)
    assert run.calls == 7 * different and run.plan["left"] == 7, (run.calls, run.plan)


def test_trading_gives_the_tokens_of_single_calls_and_shares_what_is_equal():
    run, different = check("trading", 4)
    assert different == 4
    # Two notes on the news of the market, which all rows read.
    assert run.calls == 4 * 74 - 3 * 2 and run.shared + run.fetched == 3 * 2, run.calls


def test_the_second_time_nothing_is_executed():
    flow, rows, _ = drawn_graph("debate", 3)

    async def twice(client):
        first, second = flow.run(client, rows), flow.run(client, rows)
        one = values(flow, await first)
        again = flow.run(client, rows)
        assert values(flow, await second) == one and values(flow, await again) == one
        return again.calls, again.fetched
    with Appliance(NOISE, *SHORT) as a:
        calls, fetched = against(a, twice)
        assert calls == 0 and fetched > 0, (calls, fetched)


def test_a_worker_that_dies_costs_only_time():
    flow, rows, outside = drawn_graph("debate", 6)

    async def killed(client):
        run = flow.run(client, rows)
        done = []
        async for row in run:
            if not done:
                os.kill(a.worker, signal.SIGKILL)
            done.append(row)
        return values(flow, sorted(done, key=lambda row: row.number))
    with Appliance(NOISE, *SHORT) as a:
        expected = wanted(a, flow, rows, outside)
        assert against(a, killed) == expected


def check_break(keep):
    flow, rows, outside = drawn_graph("debate", 6)

    async def broken(client):
        run, done = flow.run(client, rows, keep=keep), []
        async for row in run:
            if len(done) in (0, 3):
                break_off(client)
            done.append(row)
        return values(flow, sorted(done, key=lambda row: row.number))
    with Appliance(NOISE, *SHORT) as a:
        expected = wanted(a, flow, rows, outside)
        assert against(a, broken) == expected
        a.wait_back()


def test_a_break_costs_only_time():
    check_break(False)


def test_a_break_of_a_kept_workflow_costs_only_time():
    check_break(True)


def test_functions_of_the_client_stand_in_the_middle():
    async def asked(client):
        flow = agentix.Flow()
        question = flow.input("question")
        said = flow.llm("User: ", question, "\nBot:", max=40)
        loud = flow.apply(str.upper, said, max=200)
        flow.output(said, "said")
        flow.output(loud, "loud")
        flow.output(flow.apply(int, said, max=8), "number")
        return await flow.run(client, ["What do bees make?"])
    with Appliance() as a:
        row, = against(a, asked)
        assert row["loud"] == row["said"].upper() and "honey" in row["said"]
        assert isinstance(row.error.__cause__, ValueError)
        a.wait_back()


def test_sampled_operators_draw_each_for_itself_unless_they_share_a_seed():
    async def drawn(client):
        flow = agentix.Flow()
        question = flow.input("question")
        for node in flow.map("Say: {}", 3 * [question], max=30, temperature=2.0):
            flow.output(node)
        for node in flow.map("Say: {}", 3 * [question], max=30, temperature=2.0, seed=5):
            flow.output(node)
        run = flow.run(client, ["hello"])
        row, = await run
        return list(row.tokens.values()), run.plan
    with Appliance(NOISE) as a:
        tokens, plan = against(a, drawn)
        assert len(set(map(tuple, tokens[:3]))) == 3, tokens
        assert len(set(map(tuple, tokens[3:]))) == 1 and plan["merged"] == 2, plan


def test_a_task_that_is_cancelled_cancels_the_workflow():
    async def cancelled(client):
        flow = agentix.Flow()
        flow.output(flow.llm(flow.input("x"), max=900, ignore_eos=True))
        with a.standing_still():
            task = asyncio.ensure_future(flow.run(client, ["a", "b"]))
            while a.stats()["calls_open"] == 0:
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.wait([task])
            await client.ping()
        return task.cancelled()
    with Appliance(NOISE) as a:
        assert against(a, cancelled)
        a.wait_back()


def test_the_examples_of_the_page_run():
    with open(os.path.join(ROOT, "docs", "python.md"), encoding="utf-8") as page:
        blocks = re.findall(r"(?:^    .*\n|^\n)+", page.read(), re.M)
    codes = [re.sub(r"^    ", "", block, flags=re.M) for block in blocks
             if re.search(r"127\.0\.0\.1:7411|connect\(\)", block)]
    assert len(codes) == 3, codes
    with Appliance() as a:
        for code in codes:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
                exec(code.replace("connect()", 'connect("127.0.0.1:7411")')
                     .replace("127.0.0.1:7411", a.to), {})
            assert "honey" in printed.getvalue(), printed.getvalue()


def test_lengths_are_profiled():
    async def profiled(client):
        flow = agentix.Flow()
        flow.output(flow.llm("User: ", flow.input("x"), "\nBot:", max=100, name="bot"))
        return await asyncio.wait_for(flow.profile(client, ["Hello", "What do bees make?"]), HANG_S)
    with Appliance() as a:
        assert 0 < against(a, profiled)["bot"] < 100
