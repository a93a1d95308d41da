# SPDX-License-Identifier: MIT
"""Clients of others before agentix-door, as they are, with nothing changed but their base URL.

They come from PyPI, in the versions of clients.txt. docs/door.md has a table of what they use, with
a row for each test here: test_every_row_of_the_table_is_a_test_and_every_test_has_a_row.
"""
import asyncio
import json
import os
import re
import threading

import door
from appliance import ROOT, wait_for
from door import CHAT, MESSAGES, Door, chat, curl, use_clients
from test_restart import again, first, kill_all

QUESTION = "What do bees make?"
HONEY = "Bees make honey from the juice of flowers."
ASKED = [{"role": "user", "content": QUESTION}]


# ---- openai --------------------------------------------------------------------------------------

def openai_of(d, kind="OpenAI", retries=0):
    use_clients()
    import openai
    return getattr(openai, kind)(base_url=d.url + "/v1", max_retries=retries)


def test_openai_chat_whole_and_streamed():
    with Door() as d, openai_of(d) as client:
        asked = {"model": "any", "messages": ASKED, "temperature": 0}
        whole = client.chat.completions.create(**asked)
        assert whole.choices[0].message.content == HONEY and whole.usage.total_tokens > 0
        chunks = list(client.chat.completions.create(
            **asked, stream=True, stream_options={"include_usage": True}))
        assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == HONEY
        assert chunks[-1].usage == whole.usage
        with client.chat.completions.stream(**asked) as stream:
            assert stream.get_final_completion().choices[0].message.content == HONEY


def test_openai_completions_whole_and_streamed():
    with Door() as d, openai_of(d) as client:
        asked = {"model": "any", "prompt": "User: %s\nBot:" % QUESTION, "temperature": 0,
                 "max_tokens": 60, "stop": ["\n"]}
        whole = client.completions.create(**asked)
        assert whole.choices[0].text == " " + HONEY and whole.choices[0].finish_reason == "stop"
        chunks = client.completions.create(**asked, stream=True)
        assert "".join(c.choices[0].text for c in chunks) == " " + HONEY


def test_openai_completions_of_several_prompts():
    with Door() as d, openai_of(d) as client:
        import openai
        ids = d.right("/tokenize", {"content": "User: Hello\nBot:", "add_special": True})["tokens"]
        asked = {"model": "any", "prompt": ["User: %s\nBot:" % QUESTION] * 2, "n": 2,
                 "temperature": 0, "max_tokens": 60, "stop": ["\n"]}
        whole = client.completions.create(**asked)
        assert [(c.index, c.text) for c in whole.choices] == [(i, " " + HONEY) for i in range(4)]
        spoken = {}
        for chunk in client.completions.create(**{**asked, "prompt": [asked["prompt"][0], ids]},
                                               stream=True):
            (choice,) = chunk.choices
            spoken[choice.index] = spoken.get(choice.index, "") + choice.text
        assert spoken[0] == spoken[1] == " " + HONEY != spoken[2] == spoken[3], spoken
        try:
            client.completions.create(model="any", prompt=["x", "word " * 5000])
            raise AssertionError("it was answered")
        except openai.BadRequestError as error:
            assert (error.param, error.code) == ("prompt[1]", "context_length_exceeded"), error


def test_openai_responses_whole_and_streamed_and_gone_on_from():
    with Door() as d, openai_of(d) as client:
        first = client.responses.create(model="any", input=QUESTION, temperature=0)
        assert first.output_text == HONEY and first.status == "completed"
        second = client.responses.create(model="any", input="Hello",
                                         previous_response_id=first.id)
        assert client.responses.retrieve(second.id).output_text == second.output_text
        client.responses.delete(second.id)
        events = client.responses.create(model="any", input=QUESTION, temperature=0, stream=True)
        assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == HONEY
        with client.responses.stream(model="any", input=QUESTION, temperature=0) as stream:
            assert stream.get_final_response().output_text == HONEY
        assert d.calls_by_program() == [1, 1, 2]


def test_openai_async_many_at_once():
    async def body(client):
        async def ask(number):
            stream = await client.chat.completions.create(
                model="any", messages=ASKED, temperature=0, stream=True,
                extra_headers={"X-Agentix-Program": "p%d" % (number % 4)})
            return "".join([c.choices[0].delta.content or "" async for c in stream])
        async with client:
            assert set(await asyncio.gather(*map(ask, range(24)))) == {HONEY}
    with Door() as d:
        asyncio.run(body(openai_of(d, "AsyncOpenAI")))
        assert d.calls_by_program() == [6] * 4


