# SPDX-License-Identifier: MIT
"""`agx flow --explain`: the plan of a workflow, byte by byte, as it was worked out by hand; files
that are none; the example and the picture of docs/workflows.md."""
import os
import tempfile

from appliance import ROOT, run

PAGE = os.path.join(ROOT, "docs", "workflows.md")
PICTURE = os.path.join(ROOT, "docs", "plots", "map-reduce")


def explain(text, *words, kv_tokens=100, share_min=4):
    """Output of agx, or the message of a refusal."""
    with tempfile.NamedTemporaryFile("w", suffix=".flow") as file:
        file.write(text)
        file.flush()
        done = run("agx", "flow", "--explain", "--kv-tokens", str(kv_tokens), "--share-min",
                   str(share_min), *words, file.name)
        if done.returncode == 0:
            assert done.stderr == "", done.stderr
            return done.stdout
        assert done.returncode == 2 and done.stdout == "", done
        return done.stderr.replace(file.name, "FILE")


def test_a_chain_is_scheduled_as_its_values_are_known():
    # u(a) = 3*2 + 6 = 12, known at 12 + 100*3 = 312; u(b) = 2*6 + 3 = 15, so b ends at 327.
    plan = explain("""agentix-flow 1
input q=9
llm a max=3 = "ab"
llm b max=2 = "xy" a "z"
output b
""")
    assert plan == """flow llm=2 lambda=0 inputs=1 outputs=1
pruned 0 merged 0 left 2
op a prompt=2 static=2 new=2 out=3 columns=-
op b prompt=6 static=2 new=6 out=2 columns=-
sequence 0 a
sequence 1 b
steps 327
"""


def test_a_hundred_pages():
    plan = explain("""agentix-flow 1
each p = 1..100
input page[p]=20
llm note[p] max=4 = "Note " page[p]
llm all max=8 = {note[*] "\\n"}
output all
""").splitlines()
    assert plan[0] == "flow llm=101 lambda=0 inputs=100 outputs=1"
    assert "op note[100] prompt=25 static=5 new=20 out=4 columns=page[100]" in plan, plan
    pages = ",".join(f"page[{i}]" for i in range(1, 101))
    assert f"op all prompt=500 static=0 new=500 out=8 columns={pages}" in plan, plan


def test_what_is_unused_or_equal_does_not_run():
    # The second c is the first; d is not needed. u(c) = 4*5 + 10 = 30, the lambda's value has 7
    # tokens, and what it reads is known at 30 + 100*4 = 430; u(e) = 1*11 + 1 = 12.
    plan = explain("""agentix-flow 1
input q=5 unused=8
llm c max=4 = q
text t = q ""
llm again max=4 = t
llm d max=4 = again "d"
lambda f max=7 = c again
lambda g max=7 = c again
llm e max=1 = f again
output e
""")
    assert plan == """flow llm=4 lambda=2 inputs=2 outputs=1
pruned 2 merged 1 left 3
op c prompt=5 static=0 new=5 out=4 columns=q
op e prompt=11 static=0 new=11 out=1 columns=q
sequence 0 c
sequence 1 e
steps 442
"""


def test_lambdas_of_one_name_are_one_function():
    plan = explain("""agentix-flow 1
each n = 1..2
input q
lambda f[n] max=1 = q
lambda g max=1 = q
llm a max=1 = f[1] f[2] g
output a
""")
    assert "pruned 0 merged 1 left 3\n" in plan, plan


def test_operators_with_a_common_beginning_run_together():
    # rules is 8 tokens: a, c and then b, whose prompt shares nothing. new of c: its last token.
    plan = explain("""agentix-flow 1
llm a max=1 = s:rules:8 "1"
llm b max=1 = "other"
llm c max=1 = s:rules:8 "2"
output a b c
""")
    assert plan == """flow llm=3 lambda=0 inputs=0 outputs=3
pruned 0 merged 0 left 3
op a prompt=9 static=9 new=9 out=1 columns=-
op c prompt=9 static=9 new=1 out=1 columns=-
op b prompt=5 static=5 new=5 out=1 columns=-
sequence 0 a c
sequence 1 b
steps 18
"""


def test_other_orders_cost_what_they_say():
    text = """agentix-flow 1
llm a max=1 = s:rules:8 "1"
llm b max=1 = "other"
llm c max=1 = s:rules:8 "2"
output a b c
"""
    arrival = explain(text, "--order", "arrival")
    assert [line.split()[1] for line in arrival.splitlines() if line.startswith("op ")] == \
        ["a", "b", "c"]
    assert arrival.endswith("steps 26\n"), arrival
    assert explain(text, "--order", "auto").endswith("steps 18\n")


