# SPDX-License-Identifier: MIT
"""Clients of others whose tools the embedded model calls: it reads and decides, and its arithmetic
comes out of the client's tool. Each loop of calls is one program of the appliance."""
import asyncio
import json

from door import CHAT, MESSAGES, RESPONSES, Door, chat, use_clients
from test_door_clients import agents_model, anthropic_of, langchain_of, openai_of
from test_door_types import all_valid, valid

TASK = "Govolo starts with 73 stamps. Govolo loses 9. Govolo loses 2. Count the stamps."
ANSWER, SUMS = "62", ["73-9", "64-2"]
SCHEMA = {"type": "object", "properties": {"expression": {"type": "string"}},
          "required": ["expression"], "additionalProperties": False}
CHAT_TOOL = {"type": "function", "function": {"name": "calc", "description": "Computes.",
                                              "parameters": SCHEMA}}
RESPONSE_TOOL = {"type": "function", "name": "calc", "description": "Computes.",
                 "parameters": SCHEMA, "strict": True}
MESSAGE_TOOL = {"name": "calc", "description": "Computes.", "input_schema": SCHEMA}


def compute(expression):
    """First minus second, which is all that the task needs."""
    first, second = expression.split("-")
    return str(int(first) - int(second))


# ---- openai --------------------------------------------------------------------------------------

def chat_loop(ask):
    """ask(messages) -> the assistant's message, until it calls no tool; the sums and the answer."""
    messages, sums = [{"role": "user", "content": TASK}], []
    while True:
        message = ask(messages)
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return sums, message.content
        for call in message.tool_calls:
            sums.append(json.loads(call.function.arguments)["expression"])
            messages.append({"role": "tool", "tool_call_id": call.id, "content": compute(sums[-1])})


def test_openai_chat_tools_whole_and_streamed():
    with Door() as d, openai_of(d) as client:
        def whole(messages):
            (choice,) = client.chat.completions.create(model="any", messages=messages,
                                                       temperature=0, tools=[CHAT_TOOL]).choices
            assert (choice.finish_reason == "tool_calls") == bool(choice.message.tool_calls)
            return choice.message

        def streamed(messages):
            with client.chat.completions.stream(model="any", messages=messages, temperature=0,
                                                tools=[CHAT_TOOL]) as stream:
                return stream.get_final_completion().choices[0].message
        assert chat_loop(whole) == (SUMS, ANSWER)
        assert chat_loop(streamed) == (SUMS, ANSWER)
        assert d.calls_by_program() == [3, 3], d.programs()


NAMED = {"type": "function", "function": {"name": "calc"}}


def test_openai_chat_tools_none_required_and_named():
    with Door() as d, openai_of(d) as client:
        asked = {"model": "any", "messages": [{"role": "user", "content": TASK}],
                 "temperature": 0, "tools": [CHAT_TOOL]}
        whole = client.chat.completions.create(**asked, tool_choice="none", max_tokens=9)
        assert not whole.choices[0].message.tool_calls
        whole = client.chat.completions.create(**asked, tool_choice="auto")
        assert whole.choices[0].message.content.startswith("Plan"), "it does not begin with a call"
        for choice in ("required", NAMED):
            (whole,) = client.chat.completions.create(**asked, tool_choice=choice).choices
            with client.chat.completions.stream(**asked, tool_choice=choice) as stream:
                (streamed,) = stream.get_final_completion().choices
            for each in (whole, streamed):
                (call,) = each.message.tool_calls
                assert not each.message.content and each.finish_reason == "tool_calls"
                assert call.function.name == "calc", call
                assert json.loads(call.function.arguments) == {"expression": SUMS[0]}
        other = dict(CHAT_TOOL, function=dict(CHAT_TOOL["function"], name="lookup"))
        both = dict(asked, tools=[other, CHAT_TOOL])
        for choice in ("required", NAMED):      # of two tools, the model's choice and the client's
            (whole,) = client.chat.completions.create(**both, tool_choice=choice).choices
            assert whole.message.tool_calls[0].function.name == "calc"