def test_openai_models_and_errors():
    with Door() as d, openai_of(d) as client:
        import openai
        (model,) = client.models.list().data
        assert client.models.retrieve(model.id) == model
        for wrong, asked in ((openai.BadRequestError, {"messages": []}),
                             (openai.BadRequestError, {"messages": ASKED, "temperature": 9})):
            try:
                client.chat.completions.create(model="any", **asked)
                raise AssertionError("it was answered")
            except wrong as error:
                assert error.status_code == 400 and error.param in ("messages", "temperature")
        try:
            client.models.retrieve("none")
            raise AssertionError("it was found")
        except openai.NotFoundError as error:
            assert error.type == "not_found_error"


def refused(d):
    return int(re.search(r"refused_total (\d+)\n", d.ask("GET", "/metrics").text).group(1))


def test_openai_tries_again_until_the_appliance_is_back():
    def ask():
        answers.append(client.chat.completions.create(model="any", messages=ASKED, temperature=0))
    a, answers = first(), []
    with Door(a=a) as d, openai_of(d, retries=1000) as client:
        kill_all(a)
        wait_for(lambda: d.ask("GET", "/health").status == 503, "the door has seen it")
        before, asking = refused(d), threading.Thread(target=ask)
        asking.start()
        wait_for(lambda: refused(d) > before, "it was refused")
        with again(a):
            asking.join()
            assert answers[0].choices[0].message.content == HONEY and answers[0]._request_id


# ---- anthropic -----------------------------------------------------------------------------------

def anthropic_of(d, kind="Anthropic"):
    use_clients()
    import anthropic
    return getattr(anthropic, kind)(base_url=d.url, max_retries=0)


def test_anthropic_messages_whole_and_streamed():
    with Door() as d, anthropic_of(d) as client:
        asked = {"model": "any", "messages": ASKED, "max_tokens": 60}
        whole = client.messages.create(**asked)
        assert whole.content[0].text == HONEY and whole.stop_reason == "end_turn"
        with client.messages.stream(**asked) as stream:
            assert "".join(stream.text_stream) == HONEY
            last = stream.get_final_message()
        assert last.content[0].text == HONEY and last.stop_reason == "end_turn"
        assert last.usage.output_tokens == whole.usage.output_tokens
        names = [event.type for event in client.messages.create(**asked, stream=True)]
        assert names[0] == "message_start" and names[-1] == "message_stop"


def test_anthropic_async_count_tokens_and_errors():
    async def body(client):
        import anthropic
        async with client:
            count = await client.messages.count_tokens(model="any", messages=ASKED)
            whole = await client.messages.create(model="any", messages=ASKED, max_tokens=9,
                                                 metadata={"user_id": "counts"})
            assert whole.usage.input_tokens == count.input_tokens
            assert whole.stop_reason == "max_tokens"
            try:
                await client.messages.create(model="any", messages=ASKED, max_tokens=5000)
                raise AssertionError("it was answered")
            except anthropic.BadRequestError as error:
                assert "exceed context limit" in error.message, error.message
    with Door() as d:
        asyncio.run(body(anthropic_of(d, "AsyncAnthropic")))
        assert d.program("counts")["ended"] == "1"


