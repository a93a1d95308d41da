# SPDX-License-Identifier: MIT
"""Declared prefixes: shared by trust domains that share nothing else, computed anew by each worker,
refused at boot where they are wrong."""
import os
import signal

from appliance import EXIT, NOISE, RANDOM_MODEL, Appliance, TextFile, run, wait_for
from protocol import ADD_BOS, Client
from test_auth import ALICE, BOB, KeyFile, keyed

BLOCK = 16
SYSTEM = [(7 * i * i + i) % 500 for i in range(6 * BLOCK + 5)]     # six blocks, and five ids
WHOLE = 6 * BLOCK
ASKED = [SYSTEM + [3 + i, 9, 27 + i] for i in range(4)] + [SYSTEM[:40] + [1], [5, 6, 7]]


class Ids(TextFile):
    """A file of token ids."""

    def __init__(self, ids, mode=0o644):
        super().__init__(ids if isinstance(ids, str) else " ".join(map(str, ids)) + "\n", mode)


def ask_all(c, first_id=1, program=b"p" * 16):
    """(tokens, cached tokens) of every prompt, asked one after the other."""
    answers = []
    for i, prompt in enumerate(ASKED):
        done = c.generate(first_id + i, prompt, program=program, max_tokens=12).check()
        answers.append((done.tokens, done.done["cached_tokens"]))
    return answers


def tokens_of(answers):
    return [tokens for tokens, _ in answers]


def test_tokens_are_the_same_with_and_without_prefixes():
    with Appliance(NOISE, "kv.sharing=off") as a, Client(a.tcp) as c:
        alone = ask_all(c)
        assert {cached for _, cached in alone} == {0}
    for more in ((), ("kv.sharing=off",), ("kv.sharing=domain", "sched.prefill_tokens=7"),
                 ("kv.sharing=off", "engine.threads=1", "kv.host_ratio=0", "engine.canary=0")):
        with Ids(SYSTEM) as path, Appliance(NOISE, "prefix.3=" + path, *more) as a:
            with Client(a.tcp) as c:
                answers = ask_all(c)
            assert tokens_of(answers) == tokens_of(alone), more
            assert answers[0][1] == WHOLE and answers[4][1] >= 2 * BLOCK, answers
            stats = a.stats()
            assert stats["kv_blocks_declared"] == stats["kv_blocks_used"] == 6, stats
            assert stats["declared_hit_tokens"] == 4 * WHOLE + 2 * BLOCK, stats


def test_domains_share_a_declared_prefix_and_nothing_else():
    with KeyFile() as keys, Ids(SYSTEM) as path:
        with keyed(keys, "prefix.1=" + path, "kv.sharing=domain") as a:
            with Client(a.tcp, key=ALICE) as alice, Client(a.tcp, key=BOB) as bob:
                long = SYSTEM + list(range(3, 43))
                first = alice.generate(1, long).check()
                assert first.done["cached_tokens"] == WHOLE
                again = alice.generate(2, long).check()
                assert again.done["cached_tokens"] == len(long) - 1
                other = bob.generate(1, long).check()
                assert other.done["cached_tokens"] == WHOLE
                assert first.tokens == again.tokens == other.tokens


def test_a_text_that_agx_tokenizes_is_found_by_calls_with_that_text():
    system = "You are an assistant who keeps bees, and knows what they do all day long. "
    ids = run("agx", "tokenize", "--vocab", RANDOM_MODEL, "--bos", system).stdout
    whole = len(ids.split()) // BLOCK * BLOCK
    with Ids(ids) as path, Appliance(NOISE, "prefix.1=" + path) as a, Client(a.tcp) as c:
        prompt = (system + "How many are they?").encode()
        done = c.generate(1, prompt, flags=ADD_BOS, max_tokens=4).check()
    assert whole >= 2 * BLOCK and done.done["cached_tokens"] >= whole - BLOCK, (whole, done.done)


def test_after_a_kill_they_are_computed_again_and_no_call_is_lost(kills=10):
    with Appliance(NOISE, "kv.sharing=off") as a, Client(a.tcp) as c:
        alone = tokens_of(ask_all(c))
    with Ids(SYSTEM) as path, Appliance(NOISE, "prefix.1=" + path, "engine.failures=0") as a:
        with Client(a.tcp) as c:
            for turn in range(kills):
                ids = range(100 * turn, 100 * turn + len(ASKED))
                for call_id, prompt in zip(ids, ASKED):
                    c.start(call_id, prompt, program=bytes([turn]) * 16, max_tokens=12)
                pid = a.worker
                os.kill(pid, signal.SIGKILL)
                assert [c.finish(i).check().tokens for i in ids] == alone, turn
                wait_for(lambda: a.children().get("agentix-worker") not in (None, pid), "a worker")
            last = c.generate(9999, ASKED[0], program=b"q" * 16, max_tokens=12).check()
            assert last.done["cached_tokens"] == WHOLE and last.tokens == alone[0]
        assert a.stats()["kv_blocks_declared"] == 6, a.stats()


def refused(path, *more):
    done = run("agentix", "--check", "--set", NOISE, "--set", "prefix.1=" + path,
               *[word for each in more for word in ("--set", each)])
    assert done.returncode == EXIT["CONFIG"], done
    return done.stderr


def test_bad_files_are_refused():
    assert "/nonexistent/ids: cannot be opened" in refused("/nonexistent/ids")
    for text, words in (("You are helpful.", "at byte 0: not a decimal number"),
                        ("1 2 3", ": 3 token ids, allowed kv.block_tokens = 16 .. "),
                        ("1 512", "at byte 2: not an id of the model, allowed ids 0 .. 511")):
        with Ids(text) as path:
            assert words in refused(path) and "prefix.1 = " + path in refused(path), text
    with Ids(SYSTEM, 0o646) as path:
        assert "all users may write it" in refused(path)
    with Ids(SYSTEM) as path:
        words = "more than 95 token ids, allowed kv.block_tokens = 16 .. 95"
        assert words in refused(path, "limits.context_tokens=96")


def test_the_memory_plan_shows_their_memory():
    with Ids(SYSTEM) as path:
        done = run("agentix", "--check", "--set", NOISE, "--set", "prefix.8=" + path,
                   "--set", "kv.device_blocks=1000", "--set", "engine.canary=0")
        assert done.returncode == 0, done
        assert "prefix.8: 96 of 101 token ids in 6 kv blocks" in done.stdout, done.stdout
        row = [line.split() for line in done.stdout.split("\n") if "kernels kv blocks" in line]
        assert row[0][3] == "1006", row
