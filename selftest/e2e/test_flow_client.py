# SPDX-License-Identifier: MIT
"""`agx flow` as a client: rows, lambdas as commands, values as JSON, a busy row, a break, Ctrl-C.

The appliance here is a script of frames, so that each of these comes when the test says so: its
workflow's one output is a lambda, whose answer it gives back in two parts, a token for each byte.
That the real one gives right answers is another module's matter."""
import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import tempfile
import threading

from appliance import BUILD, HANG_S, Appliance, run
from protocol import (ANSWER, ASK, ASK_LAST, ERROR, FLOW_CANCEL, FLOW_CLOSE, FLOW_DONE, FLOW_OK,
                      FLOW_OPEN, HELLO, KEEP, LAST, ROW, ROW_DONE, VALUE, WELCOME, digest, frame,
                      pack, unpack)

FLOW = "agentix-flow 1\ninput why who\nlambda shout max=9 = who \": \" why\noutput shout\n"
ROWS = "who\twhy\nanna\tbees\\n\ncarl\t\nbert\tnö\n"
WANTED = [(0, "ANNA: BEES\n"), (1, "CARL: "), (2, "BERT: Nö")]
BUSY_DRAINING, BUSY_ROWS, CANCELLED, SHUTDOWN, DEVICE_FAILED = 5, 11, 50, 52, 65


def values(flow, row, text):
    """A value in two frames, and the end of its row."""
    tokens, at = list(text), 0
    for part in (text[:2], text[2:]):
        while part and len(part) < len(text) and (part[-1] & 0xc0) == 0xc0:
            part = part[:-1]
        last = at + len(part) == len(text)
        yield frame(VALUE, pack(VALUE, flow_id=flow, row=row, first_index=at,
                                tokens_count=len(part), text_bytes=len(part),
                                flags=LAST * last) +
                    struct.pack("<%dI" % len(part), *part) + part)
        at += len(part)
    yield frame(ROW_DONE, pack(ROW_DONE, flow_id=flow, row=row, calls=1, digest=digest(tokens)))


class Script:
    """One appliance; `busy`: rows that are refused once; `break_after`: rows after which the
    connection breaks, once; `hold`: rows are not answered; `ends`: a number of rows, which it
    takes, and the status with which the workflow ends then, once."""

    def __init__(self, busy=(), break_after=None, hold=False, ends=None):
        self.busy, self.break_after, self.hold = set(busy), break_after, hold
        self.ends = ends
        self.opened, self.rows, self.kinds = [], [], []
        self.done = 0

    def columns(self, rest):
        out = []
        while rest:
            length, = struct.unpack("<I", rest[:4])
            out.append(rest[4:4 + length])
            rest = rest[4 + length:]
        return out

    def take(self, kind, payload):
        self.kinds.append(kind)
        if kind == HELLO:
            yield frame(WELCOME, pack(WELCOME, version=1, frame_bytes_max=1 << 20,
                                      context_tokens_max=99, vocab_tokens=256, programs_max=1,
                                      calls_per_connection_max=1, bos_id=2 ** 32 - 1,
                                      eos_id=2 ** 32 - 1, model=b"script"))
            return
        asked, rest = unpack(kind, payload)
        flow = asked["flow_id"]
        if kind == FLOW_OPEN:
            self.opened.append((flow, asked["flags"], payload))
            yield frame(FLOW_OK, pack(FLOW_OK, flow_id=flow, given=1, left=1, rows=2))
        elif kind == ROW:
            yield from self.take_row(flow, asked["row"], self.columns(rest))
        elif kind == ANSWER:
            assert asked["failed"] == 0
            yield from values(flow, asked["row"], rest)
            self.done += 1
            if self.ends is not None and self.done == self.ends[0]:
                yield frame(FLOW_DONE, pack(FLOW_DONE, flow_id=flow, status=self.ends[1]))
                self.ends = None
        else:
            yield frame(FLOW_DONE, pack(FLOW_DONE, flow_id=flow, calls=self.done, rows=9,
                                        status=CANCELLED if kind == FLOW_CANCEL else 0))

    def take_row(self, flow, row, columns):
        drains = self.ends is not None and len(self.rows) == self.ends[0]
        if drains or row in self.busy:
            self.busy.discard(row)
            yield frame(ERROR, pack(ERROR, status=BUSY_DRAINING if drains else BUSY_ROWS, field=34,
                                    frame_type=ROW, call_id=flow, found=row, text=b"busy"))
            return
        self.rows.append(row)
        text = columns[1] + b": " + columns[0]
        for at, part in ((0, text[:3]), (3, text[3:])):
            yield frame(ASK, pack(ASK, flow_id=flow, row=row, node=2, first_byte=at,
                                  text_bytes=len(part), flags=ASK_LAST * (at > 0)) + part)

    def serve(self, connection):
        """Until the client closes, or the script breaks the connection."""
        data = b""
        while True:
            while len(data) < 16 or len(data) < 16 + struct.unpack("<I", data[8:12])[0]:
                more = connection.recv(65536)
                if not more:
                    return
                data += more
            length, = struct.unpack("<I", data[8:12])
            kind, payload, data = data[4], data[16:16 + length], data[16 + length:]
            if self.hold and kind == ROW:
                self.kinds.append(kind)
                self.held.set()
                continue
            for answer in self.take(kind, payload):
                connection.sendall(answer)
            if self.break_after == self.done:
                self.break_after = None
                return