def test_anthropic_models_beta_request_ids_and_blocks_of_the_system():
    with Door() as d, anthropic_of(d) as client:
        (model,) = client.models.list()
        assert client.models.retrieve(model.id) == model and model.display_name == model.id
        asked = {"model": "any", "messages": ASKED, "max_tokens": 60, "system": [
            {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]}
        whole = client.messages.create(**asked)
        assert whole._request_id and whole._request_id in whole.id
        assert client.beta.messages.create(**asked).content[0].text == whole.content[0].text


# ---- langchain, langgraph ------------------------------------------------------------------------

def langchain_of(d, **fields):
    use_clients()
    from langchain_openai import ChatOpenAI
    return ChatOpenAI(model="any", base_url=d.url + "/v1", temperature=0, max_retries=0, **fields)


def test_langchain_openai_invoke_stream_and_batch():
    with Door() as d:
        for fields in ({}, {"use_responses_api": True}):
            model = langchain_of(d, **fields)
            whole = model.invoke(QUESTION)
            assert whole.text == HONEY and whole.usage_metadata["total_tokens"] > 0
            assert "".join(chunk.text for chunk in model.stream(QUESTION)) == HONEY
            assert [each.text for each in model.batch([QUESTION] * 3)] == [HONEY] * 3


def test_langchain_openai_batch_of_completions():
    use_clients()
    from langchain_openai import OpenAI
    with Door() as d:
        asked = {"model": "any", "base_url": d.url + "/v1", "max_tokens": 60, "max_retries": 0}
        prompts = ["User: %s\nBot:" % QUESTION] * 20 + ["User: Hello\nBot:"]
        texts = OpenAI(temperature=0, **asked).batch(prompts, stop=["\n"])
        assert texts[:20] == [" " + HONEY] * 20 and texts[20].startswith(" Hello"), texts
        assert d.calls_by_program() == [1, 20], "a request has 20 prompts, as it does by itself"
        model = OpenAI(n=2, best_of=2, temperature=0, **asked)
        result = model.generate(prompts[-2:], stop=["\n"])
        assert [[each.text for each in of] for of in result.generations] == \
            [[" " + HONEY] * 2, [texts[20]] * 2], result


def test_langchain_openai_knows_a_context_that_is_too_small():
    with Door() as d:
        model = langchain_of(d)
        from langchain_core.exceptions import ContextOverflowError
        try:
            model.invoke("word " * 5000)
            raise AssertionError("it was answered")
        except ContextOverflowError:
            pass


def graph_of(model):
    """Two agents, each with its own instructions, that answer in turn in one conversation."""
    from langchain_core.messages import SystemMessage
    from langgraph.graph import END, START, MessagesState, StateGraph

    def agent(words):
        return lambda state: {"messages": [model.invoke([SystemMessage(words)] +
                                                        state["messages"])]}
    graph = StateGraph(MessagesState)
    graph.add_node("writer", agent("You write."))
    graph.add_node("critic", agent("You judge what was written."))
    graph.add_edge(START, "writer")
    graph.add_edge("writer", "critic")
    graph.add_conditional_edges("critic", lambda state: END if len(state["messages"]) > 4
                                else "writer")
    return graph.compile()


def test_langgraph_two_agents_are_one_program():
    with Door() as d:
        graph = graph_of(langchain_of(d, max_tokens=20))
        said = graph.invoke({"messages": ASKED})["messages"]
        assert len(said) == 5 and d.calls_by_program() == [4], d.programs()
        list(graph.stream({"messages": [{"role": "user", "content": "Hello"}]},
                          stream_mode="messages"))
        assert d.calls_by_program() == [4, 4], d.programs()


# ---- openai-agents -------------------------------------------------------------------------------

def agents_model(d, kind):
    """Of openai-agents: OpenAIResponsesModel or OpenAIChatCompletionsModel."""
    client = openai_of(d, "AsyncOpenAI")
    import agents
    return getattr(agents, kind)(model="any", openai_client=client)


def test_openai_agents_run_over_responses_and_chat_completions():
    async def body(d, kind):
        import agents
        agent = agents.Agent("helper", instructions="Be brief.", model=agents_model(d, kind))
        first = await agents.Runner.run(agent, QUESTION)
        assert first.final_output, first
        second = await agents.Runner.run(agent, first.to_input_list() + ASKED)
        streamed = agents.Runner.run_streamed(agent, second.to_input_list() + ASKED)
        events = [event async for event in streamed.stream_events()]
        assert events and streamed.final_output
    with Door() as d:
        use_clients()
        for number, kind in enumerate(("OpenAIResponsesModel", "OpenAIChatCompletionsModel")):
            asyncio.run(body(d, kind))
            assert d.calls_by_program() == [3] * (number + 1), d.programs()


# ---- curl ----------------------------------------------------------------------------------------

def test_curl_whole_and_streamed():
    with Door() as d:
        body = json.dumps(chat(QUESTION, temperature=0))
        whole = json.loads(curl(d.url + CHAT, "-d", body))
        assert whole["choices"][0]["message"]["content"] == HONEY
        lines = curl("-N", d.url + CHAT, "-d", json.dumps(chat(QUESTION, stream=True)))
        assert lines.startswith("data: {") and lines.endswith("data: [DONE]\n\n")
        # Over 1,024 bytes curl asks first whether it may send the body.
        long = json.dumps(chat(QUESTION + " " * 2000, max_tokens=9))
        assert json.loads(curl(d.url + MESSAGES, "-H", "anthropic-version: 2023-06-01",
                               "-H", "content-type: application/json", "-d", long))["content"]
        assert curl("-I", d.url + "/v1/models").startswith("HTTP/1.1 200 OK")


# ---- the table -----------------------------------------------------------------------------------

def test_every_row_of_the_table_is_a_test_and_every_test_has_a_row():
    with open(os.path.join(ROOT, "docs", "door.md"), encoding="utf-8") as file:
        named = re.findall(r"\| `(\w+)\.(test_\w+)` \|", file.read())
    here = os.path.dirname(door.__file__)
    for module in ("door_clients", "door_types", "door_tools"):
        path = os.path.join(here, "test_%s.py" % module)
        text = open(path, encoding="utf-8").read() if os.path.exists(path) else ""
        tests = set(re.findall(r"^def (test_\w+)", text, re.M)) - {
            "test_every_row_of_the_table_is_a_test_and_every_test_has_a_row"}
        rows = [name for at, name in named if at == module]
        assert sorted(rows) == sorted(tests), (module, tests.symmetric_difference(rows))
