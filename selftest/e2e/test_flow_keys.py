# SPDX-License-Identifier: MIT
"""Workflows and the keys of their clients: what a key may have bounds its workflows, too, and with
the key they end."""
import contextlib
import tempfile

from appliance import wait_for
from flow_frames import (INPUT, KEEP, LAMBDA, LLM, SIMPLE, Flows, answer, end, node, opening,
                         row)
from protocol import ASK, FLOW_CLOSE, FLOW_DONE, FLOW_OK, ROW_DONE
from test_auth import ALICE, BOB, PROMPT
from test_reload import Files, reload

BUSY_CALLS_OF_KEY, RESUMED = 8, 1
LINES = {ALICE: "alice %s alice %%d\n" % ALICE[1].hex(), BOB: "bob %s bob %%d\n" % BOB[1].hex()}


def write(files, **calls):
    """The file of keys: how many calls each may have."""
    files.write(files.keys, "".join(LINES[{"alice": ALICE, "bob": BOB}[name]] % count
                                    for name, count in calls.items()))


@contextlib.contextmanager
def served():
    """What is kept is kept for longer than any test."""
    with tempfile.TemporaryDirectory() as folder:
        files = Files(folder)
        files.write_config("[workflow]\nlinger = 24h\nlambda = 24h\n")
        with files.appliance() as a:
            yield files, a


def most_open(a, least):
    """Waits for so many open calls; how many there are at most in many passes after that."""
    wait_for(lambda: a.stats()["calls_open"] >= least, "%d calls are open" % least)
    return max(a.stats()["calls_open"] for _ in range(50))


def finish(c, flow_id, rows):
    c.send(end(FLOW_CLOSE, flow_id=flow_id))
    assert [c.until(ROW_DONE)[1]["status"] for _ in range(rows)] == rows * [0]
    assert c.until(FLOW_DONE)[1]["status"] == 0


def test_workflows_of_a_key_open_no_more_calls_than_it_may_have():
    with served() as (files, a), Flows(a.tcp, key=ALICE) as first, \
            Flows(a.tcp, key=ALICE) as second, Flows(a.tcp, key=ALICE) as calls:
        write(files, alice=3, bob=5)
        reload(a)
        calls.generate(1, PROMPT).check()
        with a.standing_still():
            calls.start(2, PROMPT)
            for c, flow_id in ((first, 1), (second, 2)):
                c.open(SIMPLE, [1], flow_id=flow_id)
                c.send(b"".join(row(i, b"%d %d" % (flow_id, i), flow_id=flow_id)
                                for i in range(8)))
            assert most_open(a, 3) == 3
            calls.start(3, PROMPT)
            assert calls.error()["status"] == BUSY_CALLS_OF_KEY
            write(files, alice=6, bob=5)
            reload(a)
            assert most_open(a, 6) == 6
            write(files, bob=5, alice=2)
            reload(a)
            calls.start(4, PROMPT)
            assert calls.error()["status"] == BUSY_CALLS_OF_KEY
            with Flows(a.tcp, key=BOB) as bob:
                bob.open(SIMPLE, [1], flow_id=1)
                bob.send(b"".join(row(i, b"%d" % i) for i in range(8)))
                assert most_open(a, 11) == 11
        calls.finish(2).check()
        finish(first, 1, 8)
        finish(second, 2, 8)
        calls.generate(5, PROMPT).check()


ASKING = opening([node(INPUT), node(LAMBDA, (0,)), node(LLM, (1,))], [2], flags=KEEP)


def open_kept(a, key):
    """A workflow that waits for an answer, and has no call that a worker would have to end."""
    c = Flows(a.tcp, key=key)
    c.send(ASKING + row(1, b"some"))
    c.until(ASK)
    return c


def test_what_is_kept_ends_with_the_key_of_its_client():
    """Whether the client is there or away; that of another key goes on."""
    with served() as (files, a), open_kept(a, BOB) as bob, open_kept(a, ALICE) as alice:
        write(files, bob=9)
        reload(a)
        a.wait_stats(workflows_open=1)
        alice.close()
        write(files, bob=9, alice=9)
        reload(a)
        open_kept(a, ALICE).close()
        bob.close()
        a.wait_stats(connections_open=0, workflows_open=2)
        reload(a)                       # the same file: both may come back
        assert a.stats()["workflows_open"] == 2
        write(files, bob=9)
        reload(a)
        a.wait_stats(workflows_open=1)
        with Flows(a.tcp, key=BOB) as again:
            again.send(ASKING + row(1, b"some"))
            assert again.until(FLOW_OK)[1]["flags"] == RESUMED
            again.until(ASK)
            again.send(answer(1, 1, b"that"))
            finish(again, 1, 1)
