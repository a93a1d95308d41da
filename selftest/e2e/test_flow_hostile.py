# SPDX-License-Identifier: MIT
"""Workflows of clients that mean no good: each bad frame costs itself or its connection, its ERROR
says what was wrong, and another client's workflow goes on as if nothing had happened."""
import asyncio
import os
import sys
import tempfile
import warnings

from appliance import EMBEDDED_MODEL, ROOT, Appliance, run
from flow_frames import (INPUT, IS_TEXT, KEEP, LAMBDA, LLM, SIMPLE, TEXT, Flows, answer, end, node,
                         opening, row, served)
from protocol import (ASK, ERROR, FLOW_CANCEL, FLOW_CLOSE, FLOW_DONE, FLOW_OK, FLOW_OPEN, ROW_DONE,
                      VALUE, frame)

sys.path.insert(0, os.path.join(ROOT, "tools", "sdk", "python"))
import agentix  # noqa: E402

LAMBDA_ALONE = """agentix-flow 1
input q=5
lambda say max=12 = q
output say
"""
MODEL = "model.path=" + EMBEDDED_MODEL
BUSY_WORKFLOWS, BUSY_ROWS = 10, 11
BAD_FRAME_LENGTH, BAD_FIELD, BAD_RESERVED, BAD_TOKEN, BAD_TEXT = 19, 22, 23, 29, 30
BAD_PROMPT_LENGTH = 28
BAD_FLOW_OPEN, BAD_FLOW_UNKNOWN, BAD_FLOW_SIZE = 33, 34, 35
BAD_ROW_REUSED, BAD_NODE_UNKNOWN = 36, 37
BAD_LAMBDA, GONE_CANCELLED = 38, 50


def test_every_field_out_of_range_is_named_and_costs_its_frame():
    llm = (IS_TEXT, 0)
    with Appliance(MODEL) as a, Flows(a.tcp) as c:
        tokens = served(a)
        vocab, context = c.welcome["vocab_tokens"], c.welcome["context_tokens_max"]
        bad = [
            (opening([node(4)], [0]), BAD_FIELD),
            (opening([node(INPUT), node(LLM, llm, max_tokens=0)], [1]), BAD_FIELD),
            (opening([node(INPUT), node(LLM, llm, temperature=-1.0)], [1]), BAD_FIELD),
            (opening([node(INPUT), node(LLM, llm, top_p=float("nan"))], [1]), BAD_FIELD),
            (opening([node(INPUT), node(LLM, llm, est=(1 << 20) + 1)], [1]), BAD_FIELD),
            (opening([node(INPUT), node(LLM, llm, max_tokens=context)], [1]), BAD_PROMPT_LENGTH),
            (opening([node(INPUT), node(LLM, llm, stop_ids=(vocab,))], [1]), BAD_TOKEN),
            (opening([node(INPUT), node(LLM, llm, stop_texts=(b"",))], [1]), BAD_FIELD),
            (opening([node(INPUT), node(LLM, llm, stop_texts=(b"\xff",))], [1]), BAD_TEXT),
            (opening([node(INPUT), node(LLM, (IS_TEXT, 1))], [1]), BAD_FIELD),     # itself
            (opening([node(LLM, (1,)), node(LLM, llm)], [1]), BAD_FIELD),          # a later one
            (opening([node(INPUT), node(LLM, (IS_TEXT | 1, 0))], [1]), BAD_FIELD),
            (opening(SIMPLE, [2]), BAD_FIELD),
            (opening(SIMPLE, [1], flags=8), BAD_FIELD),
            (opening([node(INPUT, max_tokens=1)], [0]), BAD_FIELD),
            (opening([node(INPUT, (IS_TEXT,))], [0]), BAD_FIELD),
            (opening(SIMPLE, [1], texts=(b"\xc3(",)), BAD_TEXT),
            (opening([node(LAMBDA, (IS_TEXT,), max_tokens=1 << 30)], [0]), None),
            (opening(300 * [node(INPUT)], [0]), BAD_FLOW_SIZE),
            (opening([node(TEXT, 100 * (IS_TEXT,))] + [node(TEXT, 100 * (0,)), node(LLM, (1,))],
                     [2]), BAD_FLOW_SIZE),
            (opening([node(INPUT), node(TEXT, 2000 * (0,))], 2 * [1]), BAD_FLOW_SIZE),
            (row(1, b"x"), BAD_FLOW_UNKNOWN),
            (answer(1, 0), BAD_FLOW_UNKNOWN),
            (end(FLOW_CLOSE), BAD_FLOW_UNKNOWN),
            (end(FLOW_CANCEL), BAD_FLOW_UNKNOWN),
        ]
        for data, status in bad:
            c.send(data)
            got = c.until(ERROR)[1]
            assert status in (None, got["status"]), (status, got)
            assert not got["closes"], got
        a.wait_stats(workflows_open=0)
        assert served(a) == tokens


