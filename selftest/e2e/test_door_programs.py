# SPDX-License-Identifier: MIT
"""Which requests become one program: by headers, by fields, by the conversation that goes on. The
appliance's text port has the last word: its process table, and its classes."""
import threading

from appliance import wait_for
from door import CHAT, COMPLETIONS, MESSAGES, RESPONSES, Answer, Door, chat, program_id
from protocol import Client

GREEDY = {"temperature": 0, "max_tokens": 16}
BODIES = {CHAT: chat("Hello", **GREEDY), COMPLETIONS: {"prompt": "Hello", **GREEDY},
          RESPONSES: {"input": "Hello", "temperature": 0},
          MESSAGES: chat("Hello", **GREEDY)}
NAMING_HEADERS = ("X-Agentix-Program", "X-Session-ID", "session_id", "session-id",
                  "X-Claude-Code-Session-Id")


def ended(d, name):
    """How many calls of the program have ended; the process table shows one when it has."""
    row = d.program(name)
    return int(row["ended"]) if row else None


# ---- names ---------------------------------------------------------------------------------------

def test_each_header_names_the_program_of_all_endpoints():
    with Door() as d:
        for header in NAMING_HEADERS:
            for path, body in BODIES.items():
                d.right(path, body, {header: "by " + header})
            assert ended(d, "by " + header) == len(BODIES), d.programs()
        assert len(d.programs()) == len(NAMING_HEADERS)


def test_an_answer_says_which_program_of_the_process_table_it_is_of():
    with Door() as d:
        for headers in ({"X-Agentix-Program": "review-7"}, {}):
            answer = d.post(CHAT, BODIES[CHAT], headers)
            said = answer.headers["X-Agentix-Program-Id"]
            assert len(said) == 32 and said[:8] in d.programs(), said


def test_fields_of_the_body_name_the_program():
    with Door() as d:
        for i in range(2):
            for path in (CHAT, RESPONSES):
                d.right(path, dict(BODIES[path], prompt_cache_key="by key"))
            d.right(MESSAGES, dict(BODIES[MESSAGES], metadata={"user_id": "by user"}))
        assert ended(d, "by key") == 4 and ended(d, "by user") == 2
        assert d.calls_by_program() == [2, 4]


def test_a_header_counts_before_a_field_and_a_field_before_the_conversation():
    with Door() as d:
        first = d.right(CHAT, BODIES[CHAT], {"X-Agentix-Program": "first"})
        on = dict(BODIES[CHAT], messages=after(BODIES[CHAT]["messages"], first))
        d.right(CHAT, dict(on, prompt_cache_key="field"))
        d.right(CHAT, dict(on, prompt_cache_key="field"), {"X-Session-ID": "second",
                                                           "X-Agentix-Program": "third"})
        assert [ended(d, name) for name in ("first", "field", "second", "third")] == [1, 1, None, 1]


# ---- many calls of one program -------------------------------------------------------------------

WIDE = {"X-Agentix-Program": "wide"}


def test_requests_beyond_what_a_program_may_have_open_wait_and_are_answered():
    with Door("limits.calls_per_program=3") as d:
        right = [d.right(COMPLETIONS, {"prompt": "Number %d" % i, **GREEDY})["choices"][0]["text"]
                 for i in range(12)]
        refused = d.a.stats()["calls_refused"]
        with d.a.standing_still():
            asked = [d.send("POST", COMPLETIONS, {"prompt": "Number %d" % i, **GREEDY}, WIDE)
                     for i in range(12)]
            d.a.wait_stats(calls_open=3, calls_refused=refused + 9)
            asked.pop().close()                 # its client waits no longer
        for connection, text in zip(asked, right):
            answer = Answer(connection.getresponse())
            assert answer.status == 200, answer.text
            assert answer.json["choices"][0]["text"] == text
            connection.close()
        assert ended(d, "wide") in (11, 12)


