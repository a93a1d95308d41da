# SPDX-License-Identifier: MIT
"""The endpoints of agentix-door over bare HTTP: whole answers, streams, fields, refusals, keys.

Clients of others are test_door_clients.py; programs, test_door_programs.py; what fails,
test_door_failures.py.
"""
import gzip
import json

from appliance import NOISE, Appliance, TextFile, wait_for
from door import CHAT, COMPLETIONS, COUNT, MESSAGES, RESPONSES, Door, chat
from test_reload import reload

QUESTION = "What do bees make?"
GREEDY = {"temperature": 0}
MODEL = "agentix-agent"


def said(events):
    """The text of a stream of chat chunks, and why it ended."""
    chunks = [data for _, data in events if data != "[DONE]"]
    choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
    text = "".join(each["delta"].get("content") or "" for each in choices)
    return text, [each["finish_reason"] for each in choices if each["finish_reason"]]


# ---- answers -------------------------------------------------------------------------------------

def test_chat_is_answered_whole_and_in_events_with_the_same_text():
    with Door() as d:
        whole = d.right(CHAT, chat(QUESTION, model="any", **GREEDY))
        (choice,) = whole["choices"]
        assert whole["object"] == "chat.completion" and whole["model"] == "any", whole
        assert choice["finish_reason"] == "stop" and "honey" in choice["message"]["content"]
        usage = whole["usage"]
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0
        events = d.events(CHAT, chat(QUESTION, stream_options={"include_usage": True}, **GREEDY))
        assert said(events) == (choice["message"]["content"], ["stop"])
        assert events[-1] == (None, "[DONE]")
        assert events[-2][1]["usage"]["completion_tokens"] == usage["completion_tokens"]
        assert events[-2][1]["choices"] == []
        assert len({data["id"] for _, data in events[:-1]}) == 1
        assert d.right(CHAT, chat(QUESTION, **GREEDY))["model"] == MODEL


def test_completions_take_a_prompt_as_it_is():
    prompt = {"prompt": "User: %s\nBot:" % QUESTION, "max_tokens": 50, "stop": "\n", **GREEDY}
    with Door() as d:
        whole = d.right(COMPLETIONS, prompt)
        (choice,) = whole["choices"]
        assert whole["object"] == "text_completion" and "honey" in choice["text"], whole
        events = d.events(COMPLETIONS, prompt)
        texts = [data["choices"][0]["text"] for _, data in events[:-1]]
        assert "".join(texts) == choice["text"] and events[-1][1] == "[DONE]"
        short = d.right(COMPLETIONS, {"prompt": ["User:"], "ignore_eos": True})
        assert short["usage"]["completion_tokens"] == 16            # the API's default
        assert short["choices"][0]["finish_reason"] == "length"


def test_responses_are_kept_and_gone_on_from_and_deleted():
    with Door() as d:
        first = d.right(RESPONSES, {"input": QUESTION, **GREEDY})
        assert first["status"] == "completed" and first["object"] == "response"
        assert "honey" in first["output"][0]["content"][0]["text"], first
        assert d.ask("GET", "/v1/responses/" + first["id"]).json == first
        after = {"input": "Hello", "previous_response_id": first["id"], **GREEDY}
        second = d.right(RESPONSES, after)
        assert second["usage"]["input_tokens"] > first["usage"]["input_tokens"]
        assert second["previous_response_id"] == first["id"]
        gone = d.ask("DELETE", "/v1/responses/" + first["id"])
        assert gone.json == {"id": first["id"], "object": "response", "deleted": True}
        assert d.ask("GET", "/v1/responses/" + first["id"]).status == 404
        assert d.post(RESPONSES, after).status == 404
        unkept = d.right(RESPONSES, {"input": QUESTION, "store": False, **GREEDY})
        assert d.ask("GET", "/v1/responses/" + unkept["id"]).status == 404