def test_texts_within_texts_do_not_explode():
    doubling = [node(TEXT, (IS_TEXT,))] + [node(TEXT, (i, i)) for i in range(60)]
    with Appliance(MODEL) as a, Flows(a.tcp) as c:
        c.refused(opening([*doubling, node(LLM, (60,))], [61]), BAD_FLOW_SIZE)
        served(a)


def test_too_many_operators_end_their_workflow_and_say_so():
    """How many are left is known after FLOW_OK. The next one has its place at once."""
    large = [node(INPUT)] + [node(LLM, (0,), seed=i) for i in range(129)]
    nexts = [opening(SIMPLE, [1], flow_id=i) for i in range(2, 200)]
    with Appliance(MODEL, "workflow.workflows=1") as a, Flows(a.tcp) as c:
        expected = served(a)
        c.send(opening(large, [*range(1, 130)]) + row(1, b"x") + b"".join(nexts))
        assert c.until(ROW_DONE)[1]["status"] == BAD_FLOW_SIZE
        assert c.until(FLOW_DONE)[1]["status"] == BAD_FLOW_SIZE
        taken = c.until(FLOW_OK)[1]
        assert taken["left"] == 1, taken
        c.send(end(FLOW_CLOSE, flow_id=taken["flow_id"]))
        assert c.until(FLOW_DONE)[1]["status"] == 0
        assert a.stats()["core_restarts"] == 0
        c.close()
        a.wait_stats(workflows_open=0)
        assert served(a) == expected


def test_cut_frames_close_their_connection_alone():
    whole = opening(SIMPLE, [1])
    with Appliance(MODEL) as a:
        for cut in (1, 40, len(whole) - 17):
            with Flows(a.tcp) as c:
                got = c.refused(frame(FLOW_OPEN, whole[16:-cut]), BAD_FRAME_LENGTH)
                assert got["closes"]
        with Flows(a.tcp) as c:
            got = c.refused(frame(FLOW_OPEN, whole[16:] + b"x"), BAD_FRAME_LENGTH)
            assert got["closes"]
        with Flows(a.tcp) as c:
            payload = bytearray(opening([node(LAMBDA, (IS_TEXT,), name=b"f\0g")], [0])[16:])
            assert c.refused(frame(FLOW_OPEN, bytes(payload)), BAD_RESERVED)["closes"]
        served(a)


