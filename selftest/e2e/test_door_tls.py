# SPDX-License-Identifier: MIT
"""TLS before the door, by the real HAProxy with tools/haproxy-door.cfg and the real stunnel with
tools/stunnel-door.conf, and a certificate that is made here."""
import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
import tempfile

from appliance import HANG_S, ROOT, Appliance, wait_for
from boxes import free_ports
from door_attack import CHAT, Door
from skip import Skip


class Tls:
    """`with Haproxy(door) as t:` speaks TLS on t.port; a subclass is a program of others."""
    program, file, command = "", "", ()

    def __init__(self, door):
        for tool in (self.program, "openssl"):
            if shutil.which(tool) is None:
                raise Skip("needs %s (a Debian package)" % tool)
        self.folder = tempfile.TemporaryDirectory(prefix="agentix-e2e-")
        self.certificate = os.path.join(self.folder.name, "door.crt")
        key, self.pem = (os.path.join(self.folder.name, name) for name in ("door.key", "door.pem"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
                        "-keyout", key, "-out", self.certificate, "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost"],
                       check=True, capture_output=True, timeout=HANG_S)
        with open(self.pem, "w", opener=lambda name, how: os.open(name, how, 0o600)) as whole:
            whole.write(open(self.certificate).read() + open(key).read())
        self.start(door)
        wait_for(lambda: self.sees(door), "%s sees the door" % self.program)

    def start(self, door):
        self.port = free_ports(1)[0]
        text = open(os.path.join(ROOT, "tools", self.file)).read()
        for pattern, to in self.changes(door):
            text, count = re.subn(pattern, to, text)
            assert count == 1, pattern
        path = os.path.join(self.folder.name, self.file)
        with open(path, "w") as file:
            file.write(text)
        self.process = subprocess.Popen([*self.command, path], stderr=subprocess.DEVNULL)

    def sees(self, door):
        """Another socket may have got the port before: the program ends then."""
        if self.process.poll() is not None:
            self.start(door)
        return self.get("/health") == 200

    def connect(self):
        context = ssl.create_default_context(cafile=self.certificate)
        return http.client.HTTPSConnection("localhost", self.port, timeout=HANG_S, context=context)

    def get(self, path):
        connection = self.connect()
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(HANG_S)
        self.folder.cleanup()


class Haproxy(Tls):
    program, file, command = "haproxy", "haproxy-door.cfg", ("haproxy", "-db", "-f")

    def changes(self, door):
        return ((r"bind :443", "bind 127.0.0.1:%d" % self.port),
                (r"/etc/agentix/door\.pem", self.pem),
                (r"127\.0\.0\.1:8080 check inter 1s",
                 "127.0.0.1:%d check inter 100ms" % door.port))


class Stunnel(Tls):
    program, file, command = "stunnel", "stunnel-door.conf", ("stunnel",)

    def changes(self, door):
        return ((r"accept = 443", "accept = 127.0.0.1:%d" % self.port),
                (r"/etc/agentix/door\.pem", self.pem),
                (r"127\.0\.0\.1:8080", "127.0.0.1:%d" % door.port))


def post(connection, **fields):
    connection.request("POST", "/v1/chat/completions",
                       json.dumps(dict(CHAT, temperature=0, **fields)))


def answers_whole_and_as_events(kind):
    with Appliance() as a, Door(a) as d, kind(d) as t:
        connection = t.connect()
        answers = []
        for stream in (False, True):
            post(connection, stream=stream)
            answer = connection.getresponse()
            assert answer.status == 200
            answers.append(answer.read().decode())
        whole = json.loads(answers[0])["choices"][0]["message"]["content"]
        events = [json.loads(line[6:]) for line in answers[1].splitlines()
                  if line.startswith("data: {")]
        assert "".join(e["choices"][0]["delta"].get("content", "") for e in events) == whole
        connection.close()


def test_chat_over_haproxy_whole_and_as_events():
    answers_whole_and_as_events(Haproxy)


def test_chat_over_stunnel_whole_and_as_events():
    answers_whole_and_as_events(Stunnel)


def test_a_client_of_stunnel_that_leaves_cancels_its_call():
    with Appliance() as a, Door(a) as d, Stunnel(d) as t:
        for stream in (False, True):
            cancelled = a.stats()["calls_cancelled"]
            with a.standing_still():
                connection = t.connect()
                post(connection, stream=stream, ignore_eos=True, max_tokens=200)
                a.wait_stats(calls_open=1)
                frames = a.stats()["frames_received"]
                connection.close()
                wait_for(lambda: a.stats()["frames_received"] > frames, "the call is cancelled")
            a.wait_stats(calls_open=0, calls_cancelled=cancelled + 1)
