# SPDX-License-Identifier: MIT
"""TLS before the door, by the real HAProxy with tools/haproxy-door.cfg, and a certificate that is
made here."""
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
    """`with Tls(door) as t:` speaks TLS on t.port."""

    def __init__(self, door):
        for tool in ("haproxy", "openssl"):
            if shutil.which(tool) is None:
                raise Skip("needs %s (a Debian package)" % tool)
        self.folder = tempfile.TemporaryDirectory(prefix="agentix-e2e-")
        self.certificate = os.path.join(self.folder.name, "door.crt")
        self.port = free_ports(1)[0]
        key, pem, path = (os.path.join(self.folder.name, name)
                          for name in ("door.key", "door.pem", "haproxy.cfg"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
                        "-keyout", key, "-out", self.certificate, "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost"],
                       check=True, capture_output=True, timeout=HANG_S)
        with open(pem, "w") as whole:
            whole.write(open(self.certificate).read() + open(key).read())
        text = open(os.path.join(ROOT, "tools", "haproxy-door.cfg")).read()
        for pattern, to in ((r"bind :443", "bind 127.0.0.1:%d" % self.port),
                            (r"/etc/agentix/door\.pem", pem),
                            (r"127\.0\.0\.1:8080 check inter 1s",
                             "127.0.0.1:%d check inter 100ms" % door.port)):
            text, count = re.subn(pattern, to, text)
            assert count == 1, pattern
        with open(path, "w") as file:
            file.write(text)
        self.process = subprocess.Popen(["haproxy", "-db", "-f", path], stderr=subprocess.DEVNULL)
        wait_for(lambda: self.get("/health") == 200, "HAProxy sees the door")

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


def test_chat_over_tls_whole_and_as_events():
    with Appliance() as a, Door(a) as d, Tls(d) as t:
        connection = t.connect()
        answers = []
        for stream in (False, True):
            connection.request("POST", "/v1/chat/completions",
                               json.dumps(dict(CHAT, temperature=0, stream=stream)))
            answer = connection.getresponse()
            assert answer.status == 200
            answers.append(answer.read().decode())
        whole = json.loads(answers[0])["choices"][0]["message"]["content"]
        events = [json.loads(line[6:]) for line in answers[1].splitlines()
                  if line.startswith("data: {")]
        assert "".join(e["choices"][0]["delta"].get("content", "") for e in events) == whole
        connection.close()