def test_events_of_responses_are_numbered_and_end_with_the_whole():
    with Door() as d:
        whole = d.right(RESPONSES, {"input": QUESTION, **GREEDY})
        events = d.events(RESPONSES, {"input": QUESTION, **GREEDY})
        names = [name for name, _ in events]
        assert names[:4] == ["response.created", "response.in_progress",
                             "response.output_item.added", "response.content_part.added"]
        assert names[-4:] == ["response.output_text.done", "response.content_part.done",
                              "response.output_item.done", "response.completed"]
        assert [data["sequence_number"] for _, data in events] == list(range(len(events)))
        assert all(data["type"] == name for name, data in events)
        text = "".join(data["delta"] for name, data in events if name.endswith("text.delta"))
        assert text == whole["output"][0]["content"][0]["text"]
        last = events[-1][1]["response"]
        assert last["output"][0]["content"][0]["text"] == text
        assert d.ask("GET", "/v1/responses/" + last["id"]).json == last


def test_messages_are_answered_whole_and_in_events_and_counted():
    body = chat(QUESTION, model="claude", max_tokens=60, system="Be brief.", **GREEDY)
    with Door() as d:
        whole = d.right(MESSAGES, body)
        assert whole["type"] == "message" and whole["role"] == "assistant"
        assert whole["stop_reason"] == "end_turn" and whole["model"] == "claude"
        events = d.events(MESSAGES, body)
        names = [name for name, _ in events]
        assert names[:2] == ["message_start", "content_block_start"]
        assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
        text = "".join(data["delta"]["text"] for name, data in events
                       if name == "content_block_delta")
        assert [{"type": "text", "text": text}] == whole["content"]
        usage = whole["usage"]
        tokens = usage["input_tokens"] + usage["cache_read_input_tokens"]
        assert d.right(COUNT, body) == {"input_tokens": tokens}
        short = d.right(MESSAGES, dict(body, max_tokens=2))
        assert short["stop_reason"] == "max_tokens" and short["usage"]["output_tokens"] == 2


# ---- fields --------------------------------------------------------------------------------------

def test_n_choices_are_parallel_calls_of_one_program():
    with Door(NOISE) as d:
        whole = d.right(CHAT, chat("Hello", n=3, temperature=1.2, seed=1, max_tokens=20))
        assert [each["index"] for each in whole["choices"]] == [0, 1, 2]
        texts = [each["message"]["content"] for each in whole["choices"]]
        assert len(set(texts)) > 1, texts
        assert d.calls_by_program() == [3]
        again = d.events(CHAT, chat("Hello", n=3, temperature=1.2, seed=1, max_tokens=20))
        spoken = ["", "", ""]
        for _, data in again[:-1]:
            (choice,) = data["choices"]
            spoken[choice["index"]] += choice["delta"].get("content") or ""
        assert spoken == texts


def test_stop_texts_end_an_answer_before_them():
    with Door() as d:
        for stop in ("honey", ["never said", "honey"]):
            (choice,) = d.right(CHAT, chat(QUESTION, stop=stop, **GREEDY))["choices"]
            assert choice["finish_reason"] == "stop"
            assert "make" in choice["message"]["content"]
            assert "honey" not in choice["message"]["content"]
        events = d.events(CHAT, chat(QUESTION, stop="honey", **GREEDY))
        assert said(events) == (choice["message"]["content"], ["stop"])


def test_messages_name_the_stop_text_that_ended_them():
    with Door() as d:
        for stops, found in ((["never said", "honey"], "honey"), (["honey", "y", "one"], "one"),
                             (["never said"], None)):
            body = chat(QUESTION, max_tokens=60, stop_sequences=stops, **GREEDY)
            whole = d.right(MESSAGES, body)
            assert whole["stop_reason"] == ("stop_sequence" if found else "end_turn"), whole
            assert whole["stop_sequence"] == found, whole
            (delta,) = [data["delta"] for name, data in d.events(MESSAGES, body)
                        if name == "message_delta"]
            assert delta == {key: whole[key] for key in ("stop_reason", "stop_sequence")}, delta


def test_the_same_seed_gives_the_same_answer_and_none_gives_others():
    hot = {"temperature": 1.5, "max_tokens": 24}
    with Door(NOISE) as d:
        def answer(**fields):
            body = {"prompt": "the", **hot, **fields}
            return d.right(COMPLETIONS, body)["choices"][0]["text"]
        assert answer(seed=7) == answer(seed=7) != answer(seed=8)
        assert answer() != answer()


