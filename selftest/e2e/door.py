# SPDX-License-Identifier: MIT
"""The real agentix-door before a real appliance, and a client that speaks bare HTTP to it.

Both are started with the same settings, on ports of their own, as docs/door.md says. Like
appliance.py it signals only what it started, and asserts no time.
"""
import contextlib
import glob
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import threading

from appliance import BUILD, HAND_OVER, HANG_S, ROOT, Appliance, wait_for
from skip import Skip

sys.path.insert(0, os.path.join(ROOT, "tools", "sdk", "python"))
from agentix.wire import program_id  # noqa: E402

# A test that leaves requests open is not kept waiting by the door's end.
PATIENT = ("door.receive=10min", "door.patience=30min", "door.drain=0")
CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
MESSAGES, COUNT = "/v1/messages", "/v1/messages/count_tokens"
CLIENTS = os.path.join(ROOT, "build", "clients")    # tools/setup door makes it


class Answer:
    """A whole answer: status, headers, text, and json where it is JSON."""

    def __init__(self, response):
        self.status, self.headers = response.status, response.headers
        self.text = response.read().decode()

    @property
    def json(self):
        return json.loads(self.text)

    @property
    def error(self):
        """(type, param, message) of a refusal in OpenAI's shape."""
        error = self.json["error"]
        return error["type"], error["param"], error["message"]


class Stream:
    """An answer in events, which arrive one by one; events are (name or None, data)."""

    def __init__(self, connection, response):
        self.connection, self.response = connection, response
        self.status, self.headers = response.status, response.headers

    def __iter__(self):
        name, data = None, []
        for line in self.response:
            line = line.decode().rstrip("\r\n")
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                data.append(line[6:])
            elif line == "":
                yield name, parse("\n".join(data))
                name, data = None, []
            else:
                raise AssertionError("no line of an event: %r" % line)

    def close(self):
        self.response.close()
        self.connection.close()


def parse(data):
    return data if data == "[DONE]" else json.loads(data)


def chat(text, **fields):
    """The body of a chat request with one message."""
    return dict(messages=[{"role": "user", "content": text}], **fields)


class Door:
    """`with Door("door.programs=16") as d:` has an appliance d.a and speaks HTTP at d.port."""

    def __init__(self, *settings, a=None, health=200, listener=None):
        self.settings, self.given, self.health = settings, a, health
        self.listener = listener        # a socket that is handed over

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        self.a = self.given or self.stack.enter_context(Appliance(*self.settings))
        self.start()
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None:
            print("\n".join(["door said:"] + self.lines[-30:]))
        status = self.stop()
        self.stack.__exit__(kind, value, trace)
        assert kind is not None or status == 0, "exit status %d\n%s" % (status, self.lines)

    # ---- the process -----------------------------------------------------------------------------

    def start(self, port=0):
        """Starts the door, and waits until it has reached the appliance, or says what it should."""
        arguments = [os.path.join(BUILD, "agentix-door")]
        for setting in ("net.tcp=" + self.a.to, "door.listen=127.0.0.1:%d" % port, *PATIENT,
                        *self.settings):
            arguments += ["--set", setting]
        self.lines, handed = [], ()
        if self.listener is not None:
            port, handed = self.listener.getsockname()[1], (self.listener.fileno(),)
            arguments = [sys.executable, "-c", HAND_OVER, "1", str(handed[0]), *arguments,
                         "--set", "door.listen=127.0.0.1:%d" % port]
        self.process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True,
                                        stdin=subprocess.DEVNULL, pass_fds=handed)
        self.reader = threading.Thread(target=self._read, args=(self.process,), daemon=True)
        self.reader.start()
        self.port = wait_for(self._listening, "the door listens")
        wait_for(lambda: self.ask("GET", "/health").status == self.health, "the door is started")

    def _read(self, process):
        for line in process.stderr:
            self.lines.append(line.rstrip("\n"))

    def _listening(self):
        if self.process.poll() is not None:
            self.reader.join(HANG_S)
        for line in list(self.lines):
            match = re.search(r"door info .*listening door\.listen=127\.0\.0\.1:(\d+)$", line)
            if match:
                return int(match.group(1))
        assert self.process.poll() is None, "the door ended\n" + "\n".join(self.lines)
        return None

    def stop(self, kill=False):
        """Ends the process; returns its exit status."""
        if self.process.poll() is None:
            (self.process.kill if kill else self.process.terminate)()
        try:
            status = self.process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.reader.join(5)
        self.process.stderr.close()
        return status

    def restart(self):
        """Kills the door, and starts another one on its port."""
        self.stop(kill=True)
        self.start(self.port)

    # ---- requests --------------------------------------------------------------------------------

    @property
    def url(self):
        return "%s://127.0.0.1:%d" % ("http", self.port)

    def send(self, method, path, body=None, headers=()):
        """Sends a request; returns the connection, which has no answer yet."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG_S)
        text = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
        connection.request(method, path, text, dict(headers))
        return connection

    def ask(self, method, path, body=None, headers=()):
        connection = self.send(method, path, body, headers)
        with contextlib.closing(connection):
            return Answer(connection.getresponse())

    def post(self, path, body, headers=()):
        return self.ask("POST", path, body, headers)

    def right(self, path, body, headers=()):
        """The JSON of an answer that must be right."""
        answer = self.post(path, body, headers)
        assert answer.status == 200, (answer.status, answer.text)
        return answer.json

    def stream(self, path, body, headers=()):
        """An answer in events, with its head read."""
        connection = self.send("POST", path, dict(body, stream=True), headers)
        stream = Stream(connection, connection.getresponse())
        assert stream.status == 200, (stream.status, stream.response.read())
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        return stream

    def events(self, path, body, headers=()):
        with contextlib.closing(self.stream(path, body, headers)) as stream:
            return list(stream)

    # ---- what the appliance has seen -------------------------------------------------------------

    def programs(self):
        """The process table: shown id -> row, by column; `threads` are slots of open calls."""
        head, *lines = self.a.text("programs").splitlines()
        names, rows = head.split(), {}
        for line in lines:
            words = line.split()
            rows[words[1]] = dict(zip(names, words), threads=words[len(names) - 1:])
        return rows

    def program(self, name):
        """The row of the program of this name; None: there is none."""
        return self.programs().get(program_id(name)[:4].hex())

    def calls_by_program(self):
        """How many calls each program has made, without their names."""
        return sorted(int(row["ended"]) + int(row["open"]) for row in self.programs().values())


# ---- clients of others ---------------------------------------------------------------------------

def use_clients():
    """Makes the packages of clients.txt importable in this process, or Skip."""
    version = "python%d.%d" % sys.version_info[:2]
    found = glob.glob(os.path.join(CLIENTS, "lib", version, "site-packages"))
    if not os.path.exists(os.path.join(CLIENTS, "clients.txt")) or not found:
        raise Skip("needs PyPI: there is no build/clients (tools/setup door makes it)")
    sys.path.insert(0, found[0])        # before the packages of the machine
    # Nothing but the door is asked, and nothing is told to servers elsewhere.
    os.environ.update(NO_PROXY="*", no_proxy="*", OPENAI_API_KEY="any", ANTHROPIC_API_KEY="any",
                      OPENAI_AGENTS_DISABLE_TRACING="1", LANGSMITH_TRACING="false")


def curl(*arguments):
    """What curl prints, or Skip."""
    if shutil.which("curl") is None:
        raise Skip("needs curl (tools/setup door installs it)")
    done = subprocess.run(["curl", "-sS", "--noproxy", "*", *arguments], text=True,
                          capture_output=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    return done.stdout
