# SPDX-License-Identifier: MIT
"""tools/gpu-check says what is missing, runs every step, and fails if one failed. The binaries that
it runs are stand-ins here; `tools/gpu-check --soft` runs the real ones on the soft GPU."""
import os
import re
import signal
import subprocess
import tempfile

from appliance import BUILD, HANG_S, ROOT, is_alive

TESTS = "advance attention kv_copy number pattern product rms_norm rope sample engine move".split()
# Kernels and self-test; each test by itself and under three tools, one under a fourth; tokens.
ROWS = 2 + 4 * len(TESTS) + 1 + 4
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
    """tools/gpu-check in a folder with these files: (status, output, lines of the table). What it
    has started has ended."""
    with tempfile.TemporaryDirectory() as directory:
        for name, text in files.items():
            write(os.path.join(directory, name), text)
        write(os.path.join(directory, "tools", "gpu-check"),
              open(os.path.join(ROOT, "tools", "gpu-check")).read())
        write(os.path.join(directory, "bin", "compute-sanitizer"),
              '#!/bin/sh\nshift 4\nexec "$@"\n')
        done = subprocess.run(
            ["sh", os.path.join(directory, "tools", "gpu-check"), *words], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=HANG_S,
            env=dict(os.environ, **{
                "SERVERS": os.path.join(directory, "servers"),
                "NVCC": "", "CUBLAS": "0", "KERNELS": "sm_90a", "GPU_TOKENS": "1 2 3",
                "PATH": os.path.join(directory, "bin") + ":" + os.environ["PATH"],
                **environment}))
        if os.path.exists(os.path.join(directory, "servers")):
            with open(os.path.join(directory, "servers")) as file:
                pids = [int(line) for line in file]
            left = [pid for pid in pids if is_alive(pid)]
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            assert pids and not left, left
    rows = re.findall(r"^(\S.{35}) (ok|FAILED|none) ", done.stdout, re.M)
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
    assert all("unit cuda/" + test in rows and "racecheck cuda/" + test in rows for test in TESTS)


def test_a_step_that_fails_says_how_and_fails_all():
    broken = "#!/bin/sh\necho three of four; exit 3\n"
    status, said, rows = check(build(**{"unit/cuda/test_rope": broken}))
    assert status == 1 and "FAIL: 4 of %d rows" % ROWS in said, said
    assert rows["unit cuda/rope"] == "FAILED" and "    status 3\n    three of four\n" in said, said
    status, said, rows = check(build(), GPU_TOKENS="1 2 4")
    assert status == 1 and rows["GPU and CPU agree"] == "FAILED", said
    status, said, rows = check(build(), KERNELS="none: no nvcc when this was built")
    assert status == 1 and rows["kernels for a chip"] == "FAILED", said


def test_without_cublas_its_row_says_so_and_the_rest_passes():
    status, said, rows = check(build(), CUBLAS="6")
    assert status == 0 and rows["tokens by the GPU with cuBLAS"] == "none", said
    assert "    libcublas: what needs it was left out\n" in said, said


def test_the_real_tests_run_where_they_are_told():
    library = os.path.join(BUILD, "libsoftgpu.so")
    test = os.path.join(BUILD, "unit", "cuda", "test_product")
    for fault in "", "launch:1":
        done = subprocess.run([test], env=dict(os.environ, AGENTIX_TEST_CUDA=library,
                                               SOFTGPU_FAULTS=fault), capture_output=True)
        assert (done.returncode != 0) == (fault != ""), done
