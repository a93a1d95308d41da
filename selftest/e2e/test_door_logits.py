# SPDX-License-Identifier: MIT
"""Penalties, biases and log probabilities through the door: what the appliance computes, in
OpenAI's form, whole and streamed."""
import math

from door import CHAT, COMPLETIONS, Door, chat

QUESTION = "What do bees make?"
GREEDY = {"temperature": 0}


def entries_of(events):
    """Log probabilities and text of a stream of chat chunks."""
    choices = [data["choices"][0] for _, data in events if data != "[DONE]"]
    entries = [entry for each in choices if each["logprobs"]
               for entry in each["logprobs"]["content"]]
    return entries, "".join(each["delta"].get("content") or "" for each in choices)


def test_log_probabilities_have_the_tokens_of_the_answer_whole_and_streamed():
    with Door() as d:
        body = chat(QUESTION, logprobs=True, top_logprobs=3, **GREEDY)
        (choice,) = d.right(CHAT, body)["choices"]
        entries = choice["logprobs"]["content"]
        assert "".join(entry["token"] for entry in entries).strip() == choice["message"]["content"]
        for entry in entries:
            assert entry["logprob"] <= 0 and bytes(entry["bytes"]).decode() == entry["token"]
            top = entry["top_logprobs"]
            assert len(top) == 3 and top[0]["token"] == entry["token"], "greedy takes the first"
            assert top[0]["logprob"] == entry["logprob"] >= top[1]["logprob"] >= top[2]["logprob"]
            assert sum(math.exp(each["logprob"]) for each in top) <= 1.001
        assert entries_of(d.events(CHAT, body)) == (entries, choice["message"]["content"])
        assert d.right(CHAT, chat(QUESTION, **GREEDY))["choices"][0]["logprobs"] is None


def test_completions_have_lists_of_tokens_and_numbers():
    with Door() as d:
        body = {"prompt": "Bot:", "logprobs": 2, "max_tokens": 6, "ignore_eos": True, **GREEDY}
        (choice,) = d.right(COMPLETIONS, body)["choices"]
        found = choice["logprobs"]
        assert len(found["tokens"]) == len(found["token_logprobs"]) == 6, found
        assert "".join(found["tokens"]) == choice["text"]
        for token, logprob, top in zip(found["tokens"], found["token_logprobs"],
                                       found["top_logprobs"]):
            assert top[token] == logprob == max(top.values())


def test_a_bias_forces_a_token_and_forbids_it():
    with Door() as d:
        body = {"prompt": "Bot:", "max_tokens": 4, "ignore_eos": True, **GREEDY}
        usual = d.right(COMPLETIONS, body)["choices"][0]["text"]
        token = d.right("/tokenize", {"content": "honey"})["tokens"][-1]
        piece = d.right("/detokenize", {"tokens": 4 * [token]})["content"]
        assert usual.strip() != piece.strip()
        forced = d.right(COMPLETIONS, {**body, "logit_bias": {str(token): 100}})
        assert forced["choices"][0]["text"].strip() == piece.strip()
        forbidden = d.right(COMPLETIONS, {**body, "logit_bias": {str(token): -100}})
        assert forbidden["choices"][0]["text"] == usual
        loses = d.right(COMPLETIONS, {**body, "max_tokens": 60, "logit_bias": {str(token): 100},
                                      "frequency_penalty": 2})["choices"][0]["text"]
        assert loses.strip().startswith(piece.strip()) and loses.strip() != 15 * piece.strip()


def test_wrong_fields_are_refused_by_name():
    with Door() as d:
        for fields, param in (
                ({"logprobs": 3}, "logprobs"), ({"top_logprobs": 2}, "top_logprobs"),
                ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
                ({"presence_penalty": 2.1}, "presence_penalty"),
                ({"frequency_penalty": "1"}, "frequency_penalty"),
                ({"logit_bias": [1]}, "logit_bias"), ({"logit_bias": {"x": 1}}, "logit_bias"),
                ({"logit_bias": {"1": 101}}, "logit_bias"),
                ({"logit_bias": {"99999999": 1}}, "logit_bias"),
                ({"logit_bias": {str(i): 1 for i in range(65)}}, "logit_bias")):
            answer = d.post(CHAT, chat(QUESTION, **fields))
            assert answer.status == 400 and answer.error[1] == param, (fields, answer.text)
