# SPDX-License-Identifier: MIT
"""The lab and tools/lab/reference, which share no code, agree within 10 % for each policy.

Method: small traces, made here, at a load at which calls wait and policies differ, with so many KV
blocks that memory plays no role; and Figure 2 of the Agentix paper, which can be counted by hand.
tools/lab/reference/compare_reference.py does the same with long traces.
"""
import os
import random
import sys
import tempfile

from appliance import BUILD, ROOT

sys.path.insert(0, os.path.join(ROOT, "tools", "lab", "reference"))

import compare_reference  # noqa: E402

compare_reference.LAB = os.path.join(BUILD, "agentix-lab")
AMPLE = 20000
# A batch so small that calls wait, and quanta as long as these programs are; learnt levels are
# no matter of the reference.
LAB = ["--set", "sched.batch=8", "--set", "sched.prefill_tokens=256",
       "--set", "sched.quantum=200ms"]
REFERENCE = ["--batch", "8", "--prefill", "256", "--quantum", "0.2"]

# A {4,3,1,1}   B {3,3,4}   C {1,2}   D {4}: all arrive at 0, a batch of two.
FIGURE_2 = ((4, 3, 1, 1), (3, 3, 4), (1, 2), (4,))


def call(number, after, gap_us, parts, out):
    return "call %d after=%s gap=%d in=%s out=%d" % (
        number, ",".join(map(str, after)) or "-", gap_us, "+".join(parts), out)


def length(draw, mean):
    """Most are short and a few are long."""
    return 1 + int(draw.expovariate(1 / mean))


def chat(draw):
    """Turns that see all that came before; most chats are short."""
    calls = [call(0, [], 0, ["s:chat:40", "u:%d" % length(draw, 60)], length(draw, 60))]
    for n in range(1, length(draw, 3)):
        gap_us = draw.randrange(200000)
        calls.append(call(n, [n - 1], gap_us, ["p:%d" % (n - 1), "o:%d" % (n - 1),
                                               "u:%d" % length(draw, 40)], length(draw, 60)))
    return calls


def map_reduce(draw):
    """As many parallel calls as a document has parts, and one that reads what they say."""
    width = draw.choice((2, 4, 4, 8, 20))
    calls = [call(n, [], 0, ["s:map:100", "u:%d" % length(draw, 200)], length(draw, 30))
             for n in range(width)]
    calls.append(call(width, range(width), 0,
                      ["s:reduce:50"] + ["o:%d" % n for n in range(width)], length(draw, 80)))
    return calls


def tree(draw):
    """Levels of parallel calls that continue the best call of the level above."""
    calls, best, number = [call(0, [], 0, ["s:tree:150", "u:50"], length(draw, 40))], 0, 1
    for _ in range(draw.randrange(1, 5)):
        level = range(number, number + 4)
        for n in level:
            calls.append(call(n, [best], draw.randrange(100000),
                              ["p:%d" % best, "o:%d" % best, "u:20"], length(draw, 30)))
        join = number + 4
        calls.append(call(join, level, 0, ["p:%d" % number, "o:%d" % number, "u:30"],
                          length(draw, 30)))
        best, number = join, join + 1
    return calls


KINDS = {"chats": (chat,), "map_reduce": (map_reduce,), "trees": (tree,),
         "mixed": (chat, map_reduce, tree)}
# Chats have one call at a time: there live service changes nothing, and a sum is a path.
ORDERS = ("vllm-opt", "mlfq", "plas", "atlas", "plas-live", "atlas-live")
PROGRAMS, SEEDS = 80, (1, 2)
# Programs a second that these machines just bear.
RATES = {"chats": 3, "map_reduce": 2, "trees": 1.5, "mixed": 2}


def make_trace(kinds, programs, seed):
    draw, lines, arrival = random.Random(seed), ["agentix-trace 1"], 0.0
    for n in range(programs):
        arrival += draw.expovariate(1)
        kind = draw.choice(kinds)
        lines += ["program %d %d %s" % (n, int(arrival * 1e6), kind.__name__)] + kind(draw)
    return "\n".join(lines) + "\n"


def compared(text, system, words, blocks, extra):
    with tempfile.NamedTemporaryFile("w", suffix=".trace", encoding="ascii") as trace:
        trace.write(text)
        trace.flush()
        return compare_reference.both(trace.name, system, words, blocks, extra)


def agree(kind, systems):
    """Of the mean over several traces: a tie of an arrival and the end of a step can part one."""
    texts = [make_trace(KINDS[kind], PROGRAMS, seed) for seed in SEEDS]
    for system in systems:
        runs = [compared(text, system, ["--rate", str(RATES[kind])], AMPLE, (LAB, REFERENCE))
                for text in texts]
        lab, reference = ({key: sum(run[side][key] for run in runs) / len(runs)
                           for key in (compare_reference.MEAN, compare_reference.P99)}
                          for side in (0, 1))
        compare_reference.report(kind, system, 1, lab, reference)
        assert compare_reference.difference(lab, reference) <= 0.1


def test_chats_take_as_long_in_the_lab_as_in_the_reference():
    agree("chats", ORDERS[:3])


def test_map_reduces_take_as_long_in_the_lab_as_in_the_reference():
    agree("map_reduce", ORDERS)


def test_trees_take_as_long_in_the_lab_as_in_the_reference():
    agree("trees", ORDERS)


def test_mixed_programs_take_as_long_in_the_lab_as_in_the_reference():
    agree("mixed", ORDERS + ("plas-whole", "atlas-whole"))


def figure_2(system, lab_words, reference_words):
    """Seconds that calls wait, in the lab and in the reference."""
    lines = ["agentix-trace 1"]
    for n, outs in enumerate(FIGURE_2):
        lines.append("program %d 0 figure" % n)
        lines += [call(i, [i - 1] if i else [], 0, ["u:1"], out) for i, out in enumerate(outs)]
    extra = (lab_words, ["--steps", "1", "--standby", "0", "--wait-max", "0", "--beta", "0",
                          "--host", "0"] + reference_words)
    lab, reference = compared("\n".join(lines) + "\n", system, ["--cost", "unit", "--offline"],
                              65536, extra)
    assert lab["makespan_s"] == reference["makespan_s"] == 14
    return lab["wait_s_total"], reference["wait_s_total"]


def test_figure_2_waits_as_long_as_in_the_paper():
    assert figure_2("vllm-opt", [], []) == (18, 18)
    assert figure_2("mlfq", ["--set", "sched.queues=2", "--set", "sched.quantum=4s"],
                    ["--queues", "2", "--quantum", "4"]) == (18, 18)
    assert figure_2("plas", ["--set", "sched.queues=16", "--set", "sched.quantum_growth=1",
                             "--demoted-to-head"],
                    ["--queues", "16", "--growth", "1", "--demoted-to-head"]) == (12, 12)
