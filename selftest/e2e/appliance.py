# SPDX-License-Identifier: MIT
"""The real binary under test: start it on free ports, ask its text port, signal it, stop it.

It signals only processes that it started, by pid. It asserts no time; deadlines only bound how long
a test may hang.
"""
import contextlib
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("AGENTIX_BUILD", os.path.join(ROOT, "build"))
SHARED = os.path.join(os.path.dirname(ROOT), "shared")
EMBEDDED_MODEL = os.path.join(ROOT, "appliance", "embedded.gguf")
# Random weights: no EOS, and another answer to each prompt. For tests that compare tokens.
RANDOM_MODEL = os.path.join(ROOT, "build", "model-tiny.gguf")
NOISE = "model.path=" + RANDOM_MODEL
with open(os.path.join(ROOT, "appliance", "boot", "exit.def"), encoding="utf-8") as rows:
    EXIT = {name: int(status) for name, status in re.findall(r"^EXIT\((\w+), +(\d+),", rows.read(),
                                                             re.M)}
tempfile.tempdir = "/tmp"           # paths of sockets must be short, whatever TMPDIR is
HANG_S = float(os.environ.get("AGENTIX_HANG_S", "60"))
# On a machine that is busy for seconds, no peer times out and no worker counts as hung.
PATIENT = ("net.handshake=1min", "net.frame_deadline=10min", "net.write_deadline=10min",
           "engine.hang=10min")


def wait_for(condition, what, limit_s=HANG_S):
    """Polls until condition() is true; returns its value."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError("did not happen: " + what)


def state(pid):
    """State of a process in the kernel's letters: T when it is stopped; X when there is none."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "X"


def is_alive(pid):
    return state(pid) not in "ZX"


def memory_bytes(pid, name):
    """A size that the kernel tells of a process: RssAnon, RssShmem ..."""
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        return 1024 * next(int(line.split()[1]) for line in file if line.startswith(name + ":"))


def stop(pid):
    """Stops the process; returns when it has stopped."""
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: state(pid) == "T", "%d is stopped" % pid)


