# SPDX-License-Identifier: MIT
"""What agentix-door says, against the types of the official clients: every whole answer and every
event is validated strictly, as pydantic does it: no field is missing, none has another type.

Clients themselves do not validate: they take what comes, and fail where they use it.
"""
import json

from door import CHAT, COMPLETIONS, COUNT, MESSAGES, RESPONSES, Door, chat, use_clients

ASKED = chat("What do bees make?", temperature=0)
SHORT = {"temperature": 0, "max_tokens": 3}


def valid(kind, data):
    """`data` as an object of this type, or of one of a union."""
    from pydantic import TypeAdapter, ValidationError
    try:
        return TypeAdapter(kind).validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        raise AssertionError("%s\n%s" % (json.dumps(data), str(error)[:2000])) from None


def all_valid(kind, events):
    assert len(events) > 2
    return [valid(kind, data) for _, data in events if data != "[DONE]"]


def test_openai_chat_answers_and_chunks_are_of_their_types():
    use_clients()
    from openai.types.chat import ChatCompletion, ChatCompletionChunk
    with Door() as d:
        for fields in ({}, {"n": 2}, SHORT, {"stop": "honey"}):
            valid(ChatCompletion, d.right(CHAT, dict(ASKED, **fields)))
            usage = {"stream_options": {"include_usage": True}}
            for extra in ({}, usage):
                all_valid(ChatCompletionChunk, d.events(CHAT, dict(ASKED, **fields, **extra)))


def test_openai_completion_answers_and_chunks_are_of_their_types():
    use_clients()
    from openai.types import Completion
    prompt = {"prompt": ["User: Hello\nBot:", [1, 5, 6]], "n": 2, "logprobs": 2, **SHORT}
    with Door() as d:
        valid(Completion, d.right(COMPLETIONS, prompt))
        for _, data in d.events(COMPLETIONS, prompt)[:-1]:
            # The client's type has no null here, which OpenAI's own chunks have.
            (choice,) = data["choices"]
            valid(Completion, dict(data, choices=[dict(choice, finish_reason=choice["finish_reason"]
                                                       or "stop")]))


def test_openai_responses_and_their_events_are_of_their_types():
    use_clients()
    from openai.types.responses import Response, ResponseStreamEvent
    with Door() as d:
        for fields in ({"instructions": "Be brief."}, {"max_output_tokens": 3},
                       {"metadata": {"a": "b"}, "store": False, "top_p": 0.5}):
            asked = {"input": "What do bees make?", "temperature": 0, **fields}
            valid(Response, d.right(RESPONSES, asked))
            all_valid(ResponseStreamEvent, d.events(RESPONSES, asked))


def test_openai_models_and_errors_are_of_their_types():
    use_clients()
    from openai.types import Model
    from openai.types.shared import ErrorObject
    with Door() as d:
        valid(Model, d.ask("GET", "/v1/models").json["data"][0])
        for answer in (d.post(CHAT, {}), d.post(CHAT, dict(ASKED, max_tokens=9999)),
                       d.ask("GET", "/nonsense")):
            valid(ErrorObject, answer.json["error"])


def test_anthropic_messages_and_their_events_are_of_their_types():
    use_clients()
    from anthropic.types import (ErrorResponse, Message, MessageTokensCount, ModelInfo,
                                 RawMessageStreamEvent)
    with Door() as d:
        for fields in ({"max_tokens": 60}, {"max_tokens": 3},
                       {"max_tokens": 60, "stop_sequences": ["honey"]}):
            asked = dict(ASKED, model="any", **fields)
            valid(Message, d.right(MESSAGES, asked))
            all_valid(RawMessageStreamEvent, d.events(MESSAGES, asked))
        valid(ModelInfo, d.ask("GET", "/v1/models").json["data"][0])
        valid(MessageTokensCount, d.right(COUNT, asked))
        valid(ErrorResponse, d.post(MESSAGES, {}).json)
