# SPDX-License-Identifier: MIT
"""What programs will cost: what is trained in Python predicts in the appliance's code what it
predicts there, and better than the mean of a class; a bad file is refused at boot."""
import csv
import json
import os
import random
import subprocess
import sys
import tempfile

from appliance import EXIT, ROOT, Appliance, run
from protocol import Client
from skip import Skip

TOOLS = os.path.join(ROOT, "tools", "predict")
HEADER = os.path.join(ROOT, "selftest", "fuzz", "corpus", "predictor", "three")
WEIGHTS_BYTES = 3 * 1026 * 4

# Trains on half of what is drawn and predicts the other half.
TRAIN = """
import json, sys
import compare, gguf_file, models, samples, synthetic
rows = synthetic.make(80, 7)
half = len(rows) // 2
classes = {}
for name, tokens, cost in rows[:half]:
    classes.setdefault(name, []).append((tokens, cost))
trained = {name: models.train(name, kept) for name, kept in classes.items()}
gguf_file.write(sys.argv[1] + "/p.gguf", trained.values())
samples.write(sys.argv[1] + "/s.jsonl", rows[half:])
print(json.dumps([trained[name].cost_of(tokens) for name, tokens, _ in rows[half:]]))
"""
TRAIN_FILE = """
import sys
import gguf_file, models, samples
classes = samples.read(sys.argv[1])
gguf_file.write(sys.argv[2], [models.train(name, kept) for name, kept in classes.items()])
print("null")
"""
COMPARE = """
import json
import compare, models, synthetic
classes = {}
for name, tokens, cost in synthetic.make(100, 3):
    classes.setdefault(name, []).append((tokens, cost))
names = ("hashed ridge", "class mean", "class log mean")
print(json.dumps(compare.compare(classes, {name: models.METHODS[name] for name in names})))
"""


def python_with_sklearn():
    """Debian's Python has Debian's packages; the first one in PATH may be another."""
    for python in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(python) and subprocess.run(
                [python, "-c", "import sklearn"], stderr=subprocess.DEVNULL,
                check=False).returncode == 0:
            return python
    raise Skip("python3-sklearn is not installed: sh tools/setup predict")