def test_parts_system_and_developer_are_read():
    def body(system, content):
        return {"messages": [{"role": system, "content": "Be kind."},
                             {"role": "user", "content": content}], **GREEDY}
    with Door() as d:
        plain = d.right(CHAT, body("system", QUESTION))["choices"][0]["message"]
        parts = [{"type": "text", "text": QUESTION[:7]}, {"type": "text", "text": QUESTION[7:]}]
        assert d.right(CHAT, body("developer", parts))["choices"][0]["message"] == plain
        items = [{"role": "developer", "content": "Be kind."},
                 {"role": "user", "content": [{"type": "input_text", "text": QUESTION}]}]
        whole = d.right(RESPONSES, {"input": items, **GREEDY})
        assert whole["output"][0]["content"][0]["text"] == plain["content"]


# As clients write them: fields that say nothing, and fields that ask for nothing that matters here.
NOTHING = dict.fromkeys(("stop", "tools", "seed", "temperature", "top_p", "n", "logprobs", "user"))
WRITTEN = [
    (CHAT, chat("Hello", **NOTHING, max_completion_tokens=9, store=True, metadata={"a": "b"},
                service_tier="auto", reasoning_effort="low", parallel_tool_calls=False)),
    (CHAT, chat("Hello", tools=[], tool_choice="auto", seed=-5, presence_penalty=0)),
    (CHAT, {"messages": [{"role": "user", "content": "Hello", "name": "first"},
                         {"role": "assistant", "content": None, "refusal": None},
                         {"role": "user", "content": []}]}),
    (MESSAGES, chat("Hello", max_tokens=9, system=[], thinking={"type": "adaptive"},
                    tool_choice={"type": "auto", "disable_parallel_tool_use": True})),
    (RESPONSES, {"input": [{"id": "msg_1", "type": "message", "status": "completed",
                            "role": "assistant", "content": [{"type": "output_text", "text": "Hi",
                                                              "annotations": [], "logprobs": []}]},
                           {"id": "rs_1", "type": "reasoning", "summary": []},
                           {"role": "user", "content": "Hello"}],
                 "include": ["reasoning.encrypted_content"], "truncation": "auto",
                 "text": {"verbosity": "low", "format": {"type": "text"}}, "max_tool_calls": 3,
                 "reasoning": {"effort": "low", "summary": "auto"}, "top_logprobs": 0}),
    (COMPLETIONS, {"prompt": "", "echo": False, "suffix": None, "best_of": 1}),
]


def test_fields_that_say_nothing_here_are_taken():
    with Door() as d:
        for path, body in WRITTEN:
            d.right(path, body)


# ---- refusals ------------------------------------------------------------------------------------

WRONG_FIELDS = [
    (CHAT, {}, "messages"), (CHAT, {"messages": []}, "messages"),
    (CHAT, {"messages": [{"role": "wizard", "content": "x"}]}, "messages[0]"),
    (CHAT, {"messages": [{"role": "user", "content": "x"}, {"role": "user"}]}, "messages[1]"),
    (CHAT, chat([{"type": "text"}]), "messages[0]"), (CHAT, chat(["x"]), "messages[0]"),
    (CHAT, chat("x", tools=[{"type": "function", "function": {"name": "a"}}, {}]), "tools[1]"),
    (CHAT, chat("x", temperature="hot"), "temperature"), (CHAT, chat("x", temperature=9),
                                                          "temperature"),
    (CHAT, chat("x", n=0), "n"), (CHAT, chat("x", n=129), "n"), (CHAT, chat("x", top_p=2), "top_p"),
    (CHAT, chat("x", max_tokens=0), "max_tokens"), (CHAT, chat("x", stop=[""]), "stop"),
    (CHAT, chat("x", stop=list("abcdef")), "stop"), (CHAT, chat("x", stream=1), "stream"),
    (CHAT, chat("x", audio={"voice": "loud"}), "audio"),
    (CHAT, chat("x", grammar="root ::= [0-9]"), "grammar"),
    (CHAT, chat("x", json_schema={"type": "object"}), "json_schema"),
    (CHAT, chat("x", continue_final_message=True), "continue_final_message"),
    (CHAT, chat([{"type": "image_url", "image_url": {"url": "x"}}]), "messages[0]"),
    (CHAT, chat("x", seed="abc"), "seed"), (CHAT, chat("x", seed=1.5), "seed"),
    (CHAT, chat("x", tools={"type": "function"}), "tools"),
    (CHAT, {"messages": [{"role": "assistant", "content": "x", "tool_calls": {"id": "1"}}]},
     "messages[0]"),
    (CHAT, chat("x", stream_options=True), "stream_options"),
    (RESPONSES, {"input": "x", "tools": "calc"}, "tools"),
    (COMPLETIONS, {}, "prompt"), (COMPLETIONS, {"prompt": 1}, "prompt"),
    (COMPLETIONS, {"prompt": "a", "echo": True}, "echo"),
    (COMPLETIONS, {"prompt": "a", "best_of": 2}, "best_of"),
    (RESPONSES, {}, "input"), (RESPONSES, {"input": "x", "background": True}, "background"),
    (RESPONSES, {"input": [{"type": "computer_call"}]}, "input[0]"),
    (RESPONSES, {"input": [{"role": "user", "content": "x"}, {"role": "wizard", "content": "x"}]},
     "input[1]"),
    (CHAT, chat("x", tool_choice="required"), "tool_choice"),
    (RESPONSES, {"input": "x", "tool_choice": "required"}, "tool_choice"),
    (CHAT, chat("x", response_format={"type": "json_object"}), "response_format"),
    (CHAT, chat("x", response_format="json"), "response_format"),
    (COMPLETIONS, {"prompt": "x", "response_format": {"type": "json_object"}}, "response_format"),
    (RESPONSES, {"input": "x", "text": {"format": {"type": "json_object"}}}, "text.format"),
    (CHAT, chat("word " * 5000), "messages"),
]


