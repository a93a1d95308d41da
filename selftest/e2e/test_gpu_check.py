# SPDX-License-Identifier: MIT
"""tools/gpu-check says what is missing, runs every step, and fails if one failed. The binaries that
it runs are stand-ins here; `tools/gpu-check --soft` runs the real ones on the soft GPU."""
import os
import re
import signal
import subprocess
import tempfile

from appliance import BUILD, HANG_S, ROOT, is_alive

TESTS = ("advance attention draft kv_copy logprob number pattern product rms_norm rope sample "
         "settle engine engine_drafts move").split()
# Kernels and self-test; each test; tokens.
ROWS = 2 + len(TESTS) + 4
# Each test under three tools, one under a fourth.
SANITIZER_ROWS = 3 * len(TESTS) + 1
AGENTIX = """#!/bin/sh
echo "$0 $*" >>said
case "$*" in
*--version*) echo "gpu kernels: $KERNELS" ;;
*--check*cublas_library=none*) echo "1.0 boot info gpu name=\\"N\\"" >&2 ;;
*--check*) echo "1.0 boot error boot failed: engine.kind = cuda: libcublas" >&2; exit $CUBLAS ;;
*--selftest*) echo "gpu products  64  ok  1.00" ;;
*) echo $$ >>"$SERVERS"
   exec python3 -c '
import re, signal, socket, sys
path = re.search("net.unix=(\\S+)", " ".join(sys.argv)).group(1)
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
signal.pause()' "$@" ;;
esac
"""
AGX = """#!/bin/sh
case "$(tail -n 1 said)" in *engine.kind=cuda*) echo $GPU_TOKENS ;; *) echo 1 2 3 ;; esac
"""


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, 0o755)


def check(files, *words, **environment):
    """tools/gpu-check in a folder with these files: (status, output, results by row). What it has
    started has ended."""
    with tempfile.TemporaryDirectory() as directory:
        for name, text in files.items():
            write(os.path.join(directory, name), text)
        write(os.path.join(directory, "tools", "gpu-check"),
              open(os.path.join(ROOT, "tools", "gpu-check")).read())
        write(os.path.join(directory, "bin", "compute-sanitizer"),
              '#!/bin/sh\n[ $2 != $REFUSED ] || exit 9\nshift 4\nexec "$@"\n')
        done = subprocess.run(
            ["sh", os.path.join(directory, "tools", "gpu-check"), *words], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=HANG_S,
            env=dict(os.environ, **{
                "SERVERS": os.path.join(directory, "servers"),
                "NVCC": "", "CUBLAS": "0", "KERNELS": "sm_90a", "GPU_TOKENS": "1 2 3",
                "REFUSED": "none",
                "PATH": os.path.join(directory, "bin") + ":" + os.environ["PATH"],
                **environment}))
        if os.path.exists(os.path.join(directory, "servers")):
            with open(os.path.join(directory, "servers")) as file:
                pids = [int(line) for line in file]
            left = [pid for pid in pids if is_alive(pid)]
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            assert pids and not left, left
    rows = re.findall(r"^(\S.{35}) (ok|FAILED|not run|left out) ", done.stdout, re.M)
    return done.returncode, done.stdout, {name.strip(): result for name, result in rows}


def build(**others):
    files = {"build/agentix": AGENTIX, "build/agx": AGX}
    for test in TESTS:
        files["build/unit/cuda/test_" + test] = "#!/bin/sh\necho $AGENTIX_TEST_CUDA\n"
    files.update({"build/" + name: text for name, text in others.items()})
    return files


def test_without_a_build_or_a_gpu_it_says_so():
    status, said, _ = check({})
    assert status == 2 and "no build/ here, and no nvcc to make it" in said, said
    refuses = '#!/bin/sh\necho "boot failed: no driver" >&2\nexit 6\n'
    status, said, _ = check(build(agentix=refuses))
    assert status == 2 and said == "gpu-check: no GPU: boot failed: no driver\n", said
    status, said, _ = check(build(), "--soft")
    assert status == 2 and "no build/libsoftgpu.so here" in said, said


