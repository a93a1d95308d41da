# SPDX-License-Identifier: MIT
"""The lab as a binary: a generated trace in, tables and JSON out, the documented exit statuses.

These tests check no latency; those of selftest/unit/lab do.
"""
import csv
import json
import os
import random
import subprocess
import tempfile

from appliance import BUILD, HANG_S, ROOT

POLICIES = """fcfs rr mlfq plas atlas justitia justitia-c vtc srjf sjf fcfs-agent""".split()
KEYS = """policy system cost programs calls rate makespan_s wait_s_total preemptions
copied_blocks swap_out_blocks swap_in_blocks swap_transfers swap_in_calls swap_back_calls copy_s
copy_out_s copy_in_s copy_within_s read_s compute_s host_s engine_busy_share rounds
kv_positions_read tokens_generated recomputed_tokens prefix_hit_ratio
device_blocks_peak host_blocks_peak
draft_tokens draft_tokens_agreed
refused_calls scheduler_ns_per_event_mean jct_s_mean jct_s_p90 jct_s_p95 jct_s_p99 steady
load cost_mean round_s engines""".split() + [
    "token_latency_s_" + part + gaps
    for part in ("mean", "p50", "p95", "p99") for gaps in ("", "_with_gaps")]


def lab(*words):
    return subprocess.run([os.path.join(BUILD, "agentix-lab"), *words], capture_output=True,
                          text=True, timeout=HANG_S * 5)


def make_trace(programs=20, seed=1):
    """Chains with a shared beginning, gaps, and a pair of threads now and then."""
    draw = random.Random(seed)
    lines, arrival = ["agentix-trace 1"], 0
    for program in range(programs):
        arrival += draw.randrange(1, 2000000)
        lines.append("program p%d %d chain" % (program, arrival))
        lines.append("call 0 after=- gap=0 in=s:doc:300+u:20 out=%d" % draw.randrange(1, 60))
        for call in range(1, draw.randrange(2, 6)):
            lines.append("call %d after=%d gap=%d in=p:%d+o:%d+u:10 out=%d" % (
                call, call - 1, draw.randrange(1, 1000000), call - 1, call - 1,
                draw.randrange(1, 60)))
        last = call
        for thread in (1, 2):
            lines.append("call %d after=%d gap=5 in=p:%d+u:%d out=%d" % (
                last + thread, last, last, thread, draw.randrange(1, 60)))
    return "\n".join(lines) + "\n"


class Trace:
    def __init__(self, text=None):
        self.directory = tempfile.TemporaryDirectory(prefix="agentix-e2e-")
        self.path = self.file("t.trace")
        with open(self.path, "w", encoding="ascii") as file:
            file.write(make_trace() if text is None else text)

    def file(self, name):
        return os.path.join(self.directory.name, name)

    def run_json(self, name, *words):
        done = lab("--trace", self.path, "--json", self.file(name), *words)
        assert done.returncode == 0, done.stderr
        with open(self.file(name), encoding="utf-8") as file:
            return file.read()


def test_the_sample_is_what_is_drawn_and_shows_how_policies_differ():
    """In virtual time: the same figures wherever it runs."""
    drawn = subprocess.run([os.path.join(ROOT, "tools/trace/draw")], capture_output=True, text=True,
                           check=True).stdout
    path = os.path.join(ROOT, "tools/trace/sample.trace")
    with open(path, encoding="ascii") as file:
        assert file.read() == drawn
    done = lab("--trace", path, "--rate", "1", "--programs", "300", "--compare",
               "vllm-opt,agentix")
    assert done.returncode == 0, done.stderr
    rows = {line[:28].strip(): line[28:].split() for line in done.stdout.splitlines()}
    for name in ("token latency mean, s", "job completion mean, s"):
        theirs, ours = map(float, rows[name])
        assert ours < theirs, (name, rows[name])


def test_every_policy_and_system_runs_the_trace():
    trace = Trace()
    calls = make_trace().count("\ncall ")
    for words in [("--policy", p) for p in POLICIES] + \
                 [("--system", s) for s in ("vllm", "vllm-opt", "mlfq", "agentix")]:
        result = json.loads(trace.run_json("r.json", *words))
        assert [key for key in KEYS if key not in result] == []
        assert result["programs"] == 20 and result["calls"] == calls
        assert result["refused_calls"] == 0
        assert 0 < result["token_latency_s_p50"] <= result["token_latency_s_p99"]
        assert result["token_latency_s_mean"] <= result["token_latency_s_mean_with_gaps"]
        assert result["steady"]["programs"] == 12


