# SPDX-License-Identifier: MIT
"""A door before an appliance, and clients of it that are hostile: sockets, and bytes by hand."""
import json
import os
import re
import signal
import socket
import subprocess
import threading

from appliance import BUILD, HANG_S, wait_for

CHAT = {"messages": [{"role": "user", "content": "What do bees make?"}], "max_tokens": 8}


class Door:
    """`with Door(appliance, "door.receive=1s") as d:` serves on 127.0.0.1:d.port."""

    def __init__(self, appliance, *settings):
        self.appliance, self.settings, self.lines = appliance, settings, []
        self.process = self.port = None
        self.start()

    def start(self):
        """Also again, on the same port."""
        arguments = [os.path.join(BUILD, "agentix-door")]
        for setting in ("net.tcp=" + self.appliance.to,
                        "door.listen=127.0.0.1:%d" % (self.port or 0), *self.settings):
            arguments += ["--set", setting]
        self.process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True,
                                        stdin=subprocess.DEVNULL)
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))
            match = re.search(r"listening door\.listen=127\.0\.0\.1:(\d+)", line)
            if match:
                self.port = int(match.group(1))
                break
        assert self.port, self.lines
        reader = threading.Thread(target=self._read, args=(self.process.stderr,), daemon=True)
        reader.start()

    def _read(self, stderr):
        for line in stderr:
            self.lines.append(line.rstrip("\n"))

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=HANG_S)

    def send(self, data):
        """All that the door says to these bytes, up to its close."""
        with self.connect() as s:
            s.sendall(data)
            return read_all(s)

    def post(self, path, body, *headers):
        """(status, JSON) of a request on a connection of its own."""
        answer = self.send(request(path, body, "Connection: close", *headers))
        return status_of(answer), json.loads(body_of(answer) or b"null")

    def get(self, path):
        answer = self.send(b"GET %s HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n" %
                           path.encode())
        return status_of(answer), body_of(answer).decode()

    def metrics(self):
        """name -> value"""
        status, text = self.get("/metrics")
        assert status == 200, text
        return {name: int(value) for name, value in
                re.findall(r"^agentix_door_(\w+) (\d+)$", text, re.MULTILINE)}

    def wait_metrics(self, **wanted):
        wait_for(lambda: wanted.items() <= self.metrics().items(), "metrics are %s" % wanted)

    def wait_idle(self):
        """The one request and connection are those that ask."""
        self.wait_metrics(requests=1, connections=1, calls=0)

    def status(self, name):
        """A number of /proc/PID/status, in KiB where it is memory."""
        with open("/proc/%d/status" % self.process.pid) as file:
            return int(re.search(r"^%s:\s*(\d+)" % name, file.read(), re.MULTILINE).group(1))

    def ticks(self):
        """Of the processor, that the door has used."""
        with open("/proc/%d/stat" % self.process.pid) as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def kill(self):
        self.process.kill()
        self.process.wait(HANG_S)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(HANG_S)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None:
            print("\n".join(["door said:"] + self.lines[-30:]))
            self.process.kill()
        status = self.stop()
        if kind is None:
            assert status == 0, "exit status %d\n%s" % (status, "\n".join(self.lines[-30:]))


def request(path, body, *headers):
    """The bytes of a POST; a body that is no bytes is written as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = ["POST %s HTTP/1.1" % path, "Host: d", "Content-Length: %d" % len(data), *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def read_all(s):
    """Up to the close; a reset is one, too."""
    said = b""
    try:
        while True:
            got = s.recv(65536)
            if not got:
                return said
            said += got
    except ConnectionResetError:
        return said


def read_answer(s):
    """(status, body) of one answer whose length is said, on a connection that stays."""
    said = b""
    while b"\r\n\r\n" not in said:
        got = s.recv(65536)
        assert got, said
        said += got
    head, body = said.split(b"\r\n\r\n", 1)
    length = int(re.search(rb"Content-Length: (\d+)", head, re.IGNORECASE).group(1))
    while len(body) < length:
        got = s.recv(length - len(body))
        assert got, said
        body += got
    assert len(body) == length, body
    return status_of(said), body


def status_of(answer):
    """Of the last head in it; 0: none."""
    found = re.findall(rb"HTTP/1\.[01] (\d+)", answer)
    return int(found[-1]) if found else 0


def body_of(answer):
    return answer.rsplit(b"\r\n\r\n", 1)[-1] if b"\r\n\r\n" in answer else b""


def has_closed(s):
    """True when the door has closed this connection, which it owes nothing."""
    s.setblocking(False)
    try:
        return s.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