@contextlib.contextmanager
def serving(script, folder):
    path = os.path.join(folder, "s")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    script.held = threading.Event()

    def accept():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(ConnectionError):
                    script.serve(connection)
    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield "unix:" + path
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(HANG_S)


@contextlib.contextmanager
def client(script, *words, flow=FLOW, command="/usr/bin/tr a-z A-Z"):
    with tempfile.TemporaryDirectory() as folder, serving(script, folder) as address:
        for name, text in (("flow", flow), ("rows", ROWS)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        yield subprocess.Popen(
            [os.path.join(BUILD, "agx"), "--to", address, "flow", "--inputs", "rows", "--lambda",
             "shout=" + command, *words, "flow"], cwd=folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run_client(script, *words, **more):
    with client(script, *words, **more) as agx:
        out, err = agx.communicate(timeout=HANG_S)
    return agx.returncode, out, err


def rows_of(out):
    lines = [json.loads(line) for line in out.splitlines()]
    assert all(line["output"] == "shout" for line in lines), out
    assert all(bytes(line["tokens"]).decode() == line["text"] for line in lines), out
    return sorted((line["row"], line["text"]) for line in lines)


def test_rows_go_through_commands_and_come_as_json():
    script = Script()
    code, out, err = run_client(script, "--json")
    assert (code, err) == (0, ""), (code, err)
    assert rows_of(out) == WANTED, out
    assert script.kinds[-1] == FLOW_CLOSE and script.opened[0][1] & KEEP == 0


def test_values_are_readable_without_json_and_progress_is_told():
    code, out, err = run_client(Script(), "--progress")
    assert code == 0 and "-- row 1, shout\nCARL: \n" in out, out
    assert "3 of 3 rows, 3 calls, 0 shared, 0 fetched\n" in err, err


def test_a_busy_row_is_sent_again():
    script = Script(busy=[1])
    code, out, err = run_client(script, "--json")
    assert (code, err) == (0, "") and rows_of(out) == WANTED, (code, out, err)
    assert sorted(script.rows) == [0, 1, 2]


def test_after_a_break_only_what_is_not_done_is_sent_again():
    for keep in ((), ("--keep", "--program", "p")):
        script = Script(break_after=1)
        code, out, err = run_client(script, "--json", *keep)
        assert code == 0 and rows_of(out) == WANTED, (code, out, err)
        assert "the connection broke" in err, err
        (first, _, before), (second, _, after) = script.opened
        assert (first == second) == bool(keep) and (before == after) == bool(keep)


def test_an_appliance_that_ends_leaves_the_rest_to_the_next():
    for keep in ((), ("--keep", "--program", "p")):
        script = Script(ends=(2, SHUTDOWN), break_after=2)
        code, out, err = run_client(script, "--json", *keep)
        assert code == 0 and rows_of(out) == WANTED, (code, out, err)
        assert "the connection broke" in err and len(script.opened) == 2, err


def test_a_workflow_that_ends_before_its_rows_is_not_complete():
    code, out, err = run_client(Script(ends=(2, DEVICE_FAILED)), "--json")
    assert code == 5 and len(rows_of(out)) == 2, (code, out, err)
    assert "2 of 3 rows are done: the engine failed" in err, err


def test_ctrl_c_cancels_or_leaves_what_is_kept():
    for keep, said in (((), "cancelled"), (("--keep", "--program", "p"), "--program p goes on")):
        script = Script(hold=True)
        with client(script, *keep) as agx:
            assert script.held.wait(HANG_S)
            agx.send_signal(signal.SIGINT)
            _, err = agx.communicate(timeout=HANG_S)
        assert agx.returncode == 5 and said in err, err
        assert (FLOW_CANCEL in script.kinds) == (not keep)


def test_a_kept_workflow_has_the_same_id_the_next_time():
    scripts = [Script(), Script(), Script()]
    for script, program in zip(scripts, "ppq"):
        assert run_client(script, "--keep", "--program", program, "--json")[0] == 0
    first, second, other = (script.opened[0] for script in scripts)
    assert first == second and first[0] != other[0] and first[1] & KEEP


def test_lengths_are_measured_and_read_again():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "lengths")
        assert run_client(Script(), "--json", "--profile", path)[0] == 0
        with open(path, encoding="utf-8") as file:
            mean = sum(len(text.encode()) for _, text in WANTED) / 3
            assert file.read() == "shout\t%.2f\t3\n" % mean
        done = subprocess.run([os.path.join(BUILD, "agx"), "flow", "--dot", "--est", path,
                               "/dev/stdin"], input=FLOW, text=True, capture_output=True,
                              check=True)
        assert "lambda, about 9" in done.stdout, done.stdout


def test_what_is_wrong_is_said_before_anything_is_sent():
    for words, said in ((("--lambda", "x=tr"), "a / in PATH is expected"),
                        (("--lambda", "shout=/nope/x"),
                         "--lambda shout=/nope/x: No such file or directory"),
                        (("--lambda", "shouts=/bin/cat"),
                         "--lambda shouts=/bin/cat: the workflow has no lambda of that name"),
                        (("--keep",), "--keep needs --program")):
        code, out, err = run_client(Script(), *words)
        assert code == 2 and out == "" and said in err, (code, err)
    code, _, err = run_client(Script(), flow=FLOW.replace("shout", "other"))
    assert code == 2 and "--lambda other=PATH is missing" in err, err
    code, _, err = run_client(Script(), flow=FLOW.replace("why", "whence"))
    said = "rows: line 1: found the column 'why', expected the name of an input"
    assert code == 2 and said in err, err


def test_a_kept_workflow_of_a_real_appliance_gives_the_same_values_again():
    flow = ("agentix-flow 1\ninput q\nllm a max=6 = \"Q: \" q\nlambda same max=9 = a\n"
            "output a same\n")
    with tempfile.TemporaryDirectory() as folder, Appliance() as appliance:
        for name, text in (("flow", flow), ("rows", "q\n" + "".join(f"{i}\n" for i in range(100)))):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        runs = [run("agx", "--to", appliance.to, "flow", "--inputs", folder + "/rows",
                    "--lambda", "same=/bin/cat", "--keep", "--program", "p", "--json",
                    folder + "/flow") for _ in range(2)]
    assert [done.returncode for done in runs] == [0, 0], runs
    assert "the workflow was there" in runs[1].stderr, runs[1].stderr
    first, second = (sorted(done.stdout.splitlines()) for done in runs)
    assert first == second and len(first) == 200