def test_wrong_fields_are_refused_by_name():
    with Door() as d:
        for path, body, param in WRONG_FIELDS:
            for stream in ({}, {"stream": True}) if "stream" not in body else ({},):
                answer = d.post(path, dict(body, **stream))
                assert answer.status == 400, (body, answer.text)
                assert answer.error[:2] == ("invalid_request_error", param), (body, answer.text)
        for body in ("", "{", "[]", '"x"', '{"messages": [}', b"\xff"):
            answer = d.post(CHAT, body)
            assert answer.status == 400 and answer.error[1] is None, answer.text
        answer = d.post(COMPLETIONS, {"prompt": "a", "best_of": 2})
        assert answer.error[2].startswith("'best_of' of more than 'n'"), answer.text
        answer = d.post(CHAT, chat([{"type": "text"}]))
        assert answer.error[2] == "messages[0]: a part of type 'text' needs a 'text'", answer.text
        assert d.right(CHAT, chat("Hello", unknown_field=[1], n=1, logprobs=False))


def test_a_context_that_is_too_small_is_said_in_words_that_clients_look_for():
    with Door() as d:
        for path, body, param in (
                (CHAT, chat("word " * 5000), "messages"),
                (CHAT, chat("word", max_completion_tokens=5000), "max_completion_tokens"),
                (RESPONSES, {"input": "word " * 5000}, "input"),
                (RESPONSES, {"input": "word", "max_output_tokens": 5000}, "max_output_tokens"),
                (COMPLETIONS, {"prompt": "word " * 5000}, "prompt"),
                (COMPLETIONS, {"prompt": "word", "max_tokens": 5000}, "max_tokens")):
            answer = d.post(path, body)
            assert answer.status == 400 and answer.error[1] == param, answer.text
            assert answer.json["error"]["code"] == "context_length_exceeded"
        long = d.post(MESSAGES, chat("word " * 5000, max_tokens=5))
        assert long.json["error"]["message"].startswith("prompt is too long: "), long.text
        wide = d.post(MESSAGES, chat("word", max_tokens=5000))
        assert "`max_tokens` exceed context limit: " in wide.json["error"]["message"], wide.text


SCHEMA = {"type": "json_schema", "schema": {"type": "object"}}


