# SPDX-License-Identifier: MIT
"""Penalties that count tokens, and biases: the tokens of a forward pass in double precision whose
logits are adjusted here (reference.py); the same tokens whatever happens to a call; refusals that
name what is wrong.

Each token must have the best adjusted logit, or one within TOLERANCE of it: test_family says why.
"""
import collections
import os
import random
import signal
import struct

import models
from appliance import NOISE, Appliance, wait_for
from protocol import ERROR_FIELDS, Client
from reference import Reference

BAD_FIELD, BAD_TOKEN = 22, 29
TOLERANCE = 1e-3
TOKENS = 24
COUNTED = {"presence_penalty": 0.25, "frequency_penalty": 0.125}
BIASED = {"biases": tuple((token, 0.5 - token % 7 / 4) for token in range(0, 512, 8))}
ONE_LEFT = {"biases": ((3, 0.75), (40, 100.0), (41, -100.0))}


def adjusted(logits, generated, presence_penalty=0.0, frequency_penalty=0.0, biases=(), **_):
    """docs/protocol.md, a second time."""
    logits = list(logits)
    for token, count in collections.Counter(generated).items():
        logits[token] -= count * frequency_penalty + presence_penalty
    for token, bias in biases:
        logits[token] += bias
    return logits


def test_tokens_are_the_best_of_the_adjusted_logits():
    with models.model("llama", "--seed", "5", "--type", "f32") as path:
        reference, prompt = Reference(path), models.draw_prompts(5)[0]
        with Appliance("model.path=" + path, "sched.steps_per_plan=3") as a, Client(a.tcp) as c:
            plain = c.generate(99, prompt, max_tokens=TOKENS).check().tokens
            for call_id, asked in enumerate((COUNTED, {**COUNTED, "presence_penalty": -1.5}, BIASED,
                                             {**COUNTED, **BIASED}, ONE_LEFT)):
                tokens = c.generate(call_id, prompt, max_tokens=TOKENS, **asked).check().tokens
                rows = reference.logits(prompt + tokens[:-1])[len(prompt) - 1:]
                for i, (token, row) in enumerate(zip(tokens, rows, strict=True)):
                    now = adjusted(row, tokens[:i], **asked)
                    assert max(now) - now[token] < TOLERANCE, (asked, i, tokens)
                assert tokens != plain, asked
            assert set(tokens) == {40}, "a bias of 100 leaves nothing else"


def draw_asked(count):
    """Prompts, and a sampling of their own: every third is plain, none is sampled like another."""
    chance = random.Random(7)
    for number in range(count):
        prompt = [chance.randrange(3, 500) for _ in range(chance.randrange(1, 40))]
        asked = {} if number % 3 == 0 else {
            "presence_penalty": chance.uniform(-2, 2), "frequency_penalty": chance.uniform(-2, 2),
            "biases": [(token, chance.uniform(-3, 3)) for token in range(number, 512, 9)][:64]}
        yield prompt, {**asked, "temperature": number % 2 * 0.8, "seed": number,
                       "max_tokens": 24}


def serve(a, asked, meanwhile=lambda client: None):
    with Client(a.tcp) as c:
        for call_id, (prompt, options) in enumerate(asked):
            c.start(call_id, prompt, program=struct.pack("<QQ", call_id % 7, 9), **options)
        meanwhile(c)
        return [c.finish(call_id).check() for call_id in range(len(asked))]


def alone(asked):
    with Appliance(NOISE, "engine.threads=1", "limits.calls_per_connection=64") as a:
        with Client(a.tcp) as c:
            return [c.generate(call_id, prompt, **options).check()
                    for call_id, (prompt, options) in enumerate(asked)]


SMALL = ("limits.context_tokens=64", "kv.block_tokens=8", "kv.device_blocks=9", "kv.host_ratio=1",
         "sched.quantum=1us", "sched.steps_per_plan=2")


def test_the_same_call_gives_the_same_tokens_in_any_batch_and_through_preemption():
    asked = list(draw_asked(40))
    expected = [call.tokens for call in alone(asked)]
    assert len({tuple(tokens) for tokens in expected}) > 30, "the answers differ"
    for settings in (("engine.threads=2",), ("engine.simd=plain",), SMALL):
        with Appliance(NOISE, *settings) as a:
            got = serve(a, asked)
            assert [call.tokens for call in got] == expected, settings
            if settings == SMALL:
                assert sum(call.done["preemptions"] for call in got) > 0


def test_the_same_call_gives_the_same_tokens_when_the_worker_dies():
    asked = [(prompt, {**options, "max_tokens": 300}) for prompt, options in draw_asked(8)]
    expected = [call.tokens for call in alone(asked)]
    with Appliance(NOISE, "engine.failures=0") as a:
        def kill(client):
            while not client.calls[1].tokens:
                client.step()
            worker = a.worker
            os.kill(worker, signal.SIGKILL)
            wait_for(lambda: a.worker not in (None, worker), "a new worker")
        assert [call.tokens for call in serve(a, asked, kill)] == expected
        assert a.stats()["engine_restarts"] == 1


def test_refusals_name_field_found_and_bounds():
    def thousandths(value):
        return int(value * 1000) & (2 ** 64 - 1)

    with Appliance() as a, Client(a.tcp) as c:
        vocab = c.welcome["vocab_tokens"]
        for options, status, field, found, low, high in (
                ({"presence_penalty": 2.5}, BAD_FIELD, "presence_penalty", thousandths(2.5),
                 thousandths(-2), 2000),
                ({"frequency_penalty": -3.0}, BAD_FIELD, "frequency_penalty", thousandths(-3),
                 thousandths(-2), 2000),
                ({"biases": [(1, 101.0)]}, BAD_FIELD, "bias", 101000, thousandths(-100), 100000),
                ({"biases": [(i, 0) for i in range(65)]}, BAD_FIELD, "logit_bias", 65, 0, 64),
                ({"biases": [(7, 0), (7, 0)]}, BAD_FIELD, "logit_bias", 7, 8, 2 ** 32 - 1),
                ({"biases": [(vocab, 0)]}, BAD_TOKEN, "logit_bias", vocab, 0, vocab - 1),
                ({"top_logprobs": 1}, BAD_FIELD, "top_logprobs", 1, 0, 0),
                ({"logprobs": 1, "top_logprobs": 21}, BAD_FIELD, "top_logprobs", 21, 0, 20)):
            error = c.generate(1, [5, 6], **options).error
            assert error is not None and not error["closes"], options
            assert (error["status"], ERROR_FIELDS[error["field"]], error["found"], error["min"],
                    error["max"]) == (status, field, found, low, high), (options, error)
        c.generate(2, [5, 6], **COUNTED).check()