def test_openai_chat_tools_forced_that_cannot_be():
    with Door() as d, openai_of(d) as client:
        import openai
        for tools in ([], [CHAT_TOOL]):
            for choice in ("required", dict(NAMED, function={"name": "other"}), "sometimes",
                           {"type": "allowed_tools"}):
                if tools and choice == "required":
                    continue
                try:
                    client.chat.completions.create(
                        model="any", messages=[{"role": "user", "content": TASK}], tools=tools,
                        tool_choice=choice)
                    raise AssertionError("it was answered: %s" % choice)
                except openai.BadRequestError as error:
                    assert error.param == "tool_choice", error


def test_forced_calls_of_responses_and_messages():
    with Door() as d:
        asked = {"input": TASK, "temperature": 0, "tools": [RESPONSE_TOOL]}
        for choice in ("required", {"type": "function", "name": "calc"}):
            whole = d.right(RESPONSES, dict(asked, tool_choice=choice))
            assert [item.get("name") for item in whole["output"]] == ["calc"], whole
        asked = {"messages": [{"role": "user", "content": TASK}], "temperature": 0,
                 "max_tokens": 60, "tools": [MESSAGE_TOOL]}
        for choice in ({"type": "any"}, {"type": "tool", "name": "calc"}):
            whole = d.right(MESSAGES, dict(asked, tool_choice=choice))
            assert [block.get("name") for block in whole["content"]] == ["calc"], whole
            assert whole["stop_reason"] == "tool_use"
        assert d.post(MESSAGES, dict(asked, tool_choice={"type": "tool"})).status == 400


def test_a_forced_call_that_is_cut_off_is_text():
    with Door() as d:
        asked = chat(TASK, temperature=0, tools=[CHAT_TOOL], tool_choice=NAMED, max_tokens=1)
        (choice,) = d.right(CHAT, asked)["choices"]
        assert choice["finish_reason"] == "length" and "tool_calls" not in choice["message"]
        assert choice["message"]["content"].startswith("Act: calc["), choice


def test_openai_responses_tools_by_items_and_by_previous_response():
    with Door() as d, openai_of(d) as client:
        for goes_on in (False, True):
            items, sums, previous = [{"role": "user", "content": TASK}], [], None
            while True:
                response = client.responses.create(model="any", input=items, temperature=0,
                                                   tools=[RESPONSE_TOOL],
                                                   previous_response_id=previous)
                calls = [item for item in response.output if item.type == "function_call"]
                if not calls:
                    break
                said = [each.model_dump(exclude_none=True) for each in response.output]
                previous, items = (response.id, []) if goes_on else (None, items + said)
                for call in calls:
                    sums.append(json.loads(call.arguments)["expression"])
                    items.append({"type": "function_call_output", "call_id": call.call_id,
                                  "output": compute(sums[-1])})
            assert (sums, response.output_text) == (SUMS, ANSWER)
        assert d.calls_by_program() == [3, 3], d.programs()


# ---- anthropic -----------------------------------------------------------------------------------

def message_loop(ask):
    messages, sums = [{"role": "user", "content": TASK}], []
    while True:
        message = ask(messages)
        if message.stop_reason != "tool_use":
            return sums, message.content[0].text
        messages.append({"role": "assistant", "content": message.content})
        uses = [block for block in message.content if block.type == "tool_use"]
        sums += [use.input["expression"] for use in uses]
        messages.append({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": use.id,
             "content": compute(use.input["expression"])} for use in uses]})


def test_anthropic_tools_whole_and_streamed():
    with Door() as d, anthropic_of(d) as client:
        def whole(messages):
            return client.messages.create(model="any", messages=messages, max_tokens=60,
                                          tools=[MESSAGE_TOOL])

        def streamed(messages):
            with client.messages.stream(model="any", messages=messages, max_tokens=60,
                                        tools=[MESSAGE_TOOL]) as stream:
                return stream.get_final_message()
        assert message_loop(whole) == (SUMS, ANSWER)
        assert message_loop(streamed) == (SUMS, ANSWER)
        assert d.calls_by_program() == [3, 3], d.programs()