def test_every_step_is_a_row_and_all_pass():
    status, said, rows = check(build())
    assert status == 0 and "PASS: %d rows" % ROWS in said, said
    assert set(rows.values()) == {"ok"} and len(rows) == ROWS, rows
    assert all("unit cuda/" + test in rows for test in TESTS)


def test_sanitizers_are_a_run_of_their_own():
    status, said, rows = check(build(), "--sanitize")
    assert status == 0 and "PASS: %d rows" % SANITIZER_ROWS in said, said
    assert len(rows) == SANITIZER_ROWS and "initcheck cuda/engine" in rows, rows
    assert all("racecheck cuda/" + test in rows for test in TESTS)
    status, said, rows = check(build(), "--sanitize", "synccheck", REFUSED="synccheck")
    assert status == 1 and "FAIL: %d of %d rows" % (len(TESTS), len(TESTS)) in said, said
    assert all(name.startswith("synccheck ") for name in rows), rows


def test_what_has_no_time_is_not_run_and_has_not_failed():
    status, said, rows = check(build(), "--seconds", "0")
    assert status == 3 and "INCOMPLETE: %d of %d rows were not run" % (ROWS, ROWS) in said, said
    assert set(rows.values()) == {"not run"} and len(rows) == ROWS, rows
    endless = build(**{"unit/cuda/test_rope": "#!/bin/sh\nexec sleep 1000\n"})
    status, said, rows = check(endless, "--seconds", "4")
    assert status == 3 and rows["unit cuda/rope"] == rows["unit cuda/move"] == "not run", said
    broken = build(agentix=AGENTIX.replace("*--selftest*)", "*--selftest*) exit 1;"))
    status, said, rows = check(broken, "--seconds", "1000")
    assert status == 1 and rows["self-test"] == "FAILED", said
    assert "FAIL: 1 of %d rows, and 0 were not run" % ROWS in said, said
    status, said, _ = check(build(), "--seconds")
    assert status == 2 and "a number is missing" in said, said


def test_a_step_that_fails_says_how_and_fails_all():
    broken = "#!/bin/sh\necho three of four; exit 3\n"
    status, said, rows = check(build(**{"unit/cuda/test_rope": broken}))
    assert status == 1 and "FAIL: 1 of %d rows" % ROWS in said, said
    assert rows["unit cuda/rope"] == "FAILED" and "    status 3\n    three of four\n" in said, said
    status, said, rows = check(build(), GPU_TOKENS="1 2 4")
    assert status == 1 and rows["GPU and CPU agree"] == "FAILED", said
    status, said, rows = check(build(), KERNELS="none: no nvcc when this was built")
    assert status == 1 and rows["kernels for a chip"] == "FAILED", said


def test_without_cublas_it_fails_unless_told_that_there_is_none():
    status, said, rows = check(build(), CUBLAS="6")
    assert status == 1 and rows["tokens by the GPU with cuBLAS"] == "FAILED", said
    assert "    libcublas (if this machine has none: --no-cublas)\n" in said, said
    status, said, rows = check(build(), "--no-cublas", CUBLAS="6")
    assert status == 0 and rows["tokens by the GPU with cuBLAS"] == "left out", said


def test_what_is_carried_is_what_runs():
    done = subprocess.run(["sh", os.path.join(ROOT, "tools", "gpu-check"), "--programs"],
                          capture_output=True, text=True)
    assert done.stdout.split() == ["build/agentix", "build/agx"] + [
        "build/unit/cuda/test_" + test for test in TESTS], done


def test_the_real_tests_run_where_they_are_told():
    library = os.path.join(BUILD, "libsoftgpu.so")
    test = os.path.join(BUILD, "unit", "cuda", "test_product")
    for fault in "", "launch:1":
        done = subprocess.run([test], env=dict(os.environ, AGENTIX_TEST_CUDA=library,
                                               SOFTGPU_FAULTS=fault), capture_output=True)
        assert (done.returncode != 0) == (fault != ""), done
