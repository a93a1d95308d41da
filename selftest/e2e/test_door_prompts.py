# SPDX-License-Identifier: MIT
"""Several prompts in one request of /v1/completions: each is answered as it is alone, one that is
wrong refuses all by its name, and a client that leaves ends all."""
import contextlib

from appliance import NOISE, wait_for
from door import COMPLETIONS, Door
from models import model

ASKED = ["User: What do bees make?\nBot:", "User: Hello\nBot:", "User: Compute 25 + 17.\nBot:"]
GREEDY = {"temperature": 0, "max_tokens": 24, "stop": "\n"}
HOT = {"temperature": 1.2, "max_tokens": 12, "ignore_eos": True, "seed": 5}


def texts_of(whole):
    assert [each["index"] for each in whole["choices"]] == list(range(len(whole["choices"])))
    return [each["text"] for each in whole["choices"]]


def spoken(events):
    """The texts of a stream of completions, and the reasons of their ends, by their index."""
    texts, ends = {}, {}
    for _, data in events[:-1]:
        for choice in data["choices"]:
            index = choice["index"]
            assert index not in ends, data
            texts[index] = texts.get(index, "") + choice["text"]
            if choice["finish_reason"]:
                ends[index] = choice["finish_reason"]
    assert events[-1] == (None, "[DONE]")
    return [texts[i] for i in sorted(texts)], [ends[i] for i in sorted(ends)]


def test_each_prompt_is_answered_as_alone_whole_and_in_events():
    with Door() as d:
        alone = [d.right(COMPLETIONS, {"prompt": prompt, **GREEDY}) for prompt in ASKED]
        whole = d.right(COMPLETIONS, {"prompt": ASKED, **GREEDY})
        texts = texts_of(whole)
        assert texts == [each["choices"][0]["text"] for each in alone] and "honey" in texts[0]
        for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
            assert whole["usage"][name] == sum(each["usage"][name] for each in alone), name
        events = d.events(COMPLETIONS, {"prompt": ASKED, "stream_options": {"include_usage": True},
                                        **GREEDY})
        assert spoken(events) == (texts, [each["finish_reason"] for each in whole["choices"]])
        assert events[-2][1]["usage"]["prompt_tokens"] == whole["usage"]["prompt_tokens"]
        assert texts_of(d.right(COMPLETIONS, {"prompt": ASKED[:1], **GREEDY})) == texts[:1]
        assert d.calls_by_program() == [1, 1, 1, 1, 3, 3]