def test_what_others_have_open_of_a_program_is_not_waited_for():
    with Door("limits.calls_per_program=1") as d, Client(d.a.tcp) as c:
        with d.a.standing_still():
            c.start(1, [5, 6, 7], program=program_id("wide"))
            d.a.wait_stats(calls_open=1)
            answer = d.post(COMPLETIONS, {"prompt": "Hello", **GREEDY}, WIDE)
            assert answer.status == 429 and int(answer.headers["Retry-After"]) > 0
        c.finish(1).check()
        d.right(COMPLETIONS, {"prompt": "Hello", **GREEDY}, WIDE)


# ---- conversations -------------------------------------------------------------------------------

def after(messages, whole, text="And what else?"):
    """The messages of the next turn of a conversation."""
    return messages + [whole["choices"][0]["message"], {"role": "user", "content": text}]


def test_a_conversation_that_goes_on_is_one_program_and_finds_its_kv():
    with Door() as d:
        messages = chat("What do bees make?")["messages"]
        for turn in range(4):
            whole = d.right(CHAT, {"messages": messages, **GREEDY})
            assert (whole["usage"]["prompt_tokens_details"]["cached_tokens"] > 0) == (turn > 0)
            messages = after(messages, whole)
        assert d.calls_by_program() == [4]


def test_a_conversation_goes_on_after_a_streamed_answer_and_over_another_api():
    with Door() as d:
        messages = chat("What do bees make?")["messages"]
        text = "".join(data["choices"][0]["delta"].get("content") or ""
                       for _, data in d.events(CHAT, {"messages": messages, **GREEDY})[:-1])
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "Hello"}]
        whole = d.right(MESSAGES, {"messages": messages, **GREEDY})
        assert whole["usage"]["cache_read_input_tokens"] > 0
        messages += [{"role": "assistant", "content": whole["content"]},
                     {"role": "user", "content": "Hello"}]
        d.right(RESPONSES, {"input": [dict(m, content=m["content"] if isinstance(m["content"], str)
                                           else m["content"][0]["text"]) for m in messages],
                            "temperature": 0})
        assert d.calls_by_program() == [3]


def test_a_conversation_that_branches_is_one_program_and_one_that_begins_alike_is_another():
    with Door() as d:
        messages = chat("What do bees make?")["messages"]
        first = d.right(CHAT, {"messages": messages, **GREEDY})
        for text in ("Hello", "And wasps?", "Why?"):
            d.right(CHAT, {"messages": after(messages, first, text), **GREEDY})
        assert d.calls_by_program() == [4]
        d.right(CHAT, {"messages": messages, **GREEDY})         # a second client, as it seems
        d.right(CHAT, {"messages": chat("What do wasps make?")["messages"], **GREEDY})
        assert d.calls_by_program() == [1, 1, 4]


def test_agents_with_instructions_of_their_own_that_see_one_conversation_are_one_program():
    def below(words, messages):
        return {"messages": [{"role": "system", "content": words}] + messages, **GREEDY}
    with Door() as d:
        messages = chat("What do bees make?")["messages"]
        first = d.right(CHAT, below("You write.", messages))
        messages = after(messages, first)
        second = d.right(CHAT, below("You judge.", messages))
        d.right(CHAT, below("You sum up.", after(messages, second)))
        d.right(CHAT, below("It is one second later.", after(messages, second)))
        assert d.calls_by_program() == [4]
        # The same first words are no conversation that goes on.
        d.right(CHAT, below("You are of another program.", messages[:1]))
        assert d.calls_by_program() == [1, 4]
        for _ in range(2):
            d.right(CHAT, below("Nothing but this.", []))
        assert d.calls_by_program() == [1, 1, 1, 4]


def test_a_response_goes_on_in_the_program_of_the_one_before():
    with Door() as d:
        first = d.right(RESPONSES, BODIES[RESPONSES])
        for _ in range(2):
            d.right(RESPONSES, {"input": "Why?", "previous_response_id": first["id"]})
        assert d.calls_by_program() == [3]


# ---- threads, classes, ends ----------------------------------------------------------------------