def test_every_cost_preset_runs():
    trace = Trace()
    for preset in ("unit", "a100-llama-3.1-8b", "a100-llama-2-7b", "h200-llama-3.1-8b",
                   "h200-llama-3.1-70b-fp8", "cpu"):
        result = json.loads(trace.run_json("r.json", "--cost", preset))
        assert result["cost"] == preset and result["makespan_s"] > 0


def test_the_machine_is_the_preset_as_the_words_change_it():
    trace = Trace()

    def run(*words):
        return json.loads(trace.run_json("r.json", "--offline", "--system", "vllm-opt", *words))
    once, each = (run("--prefix-reads", how) for how in ("once", "each"))
    assert once["kv_positions_read"] < each["kv_positions_read"]
    assert run()["kv_positions_read"] == each["kv_positions_read"]
    assert run("--overlap", "0")["engine_busy_s"] > run("--overlap", "1")["engine_busy_s"]
    assert run("--equal-host")["host_s"] < run()["host_s"]
    small = ("--set", "limits.context_tokens=1024", "--set", "kv.device_blocks=80",
             "--set", "kv.host_ratio=4")
    serial, needed = (run("--copies", kind, *small) for kind in ("serial", "needed"))
    assert serial["copy_out_s"] > 0 and needed["copy_s"] < serial["copy_s"]
    assert abs(serial["copy_s"] - serial["copy_out_s"] - serial["copy_in_s"] -
               serial["copy_within_s"]) < 1e-6 * serial["steps"]


def cost_of(lines):
    """KV token-rounds of a program of make_trace(), whose prompts all fit."""
    outs, prompts, cost = [], [], 0
    for line in lines:
        parts = line.split("in=")[1].split(" ")[0].split("+")
        prompts.append(sum(prompts[int(part[2:])] if part[0] == "p" else
                           outs[int(part[2:])] if part[0] == "o" else
                           int(part.split(":")[-1]) for part in parts))
        outs.append(int(line.split("out=")[1]))
        cost += prompts[-1] * outs[-1] + outs[-1] * (outs[-1] + 1) // 2
    return cost


def programs_of(trace, *words):
    trace.run_json("r.json", *words, "--programs-out", trace.file("programs.csv"))
    with open(trace.file("programs.csv"), newline="", encoding="ascii") as file:
        return list(csv.DictReader(file))


def test_a_line_for_each_program():
    trace = Trace()
    _, *programs = make_trace().split("program ")
    rows = programs_of(trace, "--policy", "justitia")
    assert len(rows) == len(programs) == 20
    for row, program in zip(rows, programs):
        _, _, name = program.split("\n")[0].split(" ")
        assert row["class"] == name
        assert float(row["arrival_s"]) < float(row["finish_s"])
        assert int(row["cost"]) == int(row["predicted"]) == cost_of(program.split("\n")[1:-1])
    arrivals = [float(row["arrival_s"]) for row in rows]
    assert arrivals == sorted(arrivals)
    result = json.loads(trace.run_json("r.json", "--rate", "2"))
    cost = sum(int(row["cost"]) for row in rows) / 20
    assert abs(result["cost_mean"] - cost) < 1e-6 * cost
    assert abs(result["load"] - 2 * cost * result["round_s"] / (26000 * 16)) < 1e-9
    rows = programs_of(trace, "--policy", "fcfs")
    assert all(row["predicted"] == row["tag"] == row["ideal_finish_s"] == "" for row in rows)


def test_a_class_predicts_by_its_past_or_by_what_it_has_learnt():
    trace = Trace()
    found = {}
    for word in ("class", "name", "none"):
        rows = programs_of(trace, "--policy", "justitia", "--predict", word, "--programs", "100")
        found[word] = [int(row["predicted"]) for row in rows]
    costs = [int(row["cost"]) for row in rows]
    assert min(costs) < found["class"][0] < max(costs)
    for word in ("name", "none"):               # none: by the prompts' common beginning
        assert found[word][0] < min(costs)      # of one round
        assert all(min(costs) <= cost <= max(costs) for cost in found[word][50:])