def test_choices_of_a_seed_are_those_of_each_prompt_alone():
    with Door(NOISE) as d:
        alone = [d.right(COMPLETIONS, {"prompt": prompt, "n": 2, "logprobs": 1, **HOT})
                 for prompt in ASKED]
        whole = d.right(COMPLETIONS, {"prompt": ASKED, "n": 2, "logprobs": 1, **HOT})
        for i, choice in enumerate(whole["choices"]):
            assert dict(alone[i // 2]["choices"][i % 2], index=i) == choice, i
        assert len(set(texts_of(whole))) == 6
        assert (whole["usage"]["prompt_tokens"] ==
                sum(each["usage"]["prompt_tokens"] for each in alone))
        unseeded = texts_of(d.right(COMPLETIONS, {"prompt": ["a"] * 4, **HOT, "seed": None}))
        assert len(set(unseeded)) == 4, unseeded


def test_prompts_of_token_ids_are_those_of_their_texts():
    with Door() as d:
        ids = [d.right("/tokenize", {"content": prompt, "add_special": True})["tokens"]
               for prompt in ASKED]
        whole = d.right(COMPLETIONS, {"prompt": ASKED, **GREEDY})
        for prompts in (ids, [ids[0], ASKED[1], ids[2]]):
            again = d.right(COMPLETIONS, {"prompt": prompts, **GREEDY})
            assert again["choices"] == whole["choices"]
            assert again["usage"]["prompt_tokens"] == whole["usage"]["prompt_tokens"]
        (one,) = d.right(COMPLETIONS, {"prompt": ids[0], **GREEDY})["choices"]
        assert one == whole["choices"][0]


def test_a_text_that_is_longer_than_any_frame_is_answered_as_its_token_ids():
    """At this context a frame has room for 65536 bytes, or as many ids as the context."""
    with model("llama", "--vocab", "8000", "--context", "15360") as path, \
            Door("model.path=" + path, "limits.context_tokens=15360") as d:
        text = 13200 * "ation"
        ids = d.right("/tokenize", {"content": text, "add_special": True})["tokens"]
        assert len(text) > 65536 and len(ids) < 15000
        texts = texts_of(d.right(COMPLETIONS, {"prompt": ["a", text], **GREEDY, "max_tokens": 3}))
        again = d.right(COMPLETIONS, {"prompt": ["a", ids], **GREEDY, "max_tokens": 3})
        assert texts_of(again) == texts and texts[1]


WRONG = [
    ([], "prompt"), ({}, "prompt"), (1, "prompt"), ([[]], "prompt[0]"), (["a", []], "prompt[1]"),
    (["a", None], "prompt[1]"), (["a", "b", 5], "prompt[2]"), ([1, "a"], "prompt[1]"),
    ([1, -1], "prompt[1]"), ([1, 1 << 20], "prompt[1]"), ([1, 2.0], "prompt[1]"),
    ([[1], [1, None]], "prompt[1][1]"), ([["a"]], "prompt[0][0]"),
    (["a", "b", "c", "word " * 5000], "prompt[3]"), (["a", 5000 * [1]], "prompt[1]"),
    (["a"] * 129, "prompt"),
]


def test_one_wrong_prompt_refuses_all_by_its_name():
    with Door() as d:
        for prompt, param in WRONG:
            for stream in (False, True):
                answer = d.post(COMPLETIONS, {"prompt": prompt, "stream": stream})
                assert answer.status == 400 and answer.error[1] == param, (prompt, answer.text)
                assert param in answer.error[2], answer.text
        answer = d.post(COMPLETIONS, {"prompt": ["a", "word " * 5000]})
        assert answer.json["error"]["code"] == "context_length_exceeded"
        answer = d.post(COMPLETIONS, {"prompt": ["a"] * 65, "n": 2})
        assert answer.error[2] == ("65 prompts with 'n' = 2 ask for 130 choices: one request may "
                                   "ask for 128 (door.choices)"), answer.text
        assert "\nagentix_door_calls_total 0\n" in d.ask("GET", "/metrics").text
        assert d.a.stats()["calls_accepted"] == 0


def test_as_many_prompts_as_may_be_are_answered_though_the_program_has_room_for_fewer():
    with Door("door.choices=40", "door.calls=50", "limits.calls_per_program=8") as d:
        whole = d.right(COMPLETIONS, {"prompt": ASKED[:1] * 40, **GREEDY})
        assert len(set(texts_of(whole))) == 1 and len(whole["choices"]) == 40
        answer = d.post(COMPLETIONS, {"prompt": ["a"] * 41})
        assert answer.status == 400 and "door.choices" in answer.error[2], answer.text
        assert d.calls_by_program() == [40]


def test_client_that_leaves_ends_all_its_calls_and_those_that_wait():
    with Door(NOISE, "limits.calls_per_program=8") as d:
        for stream in (False, True):
            before = d.a.stats()["calls_accepted"]
            with d.a.standing_still():
                connection = d.send("POST", COMPLETIONS, {
                    "prompt": ["a", "b", [1]], "n": 4, "max_tokens": 1000, "ignore_eos": True,
                    "stream": stream})
                d.a.wait_stats(calls_open=8)
                connection.close()
                wait_for(lambda: "\nagentix_door_requests 1\n" in d.ask("GET", "/metrics").text,
                         "the request is over")
            d.a.wait_stats(calls_open=0)
            assert d.a.stats()["calls_accepted"] == before + 8, "none that waited was sent"
        assert "\nagentix_door_memory_bytes 0\n" in d.ask("GET", "/metrics").text


def test_the_same_key_gives_the_same_answers_once_computed():
    keyed = {"Idempotency-Key": "batch-1"}
    body = {"prompt": ASKED, "n": 2, **HOT}
    del body["seed"]
    with Door(NOISE) as d:
        first = d.right(COMPLETIONS, body, keyed)
        assert d.right(COMPLETIONS, body, keyed)["choices"] == first["choices"]
        assert d.a.stats()["calls_replayed"] == 6
        with contextlib.closing(d.stream(COMPLETIONS, body, keyed)) as stream:
            assert spoken(list(stream))[0] == texts_of(first)