def test_rows_and_answers_that_do_not_fit():
    nodes = [node(INPUT), node(LAMBDA, (0,)), node(LLM, (IS_TEXT, 1))]
    with Appliance(MODEL) as a, Flows(a.tcp) as c, Flows(a.tcp) as other:
        c.open(nodes, [2])
        c.refused(opening(nodes, [2]), BAD_FLOW_OPEN)
        c.refused(row(1), BAD_FIELD)
        c.refused(row(1, b"a", b"b"), BAD_FIELD)
        c.refused(row(1, b"\xff"), BAD_TEXT)
        other.refused(row(1, b"a"), BAD_FLOW_UNKNOWN)
        other.refused(end(FLOW_CANCEL), BAD_FLOW_UNKNOWN)
        c.send(row(1, b"a"))
        assert c.until(ASK)[1]["node"] == 1
        c.refused(row(1, b"a"), BAD_ROW_REUSED)
        c.refused(row(1, b"b"), BAD_ROW_REUSED)
        c.refused(answer(2, 1), BAD_NODE_UNKNOWN)
        c.refused(answer(1, 2), BAD_NODE_UNKNOWN)
        c.refused(answer(1, 99), BAD_NODE_UNKNOWN)
        c.refused(answer(1, 1, b"\xff"), BAD_TEXT)
        c.refused(answer(1, 1, b"yes") + answer(1, 1, b"no"), BAD_NODE_UNKNOWN)
        assert c.until(ROW_DONE)[1]["status"] == 0
        c.send(row(2, b"a2"))
        c.until(ASK)
        c.refused(answer(2, 1, b"far too long for eight tokens: " * 9), BAD_FIELD)
        assert c.until(ROW_DONE)[1]["status"] == BAD_LAMBDA         # its operator has failed
        c.send(row(3, b"a3"))
        c.until(ASK)
        c.send(answer(3, 1, failed=1) + end(FLOW_CLOSE))
        assert c.until(ROW_DONE)[1]["status"] == BAD_LAMBDA
        assert c.until(FLOW_DONE)[1]["rows"] == 3
        c.refused(row(3, b"a"), BAD_FLOW_UNKNOWN)


def test_a_flood_of_rows_is_refused_row_by_row_and_each_other_one_is_done():
    count = 300
    with Appliance(MODEL) as a, Flows(a.tcp) as c:
        c.open(SIMPLE, [1])
        c.send(b"".join(row(i, b"%d" % (i % 7)) for i in range(count)) + end(FLOW_CLOSE))
        done, refused = [], []
        while True:
            kind, got, _ = c.until(ROW_DONE, ERROR, FLOW_DONE)
            if kind == FLOW_DONE:
                break
            if kind == ERROR:
                assert got["status"] == BUSY_ROWS, got
            (done if kind == ROW_DONE else refused).append(
                got["row"] if kind == ROW_DONE else got["found"])
        assert sorted(done + refused) == list(range(count)) and got["rows"] == len(done)
        served(a)


def test_a_column_that_can_never_fit_says_so():
    with Appliance(MODEL, "workflow.values=64") as a, Flows(a.tcp) as c:
        c.open(SIMPLE, [1])
        c.refused(row(1, b"word " * 200), BAD_FLOW_SIZE)
        c.send(row(1, b"word"))
        assert c.until(ROW_DONE)[1]["status"] == 0
    with Appliance(MODEL) as a, Flows(a.tcp) as c:
        c.open(SIMPLE, [1])
        c.send(row(1, b"word " * 12000))
        got = c.until(ERROR)[1]
        assert got["status"] == BAD_FLOW_SIZE and got["found"] == 60000, got
        assert 1024 < got["max"] < 60000, got
        served(a)


def test_workflows_end_with_their_connections_and_their_slots_come_back():
    with Appliance(MODEL, "workflow.workflows=2", "workflow.linger=10min") as a:
        for _ in range(3):
            with Flows(a.tcp) as c, Flows(a.tcp) as other:
                c.open(SIMPLE, [1], flow_id=1)
                c.open(SIMPLE, [1], flow_id=2)
                other.refused(opening(SIMPLE, [1], flow_id=3), BUSY_WORKFLOWS)
                c.send(b"".join(row(i, b"%d" % i) for i in range(20)))
            a.wait_stats(workflows_open=0)
        a.wait_back()


