# SPDX-License-Identifier: MIT
"""The demo: what it says at its end follows from its own table, whatever the machine does then.

No test says which side is faster: that depends on the machine. selftest/unit/lab/test_run.c shows
the order of ends in virtual time."""
import contextlib
import fcntl
import os
import pty
import re
import socket
import struct
import subprocess
import tempfile
import termios
import threading

import protocol
from appliance import BUILD, HANG_S, NOISE, ROOT, Appliance, TextFile

CONNECT, PROTOCOL = 3, 6
SLOW = HANG_S * 10                  # one CPU for two appliances with plain kernels
TASKS = """task vote a-long-one
samples 2
> Sum: What is 97 minus 90?
= 7
then vote a-long-one
> Sum: What is 62 minus 28?
= 34
task chat a-short-one
> Well. What is rain good for?
= roots
"""
ROW = re.compile(r"(\S+) +([\d.]+) s +([\d.]+) s   (long|short) +(\d+) +(\d+) (\d+)/(\d+)"
                 r"( WRONG)?$")
MEAN = re.compile(r"(\d+) (long|short) agents, mean +([\d.]+) s +([\d.]+) s   (.*)$")


def demo(left, right, *arguments, **environment):
    command = [os.path.join(BUILD, "agx"), "--to", right.to, "demo", "--against", left.to,
               "--against-title", "fcfs", "--title", "plas", *arguments]
    return subprocess.run(command, text=True, capture_output=True, timeout=SLOW,
                          env=dict(os.environ, **environment))


@contextlib.contextmanager
def pair(*left):
    with Appliance("sched.policy=fcfs", "sched.batch=2", *left) as a:
        with Appliance("sched.batch=2") as b:
            yield a, b


def phrases(first, second):
    """What may be said about these printed seconds, which are rounded."""
    found = set()
    for a in (first - 0.005, first + 0.005):
        for b in (second - 0.005, second + 0.005):
            ratio = max(a, b) / max(min(a, b), 1e-9)
            found.add("took just as long" if ratio < 1.005 else
                      "%.*f" % (2 if ratio < 2 else 1 if ratio < 10 else 0, ratio))
    return found


def check_phrase(phrase, first, second):
    allowed = phrases(first, second)
    number = re.search(r"[\d.]+", phrase)
    if number is None:
        assert "took just as long" in phrase and phrase.strip() in allowed, (phrase, allowed)
        return
    ratios = [float(x) if x[0].isdigit() else 1.0 for x in allowed]
    assert min(ratios) <= float(number.group(0)) <= max(ratios), (phrase, allowed)
    faster = "as soon" in phrase
    assert faster != ("as long" in phrase)
    assert first >= second if faster else first <= second, (phrase, first, second)


def check_end(lines, programs, longs):
    """The means are those of the rows, the phrases follow from them, the sentence repeats these."""
    rows = [match for match in map(ROW.match, lines) if match]
    means = {match.group(2): match for match in map(MEAN.match, lines) if match}
    assert len(rows) == programs, lines
    for kind, count in (("short", programs - longs), ("long", longs)):
        mine = [row for row in rows if row.group(4) == kind]
        assert len(mine) == count == int(means[kind].group(1)), (kind, lines)
        for group in (2, 3):
            mean = sum(float(row.group(group)) for row in mine) / count
            assert abs(mean - float(means[kind].group(group + 1))) < 0.0101, (kind, lines)
        check_phrase(means[kind].group(5), *[float(means[kind].group(i)) for i in (3, 4)])
    tokens = sum(int(row.group(6)) for row in rows)
    right, tasks = (sum(int(row.group(i)) for row in rows) for i in (7, 8))
    assert lines[-2] == "the same %d tokens on both sides, all verified; %d of %d answers right" % (
        tokens, right, tasks), lines[-2]
    say = {kind: means[kind].group(5).replace("done", "were done") for kind in means}
    if "done" in say["short"]:
        say["long"] = say["long"].replace("were done ", "")
    assert lines[-1] == "Short agents %s; long ones %s." % (say["short"], say["long"]), lines[-1]


def test_the_last_line_follows_from_the_table():
    with pair() as (a, b):
        done = demo(a, b)
        assert done.returncode == 0, done.stderr
        check_end(done.stdout.splitlines(), 12, 3)
        assert "\x1b" not in done.stdout
        assert a.stats()["calls_completed"] == b.stats()["calls_completed"] > 12


def test_the_script_compares_two_policies_and_stops_both_appliances():
    with TextFile(TASKS) as path, tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(["sh", os.path.join(ROOT, "tools", "demo"), "--tasks", path],
                              text=True, capture_output=True, timeout=SLOW,
                              env=dict(os.environ, TMPDIR=directory))
        assert done.returncode == 0, done.stderr
        assert os.listdir(directory) == []
    lines = done.stdout.splitlines()
    assert "sched.batch=2" in lines[0] and "sched.policy=fcfs" in lines[1], lines
    check_end(lines, 2, 1)