def test_programs_leave_the_ideal_system_in_the_order_of_their_tags():
    trace = Trace()
    small = ("--set", "limits.context_tokens=1024", "--set", "kv.device_blocks=80")
    load = ("--rate", "4", "--programs", "100")
    for words in (load, ("--offline",), (*load, "--set", "sched.virtual_clock=capacity")):
        rows = programs_of(trace, "--policy", "justitia", *small, *words)
        left = [(int(row["tag"]), float(row["ideal_finish_s"])) for row in rows]
        assert [finish for _, finish in sorted(left)] == sorted(finish for _, finish in left)
        assert all(float(row["ideal_finish_s"]) >= float(row["arrival_s"]) for row in rows)


def test_a_foretold_cost_is_wrong_by_the_factor_and_the_same_for_all_policies():
    trace = Trace()
    words = ("--cost-error", "3", "--programs", "400")
    justitia = programs_of(trace, *words, "--policy", "justitia")
    srjf = programs_of(trace, *words, "--policy", "srjf")
    other = programs_of(trace, *words, "--policy", "justitia", "--seed", "7")
    factors = sorted(int(row["predicted"]) / int(row["cost"]) for row in justitia)
    assert 0.33 < factors[0] < 0.4 and 2.9 < factors[-1] < 3.01
    assert 1.5 < factors[200] < 1.84                    # uniform: 5 / 3 in the middle
    assert [row["predicted"] for row in justitia] == [row["predicted"] for row in srjf]
    assert [row["predicted"] for row in justitia] != [row["predicted"] for row in other]


def test_the_same_arguments_give_the_same_bytes():
    trace = Trace()
    words = ("--rate", "5", "--seed", "42", "--programs", "60", "--cost", "cpu")
    assert trace.run_json("a.json", *words) == trace.run_json("b.json", *words)
    assert trace.run_json("a.json", *words) != trace.run_json("b.json", *words[:2], *words[4:])


def test_only_the_last_line_of_a_report_differs():
    trace = Trace()
    first, again = (lab("--trace", trace.path).stdout.splitlines() for _ in range(2))
    assert first[:-1] == again[:-1]
    assert [line.split("  ")[0] for line in first if "this machine" in line] == ["this machine"]
    assert first[-1].startswith("this machine  ") and again[-1].startswith("this machine  ")


def test_report_that_cannot_be_written_is_an_error():
    trace = Trace()
    command = [os.path.join(BUILD, "agentix-lab"), "--trace", trace.path]
    for words in ([], ["--compare", "plas,fcfs"], ["--help"]):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run(command + words, stdout=full, stderr=subprocess.PIPE, text=True,
                                  timeout=HANG_S * 5)
        assert done.returncode == 1, words
        assert done.stderr == "agentix-lab: standard output: not all could be written\n"


