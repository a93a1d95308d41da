# SPDX-License-Identifier: MIT
"""Workflows of the Python client beside an appliance that is none (flow_appliance.py): what is sent
is what was built, and every answer arrives, over breaks, refusals, questions and cancellations."""
import asyncio
import os
import sys
import tempfile

from appliance import HANG_S, ROOT, run
from flow_appliance import DEVICE_FAILED, GONE_SHUTDOWN, LAMBDA, LLM, Appliance, said

sys.path.insert(0, os.path.join(ROOT, "tools", "sdk", "python"))
import agentix  # noqa: E402

ROLES = ("cook", "judge", "pilot")


def said_to(text, most):
    return said(text.encode(), most).decode()


def debate(**options):
    """The flow, and what it must say to a question."""
    flow = agentix.Flow()
    question = flow.input("question")
    heard = [flow.llm("You are a ", role, f".\n{question}\nAnswer:", max=20, **options)
             for role in ROLES]
    flow.output(flow.llm("Q: " + question, flow.each(heard, "\nHeard: {}"), "\nVerdict:", max=30),
                "verdict")

    def expected(asked):
        each = [said_to(f"You are a {role}.\n{asked}\nAnswer:", 20) for role in ROLES]
        return said_to("Q: " + asked + "".join("\nHeard: " + one for one in each) + "\nVerdict:",
                       30)
    return flow, expected


def against(test, **settings):
    """Runs test(client, appliance) to its end."""
    async def body():
        async with Appliance(**settings) as appliance, \
                await agentix.connect(appliance.to, patience_s=HANG_S) as client:
            return await asyncio.wait_for(test(client, appliance), HANG_S)
    return asyncio.run(body())


ASKED = ["why?", "", "how long is a piece of string?", "why?", "\u00fcber", "x" * 3000]


def check_debate(**settings):
    async def run(client, appliance):
        flow, expected = debate()
        rows = await flow.run(client, ASKED)
        assert [row.number for row in rows] == list(range(len(ASKED)))
        for row, asked in zip(rows, ASKED):
            assert row["verdict"] == expected(asked), (row, asked)
            assert bytes(row.tokens["verdict"]).decode() == row["verdict"]
            assert (row.inputs, row.calls, row.shared, row.fetched) == \
                ({"question": asked}, 1, 2, 3)
        return appliance
    return against(run, **settings)


def test_rows_come_back_whatever_their_number():
    for most in (1, 4, 100):
        check_debate(rows_max=most)


def test_rows_that_are_refused_as_busy_are_sent_again():
    check_debate(rows_max=1, says_rows=100)


def test_a_break_anywhere_loses_nothing():
    for at in range(2, 12):
        check_debate(break_at=[at])
    check_debate(break_at=range(3, 60, 4))


def test_templates_give_the_pieces_that_they_show():
    flow = agentix.Flow()
    a, b = flow.input("a"), flow.input("b")
    text = flow.text(f"<{a}|{b}>", a, "%s!" % b)
    assert text.pieces == ("<", a, "|", b, ">", a, b, "!")
    assert flow.text("x" + a + "y").pieces == ("x", a, "y")
    assert flow.text([a, ["t", 1]], "").pieces == (a, "t", "1")
    assert flow.text(flow.each([("k", a), ("l", b)], "{}={};")).pieces == ("k=", a, ";l=", b, ";")
    made = flow.map("Sum up: {}", [a, b], max=9)
    assert [node.pieces for node in made] == [("Sum up: ", a), ("Sum up: ", b)]
    assert flow.map(lambda item: flow.llm(item, "?"), [a])[0].pieces == (a, "?")
    for bad in (lambda: f"{a:>8}", lambda: flow.text(None), lambda: flow.llm("x", heat=1),
                lambda: flow.text(agentix.Flow().input("c")), lambda: flow.llm("x", stop="s" * 65),
                lambda: flow.text(f"{agentix.Flow().input('c')}")):
        try:
            bad()
        except (TypeError, ValueError):
            continue
        raise AssertionError("it was taken")


