# SPDX-License-Identifier: MIT
"""Classes of programs on the wire, in the client, and on the text port: what their programs have
cost is learnt, names are judged, and no trust domain pushes out another one's classes."""
import tempfile

from appliance import NOISE, Appliance, run
from protocol import ERROR, PROGRAM_END, PROGRAM_OK, PROGRAM_START, Client, frame

USAGE, BAD_FIELD = 2, 22


def classes(a):
    """The rows of the page by name; the hash stands for those without one. Same names: a list."""
    head, *lines = a.text("classes").splitlines()
    rows = {}
    for line in lines[:-1] if lines and lines[-1] == "end" else lines:
        words = line.split()
        row = dict(zip(head.split(), words))
        rows.setdefault(row.get("name", row["hash"]), []).append(row)
    return rows


def start(c, program, name=b""):
    """The answer to PROGRAM_START, or the ERROR."""
    c.send(frame(PROGRAM_START, program + name))
    kind = c.step()
    assert kind in (PROGRAM_OK, ERROR)
    return c.programs[-1] if kind == PROGRAM_OK else c.errors[-1]


def run_program(c, number, name, prompt=(1, 2, 3), tokens=4):
    """One call; returns what it cost in KV token-rounds."""
    program = b"class-%010d" % number
    start(c, program, name)
    c.generate(number, list(prompt), program=program, max_tokens=tokens).check()
    c.send(frame(PROGRAM_END, program))
    assert c.step() == PROGRAM_OK
    return len(prompt) * tokens + tokens * (tokens + 1) // 2


def test_what_programs_cost_is_learnt_by_their_class():
    with Appliance(NOISE) as a, Client(a.tcp) as c:
        costs = [run_program(c, i + 1, b"web-search", tokens=t) for i, t in enumerate((4, 8, 6))]
        run_program(c, 9, b"other", tokens=2)
        rows = classes(a)
        assert set(rows) == {"web-search", "other"}, rows
        (row,) = rows["web-search"]
        assert row["programs"] == "3" and row["predicted"] == "2", row
        assert abs(int(row["mean_rounds"]) - sum(costs) / 3) <= 2, (row, costs)
        assert int(row["most_rounds"]) == max(costs), row
        assert a.stats()["classes_known"] == 2


def test_programs_without_a_name_are_of_the_class_of_their_beginning():
    with Appliance(NOISE) as a, Client(a.tcp) as c:
        same = list(range(1, 17))
        for i in range(3):
            run_program(c, i + 1, b"", prompt=same + [i + 20])
        run_program(c, 5, b"", prompt=same[::-1] + [3])
        run_program(c, 6, b"", prompt=same[:5])         # shorter than a KV block: of no class
        counts = sorted(row["programs"] for rows in classes(a).values() for row in rows)
        assert counts == ["1", "3"], classes(a)


def test_first_name_counts_and_the_short_form_is_what_it_was():
    with Appliance(NOISE) as a, Client(a.tcp) as c:
        assert start(c, c.program)["kind"] == PROGRAM_START
        for name in (b"first", b"second", b""):
            assert start(c, c.program, name)["kind"] == PROGRAM_START
        c.generate(1, [1, 2, 3], max_tokens=4).check()
        assert start(c, c.program, b"third")["calls"] == 1
        (row,) = classes(a)["first"]
        shown = dict(zip(*(line.split() for line in a.text("programs").splitlines()[:2])))
        assert set(classes(a)) == {"first"} and shown["class"] == row["slot"], shown


def test_hostile_names_cost_their_frame_and_change_nothing():
    with Appliance(NOISE) as a, Client(a.tcp) as c:
        for name, found, most in ((b"a b", 32, 126), (b"a\n", 10, 126), (b"\0", 0, 126),
                                  (b"a\0", 0, 126), (b"\x1b[2J", 27, 126), (b"\x7f", 127, 126),
                                  ("käse".encode(), 0xc3, 126), (b"x" * 33, 33, 32),
                                  (b"x" * 60000, 60000, 32)):
            got = start(c, c.program, name)
            assert got["status"] == BAD_FIELD and not got["closes"], (name, got)
            assert (got["found"], got["max"]) == (found, most), (name, got)
        c.generate(1, [1, 2, 3], max_tokens=4).check()
        assert classes(a) == {} and a.stats()["programs_started"] == 1
        run_program(c, 2, b"x" * 32)
        assert set(classes(a)) == {"x" * 32}


def test_names_of_one_domain_leave_those_of_others():
    with Appliance(NOISE, "limits.classes=4", unix=True) as a:
        with Client(a.tcp) as mallory, Client(a.unix) as bob:
            costs = [run_program(bob, i + 1, name) for i, name in enumerate((b"bob", b"short"))]
            for i in range(40):
                run_program(mallory, i + 1, b"name-%d" % i, tokens=30)
            run_program(mallory, 50, b"short", tokens=60)
            rows = classes(a)
            assert len(rows["short"]) == 2 and "bob" in rows and "name-39" in rows, rows
            means = sorted(int(row["mean_rounds"]) for row in rows["short"])
            assert means[0] == costs[1] and means[1] > 10 * costs[1], rows
            assert a.stats()["classes_forgotten"] == 41 - 2


def test_client_names_the_class():
    ask = ("generate", "--prompt", "hello", "--max-tokens", "4", "--class")
    with Appliance(NOISE) as a:
        for _ in range(2):
            done = run("agx", "--to", a.to, *ask, "letters")
            assert done.returncode == 0, done
        assert classes(a)["letters"][0]["programs"] == "2"
        done = run("agx", "--to", a.to, *ask, "two words")
        assert done.returncode == USAGE, done
        assert done.stderr.startswith("agx: --class: expected a name of at most 32"), done
        assert set(classes(a)) == {"letters"}


TRACE = """agentix-trace 1
program 0 0 chat
call 0 after=- gap=0 in=u:20 out=6
call 1 after=0 gap=0 in=p:0+o:0+u:4 out=5
program 1 1000 map
call 0 after=- gap=0 in=u:9 out=3
call 1 after=- gap=0 in=u:8 out=3
program 2 2000 ?!
call 0 after=- gap=0 in=u:7 out=3
program 3 3000 %s
call 0 after=- gap=0 in=u:7 out=3
program 4 4000 chat
call 0 after=- gap=0 in=u:20 out=6
""" % ("x" * 40)


def test_replay_sends_the_classes_of_the_trace():
    with Appliance(NOISE) as a, tempfile.NamedTemporaryFile("w", suffix=".trace") as file:
        file.write(TRACE)
        file.flush()
        done = run("agx", "--to", a.to, "replay", file.name)
        assert done.returncode == 0 and "5 of 5 completed" in done.stdout, done
        rows = classes(a)
        assert {name: row[0]["programs"] for name, row in rows.items()} == \
            {"chat": "2", "map": "1", "?!": "1"}, rows      # a frame has no room for the other
