# SPDX-License-Identifier: MIT
"""Traces in the forms of others (docs/traces.md): the lab takes them for the programs that our own
form writes out, and the appliance serves them.

The samples are ours; they follow the public forms. How a form is read in detail, and every fault,
is for selftest/unit/trace/test_forms.c.
"""
import json
import os
import tempfile

from appliance import NOISE, Appliance, run

AIPERF = ('{"session_id":"a","timestamp":0,"input_length":600,"output_length":9,"hash_ids":[1,2]}\n'
          '{"session_id":"b","timestamp":40,"input_length":99,"output_length":7,"hash_ids":[1]}\n'
          '{"session_id":"a","delay":20,"input_length":30,"output_length":8}\n')
AIPERF_NATIVE = """agentix-trace 1
program a 0 aiperf
call 0 after=- gap=0 in=s:x:600 out=9
call 1 after=0 gap=20000 in=p:0+o:0+u:30 out=8
program b 40000 aiperf
call 0 after=- gap=0 in=s:x:99 out=7
"""

AGENTX = json.dumps({"id": "s", "block_size": 16, "hash_id_scope": "local", "requests": [
    {"type": "s", "t": 0, "in": 60, "out": 6, "hash_ids": [1, 2, 3, 4], "api_time": 0.5},
    {"type": "subagent", "t": 0.52, "requests": [
        {"type": "n", "t": 0.52, "in": 40, "out": 7, "hash_ids": [1, 2, 9], "api_time": 0.4}]},
    {"type": "subagent", "t": 0.53, "requests": [
        {"type": "n", "t": 0.53, "in": 33, "out": 5, "hash_ids": [1, 8, 7], "api_time": 0.2}]},
    {"type": "s", "t": 0.95, "in": 90, "out": 8, "hash_ids": [1, 2, 3, 5, 6]}]})
AGENTX_NATIVE = """agentix-trace 1
program s 0 agentx
call 0 after=- gap=0 in=r:x:60 out=6
call 1 after=0 gap=20000 in=r:x:32+r:y:8 out=7
call 2 after=0 gap=30000 in=r:x:16+r:z:17 out=5
call 3 after=2,1 gap=30000 in=r:x:48+r:w:32+u:10 out=8
"""

SGLANG = json.dumps({"metadata": {}, "conversations": [
    [{"messages": [{"role": "user", "content": "x"}], "prompt_tokens": 100},
     {"messages": [{"role": "user", "content": "y"}], "prompt_tokens": 350}],
    [{"messages": [{"role": "user", "content": "x" * 80}]}]]})
SGLANG_NATIVE = """agentix-trace 1
program a 0 sglang
call 0 after=- gap=0 in=u:100 out=220
call 1 after=0 gap=0 in=p:0+o:0+u:30 out=220
program b 0 sglang
call 0 after=- gap=0 in=u:20 out=220
"""


def span(identity, parent, times, **attributes):
    """Underscores of names stand for dots."""
    def value(of):
        return {"intValue": str(of)} if isinstance(of, int) else {"stringValue": of}
    return {"traceId": "t", "spanId": identity, "parentSpanId": parent, "name": identity,
            "startTimeUnixNano": str(times[0] * 1000), "endTimeUnixNano": str(times[1] * 1000),
            "attributes": [{"key": "gen_ai." + key.replace("__", "."), "value": value(of)}
                           for key, of in attributes.items()]}


def chat(identity, parent, times, counts):
    return span(identity, parent, times, operation__name="chat", usage__input_tokens=counts[0],
                usage__output_tokens=counts[1])


def exported(*spans):
    return json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [
        {"scope": {}, "spans": list(spans)}]}]}) + "\n"


OTLP = exported(chat("1", "root", (5000, 9000), (50, 6)),
                span("tool", "root", (9000, 20000), operation__name="execute_tool")) + exported(
    chat("2", "root", (20000, 30000), (80, 7)),
    span("root", "", (5000, 30000), operation__name="invoke_agent", agent__name="search"))
OTLP_NATIVE = """agentix-trace 1
program p 0 search
call 0 after=- gap=0 in=u:50 out=6
call 1 after=0 gap=11000 in=p:0+o:0+u:24 out=7
"""

FORMS = {"aiperf": (AIPERF, AIPERF_NATIVE), "agentx": (AGENTX, AGENTX_NATIVE),
         "sglang": (SGLANG, SGLANG_NATIVE), "otlp": (OTLP, OTLP_NATIVE)}