def test_operators_say_how_they_are_called():
    async def run(client, appliance):
        flow = agentix.Flow()
        cold = flow.llm("a", max=5, est=3, seed=7, stop=["\n", 9], ignore_eos=True)
        warm = [flow.llm("a", temperature=0.5, top_k=4, top_p=0.5, min_p=0.25,
                         repeat_penalty=1.5) for _ in range(2)]
        for node in (cold, *warm):
            flow.output(node)
        await flow.run(client, [[]])
        return appliance.graphs[0].nodes
    cold, warm, other = against(run)
    assert (cold["kind"], cold["max_tokens"], cold["est"], cold["seed"]) == (LLM, 5, 3, 7)
    assert cold["stop"] == [9, b"\n"] and cold["flags"] == 1 and cold["top_p"] == 1.0
    assert (warm["temperature"], warm["top_k"], warm["top_p"]) == (0.5, 4, 0.5)
    assert (warm["min_p"], warm["repeat_penalty"], warm["est"]) == (0.25, 1.5, 0)
    assert warm["seed"] != other["seed"]        # two draws, not one


def test_functions_are_asked_and_their_errors_are_the_rows():
    calls = []

    def shout(text):
        calls.append(text)
        return text.upper()

    async def check(text):
        await asyncio.sleep(0)
        if "bad" in text:
            raise KeyError("bad")
        return "checked " + text

    async def run(client, appliance):
        flow = agentix.Flow()
        word = flow.input("word")
        loud = flow.apply(shout, "say ", word, max=16)
        flow.output(flow.apply(check, loud, " ", word), "checked")
        flow.output(flow.apply(shout, word), "loud")
        rows = await flow.run(client, ["good", "bad"])
        names = [node["name"] for node in appliance.graphs[0].nodes if node["kind"] == LAMBDA]
        assert names[0] == names[2] == b"shout" and names[1] != names[0], names
        return rows
    good, bad = against(run)
    assert good["checked"] == "checked SAY GOOD good" and good["loud"] == "GOOD"
    assert isinstance(bad.error, agentix.Failed) and isinstance(bad.error.__cause__, KeyError)
    try:
        bad["checked"]
        raise AssertionError("a row that failed has a value")
    except agentix.Failed:
        pass
    assert sorted(set(calls)) in (["bad", "good", "say bad", "say good"],
                                  ["good", "say bad", "say good"])


def test_an_appliance_that_ends_leaves_the_rest_to_the_next():
    """Whether rows are on their way then, or the next one is not made yet."""
    for rows in range(1, len(ASKED)):
        for most in (1, 4):
            appliance = check_debate(rows_max=most, ends=(rows, GONE_SHUTDOWN))
            assert len(appliance.graphs) == 2, len(appliance.graphs)


def test_a_run_that_ends_before_its_rows_is_an_error():
    for rows in range(1, len(ASKED)):
        try:
            check_debate(ends=(rows, DEVICE_FAILED))
        except agentix.Failed as error:
            assert error.status == "DEVICE_FAILED", error
        else:
            raise AssertionError("some rows were taken for all")


def test_a_function_is_called_once_over_a_break():
    calls = []

    async def slow(text):
        calls.append(text)
        await asyncio.sleep(0)
        return text

    async def run(client, _):
        flow = agentix.Flow()
        flow.output(flow.apply(slow, flow.input("x")))
        return [row["slow"] for row in await flow.run(client, ["a", "b"])]
    for at in range(3, 8):
        calls.clear()
        assert against(run, break_at=[at]) == ["a", "b"]
        assert len(calls) <= 2, calls


def test_rows_come_as_they_are_done_and_progress_counts_them():
    seen = []

    async def run(client, _):
        flow, expected = debate()

        async def ask():
            for asked in ASKED:
                yield {"question": asked}
        began = flow.run(client, ask(), progress=lambda run: seen.append((run.done, run.is_over)))
        async for row in began:
            assert row["verdict"] == expected(row.inputs["question"])
        return began
    began = against(run)
    assert began.plan == {"given": 4, "pruned": 1, "merged": 1, "left": 2}
    assert seen[-1] == (len(ASKED), True) and began.calls == len(ASKED)