def test_refusals_of_messages_have_their_own_shape():
    with Door() as d:
        answer = d.post(MESSAGES, chat("x"))
        assert answer.status == 400 and answer.json == {
            "type": "error", "error": {"type": "invalid_request_error",
                                       "message": "max_tokens: Field required"}}
        for name, fields in (("output_config.format", {"output_config": {"format": SCHEMA}}),
                             ("output_format", {"output_format": SCHEMA})):
            answer = d.post(MESSAGES, chat("x", max_tokens=9, **fields))
            assert answer.status == 400, answer.text
            assert answer.json["error"]["message"].startswith("'%s' of" % name), answer.text
        listed = d.post(MESSAGES, chat("x", max_tokens=9, tools={"name": "calc"}))
        assert listed.json["error"]["message"] == "'tools' must be a list", listed.text
        missing = d.post(MESSAGES, {"max_tokens": 9, "messages": [{"role": "user"}]})
        assert missing.json["error"]["message"] == "messages[0]: 'content' is missing", missing.text
        assert d.post(MESSAGES, {"max_tokens": 9}).json["type"] == "error"
        assert d.post(COUNT, {"messages": []}).json["type"] == "error"


def test_paths_methods_and_lengths_that_are_wrong_have_their_status():
    with Door("door.body_bytes=4096") as d:
        assert d.ask("GET", "/nonsense").status == 404
        for path, hints in (("/v1/embeddings", False), ("/chat/completions", True),
                            ("/v1/v1/messages", True)):
            none = d.post(path, "{}")
            assert none.status == 404 and none.error[2].startswith(
                "this server has no endpoint POST " + path), none.text
            assert ("base URL" in none.error[2]) == hints, none.text
        assert d.ask("GET", "/v1/models/other").status == 404
        assert d.ask("GET", "/v1/responses/resp_none").status == 404
        assert d.ask("DELETE", "/v1/programs/none").status == 404
        other = d.ask("GET", CHAT)
        assert other.status == 405 and other.headers["Allow"] == "POST"
        assert other.error[2] == "this endpoint takes POST", other.text
        assert d.ask("PUT", "/v1/models", "{}").headers["Allow"] == "GET, HEAD"
        assert d.ask("PUT", "/v1/responses/r", "{}").headers["Allow"] == "GET, HEAD, DELETE"
        long = d.post(CHAT, chat("x" * 5000))
        assert long.status == 413 and long.error[0] == "request_too_large", long.text
        assert d.ask("HEAD", "/v1/models").status == 200
        assert d.ask("HEAD", "/v1/models").text == ""
        assert d.ask("HEAD", CHAT).status == 405
        assert d.right(CHAT, chat("Hello"))


def test_bodies_that_cannot_be_read_say_why():
    with Door() as d:
        for path in (CHAT, MESSAGES):
            packed = d.post(path, gzip.compress(json.dumps(chat("Hello", max_tokens=9)).encode()),
                            {"Content-Encoding": "gzip"})
            assert packed.status == 415 and "Content-Encoding: gzip" in packed.text, packed.text
            tools = [{"type": "function", "name": "f", "input_schema": {"maximum": 1 << 64},
                      "function": {"name": "f", "parameters": {"maximum": 1 << 64}}}]
            wide = d.post(path, chat("Hello", max_tokens=9, tools=tools))
            assert wide.status == 400 and "'%d' at byte" % (1 << 64) in wide.text, wide.text
            named = {"Content-Encoding": "identity"}
            assert d.post(path, chat("Hello", max_tokens=9), named).status == 200


# ---- other endpoints -----------------------------------------------------------------------------

def test_models_tokens_health_and_metrics_are_told():
    with Door() as d:
        (model,) = d.ask("GET", "/v1/models").json["data"]
        assert model["id"] == MODEL and model["object"] == "model" and model["max_model_len"] > 0
        assert d.ask("GET", "/v1/models/" + MODEL).json == model
        tokens = d.right("/tokenize", {"content": QUESTION})
        assert tokens["count"] == len(tokens["tokens"]) > 0
        assert d.right("/detokenize", {"tokens": tokens["tokens"]})["content"].strip() == QUESTION
        assert d.ask("GET", "/health").json == {"status": "ok"}
        d.right(CHAT, chat("Hello", n=2))
        metrics = d.ask("GET", "/metrics")
        assert metrics.headers["Content-Type"].startswith("text/plain")
        assert "\nagentix_door_calls_total 2\n" in metrics.text, metrics.text
        assert "\nagentix_door_calls 0\n" in metrics.text, metrics.text


# ---- who may come in -----------------------------------------------------------------------------

KEYS = "first %s red\nsecond %s blue\n" % ("ab" * 32, "cd" * 32)
TOKENS = "# of two\ntoken-of-first first\ntoken-of-second second\n"