def test_trace_may_be_quiet_for_longer_than_a_connection_may_idle():
    trace = Trace("agentix-trace 1\nprogram a 0 x\ncall 0 after=- gap=0 in=u:40 out=4\n"
                  "call 1 after=0 gap=31536000000000 in=p:0+o:0+u:5 out=4\n"
                  "program b 31536000000000 x\ncall 0 after=- gap=0 in=u:40 out=4\n")
    for words, least_s in (((), 365 * 86400), (("--tenants",), 365 * 86400),
                           (("--rate", "1e-7", "--programs", "5"), 4e7)):
        result = json.loads(trace.run_json("r.json", *words))
        assert result["steady"]["programs"] == result["programs"] - 2 * (result["programs"] // 5)
        assert result["refused_calls"] == 0 and least_s <= result["makespan_s"] < 2 * least_s
    done = lab("--trace", trace.path, "--set", "net.idle=1s")
    assert done.returncode == 1 and "has closed a connection" in done.stderr, done.stderr


def spans_of(calls):
    """Of each program: from its first call to its last token, in microseconds."""
    spans = {}
    for call in calls:
        due = round(1e6 * float(call["due_s"]))
        over = due + round(1e6 * float(call["wait_s"])) + round(1e6 * float(call["run_s"]))
        begin, end = spans.get(call["program"], (due, over))
        spans[call["program"]] = min(begin, due), max(end, over)
    return sorted(spans.values())


def test_closed_load_keeps_so_many_programs_open():
    trace, count = Trace(), 7
    words = ("--sessions", str(count), "--programs", "50", "--seed", "3", "--cost", "cpu")
    text = trace.run_json("r.json", *words, "--calls-out", trace.file("calls.csv"))
    result = json.loads(text)
    assert text == trace.run_json("again.json", *words)
    with open(trace.file("calls.csv"), newline="", encoding="ascii") as file:
        spans = spans_of(csv.DictReader(file))
    assert len(spans) == 50 and [begin for begin, _ in spans[:count]] == [0] * count
    ends = sorted(end for _, end in spans)
    # Each end but the last ones lets one program begin, at once.
    assert [begin for begin, _ in spans[count:]] == ends[:-count]
    middle = result["middle"]
    assert result["sessions"] == count and middle["programs"] == 50 - 2 * count
    assert abs(middle["duration_s"] - (ends[-count - 1] - ends[count - 1]) / 1e6) < 1e-6
    assert 0 < middle["tokens_per_s"] * middle["duration_s"] < result["tokens_generated"]
    assert 0 < middle["token_latency_s_mean"] < result["token_latency_s_p99"]


def test_comparison_of_closed_loads_shows_their_middle():
    trace = Trace()
    words = ("--trace", trace.path, "--compare", "vllm-opt,agentix", "--cost", "cpu")
    assert "middle: tokens a second" in lab(*words, "--sessions", "4").stdout
    assert "middle" not in lab(*words).stdout


def test_engines_share_the_programs_and_add_up():
    trace = Trace()
    words = ("--rate", "50", "--programs", "100", "--cost", "cpu")
    one = json.loads(trace.run_json("r.json", *words))
    assert one["engines"] == [{"busy_share": one["engine_busy_share"], "deaths": 0,
                               "hit_ratio": one["prefix_hit_ratio"], "calls": one["calls"]}]
    text = trace.run_json("r.json", *words, "--engines", "4")
    assert text == trace.run_json("again.json", *words, "--engines", "4")
    four = json.loads(text)
    assert len(four["engines"]) == 4 and four["refused_calls"] == 0
    assert abs(four["load"] - one["load"] / 4) < 1e-9
    assert sum(engine["calls"] for engine in four["engines"]) == four["calls"] == one["calls"]
    shares = [engine["busy_share"] for engine in four["engines"]]
    assert abs(sum(shares) / 4 - four["engine_busy_share"]) < 1e-9


def test_calls_of_an_engine_that_dies_are_answered():
    trace = Trace()
    words = ("--rate", "50", "--programs", "100", "--cost", "cpu", "--engines", "2")
    deaths = [word for i in range(8) for word in ("--kill-engine", f"{i % 2}@{0.2 + i / 10}+0.05")]
    timeline = trace.file("timeline.json")
    result = json.loads(trace.run_json("r.json", *words, *deaths, "--trace-out", timeline))
    assert [engine["deaths"] for engine in result["engines"]] == [4, 4]
    assert result["refused_calls"] == 0 and result["steady"]["programs"] == 60
    events = events_of(timeline)
    slots = stretches_of([e for e in events if e["pid"] <= 2], lambda e: e["args"]["program"])
    assert slots == stretches_of([e for e in events if e["name"] == "run"], lambda e: e["pid"] - 3)


def test_report_names_the_death_of_an_only_engine():
    trace = Trace()
    words = ("--trace", trace.path, "--cost", "cpu", "--kill-engine", "0@1+0.1")
    assert ", died 1 time\n" in lab(*words).stdout
    assert ", died 2 times\n" in lab(*words, "--kill-engine", "0@2+0.1").stdout
    assert "died" not in lab(*words[:-2]).stdout


DRAFTS = "agentix-drafts 1\n* 60 20 8 5 3 2 1 1 0 0 0 0 0 0 0 0 7\n"


def test_drafts_bring_what_a_table_says_also_when_an_engine_dies():
    trace = Trace()
    with open(trace.file("t.drafts"), "w", encoding="ascii") as file:
        file.write(DRAFTS)
    words = ("--rate", "2", "--cost", "cpu", "--speculate", trace.file("t.drafts"))
    off = json.loads(trace.run_json("off.json", *words, "--set", "sched.speculate=0"))
    text = trace.run_json("on.json", *words)
    on = json.loads(text)
    assert text == trace.run_json("again.json", *words)
    assert off["draft_tokens"] == 0 < on["draft_tokens_agreed"] < on["draft_tokens"]
    assert on["tokens_generated"] == off["tokens_generated"]
    assert on["prefix_hit_ratio"] == off["prefix_hit_ratio"]
    assert on["token_latency_s_mean"] < off["token_latency_s_mean"]
    died = json.loads(trace.run_json("died.json", *words, "--kill-engine", "0@1+0.5",
                                     "--kill-engine", "0@3+0.5"))
    assert died["engines"][0]["deaths"] == 2 and died["draft_tokens_agreed"] > 0
    assert died["tokens_generated"] >= on["tokens_generated"]


def test_the_measured_table_of_drafts_is_read():
    trace = Trace()
    path = os.path.join(ROOT, "tools", "lab", "results", "inputs", "embedded.drafts")
    on = json.loads(trace.run_json("on.json", "--rate", "2", "--cost", "cpu", "--speculate", path))
    assert 0 < on["draft_tokens_agreed"] < on["draft_tokens"]


def test_a_wrong_table_of_drafts_is_named_with_its_place():
    trace = Trace()
    path = trace.file("t.drafts")
    for text, said, code in ((DRAFTS.replace("60", "sixty"), path + ":2:3: expected 17 counts", 2),
                             ("", path + ":1:1: expected the line", 2),
                             ("#" * 70000, "65536 bytes", 2), (None, "cannot be read", 1)):
        os.path.exists(path) and os.remove(path)
        if text is not None:
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
        done = lab("--trace", trace.path, "--speculate", path)
        assert done.returncode == code and said in done.stderr, done.stderr


def test_timing_is_printed_only_when_asked_for():
    trace = Trace()
    assert json.loads(trace.run_json("a.json"))["scheduler_ns_per_event_mean"] is None
    timed = json.loads(trace.run_json("a.json", "--timing", "--programs", "500"))
    assert timed["scheduler_ns_per_event_mean"] > 0


def events_of(path):
    with open(path, encoding="utf-8") as file:
        return [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]


def stretches_of(events, program):
    return sorted((program(e), e["ts"], e["dur"]) for e in events)


def test_timeline_covers_each_call_without_overlaps():
    trace = Trace()
    result = json.loads(trace.run_json("r.json", "--cost", "cpu", "--rate", "50", "--trace-out",
                                       trace.file("timeline.json")))
    everything = events_of(trace.file("timeline.json"))
    events = [e for e in everything if e["pid"] > 1]
    slots = [e for e in everything if e["pid"] == 1]
    tracks = {}
    for event in everything:
        tracks.setdefault((event["pid"], event["tid"]), []).append(
            (event["ts"], event["ts"] + event["dur"]))
    for stretches in tracks.values():
        stretches.sort()
        assert all(a[1] <= b[0] for a, b in zip(stretches, stretches[1:]))
    waited = sum(event["dur"] for event in events if event["name"] == "wait")
    assert abs(waited / 1e6 - result["wait_s_total"]) < 1e-3
    assert {event["name"] for event in events} == {"wait", "run", "gap"}
    # The slots hold the running calls, and a call changes its slot only after a pause.
    assert stretches_of(slots, lambda e: e["args"]["program"]) == \
        stretches_of([e for e in events if e["name"] == "run"], lambda e: e["pid"] - 2)


def test_calls_file_has_a_line_for_each_call():
    trace = Trace()
    result = json.loads(trace.run_json("r.json", "--rate", "50", "--set", "kv.device_blocks=140",
                                       "--set", "sched.active_set=off",
                                       "--set", "limits.context_tokens=2048", "--set",
                                       "sched.quantum=20ms", "--set", "sched.beta=0",
                                       "--calls-out", trace.file("calls.csv")))
    with open(trace.file("calls.csv"), newline="", encoding="ascii") as file:
        calls = list(csv.DictReader(file))
    assert len({(c["program"], c["call"]) for c in calls}) == len(calls) == result["calls"]
    for name, whole in (("wait_s", "wait_s_total"), ("output_tokens", "tokens_generated"),
                        ("preemptions", "preemptions"), ("swap_ins", "swap_in_calls")):
        assert abs(sum(float(c[name]) for c in calls) - result[whole]) < 1e-3, name
    assert result["preemptions"] > 0 and result["swap_in_calls"] > 0
    for call in calls:
        assert float(call["prefill_s"]) + float(call["copy_s"]) <= float(call["run_s"]) + 2e-6
    ends = [float(c["due_s"]) + float(c["wait_s"]) + float(c["run_s"]) for c in calls]
    assert all(a <= b + 5e-6 for a, b in zip(ends, ends[1:]))
    assert abs(ends[-1] - result["makespan_s"]) < 1e-3


def test_compare_prints_a_column_for_each_name():
    trace = Trace()
    done = lab("--trace", trace.path, "--compare", "plas,mlfq,vllm", "--cost", "cpu", "--slo", "1")
    assert done.returncode == 0, done.stderr
    assert "token latency mean, s" in done.stdout and "highest rate" in done.stdout
    assert len(done.stdout.rstrip().split("highest rate")[1].split("\n")) == 4


def test_refused_calls_exit_3_and_say_so():
    trace = Trace("agentix-trace 1\n" + "".join(
        "program p%d 0 x\ncall 0 after=- gap=0 in=u:5 out=5\n" % i for i in range(4)))
    done = lab("--trace", trace.path, "--set", "limits.calls=2", "--set",
               "limits.calls_per_connection=2")
    assert done.returncode == 3 and "REFUSED       2 calls" in done.stdout


def test_wrong_arguments_and_traces_are_named():
    trace = Trace()
    for words, said in ((("--policy", "longest"), "longest"),
                        (("--set", "sched.policy=srpt"), "srpt"),
                        (("--predict", "none", "--cost-error", "2"), "--cost-error"),
                        (("--predict", "file"), "sched.predictor"),
                        (("--system", "tgi"), "vllm-opt"),
                        (("--cost", "b200"), "h200-llama-3.1-8b"), (("--rate", "0"), "--rate"),
                        (("--set", "sched.nothing=1"), "sched.nothing"), (("--slo", "1"), "--slo"),
                        (("--sessions", "7"), "--sessions"), (("--sessions", "0"), "--sessions"),
                        (("--sessions", "2", "--rate", "1"), "--rate"),
                        (("--sessions", "2", "--offline"), "--offline"),
                        (("--offline", "--rate", "3"), "--rate"),
                        (("--programs", "0"), "from 1 to"), (("--compare", ""), "--compare: ''"),
                        (("--rate", "1e-9", "--programs", "20000"), "1e+11 s are the most"),
                        (("--engines", "9"), "--engines"), (("--engines", "0"), "--engines"),
                        (("--kill-engine", "1@1+1"), "--kill-engine"),
                        (("--kill-engine", "0@1"), "--kill-engine"),
                        (("--kill-engine", "0@1+0"), "--kill-engine"),
                        (("--kill-engine", "0@-1+1"), "--kill-engine"),
                        (("--kill-engine", "0@1+1s"), "--kill-engine"),
                        (("--kill-engine", "0@nan+1"), "--kill-engine"),
                        (("--kill-engine", "0@1e300+1"), "from 0 to 1e9 seconds"),
                        (("--kill-engine", "0@1+1e-9"), "from 1e-6 to 1e9"),
                        (("--kill-engine", "4294967296@1+1"), "below --engines"),
                        (("--kill-engine", "0@5+1", "--kill-engine", "0@4.5+1"), "must be back"),
                        (("--kill-engine", "0@1+1", "--kill-engine", "0@2+1"), "must be back"),
                        (("--seed", "-1"), "--seed"), (("more",), "more")):
        done = lab("--trace", trace.path, *words)
        assert done.returncode == 2 and said in done.stderr, (words, done.stderr)
    assert lab().returncode == 2
    done = lab("--trace", trace.file("none"))
    assert done.returncode == 1 and "No such file" in done.stderr, done.stderr
    assert lab("--help").returncode == 0