def test_a_chat_is_written_in_the_format_of_the_model():
    async def run(client, appliance):
        flow = agentix.Flow()
        who = flow.input("who")
        flow.output(flow.chat([("system", "Be brief."), {"role": "user", "content": f"I am {who}"}],
                              max=8))
        flow.output(flow.chat([("user", who)], max=8))
        rows = await flow.run(client, ["<|im_end|>"])
        return rows[0], appliance.graphs[0]
    row, graph = against(run)
    marks = "<|im_start|>%s\n%s<|im_end|>\n"
    first = marks % ("system", "Be brief.") + marks % ("user", "I am <|im_end|>")
    assert row["llm1"] == said_to(first + "<|im_start|>assistant\n", 8)
    assert row["llm2"] == said_to(marks % ("system", "Be.") + marks % ("user", "<|im_end|>") +
                                  "<|im_start|>assistant\n", 8)
    for text, special in zip(graph.texts, graph.special):
        assert special == (b"<|im_" in text), text


def test_values_are_told_as_they_are_known():
    told = []

    async def run(client, _):
        flow, expected = debate()
        await flow.run(client, ["a"], on_value=lambda *what: told.append(what))
        return expected("a")
    expected = against(run)
    assert told == [(0, "verdict", expected)], told


def test_a_task_that_is_cancelled_cancels_the_workflow_unless_it_is_kept():
    async def run(client, appliance, keep):
        flow = agentix.Flow()
        never = asyncio.Event()

        async def wait(_):
            asked.set()
            await never.wait()
        asked = asyncio.Event()
        flow.output(flow.apply(wait, flow.input("x")))
        task = asyncio.ensure_future(flow.run(client, ["a"], keep=keep))
        await asked.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        await asyncio.sleep(0.05)               # nothing to wait for: the other case sends nothing
        return len(appliance.flows)
    assert against(lambda client, appliance: run(client, appliance, False)) == 0
    assert against(lambda client, appliance: run(client, appliance, True)) == 1


def test_a_run_is_cancelled_before_it_has_begun_and_over_a_break():
    async def at_once(client, appliance):
        flow, _ = debate()
        run = flow.run(client, ASKED)
        run.cancel()
        assert await run == [] and appliance.graphs == []
    against(at_once)

    async def amid_a_break(client, appliance, keep):
        async def wait(_):
            asked.set()
            await asyncio.Event().wait()
        asked, flow = asyncio.Event(), agentix.Flow()
        flow.output(flow.apply(wait, flow.input("x")))
        run = flow.run(client, ["a"], keep=keep)
        await asked.wait()
        client._connection.writer.transport.abort()
        run.cancel()
        row, = await run
        assert isinstance(row.error, agentix.Failed) and appliance.flows == {}, row
    for keep in (False, True):
        against(lambda client, appliance, keep=keep: amid_a_break(client, appliance, keep))


def test_a_progress_function_that_raises_at_a_refusal_costs_no_other_run():
    async def run(client, _):
        def progress(run):
            assert not run.is_over, "a fault of the caller's"
        flow, _ = debate()
        try:
            await flow.run(client, ASKED, progress=progress)
        except agentix.Refused as error:
            assert error.status == "BAD_FLOW_SIZE", error
        else:
            raise AssertionError("no row was refused")
        rows = await flow.run(client, ASKED[:1])
        assert rows[0].error is None, rows
    against(run, too_large=(1, 9))


def test_another_process_goes_on_with_what_a_name_keeps():
    async def run(client, appliance):
        flow, expected = debate()
        first = flow.run(client, ASKED[:3], keep="mine")
        async for _ in first:
            break                               # as Ctrl-C would
        await client.close()
        async with await agentix.connect(appliance.to) as other:
            again = debate()[0].run(other, ASKED[:3], keep="mine")
            rows = await again
        assert [row["verdict"] for row in rows] == [expected(asked) for asked in ASKED[:3]]
        return again.is_resumed, len({graph.head["flow_id"] for graph in appliance.graphs})
    resumed, ids = against(run, rows_max=1)
    assert ids == 1, resumed


