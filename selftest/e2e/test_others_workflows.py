# SPDX-License-Identifier: MIT
"""Failures of other systems that run graphs of agents, and of their caches of answers.

Each docstring says what happened there; the test does it here. Failures of serving engines are in
test_others_failures.py and test_others_stalls.py."""
from appliance import EMBEDDED_MODEL, Appliance
from flow_frames import INPUT, IS_TEXT, LAMBDA, LLM, Flows, answer, end, node, row
from protocol import ASK, FLOW_CLOSE, FLOW_DONE, ROW_DONE, VALUE

MODEL = "model.path=" + EMBEDDED_MODEL
STREAM, BAD_LAMBDA = 2, 38


def ran(a, nodes, texts=(b"What do bees make?",), **fields):
    """Opens the graph, whose last node is its output, and sends one row: what ROW_DONE says."""
    with Flows(a.tcp) as c:
        c.open(nodes, [len(nodes) - 1], texts=texts, **fields)
        c.send(row(1) + end(FLOW_CLOSE))
        done = c.until(ROW_DONE)[1]
        assert done["status"] == 0 and c.until(FLOW_DONE)[1]["rows"] == 1
        return done


def test_an_answer_from_the_cache_to_another_question():
    """LightRAG#3823, lobster#130, accrue#39: keys of cached answers left out the limit of tokens or
    other parameters, so a call with another limit got the old answer."""
    with Appliance(MODEL) as a:
        same = [node(LLM, (IS_TEXT,), max_tokens=6)]
        assert ran(a, same)["calls"] == 1
        assert ran(a, same)["fetched"] == 1
        for other in ({"max_tokens": 7}, {"stop_ids": (9,)}, {"stop_texts": (b"q",)}, {"flags": 1},
                      {"repeat_penalty": 1.5}, {"temperature": 0.5}):
            fields = {"max_tokens": 6, **other}
            done = ran(a, [node(LLM, (IS_TEXT,), **fields)])
            assert (done["calls"], done["fetched"]) == (1, 0), (other, done)
        drawn = [node(LLM, (IS_TEXT,), max_tokens=6, temperature=0.5)]
        assert ran(a, drawn)["calls"] == 1, "what is drawn is drawn anew"


def test_a_slow_branch_that_holds_up_a_fast_one():
    """langgraph#6320, #4673: nodes ran in supersteps, so what followed a fast node waited until its
    slow sibling had ended."""
    nodes = [node(LLM, (IS_TEXT,), max_tokens=300, flags=1),
             node(LLM, (IS_TEXT | 1,), max_tokens=2),
             node(LLM, (IS_TEXT | 1, 1), max_tokens=2)]
    with Appliance(MODEL) as a, Flows(a.tcp) as c:
        c.open(nodes, [0, 2], texts=(b"slow", b"fast"), flags=STREAM)
        c.send(row(1) + end(FLOW_CLOSE))
        assert c.until(VALUE)[1]["output"] == 1, "what follows the fast one is told first"
        assert c.until(ROW_DONE)[1]["status"] == 0


def test_a_branch_that_fails_and_takes_the_others_with_it():
    """langgraph#8277, agent-framework#2075: one node failed, and the results of its siblings were
    lost, or computed again."""
    nodes = [node(INPUT), node(LAMBDA, (0,)), node(LLM, (IS_TEXT, 0)), node(LLM, (IS_TEXT, 1))]
    with Appliance(MODEL) as a, Flows(a.tcp) as c:
        c.open(nodes, [2, 3])
        c.send(row(1, b"x") + row(2, b"y"))
        for _ in range(2):
            asked = c.until(ASK)[1]["row"]
            c.send(answer(asked, 1, b"fine") if asked == 2 else answer(asked, 1, failed=1))
        c.send(end(FLOW_CLOSE))
        values, ends = set(), {}
        while len(ends) < 2:
            kind, got, _ = c.until(VALUE, ROW_DONE)
            if kind == VALUE:
                values.add((got["row"], got["output"]))
            else:
                ends[got["row"]] = got["status"]
        assert ends == {1: BAD_LAMBDA, 2: 0} and values == {(1, 0), (2, 0), (2, 1)}
    with Appliance(MODEL) as a:
        for failed in (1, 0):
            with Flows(a.tcp) as c:
                c.open(nodes, [2, 3])
                c.send(row(1, b"x"))
                c.until(ASK)
                c.send(answer(1, 1, b"" if failed else b"fine", failed=failed) + end(FLOW_CLOSE))
                done = c.until(ROW_DONE)[1]
        assert (done["calls"], done["fetched"]) == (1, 1), "only what had failed runs again"