# ---- types ---------------------------------------------------------------------------------------

def test_calls_of_tools_are_of_the_types_of_openai_and_anthropic():
    use_clients()
    from anthropic.types import Message, RawMessageStreamEvent
    from openai.types.chat import ChatCompletion, ChatCompletionChunk
    from openai.types.responses import Response, ResponseStreamEvent
    asked = {"messages": [{"role": "user", "content": TASK}], "temperature": 0}
    with Door() as d:
        for path, body, whole, event in (
                (CHAT, dict(asked, tools=[CHAT_TOOL]), ChatCompletion, ChatCompletionChunk),
                (MESSAGES, dict(asked, tools=[MESSAGE_TOOL], model="any", max_tokens=60), Message,
                 RawMessageStreamEvent),
                (RESPONSES, {"input": TASK, "temperature": 0, "tools": [RESPONSE_TOOL]}, Response,
                 ResponseStreamEvent)):
            answer = d.right(path, body)
            assert "73-9" in json.dumps(answer), answer
            valid(whole, answer)
            all_valid((event), d.events(path, body))


# ---- langchain, langgraph ------------------------------------------------------------------------

def test_langchain_bound_tools_whole_and_streamed():
    with Door() as d:
        for fields in ({}, {"use_responses_api": True}):
            model = langchain_of(d, **fields).bind_tools([CHAT_TOOL])
            whole = model.invoke(TASK)
            assert [call["args"] for call in whole.tool_calls] == [{"expression": SUMS[0]}]
            chunks = list(model.stream(TASK))
            added = chunks[0]
            for chunk in chunks[1:]:
                added += chunk
            assert [call["args"] for call in added.tool_calls] == [{"expression": SUMS[0]}]


def test_langchain_structured_output_by_a_forced_call():
    with Door() as d:
        for fields in ({}, {"use_responses_api": True}):
            model = langchain_of(d, **fields).with_structured_output(
                dict(SCHEMA, title="calc", description="Computes."), method="function_calling")
            assert model.invoke(TASK) == {"expression": SUMS[0]}
            assert [*model.stream(TASK)][-1] == {"expression": SUMS[0]}


def graph_of(model, tool):
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition
    bound, graph = model.bind_tools([tool]), StateGraph(MessagesState)
    graph.add_node("agent", lambda state: {"messages": [bound.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([tool]))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", tools_condition)
    graph.add_edge("tools", "agent")
    return graph.compile()


def test_langgraph_agents_with_a_tool_are_a_program_each():
    with Door() as d:
        model, sums = langchain_of(d), []
        from langchain_core.tools import tool
        from langgraph.prebuilt import create_react_agent

        @tool
        def calc(expression: str) -> str:
            """Computes."""
            sums.append(expression)
            return compute(expression)
        for graph in (graph_of(model, calc), create_react_agent(model, [calc])):
            said = graph.invoke({"messages": [{"role": "user", "content": TASK}]})
            assert said["messages"][-1].text == ANSWER, said
        assert sums == SUMS * 2 and d.calls_by_program() == [3, 3], (sums, d.programs())


# ---- openai-agents -------------------------------------------------------------------------------

def test_openai_agents_function_tool_over_responses_and_chat_completions():
    async def body(d, kind):
        import agents
        sums = []

        @agents.function_tool
        def calc(expression: str) -> str:
            """Computes."""
            sums.append(expression)
            return compute(expression)
        agent = agents.Agent("counter", model=agents_model(d, kind), tools=[calc],
                             model_settings=agents.ModelSettings(temperature=0))
        whole = await agents.Runner.run(agent, TASK)
        streamed = agents.Runner.run_streamed(agent, TASK)
        async for _ in streamed.stream_events():
            pass
        assert (sums, whole.final_output, streamed.final_output) == (SUMS * 2, ANSWER, ANSWER)
    with Door() as d:
        use_clients()
        for number, kind in enumerate(("OpenAIResponsesModel", "OpenAIChatCompletionsModel")):
            asyncio.run(body(d, kind))
            assert d.calls_by_program() == [3, 3] * (number + 1), d.programs()