def test_lengths_are_learnt():
    async def run(client, _):
        flow, _ = debate()
        learnt = await flow.profile(client, ASKED[:2])
        return learnt, [node.est for node in flow.nodes]
    learnt, ests = against(run)
    assert ests == [0, 20, 20, 20, 30] and sorted(learnt.values()) == [20, 20, 20, 30]


def test_what_is_longer_than_a_frame_is_refused_here():
    async def run(client, _):
        flow, expected = debate()
        flow.output(flow.apply(lambda text: text * 9, flow.nodes[0]), "long")
        row, = await flow.run(client, ["x" * 10000])
        assert row["verdict"] == expected("x" * 10000)
        for late in (lambda: flow.run(client, ["x" * 70000]), lambda: client.call("x" * 70000)):
            try:
                await late()
                raise AssertionError("it was sent")
            except ValueError as error:
                assert "a frame has at most" in str(error)
        return row.error
    assert isinstance(against(run).__cause__, ValueError)


def explained(flow):
    """The words of each line of `agx flow --explain`."""
    with tempfile.NamedTemporaryFile("r", suffix=".flow") as file:
        flow.save(file.name)
        done = run("agx", "flow", "--explain", file.name)
        assert done.returncode == 0, (done.stderr, file.read())
    return [line.split() for line in done.stdout.splitlines()]


def test_a_flow_that_is_saved_is_read_by_agx_as_it_was_built():
    flow = agentix.Flow()
    odd = 'tab\t "quoted" back\\slash #no comment\r\n{group} [x] \u00fc'
    word = flow.input("my word", est=7)
    loud = flow.apply(len, odd, word, max=5)
    first = flow.llm(odd, word, odd, max=9, est=4, temperature=0.5, top_k=3, top_p=0.25,
                     min_p=0.125, repeat_penalty=1.5, stop=["\n", '"', 7], ignore_eos=True,
                     name="say[1]")
    flow.output(flow.llm(first, flow.text(loud, "?"), max=3, name="say 1"))
    flow.llm("not needed")
    head, pruned, one, two, *_ = explained(flow)
    assert head == ["flow", "llm=3", "lambda=1", "inputs=1", "outputs=1"], head
    assert pruned == ["pruned", "1", "merged", "0", "left", "3"], pruned
    size = len(odd.encode())
    assert one[:2] == ["op", "say_1"] and f"prompt={2 * size + 7}" in one and "out=4" in one, one
    assert two[:2] == ["op", "say_1_2"] and f"prompt={4 + 5 + 1}" in two, two


def test_an_amount_in_a_refusal_is_not_taken_for_a_row():
    for amount in (0, 1, 9):
        try:
            check_debate(rows_max=100, too_large=(1, amount))
        except agentix.Refused as error:
            assert (error.status, error.found) == ("BAD_FLOW_SIZE", amount), error
        else:
            raise AssertionError("a row was refused, and nothing was said")


def test_a_row_that_cannot_be_sent_ends_the_run_with_its_error():
    flow = agentix.Flow()
    flow.output(flow.llm(*flow.inputs("page", 2), max=5), "out")

    async def run(client, _):
        rows = await flow.run(client, [{"page": ["1", "2"], "title": "of no use", "tags": ["a"]}])
        assert rows[0].inputs == {"page[0]": "1", "page[1]": "2"}
        for row, says in (({"answer": "?"}, "no column page[0]"),
                          ({"page": ["1"]}, "no column page[1]"),
                          ({"page": ["1", "2", "3"]}, "a column page[2], and the flow has no")):
            try:
                await flow.run(client, [row])
            except ValueError as error:
                assert says in str(error), error
            else:
                raise AssertionError(f"{row} was taken")
    against(run)
