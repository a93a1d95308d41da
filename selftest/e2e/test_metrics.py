# SPDX-License-Identifier: MIT
"""GET /metrics of the appliance and of the door, read by Prometheus: by promtool, which knows its
conventions, and by a server that scrapes them. `tools/setup metrics` installs both."""
import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import tempfile
import urllib.parse

from appliance import HANG_S, Appliance, wait_for
from door import Door
from protocol import Client
from skip import Skip

CONFIG = """global: {scrape_interval: 100ms, scrape_timeout: 100ms}
scrape_configs:
- {job_name: agentix, static_configs: [{targets: ["%s:%d"]}]}
"""


def tool(name):
    path = shutil.which(name)
    if path is None:
        raise Skip("no %s: `tools/setup metrics` installs it" % name)
    return path


def metrics_of(a):
    head, body = a.ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").split("\r\n\r\n", 1)
    assert head.startswith("HTTP/1.0 200 ") and "text/plain; version=0.0.4" in head, head
    return body


def samples(body):
    return dict(line.rsplit(" ", 1) for line in body.splitlines() if not line.startswith("#"))


def lint(body):
    run = subprocess.run([tool("promtool"), "check", "metrics"], input=body, text=True,
                         capture_output=True, timeout=HANG_S)
    assert run.returncode == 0 and run.stderr == "", run.stderr


class Prometheus:
    """Scrapes one address; `query()` asks it."""

    def __init__(self, address):
        binary = tool("prometheus")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.directory = tempfile.TemporaryDirectory(prefix="agentix-e2e-")
        config = os.path.join(self.directory.name, "prometheus.yml")
        with open(config, "w") as file:
            file.write(CONFIG % address)
        self.process = subprocess.Popen(
            [binary, "--config.file", config, "--log.level=error",
             "--storage.tsdb.path", os.path.join(self.directory.name, "data"),
             "--web.listen-address=127.0.0.1:%d" % self.port], stdin=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def query(self, expression):
        """The value of the only series of the answer; None while there is none."""
        path = "/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        assert self.process.poll() is None, "prometheus has ended"
        ask = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG_S)
        with contextlib.closing(ask), contextlib.suppress(ConnectionError):
            ask.request("GET", path)
            answer = ask.getresponse()
            result = json.load(answer)["data"]["result"] if answer.status == 200 else []
            return float(result[0]["value"][1]) if len(result) == 1 else None
        return None

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.directory.cleanup()


def test_every_statistic_and_histogram_is_there_and_promtool_finds_no_fault():
    with Appliance() as a:
        with Client(a.tcp) as c:
            for i in range(5):
                c.generate(i + 1, [1, 2, 3], max_tokens=4).check()
        body = metrics_of(a)
        found = samples(body)
        assert found["agentix_calls_completed_total"] == "5", body
        assert found["agentix_first_token_seconds_count"] == "5", body
        assert found["agentix_token_gap_seconds_count"] == "15", body
        assert found["agentix_call_seconds_count"] == "5", body
        waits = [int(value) for name, value in found.items() if "queue_wait_seconds_count" in name]
        assert sum(waits) == 5, body
        lint(body)


def test_the_doors_metrics_follow_the_same_conventions():
    with Door() as d:
        body = d.ask("GET", "/metrics").text
        assert samples(body)["agentix_door_calls_total"] == "0", body
        lint(body)


def test_prometheus_scrapes_and_gives_the_99th_percentile_of_the_first_token():
    with Appliance() as a, Client(a.tcp) as c:
        c.generate(1, [1, 2, 3], max_tokens=4).check()
        with Prometheus(a.text_address) as p:
            wait_for(lambda: p.query("agentix_serving") == 1, "it is scraped")
            for i in range(20):
                c.generate(i + 2, [1, 2, 3], max_tokens=4).check()
            wait_for(lambda: p.query("agentix_first_token_seconds_count") == 21, "all are seen")
            p99 = p.query("histogram_quantile(0.99, agentix_first_token_seconds_bucket)")
        ours = a.stats()["first_token_us_p99"] / 1e6
        assert 0 < p99 and ours / 2 <= p99 <= ours * 2, (p99, ours)