def bearer(token):
    return {"Authorization": "Bearer " + token}


def test_tokens_are_asked_for_and_stand_for_keys_of_trust_domains():
    with TextFile(KEYS, 0o600) as keys, TextFile(TOKENS, 0o600) as tokens:
        with_keys = ("auth.tcp=psk", "auth.keys=" + keys)
        with Appliance(*with_keys) as a, Door(*with_keys, "door.tokens=" + tokens, a=a) as d:
            for headers in ({}, bearer("wrong-token"), bearer("token-of-firs"), bearer("")):
                answer = d.post(CHAT, chat("Hello"), headers)
                assert answer.status == 401 and answer.error[0] == "authentication_error"
                assert answer.headers["WWW-Authenticate"] == "Bearer"
            wait_for(lambda: sum("door warn refused request from=127.0.0.1 path=%s: " % CHAT in line
                                 for line in d.lines) == 4, "the log says who was refused")
            assert not [line for line in d.lines if "wrong-token" in line]
            named = {"X-Agentix-Program": "same name"}
            assert d.right(CHAT, chat("Hello"), dict(named, **bearer("token-of-first")))
            other = dict(named, **{"X-Api-Key": "token-of-second"})
            # The door reaches the appliance once for each domain, one after the other.
            wait_for(lambda: d.post(MESSAGES, chat("Hello", max_tokens=9), other).status == 200,
                     "the second domain is served")
            # A name means one program within a trust domain: two rows, whose ids are secrets.
            assert a.stats()["programs_open"] == 2
            tenants = a.text("tenants")
            assert "red" in tenants and "blue" in tenants, tenants
            kept = d.right(RESPONSES, {"input": "Hello"}, bearer("token-of-first"))
            other = d.ask("GET", "/v1/responses/" + kept["id"], headers=bearer("token-of-second"))
            assert other.status == 404
            assert d.ask("GET", "/health").status == 200            # asks for no token


def has_status(d, headers, status):
    """True when requests with this token are answered so, in both shapes; no client comes again."""
    answers = [d.post(path, chat("Hello", max_tokens=9), headers) for path in (CHAT, MESSAGES)]
    for answer in answers if status == 401 else ():
        if answer.status == 401:
            assert answer.json["error"]["message"] == (
                "the key of this token is not accepted by the appliance"), answer.text
            assert answer.json["error"]["type"] == "authentication_error", answer.text
            assert "Retry-After" not in answer.headers
    return [answer.status for answer in answers] == [status] * 2


def test_a_key_that_is_withdrawn_takes_its_own_tokens_away_and_no_others():
    names = ("first", "second")
    lines = dict(zip(names, KEYS.splitlines(keepends=True)))
    other = "third %s red\n" % ("ef" * 32)
    with TextFile(KEYS, 0o600) as keys, TextFile(TOKENS, 0o600) as tokens:
        with_keys = ("auth.tcp=psk", "auth.keys=" + keys)
        with Appliance(*with_keys) as a, Door(*with_keys, "door.tokens=" + tokens, a=a) as d:
            def take_up(text):
                with open(keys, "w") as file:
                    file.write(text)
                reload(a)
            for name in names:
                wait_for(lambda: has_status(d, bearer("token-of-" + name), 200), name)
            for gone, left in (names, names[::-1]):
                take_up(lines[left])
                wait_for(lambda: has_status(d, bearer("token-of-" + gone), 401), gone + " is gone")
                assert has_status(d, bearer("token-of-" + left), 200)
                assert d.ask("GET", "/health").status == 200
                wait_for(lambda: any("does not accept the key '%s'" % gone in line
                                     for line in d.lines), "the log names the key")
                # Of the requests of a second some have a line.
                wait_for(lambda: has_status(d, bearer("token-of-" + gone), 401) and
                         any("path=%s key=%s: " % (CHAT, gone) in line for line in d.lines),
                         "and who was refused for it")
                take_up(KEYS)
                wait_for(lambda: has_status(d, bearer("token-of-" + gone), 200), gone + " is back")
            take_up(other)
            wait_for(lambda: d.ask("GET", "/health").status == 503, "no key is left")
            assert "does not accept the key 'first'" in d.ask("GET", "/health").text
