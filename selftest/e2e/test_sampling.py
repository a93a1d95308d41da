# SPDX-License-Identifier: MIT
"""Penalties that count tokens, biases and log probabilities: those of a forward pass in double
precision whose logits are adjusted here (reference.py); the same whatever happens to a call;
refusals that name what is wrong.

Each token must have the best adjusted logit, or one within TOLERANCE of it: test_family says why.
"""
import collections
import math
import os
import random
import signal
import struct

import models
from appliance import NOISE, Appliance, wait_for
from protocol import ERROR_FIELDS, Client
from reference import Reference
from test_gpu import ON_SOFT

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


def test_log_probabilities_are_those_of_the_model():
    """Of the logits as they were, whatever changes them afterwards. KV in halves would shift the
    logits themselves by more than TOLERANCE."""
    with models.model("qwen2", "--seed", "6", "--type", "f32") as path:
        reference, prompt = Reference(path), models.draw_prompts(6)[0]
        with Appliance("model.path=" + path, "kv.type=f32") as a, Client(a.tcp) as c:
            for call_id, asked in enumerate(({}, {**COUNTED, **BIASED, "temperature": 1.5})):
                call = c.generate(call_id, prompt, max_tokens=TOKENS, logprobs=1, top_logprobs=20,
                                  **asked).check()
                rows = reference.logits(prompt + call.tokens[:-1])[len(prompt) - 1:]
                for token, row, got in zip(call.tokens, rows, call.logprobs, strict=True):
                    total = math.log(math.fsum(map(math.exp, row)))
                    assert got[0][0] == token and len(got) == 21
                    assert all(abs(row[id] - total - logprob) < TOLERANCE for id, logprob in got)
                    top = [logprob for _, logprob in got[1:]]
                    assert top == sorted(top, reverse=True) and len({id for id, _ in got[1:]}) == 20
                    assert all(logprob <= top[-1] + TOLERANCE
                               for id, logprob in zip(range(512), (x - total for x in row))
                               if id not in dict(got[1:]))


def draw_asked(count):
    """Prompts, and a sampling of their own: every third is plain, none is sampled like another."""
    chance = random.Random(7)
    for number in range(count):
        prompt = [chance.randrange(3, 500) for _ in range(chance.randrange(1, 40))]
        asked = {} if number % 3 == 0 else {
            "presence_penalty": chance.uniform(-2, 2), "frequency_penalty": chance.uniform(-2, 2),
            "biases": [(token, chance.uniform(-3, 3)) for token in range(number, 512, 9)][:64]}
        yield prompt, {**asked, "temperature": number % 2 * 0.8, "seed": number,
                       "max_tokens": 24, "logprobs": number % 2, "top_logprobs": number % 2 * 5}


def serve(a, asked, meanwhile=lambda client: None, visit=0):
    """All calls at once, in seven programs of this visit."""
    with Client(a.tcp) as c:
        for call_id, (prompt, options) in enumerate(asked):
            c.start(call_id, prompt, program=struct.pack("<QQ", call_id % 7, visit), **options)
        meanwhile(c)
        return [c.finish(call_id).check() for call_id in range(len(asked))]


def said(calls):
    """Tokens and log probabilities, bit for bit."""
    return [(call.tokens, call.logprobs) for call in calls]


def alone(asked):
    with Appliance(NOISE, "engine.threads=1", "limits.calls_per_connection=64") as a:
        with Client(a.tcp) as c:
            return [c.generate(call_id, prompt, **options).check()
                    for call_id, (prompt, options) in enumerate(asked)]


SMALL = ("limits.context_tokens=64", "kv.block_tokens=8", "kv.device_blocks=9", "kv.host_ratio=1",
         "sched.quantum=1us", "sched.steps_per_plan=2")


def test_the_same_call_gives_the_same_in_any_batch_and_through_preemption():
    asked = list(draw_asked(40))
    expected = said(alone(asked))
    assert len({tuple(tokens) for tokens, _ in expected}) > 30, "the answers differ"
    assert sum(len(logprobs) for _, logprobs in expected) == 20 * 24
    for settings in (("engine.threads=2",), ("engine.simd=plain",), SMALL):
        with Appliance(NOISE, *settings) as a:
            got = serve(a, asked)
            assert said(got) == expected, settings
            if settings == SMALL:
                assert sum(call.done["preemptions"] for call in got) > 0


def test_the_same_call_gives_the_same_when_the_worker_dies():
    asked = [(prompt, {**options, "max_tokens": 300}) for prompt, options in draw_asked(8)]
    expected = said(alone(asked))
    with Appliance(NOISE, "engine.failures=0") as a:
        def kill(client):
            while not client.calls[1].tokens:
                client.step()
            worker = a.worker
            os.kill(worker, signal.SIGKILL)
            wait_for(lambda: a.worker not in (None, worker), "a new worker")
        assert said(serve(a, asked, kill)) == expected
        assert a.stats()["engine_restarts"] == 1


def test_the_gpu_gives_the_tokens_of_the_cpu_and_its_own_log_probabilities():
    asked = list(draw_asked(16))
    expected = alone(asked)
    with Appliance(NOISE, "engine.kind=cuda", *ON_SOFT) as a:
        got, again = serve(a, asked), serve(a, asked, visit=1)
    assert [call.tokens for call in got] == [call.tokens for call in expected]
    assert said(got) == said(again)
    for ours, theirs in zip(got, expected, strict=True):
        for one, other in zip(ours.logprobs, theirs.logprobs, strict=True):
            assert abs(one[0][1] - other[0][1]) < 0.05, (one, other)


def test_a_client_that_does_not_read_pauses_its_call_and_loses_nothing():
    asked = {"max_tokens": 450, "logprobs": 1, "top_logprobs": 20}
    with Appliance(NOISE, "net.send_bytes=4KiB", "net.frames_per_pass=2") as a:
        with Client(a.tcp) as c:
            expected = c.generate(1, [5, 6], **asked).check()
        with Client(a.tcp, receive_bytes=4096) as c:
            c.start(1, [5, 6], **asked)
            wait_for(lambda: "paused" in a.text("calls"), "the call is paused")
            assert said([c.finish(1).check()]) == said([expected])


def test_a_call_that_comes_again_is_computed_again():
    """The record of ended calls has no log probabilities."""
    asked = {"max_tokens": 20, "logprobs": 1, "top_logprobs": 3}
    with Appliance(NOISE) as a, Client(a.tcp) as c, Client(a.tcp) as other:
        first = c.generate(1, [5, 6], **asked).check()
        again = other.generate(1, [5, 6], program=c.program, **asked).check()
        assert said([again]) == said([first])


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