def test_kept_workflows_that_are_done_yield_to_new_ones():
    with Appliance(MODEL, "workflow.workflows=2", "workflow.linger=10min") as a:
        for i in range(6):
            with Flows(a.tcp) as c:
                c.open(SIMPLE, [1], flow_id=i, flags=KEEP)
                c.send(row(0, b"x", flow_id=i) + end(FLOW_CLOSE, i))
                c.until(FLOW_DONE)
        served(a)


def test_a_workflow_of_another_program_is_cancelled_by_its_own_client_only():
    with Appliance(MODEL) as a, Flows(a.tcp) as c:
        c.open(SIMPLE, [1])
        with Flows(a.tcp) as other:
            other.refused(end(FLOW_CANCEL), BAD_FLOW_UNKNOWN)
        c.send(row(0, b"x") + end(FLOW_CANCEL))
        assert c.until(ROW_DONE)[1]["status"] in (0, GONE_CANCELLED)
        assert c.until(FLOW_DONE)[1]["status"] == GONE_CANCELLED


def test_a_row_that_never_began_tells_nothing_of_an_earlier_workflow():
    """The slot of a workflow is used again: what its rows gave is not the next client's."""
    with Appliance(MODEL) as a, Flows(a.tcp) as client:
        client.open(SIMPLE, [1, 0])
        client.send(row(1, b"a secret") + end(FLOW_CLOSE, 1))
        client.until(FLOW_DONE)
        client.send(opening(SIMPLE, [1]) + row(1, b"") + end(FLOW_CANCEL))
        kind, fields, rest = client.until(VALUE, ROW_DONE)
        assert kind == ROW_DONE, (fields, rest)
        assert fields["status"] == GONE_CANCELLED, fields
        client.until(FLOW_DONE)


def test_an_answer_that_is_too_long_fails_its_row_and_no_other():
    with Appliance(MODEL) as a, tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("flow", "rows")]
        for path, text in zip(paths, (LAMBDA_ALONE, "q\nlong\nshort\n")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        done = run("agx", "--to", a.to, "flow", "--inputs", paths[1], "--lambda",
                   "say=/bin/sed s/long/%s/" % ("l-o-n-g" * 9), paths[0])
        assert done.returncode == 5 and "short" in done.stdout, (done.stdout, done.stderr)
        assert "its answer has more than max=12 tokens" in done.stderr, done.stderr
        assert "row 0" in done.stderr and "row 1" not in done.stderr, done.stderr
        done = run("agx", "--to", a.to, "flow", "--inputs", paths[1], "--lambda", "say=/bin/false",
                   paths[0])
        assert done.returncode == 5 and "row 1: say has failed: exit status 1" in done.stderr, done
        assert "row 1: a lambda of the workflow has no answer" in done.stderr, done.stderr


async def lengthen(to):
    async with await agentix.connect(to) as client:
        flow = agentix.Flow()
        question = flow.input("q")
        flow.output(flow.apply(lambda text: text * (40 if text == "long" else 1), question,
                               max=12), "say")
        return await flow.run(client, ["long", "short"])


def test_a_function_that_says_too_much_fails_its_row_and_no_other():
    with Appliance(MODEL) as a, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        first, second = asyncio.run(lengthen(a.to))
    assert first.error is not None and second["say"] == "short", (first.error, second.error)
    assert any("max_tokens" in str(warning.message) for warning in warned), warned


def test_agx_says_what_of_a_workflow_does_not_fit():
    with Appliance(MODEL) as a, tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "flow")
        with open(path, "w", encoding="utf-8") as file:
            file.write("agentix-flow 1\nllm a max=5000 = \"x\"\noutput a\n")
        done = run("agx", "--to", a.to, "flow", path)
        assert done.returncode != 0 and done.stderr == \
            "agx: refused: max= of an llm does not fit the context: 5000 tokens, allowed " \
            "0 to 1023\n", done.stderr