def test_parallel_requests_are_threads_of_their_program():
    with Door() as d:
        def ask(number):
            d.right(CHAT, BODIES[CHAT], {"X-Agentix-Program": "wide",
                                         "X-Agentix-Thread": str(number)})
        asking = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
        with d.a.standing_still():
            for thread in asking:
                thread.start()
            wait_for(lambda: int((d.program("wide") or {"open": 0})["open"]) == 3, "three are open")
            assert len(d.program("wide")["threads"]) == 3
        for thread in asking:
            thread.join()
        assert ended(d, "wide") == 3
        for thread in ("x", "-1", "99999999999"):
            answer = d.post(CHAT, BODIES[CHAT], {"X-Agentix-Thread": thread})
            assert answer.status == 400 and answer.error[1] == "X-Agentix-Thread", answer.text


def test_a_class_is_learnt_when_its_programs_end():
    with Door() as d:
        for number in range(3):
            named = {"X-Agentix-Program": "clerk %d" % number, "X-Agentix-Class": "clerk"}
            d.right(CHAT, BODIES[CHAT], named)
            d.right(CHAT, BODIES[CHAT], dict(named, **{"X-Agentix-End": "1"}))
        wait_for(lambda: d.programs() == {}, "all programs have ended")
        (row,) = [line.split() for line in d.a.text("classes").splitlines() if "clerk" in line]
        head = d.a.text("classes").splitlines()[0].split()
        assert dict(zip(head, row))["programs"] == "3", row


def test_a_class_counts_though_the_first_request_was_refused():
    with Door() as d:
        named = {"X-Agentix-Program": "clerk", "X-Agentix-Class": "clerk"}
        for wrong in ("c" * 33, "two words"):
            answer = d.post(CHAT, BODIES[CHAT], dict(named, **{"X-Agentix-Class": wrong}))
            assert answer.status == 400 and answer.error[1] == "X-Agentix-Class", answer.text
        long = dict(BODIES[CHAT], messages=[{"role": "user", "content": "a long story " * 2000}])
        assert d.post(CHAT, long, named).status == 400
        d.right(CHAT, BODIES[CHAT], dict(named, **{"X-Agentix-End": "1"}))
        wait_for(lambda: d.programs() == {}, "it has ended")
        assert any("clerk" in line for line in d.a.text("classes").splitlines())


def test_a_program_of_refused_requests_alone_is_not_ended_at_the_appliance():
    with Door() as d:
        bad = d.a.stats()["frames_bad"]
        long = dict(BODIES[CHAT], messages=[{"role": "user", "content": "a long story " * 2000}])
        assert d.post(CHAT, long, {"X-Agentix-Program": "a", "X-Agentix-End": "1"}).status == 400
        assert d.post(CHAT, long, {"X-Agentix-Program": "b"}).status == 400
        assert d.ask("DELETE", "/v1/programs/b").status == 200
        d.right(CHAT, BODIES[CHAT], {"X-Agentix-Program": "c", "X-Agentix-End": "1"})
        wait_for(lambda: d.a.stats()["programs_started"] == 1 and d.programs() == {}, "all ended")
        assert d.a.stats()["frames_bad"] == bad, "the appliance refused an end"


def test_programs_end_by_header_by_name_and_by_idleness():
    with Door("door.program_idle=1s", "door.programs=16") as d:
        d.right(CHAT, BODIES[CHAT], {"X-Agentix-Program": "long"})
        assert d.a.stats()["programs_started"] == 1
        wait_for(lambda: d.programs() == {}, "it was idle")
    with Door() as d:
        d.right(CHAT, BODIES[CHAT], {"X-Agentix-Program": "short", "X-Agentix-End": "1"})
        wait_for(lambda: d.programs() == {}, "it has ended")
        d.right(CHAT, BODIES[CHAT], {"X-Agentix-Program": "named"})
        gone = d.ask("DELETE", "/v1/programs/named")
        assert gone.json == {"id": "named", "deleted": True}
        wait_for(lambda: d.programs() == {}, "it was deleted")
        assert d.ask("DELETE", "/v1/programs/named").status == 404
