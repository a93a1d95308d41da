# SPDX-License-Identifier: MIT
"""Marks of calls that are control tokens, such as [TOOL_CALLS]: the door asks for their text where
a conversation has tools, and a client sees it where it is no call.

Method: a random model whose vocabulary has such tokens and whose template is Mistral's; biases make
it say them.
"""
import contextlib
import os

from appliance import ROOT
from door import CHAT, Door, chat
from models import VOCAB, model
from protocol import WANT_CONTROL, WANT_TEXT, Client

NEMO = os.path.join(ROOT, "selftest", "templates", "mistral-nemo.jinja")
MARKS = ("[TOOL_CALLS]", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]")
CALLS, INST = VOCAB - len(MARKS), VOCAB - len(MARKS) + 1
TOOL = {"type": "function", "function": {"name": "sum", "parameters": {"type": "object"}}}


@contextlib.contextmanager
def marked_model():
    arguments = [word for mark in MARKS for word in ("--control", mark)]
    with model("llama", "--template", NEMO, *arguments) as path:
        yield "model.path=" + path


def says(token, **fields):
    """The body of a request whose answer is twice that token."""
    return chat("Hello", temperature=0, max_tokens=2, logit_bias={str(token): 100}, **fields)


def content(d, body):
    (choice,) = d.right(CHAT, body)["choices"]
    return choice["message"]["content"]


def test_text_of_control_tokens_comes_where_a_call_wants_it():
    with marked_model() as setting, Door(setting) as d, Client(d.a.tcp) as c:
        for flags, texts in ((WANT_TEXT, {b""}), (WANT_TEXT | WANT_CONTROL, {
                mark.encode() for mark in MARKS})):
            for token in range(CALLS, VOCAB):
                outcome = c.generate(2 * token + (flags > WANT_TEXT), [5, 6], max_tokens=1,
                                     flags=flags, biases=[(token, 100.0)]).check()
                assert outcome.tokens == [token] and outcome.text in texts, outcome


def test_door_asks_for_marks_where_a_conversation_has_tools():
    with marked_model() as setting, Door(setting) as d:
        assert content(d, says(CALLS)) == ""
        assert content(d, says(CALLS, tools=[TOOL])) == "[TOOL_CALLS]" * 2     # it is no call
        assert content(d, says(CALLS, tools=[TOOL], tool_choice="none")) == ""
        assert content(d, says(INST, tools=[TOOL])) == "[INST]" * 2
        end = d.right(CHAT, says(2, tools=[TOOL]))["choices"][0]        # EOS has none
        assert end["message"]["content"] == "" and end["finish_reason"] == "stop"
        stopped = d.right(CHAT, says(CALLS, tools=[TOOL], stop="CALLS]["))["choices"][0]
        assert stopped["message"]["content"] == "[TOOL_" and stopped["finish_reason"] == "stop"