def test_a_bad_file_is_refused_with_its_place():
    for text, expected in (
            ("agentix-flow 2\n", "agx flow: FILE:1:14: found '2', expected version 1\n"),
            ("agentix-flow 1\nllm a max=1 = b\noutput a\n",
             "agx flow: FILE:2:15: found 'b', expected the name of a node, or an index of this "
             "one\n"),
            ("", "agx flow: FILE:1:1: found the end of the file, expected agentix-flow 1\n")):
        assert explain(text) == expected, explain(text)
    done = run("agx", "flow", "--explain", "/nowhere.flow")
    assert done.returncode == 2 and "/nowhere.flow: cannot be read" in done.stderr, done


def test_what_is_too_much_is_refused_with_its_place_and_the_limit():
    for text, expected in (
            ("agentix-flow 1\neach n = 1..130\n\nllm a[n] max=1 = n\noutput a[*]\n",
             "agx flow: FILE:4:5: a[129]: 130 llm operators are left when equal ones are merged, "
             "expected at most 128\n"),
            ("agentix-flow 1\neach n = 1..5\nllm ok max=1 = s:x:1\n"
             "llm a[n] max=1 = s:y:1048576 n\noutput ok a[*]\n",
             "agx flow: FILE:4:5: a[4]: all literals together have more than 4194304 tokens\n"),
            (f"agentix-flow 1\nllm a max=1 = s:{65 * 'x'}:1\noutput a\n",
             "agx flow: FILE:2:5: a: the name in an s:NAME:N has more than 64 bytes\n"),
            ("agentix-flow 1\ninput i\ntext t0 = i i\n" +
             "".join(f"text t{n} = t{n - 1} t{n - 1}\n" for n in range(1, 20)) +
             "llm a max=1 = t19\noutput a\n",
             "agx flow: FILE:23:5: a: its prompts are too long: all together have at most 65536 "
             "pieces, and 16 MiB\n"),
            ("agentix-flow 1\neach n = 1..128\nllm a[n] max=16777216 = n\n"
             "lambda f[n] max=16777216 = a[n]\noutput f[*]\n",
             "agx flow: FILE: the max of all operators together is 2^32 or more\n")):
        assert explain(text) == expected, explain(text)


def test_no_number_of_a_plan_is_cut():
    # u(a) = 1*1 + 1 = 2, known at 2 + M; u(b) = 1 + 1.
    text = "agentix-flow 1\nllm a max=1 = \"a\"\nllm b max=1 = a\noutput b\n"
    assert explain(text, kv_tokens=2**31).endswith(f"steps {2 + 2**31 + 2}\n")
    assert "--kv-tokens" in (said := explain(text, kv_tokens=2**31 + 1)), said
    assert "2147483648" in said.replace("2147483649", ""), said


def test_rows_that_the_workflow_does_not_read_are_refused():
    with tempfile.TemporaryDirectory() as folder:
        flow, rows = os.path.join(folder, "flow"), os.path.join(folder, "rows")
        for inputs, cells, expected in (
                ("", "question\nwhy\n",     # it goes on, and finds no appliance
                 f"--inputs {rows} is not read: the workflow has no inputs"),
                ("input q\n", "q\tquestion\na\tb\n",
                 f"{rows}: line 1: found the column 'question', expected the name of an input"),
                ("input q\n", "",
                 f"{rows}: line 1: found an empty file, expected a line that names the inputs")):
            with open(flow, "w", encoding="utf-8") as file:
                file.write(f"agentix-flow 1\n{inputs}llm a max=1 = \"x\"\noutput a\n")
            with open(rows, "w", encoding="utf-8") as file:
                file.write(cells)
            done = run("agx", "--to", folder + "/none", "flow", "--inputs", rows, flow)
            assert done.returncode != 0 and f"agx flow: {expected}\n" in done.stderr, done
            assert not inputs or done.returncode == 2, done


def test_the_page_shows_what_the_example_gives():
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    begin = page.index("    agentix-flow 1\n")
    flow = page[begin:page.index("\n\n", begin) + 1].replace("\n    ", "\n").removeprefix("    ")
    plan = explain(flow, kv_tokens=4096, share_min=16).splitlines()
    begin = page.index("    flow llm=")
    for line in page[begin:page.index("\n\n", begin)].split("\n"):
        assert line.strip() in plan + ["..."], line


def test_the_picture_of_the_page_is_that_of_its_file():
    done = run("agx", "flow", "--svg", PICTURE + ".flow")
    assert done.returncode == 0, done
    with open(PICTURE + ".svg", encoding="utf-8") as file:
        assert file.read() == done.stdout, "make it again: agx flow --svg"


def test_names_are_quoted_in_pictures():
    with tempfile.NamedTemporaryFile("w", suffix=".flow") as file:
        file.write("agentix-flow 1\neach n = <&\\\nllm a[n] max=1 = n\noutput a[*]\n")
        file.flush()
        svg = run("agx", "flow", "--svg", file.name)
        dot = run("agx", "flow", "--dot", file.name)
    assert svg.returncode == 0 and "a[&lt;&amp;\\]" in svg.stdout, svg
    assert dot.returncode == 0 and '"a[<&\\\\]\\n' in dot.stdout, dot