@contextlib.contextmanager
def stopped(pid):
    """Stops the process for the block."""
    stop(pid)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def listens(path):
    """True when a process listens: a unix socket has its name earlier than that."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


class TextFile:
    """A file with this text while the block lasts; its path."""

    def __init__(self, text, mode=0o644):
        self.text, self.mode = text, mode

    def __enter__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="agentix-e2e-")
        path = os.path.join(self.directory.name, "file")
        with open(path, "w") as file:
            file.write(self.text)
        os.chmod(path, self.mode)
        return path

    def __exit__(self, *_):
        self.directory.cleanup()


class Appliance:
    """`with Appliance("sched.queues=2") as a:` serves on a.tcp and answers a.text("health")."""

    def __init__(self, *settings, unix=False, wait=True, binary="agentix", environment=(),
                 config=None, through=(), **options):
        """`config` is a file, `through` a command that starts the one behind it; other options are
        those of subprocess.Popen."""
        self.directory = tempfile.TemporaryDirectory(prefix="agentix-e2e-")
        self.unix = os.path.join(self.directory.name, "s") if unix else None
        arguments = [*through, os.path.join(BUILD, binary)]
        arguments += ["--config", config] if config else []
        for setting in ("net.tcp=127.0.0.1:0", "text.listen=127.0.0.1:0", *PATIENT, *settings):
            arguments += ["--set", setting]
        if unix:
            arguments += ["--set", "net.unix=" + self.unix]
        self.lines = []
        self.process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True,
                                        stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                                        env=dict(os.environ, **dict(environment)), **options)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.tcp = self._listening("net.tcp")
        self.text_address = self._listening("text.listen")
        if wait:
            self.wait_ready()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    def _listening(self, key):
        pattern = re.compile("listening " + re.escape(key) + r"=(.*):(\d+)$")

        def find():
            ended = self.process.poll() is not None
            if ended:
                self.reader.join(HANG_S)
            for line in list(self.lines):
                match = pattern.search(line)
                if match:
                    return match.group(1).strip("[]"), int(match.group(2))
            if ended:
                raise AssertionError("ended: %d\n%s" % (self.process.returncode,
                                                        "\n".join(self.lines)))
            return None
        return wait_for(find, "listening on " + key)

    def said(self, text):
        """In how many lines of its log so far: they come by a pipe, after what they tell of."""
        return sum(text in line for line in list(self.lines))

    def wait_said(self, text, times=1):
        wait_for(lambda: self.said(text) >= times, "it says: " + text)
        assert self.said(text) == times, self.lines

    @property
    def to(self):
        return "%s:%d" % self.tcp

    def ask(self, request):
        """All that the text port sends, up to its close or the answer's end line."""
        with socket.create_connection(self.text_address, timeout=HANG_S) as s:
            s.sendall(request)
            answer = b""
            while True:
                got = s.recv(65536)
                answer += got
                if not got or answer.endswith(b"end\r\n") or answer.endswith(b"end\n"):
                    return answer.decode("utf-8", "replace")

    def text(self, command):
        lines = self.ask(command.encode() + b"\r\n").replace("\r\n", "\n").split("\n")
        return "\n".join(line for line in lines if line not in ("", "end"))

    def health(self):
        return self.text("health")

    def wait_ready(self):
        """Polls, because a worker that waits for the processor may look silent for a moment."""
        wait_for(lambda: self.health().startswith("ready"), "health is ready")

    def stats(self):
        """name -> integer"""
        values = {}
        for line in self.text("stats").split("\n"):
            match = re.match(r"(\w+)[ =]+(\d+)\b", line)
            if match:
                values[match.group(1)] = int(match.group(2))
        return values

    def all_children(self):
        """(comm, pid) of the keeper's children; workers of several engines are called alike."""
        found = []
        path = "/proc/%d/task/%d/children" % (self.process.pid, self.process.pid)
        for pid in open(path).read().split():
            try:
                found.append((open("/proc/%s/comm" % pid).read().strip(), int(pid)))
            except OSError:
                pass                        # it died in between
        return found

    def children(self):
        """comm -> pid of one of them."""
        return dict(self.all_children())

    @property
    def worker(self):
        return wait_for(lambda: self.children().get("agentix-worker"), "a worker")

    @property
    def core(self):
        return wait_for(lambda: self.children().get("agentix-core"), "a core")

    @property
    def next_core(self):
        """The core that waits to take over."""
        return wait_for(lambda: self.children().get("agentix-next"), "a core waits")

    def standing_still(self):
        """Stops the worker for the block, so that no call that arrives in it ends in it, however
        fast the engine and however slow the test."""
        return stopped(self.worker)

    def wait_stats(self, **wanted):
        """Waits until these statistics have these values."""
        wait_for(lambda: wanted.items() <= self.stats().items(), "stats are %s" % wanted)

    def wait_back(self):
        """Waits until no client is connected, no call is open and no block is used."""
        self.wait_stats(connections_open=0, calls_open=0, kv_blocks_used=0)

    def stop(self):
        """Sends SIGTERM; returns the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.reader.join(5)
        self.process.stderr.close()
        self.directory.cleanup()
        return status

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None:
            print("\n".join(["appliance said:"] + self.lines[-30:]))
            self.process.kill()
        status = self.stop()
        if kind is None:
            assert status == 0, "exit status %d\n%s" % (status, "\n".join(self.lines[-30:]))


# Runs argv[2 + N ..] with the N descriptors of argv[2 ..] from 3 on, as systemd hands them over.
HAND_OVER = """
import fcntl, os, sys
count = int(sys.argv[1])
spare = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 100) for number in sys.argv[2:2 + count]]
for at, number in enumerate(spare):
    os.dup2(number, 3 + at)
os.environ.update(LISTEN_FDS=str(count), LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2 + count], sys.argv[2 + count:])
"""


def run(program, *arguments, **options):
    """Runs build/PROGRAM to its end; returns the completed process with text output."""
    return subprocess.run([os.path.join(BUILD, program)] + list(arguments), text=True,
                          capture_output=True, timeout=options.pop("timeout", HANG_S), **options)