def python(script, *words):
    done = subprocess.run([python_with_sklearn(), "-c", script, *words], capture_output=True,
                          text=True, check=False,
                          env=dict(os.environ, PYTHONPATH=TOOLS, PYTHONDONTWRITEBYTECODE="1"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def folder():
    return tempfile.TemporaryDirectory(prefix="agentix-e2e-")


def good_file(where):
    """Classes chat, code and search without weights; needs no trainer."""
    path = os.path.join(where, "good.gguf")
    with open(HEADER, "rb") as header, open(path, "wb") as file:
        file.write(header.read() + bytes(WEIGHTS_BYTES))
    return path


def test_trainer_and_appliance_predict_the_same():
    with folder() as where:
        expected = python(TRAIN, where)
        done = run("agentix-predict", where + "/p.gguf", "--samples", where + "/s.jsonl")
        assert done.returncode == 0, done.stderr
        predicted = [int(line.split()[2]) for line in done.stdout.splitlines()]
        assert len(predicted) == len(expected) == 120, len(predicted)
        for ours, theirs in zip(predicted, expected):
            # Weights are floats in the file, and doubles nowhere: only the last bits may differ.
            assert abs(ours - theirs) <= 1 + 1e-9 * theirs, (ours, theirs)
        checked = run("agentix", "--check", "--set", "sched.predictor=" + where + "/p.gguf")
        assert "sched.predictor: 3 classes, 120 samples" in checked.stdout, checked.stderr


def test_words_tell_more_than_the_mean_of_a_class():
    for name, errors in python(COMPARE).items():
        best_mean = min(errors["class mean"], errors["class log mean"])
        assert errors["hashed ridge"] < best_mean / 2, (name, errors)


def test_a_log_of_calls_becomes_samples():
    with folder() as where:
        calls, samples = where + "/calls.jsonl", where + "/samples.jsonl"
        with open(calls, "w", encoding="ascii") as file:
            file.write('{"program": "a", "prompt": 10, "output": 2}\n'
                       '{"program": "a", "class": "chat", "tokens": [1, 2, 3], "output": 4}\n'
                       '{"program": "b", "class": "code", "tokens": [5], "output": 1}\n')
        command = [sys.executable, os.path.join(TOOLS, "calls.py"), calls, samples]
        env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
        subprocess.run(command, check=True, env=env)
        with open(samples, encoding="ascii") as file:
            rows = [json.loads(line) for line in file]
        assert [row["cost"] for row in rows] == [4 + 5 + 6 + 7 + 11 + 12, 2], rows
        assert rows[0]["class"] == "chat" and rows[0]["tokens"] == [1, 2, 3], rows
        with open(calls, "a", encoding="ascii") as file:
            file.write('{"program": "c", "prompt": 10, "output": 2}\n')
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, env=env)
        assert done.returncode == 1 and "program c: no call has class" in done.stderr, done.stderr


def test_a_replay_names_classes_and_logs_its_calls():
    with folder() as where, Appliance() as a:
        trace, calls, samples = where + "/t.trace", where + "/c.jsonl", where + "/s.jsonl"
        with open(trace, "w", encoding="ascii") as file:
            file.write("agentix-trace 1\n"
                       "program p 0 small\ncall 0 after=- gap=0 in=u:20 out=5\n"
                       "call 1 after=0 gap=0 in=p:0+o:0+u:3 out=2\n"
                       "program q 0 other\ncall 0 after=- gap=0 in=u:7 out=3\n"
                       "call 1 after=- gap=0 in=u:8 out=1\n")
        done = run("agx", "--to", a.to, "replay", trace, "--calls-out", calls)
        assert done.returncode == 0, done.stderr
        subprocess.run([sys.executable, os.path.join(TOOLS, "calls.py"), calls, samples],
                       check=True, env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"))
        with open(samples, encoding="ascii") as file:
            rows = {row["class"]: row for row in map(json.loads, file)}
        assert rows["small"]["cost"] == 20 * 5 + 15 + 28 * 2 + 3, rows
        assert rows["other"]["cost"] == 7 * 3 + 6 + 8 + 1, rows
        assert len(rows["small"]["tokens"]) == 20 and len(rows["other"]["tokens"]) == 7, rows
        page = a.text("classes")
        assert "small" in page and "other" in page, page
        assert str(rows["small"]["cost"]) in page and str(rows["other"]["cost"]) in page, page


def lab(trace, *words):
    done = run("agentix-lab", "--trace", trace, "--cost", "a100-llama-2-7b", *words)
    assert done.returncode == 0, done.stderr


def programs_of(trace, out, *words):
    """Rows of --programs-out under justitia, whose unit is C."""
    lab(trace, "--policy", "justitia", "--programs-out", out, *words)
    with open(out, encoding="ascii") as file:
        return list(csv.DictReader(file))


def write_trace(path, programs=60):
    """Programs of two classes, far apart in time. The longer a prompt, the more is answered."""
    draw = random.Random(5)
    with open(path, "w", encoding="ascii") as file:
        file.write("agentix-trace 1\n")
        for i in range(programs):
            length = draw.randrange(50, 1500)
            file.write("program p%d %d %s\n" % (i, i * 10 ** 9, ("up", "down")[i % 2]))
            file.write("call 0 after=- gap=0 in=u:%d out=%d\n" % (length, 10 + length // 4))
            file.write("call 1 after=0 gap=0 in=p:0+o:0+u:9 out=%d\n" % (5 + length // 9))


def mean_error(rows):
    return sum(abs(int(row["predicted"]) / int(row["cost"]) - 1) for row in rows) / len(rows)


def test_the_lab_learns_and_is_taught():
    with folder() as where:
        trace, samples, model = where + "/t.trace", where + "/s.jsonl", where + "/p.gguf"
        write_trace(trace)
        lab(trace, "--samples-out", samples)
        python(TRAIN_FILE, samples, model)
        told = programs_of(trace, where + "/p.csv", "--predict", "file", "--set",
                           "sched.predictor=" + model)
        with open(samples, encoding="ascii") as file:
            rows = [json.loads(line) for line in file]
        assert [(row["class"], str(row["cost"])) for row in rows] == \
            [(row["class"], row["cost"]) for row in told]
        alone = run("agentix-predict", model, "--samples", samples).stdout.splitlines()
        # The first program of a class has nothing that would correct its prediction.
        assert [row["predicted"] for row in told[:2]] == [line.split()[2] for line in alone[:2]]
        by_class = programs_of(trace, where + "/c.csv", "--predict", "class")
        assert mean_error(told) < mean_error(by_class) / 3, (mean_error(told),
                                                             mean_error(by_class))


def test_boot_reads_a_predictor_and_serves():
    with folder() as where:
        file = good_file(where)
        with Appliance("sched.predictor=" + file) as a:
            os.unlink(file)                     # what was read is the appliance's own
            with Client(a.tcp) as c:
                c.generate(1, [1, 2, 3], max_tokens=4).check()


def refusal(path):
    done = run("agentix", "--check", "--set", "sched.predictor=" + path)
    assert done.returncode == EXIT["CONFIG"], (done.returncode, done.stderr)
    return done.stderr


def test_boot_refuses_other_files():
    with folder() as where:
        assert "cannot be opened" in refusal(where + "/none.gguf")
        assert "is not a regular file" in refusal(where)
        other = refusal(os.path.join(ROOT, "appliance", "embedded.gguf"))
        assert "general.architecture is 'llama', expected 'predictor'" in other, other
        file = good_file(where)
        os.truncate(file, os.path.getsize(file) - 1)
        assert "predictor.weights is 12312 bytes" in refusal(file)
        os.truncate(file, 9 << 20)
        assert "expected at most 8388608" in refusal(file)