DISTRIBUTIONS = """job_completion_time_s time_to_first_token_ms inter_token_latency_ms
request_latency_ms output_token_throughput_per_user""".split()


def play(program, text, *words):
    """What the program says, and its JSON."""
    with tempfile.TemporaryDirectory() as folder:
        trace, result = os.path.join(folder, "trace"), os.path.join(folder, "result")
        with open(trace, "w", encoding="utf-8") as file:
            file.write(text)
        done = run(*program, trace, "--json", result, *words)
        done.json = None
        if os.path.exists(result):
            with open(result, encoding="utf-8") as file:
                done.json = json.load(file)
        return done


def lab(text, *words):
    return play(("agentix-lab", "--trace"), text, *words)


def check_serving(result, tokens):
    serving = result["serving"]
    for name in DISTRIBUTIONS:
        row = serving[name]
        assert 0 <= row["p50"] <= row["p90"] <= row["p95"] <= row["p99"], (name, row)
    assert serving["time_to_first_token_ms"]["p99"] <= serving["request_latency_ms"]["p99"]
    of_a_call = serving["output_token_throughput"] / serving["request_throughput"]
    assert abs(of_a_call * result["calls"] - tokens) < 1e-3, serving
    assert abs(serving["jobs_per_hour_per_user"] * serving["job_completion_time_s"]["mean"] -
               3600) < 1e-3, serving


def test_lab_takes_each_form_for_the_programs_of_our_own():
    for form, (text, native) in FORMS.items():
        theirs, ours = lab(text, "--offline"), lab(native, "--offline")
        assert theirs.returncode == ours.returncode == 0, (form, theirs.stderr, ours.stderr)
        assert theirs.json == ours.json, form
        check_serving(theirs.json, theirs.json["tokens_generated"])
        assert theirs.json["serving"]["jobs_per_hour_per_gpu"] == \
            theirs.json["serving"]["jobs_per_hour"]


def test_replay_serves_each_form_as_it_serves_our_own():
    with Appliance(NOISE) as a:
        for form, (text, native) in FORMS.items():
            command = ("agx", "--to", a.to, "replay")
            theirs, ours = play(command, text), play(command, native)
            assert theirs.returncode == ours.returncode == 0, (form, theirs.stderr, ours.stderr)
            for key in ("programs", "completed", "calls", "prompt_tokens", "generated_tokens"):
                assert theirs.json[key] == ours.json[key], (form, key)
            assert theirs.json["completed"] == theirs.json["programs"] > 0
            assert theirs.json["serving"]["jobs_per_hour_per_gpu"] is None
            check_serving(theirs.json, theirs.json["generated_tokens"])
            assert "time to first token" in theirs.stdout


def test_form_can_be_named_and_must_be_right():
    for form, (text, _) in FORMS.items():
        assert lab(text, "--form", form).returncode == 0, form
        wrong = "sglang" if form != "sglang" else "otlp"
        done = lab(text, "--form", wrong)
        assert done.returncode == 2 and ": record 1: " in done.stderr, done.stderr
    done = lab(AIPERF, "--form", "csv")
    assert done.returncode == 2 and "csv is none of agentix, agentx" in done.stderr, done.stderr
    assert done.stderr.startswith("agentix-lab: --form: "), done.stderr


def test_fault_names_file_line_record_and_field():
    done = lab(AIPERF + '{"session_id":"c","input_length":1}\n')
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("agentix-lab: "), done.stderr
    assert done.stderr.endswith(":4: record 4: output_length: a whole number from 0 to 67108864 is "
                                "needed\n"), done.stderr


def test_programs_that_are_too_long_are_left_out():
    done = lab(AIPERF, "--context-max", "200")
    assert done.returncode == 0 and done.json["programs"] == 1, done.stderr
    with Appliance(NOISE) as a:
        done = play(("agx", "--to", a.to, "replay"), AIPERF, "--context-max", "200")
        assert done.returncode == 0 and done.json["completed"] == 1, done.stderr
    done = lab(AIPERF, "--context-max", "10")
    assert done.returncode == 2 and "too long" in done.stderr, done.stderr


def test_gaps_are_cut():
    whole, cut = lab(OTLP), lab(OTLP, "--gap-max", "0.001")
    assert whole.returncode == cut.returncode == 0, whole.stderr + cut.stderr
    spared = whole.json["makespan_s"] - cut.json["makespan_s"]
    assert abs(spared - 0.010) < 1e-9, spared
