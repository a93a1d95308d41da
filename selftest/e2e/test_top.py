# SPDX-License-Identifier: MIT
"""`agx top`: who runs and waits, as one picture and on a terminal."""
import concurrent.futures
import os
import subprocess

from appliance import BUILD, HANG_S, NOISE, Appliance, TextFile, wait_for
from door import Door, program_id, use_clients
from protocol import Client
from terminal import Terminal

AGX = os.path.join(BUILD, "agx")
KEYS = "alice %s research\nmallory %s mallory\n" % ("11" * 32, "22" * 32)


def once(a, *options):
    address = "%s:%d" % a.text_address
    run = subprocess.run([AGX, "top", "--text", address, "--once", "--every", "10", *options],
                         capture_output=True, text=True, timeout=HANG_S)
    assert run.returncode == 0 and run.stderr == "", run.stderr
    return run.stdout


def generate(a, key, affinity):
    wanted = a.stats()["calls_open"] + 1
    with TextFile(next(line for line in KEYS.splitlines() if line.startswith(key)) + "\n",
                  mode=0o600) as path:
        process = subprocess.Popen([AGX, "--to", a.to, "--key-file", path, "--affinity", affinity,
                                    "generate", "--prompt", "Hi", "--max-tokens", "400"],
                                   stdout=subprocess.DEVNULL)
        wait_for(lambda: a.stats()["calls_open"] == wanted, "the call is open")
    return process


def test_once_says_who_each_call_is_of_and_why_it_waits():
    with TextFile(KEYS, mode=0o600) as keys:
        with Appliance("auth.tcp=psk", "auth.keys=" + keys, "sched.batch=1", NOISE) as a:
            with a.standing_still():
                clients = [generate(a, "alice", "desk\x1b[2J"), generate(a, "mallory", "bot-7")]
                lines = [line.split() for line in once(a, "--sort", "number").splitlines()]
                text = once(a, "--calls")
            for client in clients:
                assert client.wait(HANG_S) == 0
        assert lines[0][:3] == ["agentix", "%s:%d" % a.text_address, lines[0][2]], lines[0]
        rows = {row[1]: row for row in lines[7:] if row[0] != "call"}
        assert rows["research"][2] == "desk.[2J" and rows["mallory"][2] == "bot-7", rows
        calls = {row[2]: row for row in lines[7:] if row[0] == "call"}
        assert set(calls) == {"alice", "mallory"}, lines
        states = {row[-2] for row in calls.values()}
        assert states < {"running", "standby", "batch", "next", "engine"}, calls
        assert "alice" in text and "\x1b" not in text, text


def ask(a, *words):
    return subprocess.run([AGX, "ask", "--text", "%s:%d" % a.text_address, *words], text=True,
                          capture_output=True, timeout=HANG_S)


def test_ask_prints_what_the_text_port_answers():
    with Appliance() as a:
        done = ask(a, "health")
        assert done.returncode == 0 and done.stdout.startswith("ready "), done
        assert not done.stdout.endswith("end\n") and done.stdout.count("\n") == 1, done
        assert ask(a, "ended", "12:03").stdout.startswith("next=0 end=0 lost=0 "), "two words"
        done = ask(a, "nonsense")
        assert done.returncode == 4 and "unknown command" in done.stderr, done
        done = ask(a, "ended", "25:00")
        assert done.returncode == 4 and "expected a number or a time of day" in done.stderr, done
        assert ask(a, "health\nstats").returncode == 2 and ask(a).returncode == 2


def test_ask_knows_the_answers_that_end_with_a_close():
    with Appliance() as a:
        done = ask(a, "agent-check")
        assert done.returncode == 0 and done.stdout == "up 100%\n", done
        done = ask(a, "quit")
        assert done.returncode == 0 and done.stdout == "", done


def test_ask_says_how_to_name_the_port_where_nothing_listens():
    done = subprocess.run([AGX, "ask", "--text", "127.0.0.1:1", "health"], text=True,
                          capture_output=True, timeout=HANG_S)
    assert done.returncode == 3 and "127.0.0.1:1: cannot connect" in done.stderr, done
    assert "--text" in done.stderr and "AGX_TEXT" in done.stderr, done


def test_keys_sort_and_q_puts_the_terminal_back():
    with Appliance() as a, Client(a.tcp) as c:
        c.generate(1, [1, 2, 3], max_tokens=4).check()
        with Terminal("agx", "top", "--text", "%s:%d" % a.text_address) as t:
            t.until("by SERVICE")
            t.until("p programs c calls")
            for key, title in (("w", "WAIT"), ("k", "KV"), ("u", "WHO")):
                t.type(key)
                t.until("by " + title)
            t.type("c")
            t.until("CALL ")
            t.type("q")
            t.until("\x1b[?1049l")
            assert t.wait() == 0


def test_without_a_terminal_or_an_appliance_it_says_so():
    with Appliance() as a:
        address = "%s:%d" % a.text_address
        run = subprocess.run([AGX, "top", "--text", address], capture_output=True, text=True,
                             stdin=subprocess.DEVNULL, timeout=HANG_S)
        assert run.returncode == 2 and "--once" in run.stderr, run.stderr
    run = subprocess.run([AGX, "top", "--once", "--text", address], capture_output=True, text=True,
                         timeout=HANG_S)
    assert run.returncode == 3 and address in run.stderr, run.stderr


def graph_of(model):
    """Two agents side by side."""
    import operator
    from typing import Annotated, TypedDict

    from langgraph.graph import END, START, StateGraph
    State = TypedDict("State", {"said": Annotated[list, operator.add]})
    graph = StateGraph(State)
    for name, words in (("left", "What do bees make?"), ("right", "Who are you?")):
        graph.add_node(name, lambda state, words=words: {"said": [model.invoke(words).text]})
        graph.add_edge(START, name)
        graph.add_edge(name, END)
    return graph.compile()


def test_langgraph_agents_side_by_side_are_one_program_with_two_calls():
    use_clients()
    from langchain_openai import ChatOpenAI
    with Door() as d:
        headers = {"X-Agentix-Program": "review-7"}
        graph = graph_of(ChatOpenAI(model="any", base_url=d.url + "/v1", max_retries=0,
                                    max_tokens=8, default_headers=headers))
        with concurrent.futures.ThreadPoolExecutor() as pool:
            with d.a.standing_still():
                said = pool.submit(graph.invoke, {"said": []})
                wait_for(lambda: said.done() or d.a.stats()["calls_open"] == 2, "both call")
                rows = [line.split() for line in once(d.a).splitlines()[7:]]
            assert len(said.result(HANG_S)["said"]) == 2
    assert len(rows) == 3 and [row[0] for row in rows[1:]] == ["call", "call"], rows
    assert rows[0][0] == program_id("review-7")[:4].hex(), rows
