# SPDX-License-Identifier: MIT
"""The self-test of the real binary: each level passes on a sound machine, finds every flip that it
plants itself, and names faults."""
import os
import re
import shutil
import signal
import subprocess
import tempfile

from appliance import BUILD, EXIT, NOISE, RANDOM_MODEL, run, wait_for
from skip import long


def selftest(*arguments, status=0):
    """{check: (amount, result)}, the verdict and all lines."""
    done = run("agentix", *arguments, timeout=600)
    assert done.returncode == status, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    rows = [re.match(r"(.{26}) (.{34}) (ok|FAILED) +[\d.]+$", line) for line in lines]
    return {row[1].strip(): (row[2].strip(), row[3]) for row in rows if row}, lines[-1], lines


def test_quick_passes():
    for word in "--selftest", "--selftest=quick":
        checks, verdict, _ = selftest(word)
        assert verdict == "PASS: 11 of 11 checks", verdict
        assert len(checks) == 11 and all(result == "ok" for _, result in checks.values()), checks


def test_quick_passes_with_rounded_kv():
    floats, verdict, _ = selftest("--selftest", "--set", "kv.type=f32")
    assert verdict == "PASS: 11 of 11 checks", verdict
    seen = {floats["kernels against plain"]}
    for kind in "f16", "q8":
        checks, verdict, _ = selftest("--selftest", "--set", "kv.type=" + kind)
        assert verdict == "PASS: 11 of 11 checks", verdict
        assert checks["kernels against plain"] not in seen, "nothing is rounded"
        seen.add(checks["kernels against plain"])


def test_quick_passes_with_weights_rounded():
    floats, _, _ = selftest("--selftest")
    bfloats, verdict, _ = selftest("--selftest", "--set", "model.weights=bf16")
    assert verdict == "PASS: 11 of 11 checks", verdict
    assert bfloats["kernels against plain"] != floats["kernels against plain"], "nothing is rounded"


@long
def test_full_passes_with_little_memory():
    checks, verdict, _ = selftest("--selftest=full", "--selftest-memory", "1MiB", "--seed", "5")
    assert verdict == "PASS: 15 of 15 checks", verdict
    assert checks["memory random"][0] == "1.0 MiB x 1", checks
    assert int(checks["calls, socket to socket"][0].split()[0]) >= 128, checks


def test_soak_without_minutes_goes_round_once():
    checks, verdict, _ = selftest("--selftest=soak", "--selftest-minutes", "0",
                                  "--selftest-memory", "64KiB", "--set", NOISE)
    assert verdict == "PASS: 16 of 16 checks", verdict
    assert checks["memory fade"][0] == "2 x 0 s", checks


def test_every_flip_is_found():
    for settings in (), ("--set", NOISE):
        checks, verdict, _ = selftest("--selftest-inject=1000", *settings)
        assert verdict == "PASS: 1000 of 1000 flips found", verdict
        assert len(checks) == 5 and checks["flips in weights"][0] == "200 of 200 found", checks


def test_a_fault_fails_and_the_other_checks_run():
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "m.gguf")
        shutil.copy(RANDOM_MODEL, path)
        os.chmod(path, 0o666)
        checks, verdict, lines = selftest("--selftest", "--set", "model.path=" + path, status=1)
        assert verdict == "FAIL: 10 of 11 checks", verdict
        assert checks.pop("file modes")[1] == "FAILED", checks
        assert all(result == "ok" for _, result in checks.values()), checks
        assert "  file modes: %s: mode 0666, need 0775 or less" % path in lines, lines


def test_keys_that_others_may_read_are_a_fault_even_when_unused():
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "keys")
        with open(path, "w") as file:
            file.write("me %064d\n" % 7)
        for mode, result in (0o600, "ok"), (0o640, "FAILED"):
            os.chmod(path, mode)
            checks, _, lines = selftest("--selftest", "--set", "auth.keys=" + path,
                                        status=int(result != "ok"))
            assert checks["file modes"] == ("1 files", result), checks
        assert "  file modes: %s: mode 0640, need 0700 or less" % path in lines, lines


@long
def test_a_check_that_dies_fails_and_the_others_run():
    process = subprocess.Popen([os.path.join(BUILD, "agentix"), "--selftest=full",
                                "--selftest-memory", "64KiB"], stdout=subprocess.PIPE, text=True)
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("kernels against plain"):    # the next one takes ten seconds
            children = "/proc/%d/task/%d/children" % (process.pid, process.pid)
            child = wait_for(lambda: open(children).read().split(), "the next check")[0]
            os.kill(int(child), signal.SIGKILL)
    process.stdout.close()
    assert process.wait() == 1
    assert "  products on every CPU: ended by signal 9\n" in lines, lines
    assert lines[-1] == "FAIL: 14 of 15 checks\n", lines


def test_too_much_memory_is_refused():
    done = run("agentix", "--selftest", "--selftest-memory", "100000GiB")
    said = done.stdout + done.stderr
    assert done.returncode == EXIT["MEMORY"] and "selftest" in done.stdout, said


def test_bad_arguments_are_refused():
    for words, said in ((("--seed", "5"), "missing --selftest"),
                        (("--selftest", "--seed", "five"), "five: not a number"),
                        (("--selftest", "--seed"), "empty"),
                        (("--selftest=fast",), "unknown argument --selftest=fast")):
        done = run("agentix", *words)
        assert done.returncode == EXIT["USAGE"] and said in done.stderr, done.stderr