def test_other_tokens_on_one_side_are_a_failure():
    with TextFile(TASKS) as path, pair(NOISE) as (a, b):
        done = demo(a, b, "--tasks", path)
    assert done.returncode == PROTOCOL and "did not compute the same" in done.stderr, done
    assert "a-short-one: DIFFERENT TOKENS on the two sides" in done.stdout
    assert "times as" not in done.stdout.splitlines()[-1] and "the same" not in done.stdout


def test_a_side_that_does_not_answer_ends_the_demo():
    with Appliance() as a:
        command = [os.path.join(BUILD, "agx"), "--to", a.to, "demo", "--against",
                   "unix:/nonexistent/socket"]
        done = subprocess.run(command, text=True, capture_output=True, timeout=HANG_S)
        assert done.returncode == CONNECT and done.stderr, done


# ---- on a terminal -------------------------------------------------------------------------------

def on_terminal(columns, lines, left, right, *arguments, **environment):
    """All that the demo writes to a terminal of this size, and its exit code."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    command = [os.path.join(BUILD, "agx"), "--to", right.to, "demo", "--against", left.to,
               *arguments]
    settings = {"TERM": "xterm", "LC_ALL": "C.UTF-8", **environment}
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=subprocess.PIPE,
                          env=dict(kept, **settings)) as process:
        os.close(slave)
        written = b""
        with contextlib.suppress(OSError):      # it has closed its end
            while more := os.read(master, 65536):
                written += more
        code = process.wait(HANG_S)
    os.close(master)
    return code, written.decode("utf-8").replace("\r\n", "\n")


def last_picture(written):
    """Lines, without the sequences that colour them or clear the rest."""
    return re.sub(r"\x1b\[[0-9;]*[mK]", "", re.split(r"\x1b\[\d+A\r", written)[-1]).splitlines()


def test_the_picture_fits_a_terminal_and_ends_in_the_sentence():
    for columns, lines in ((80, 24), (140, 50)):
        with pair() as (a, b):
            code, written = on_terminal(columns, lines, a, b)
        picture = last_picture(written)
        assert code == 0 and "\x1b[" in written
        assert picture[-1].startswith("Short agents "), picture
        assert all(len(line) < columns for line in picture), picture
        assert "9 of 9 short done" in picture[0] and "vote-sums" in picture[1]
        # with the three lines above the picture and the cursor's below
        assert len(picture) + 3 < lines, len(picture)
        assert ("Answer: " in "\n".join(picture)) == (lines == 50)


def test_a_plain_terminal_gets_plain_characters():
    with TextFile(TASKS) as path, pair() as (a, b):
        code, written = on_terminal(80, 24, a, b, "--tasks", path, NO_COLOR="1", LC_ALL="C")
        # A run that is over at once has one picture, and the cursor never moves up.
        assert code == 0 and written.isascii() and "1 of 1 short done" in written, written
        assert not re.search(r"\x1b\[[0-9;]*m", written)
        code, written = on_terminal(80, 24, a, b, "--tasks", path, TERM="dumb")
        assert code == 0 and "\x1b" not in written and "short done" not in written
        code, written = on_terminal(60, 24, a, b, "--tasks", path)
        assert code == 0 and "\x1b" not in written


class Liar:
    """An appliance between agx and a real one: it replaces words in the frames of the real one."""

    def __init__(self, address, lies):
        self.address, self.lies, self.told = address, lies, set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.to = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):      # the listener is closed
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(self.address)
                for serve in (self._ask, self._answer):
                    threading.Thread(target=serve, args=(client, server), daemon=True).start()

    @staticmethod
    def _ask(client, server):
        with contextlib.suppress(OSError):
            while got := client.recv(65536):
                server.sendall(got)
            server.shutdown(socket.SHUT_WR)

    def _answer(self, client, server):
        frames = server.makefile("rb")
        with contextlib.suppress(OSError):
            while head := frames.read(16):
                _, kind, _, length, _ = struct.unpack("<IB3sII", head)
                payload = frames.read(length)
                for word, lie in self.lies.items():
                    self.told |= {word} if word in payload else set()
                    payload = payload.replace(word, lie)
                client.sendall(protocol.frame(kind, payload))
            client.shutdown(socket.SHUT_WR)


def test_an_appliance_cannot_move_the_cursor():
    evil = b"\x1b[2J\xc2\x9b2J\x07"
    with TextFile(TASKS) as path, pair() as (a, b):
        with protocol.Client(a.tcp) as client:
            name = client.welcome["model"].rstrip(b"\0")
        lies = {name: (evil + name)[:len(name)], b"Think": evil[:4] + b"k", b" the": evil[:4]}
        liar = Liar(a.tcp, lies)
        code, written = on_terminal(140, 50, liar, b, "--tasks", path)
        liar.listener.close()
    assert code == 0 and name in liar.told and len(liar.told) > 1, (code, liar.told)
    written = re.sub("(?<=A)\r", "", written)
    assert not re.search(r"[\x00-\x09\x0b-\x1a\x1c-\x1f\x7f-\x9f]", written), written[:300]
    ours = re.findall(r"\x1b\[(?:\d+A|K|[0-9;]*m)", written)
    assert len(ours) == written.count("\x1b"), written[:300]
