# SPDX-License-Identifier: MIT
"""A load tool that others use, against the door: NVIDIA's aiperf, from PyPI in the version of
load.txt (tools/setup load installs it, 1.2 GB, so nothing else does).

Method: it runs with files of our own, and what it has counted is what the door has.
"""
import json
import os
import re
import subprocess
import tempfile

from appliance import HANG_S, ROOT
from door import Door
from skip import Skip

LOAD = os.path.join(ROOT, "build", "load")
MODEL = "agentix-agent"
# aiperf wants a tokenizer, also where the server's counts are taken: one of a single word will do.
TOKENIZER = {"tokenizer.json": {
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}},
    "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}}


def aiperf(d, rows, kind, *arguments):
    """Runs it with rows of a data set, and returns its report: name -> average."""
    program = os.path.join(LOAD, "bin", "aiperf")
    if not os.path.exists(os.path.join(LOAD, "load.txt")):
        raise Skip("needs aiperf: there is no build/load (tools/setup load makes it)")
    with tempfile.TemporaryDirectory(prefix="agentix-e2e-") as folder:
        for name, content in TOKENIZER.items():
            with open(os.path.join(folder, name), "w") as file:
                json.dump(content, file)
        data = os.path.join(folder, "rows.jsonl")
        with open(data, "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        done = subprocess.run(
            [program, "profile", "-m", MODEL, "--url", d.url, "--input-file", data,
             "--custom-dataset-type", kind, "--tokenizer", folder, "--use-server-token-count",
             "--concurrency", "4", "--ui", "none", "--output-artifact-dir", folder, *arguments],
            env=dict(os.environ, HOME=folder, NO_PROXY="*"), text=True, capture_output=True,
            timeout=3 * HANG_S)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        with open(os.path.join(folder, "profile_export_aiperf.json")) as file:
            report = json.load(file)
    assert report["is_complete"] and report["error_summary"] == [], report["error_summary"]
    return {name: value["avg"] for name, value in report.items()
            if isinstance(value, dict) and "avg" in value}


def counts(d):
    return {name: int(value) for name, value in
            re.findall(r"^agentix_door_(\w+) (\d+)$", d.ask("GET", "/metrics").text, re.M)}


def check(d, report, requests):
    """Both have counted the same, and nothing went wrong."""
    seen = counts(d)
    assert report["request_count"] == requests == seen["calls_total"], (report, seen)
    assert report["request_error_rate"] == 0 and seen["requests_refused_total"] == 0
    assert round(report["total_usage_prompt_tokens"]) == seen["prompt_tokens_total"]
    assert round(report["total_usage_completion_tokens"]) == seen["generated_tokens_total"]


def test_aiperf_streams_conversations_which_are_a_program_each():
    rows = [{"session_id": "s%d" % i, "turns": [
        {"text": "Question %d of %d: what do bees make?" % (turn, i)} for turn in range(3)]}
        for i in range(6)]
    with Door() as d:
        report = aiperf(d, rows, "multi_turn", "--endpoint-type", "chat", "--streaming",
                        "--num-conversations", "6")
        check(d, report, 18)
        assert d.calls_by_program() == [3] * 6, d.programs()


def test_aiperf_asks_for_whole_completions():
    rows = [{"text": "User: question %d\nBot:" % i} for i in range(20)]
    with Door() as d:
        check(d, aiperf(d, rows, "single_turn", "--endpoint-type", "completions",
                        "--request-count", "20"), 20)
