# SPDX-License-Identifier: MIT
"""tools/gpu-first runs every part, whatever becomes of the others, and its table comes last. Once
with the real binaries on the soft GPU; else with stand-ins."""
import os
import re
import subprocess
import tempfile

from appliance import HANG_S, ROOT
from test_gpu_check import build, write

PARTS = {"1 what is there", "2 ceilings", "3 bits of the products, engine", "4 worker, swaps, seal",
         "5 gpu-check", "6 memory, loading", "7 bench-gpu", "7 bench-gpu, Q4_K",
         "8 ncu, one layer", "8 memcheck", "8 racecheck"}
OF_TOOLS = {"8 ncu, one layer", "8 memcheck", "8 racecheck"}
OK, FAILED, NOT_RUN, NOT_THERE = "ok", "FAILED", "not run", "not there"
# What the appliance says and what the text port tells: the worker's part reads these.
AGENTIX = """#!/bin/sh
case "$*" in
*--version*) echo "gpu kernels: sm_90a" ;;
*--check*cublas_library=none*) echo "boot info gpu name=N free_mib=900" >&2 ;;
*--check*) echo "boot info gpu name=N free_mib=$WITH_CUBLAS" >&2 ;;
*) echo "boot info listening text.listen=127.0.0.1:1" >&2
   echo "1.0 worker info sealed refused_calls=9" >&2
   echo "1.0 worker warn system call refused: call=open path=/a" >&2
   echo "1.0 worker warn system call refused: call=open path=/a" >&2
   [ -z "$STOPPED" ] ||
       echo "1.0 worker error ends by a system call that is not allowed: $STOPPED" >&2
   exec sleep 1000 ;;
esac
"""
AGX = """#!/bin/sh
case "$*" in
*ask*) printf 'swap_out_blocks 4\\nswap_in_blocks %s\\nengine_restarts 0\\n' $SWAPPED_IN ;;
*) echo 1 2 3 ;;
esac
"""
ECHO = "#!/bin/sh\necho \"$0 $*\"\n"


def table_of(said):
    """Results by part, of the table at the end."""
    table = said[said.rindex("\npart  "):]
    return {name.strip(): result for name, result in re.findall(
        r"^(\d .{26,}?) +(ok|FAILED|not run|not there) +[-\d]+$", table, re.M)}


def first(*words, files=None, tools=None, **environment):
    """tools/gpu-first with stand-ins: (status, output, table)."""
    with tempfile.TemporaryDirectory() as directory:
        whole = build(**{"agentix": AGENTIX, "agx": AGX, "bench-gpu": ECHO, **(files or {})})
        whole["tools/gpu-check"] = \
            "#!/bin/sh\n[ \"$1\" != --programs ] || exec echo build/agentix\nexit $CHECKED\n"
        # A machine's folders may take longer to look through than a part may.
        for name, text in {"find": "#!/bin/sh\n", **(tools or {})}.items():
            whole["bin/" + name] = text
        for name, text in whole.items():
            write(os.path.join(directory, name), text)
        with open(os.path.join(ROOT, "tools", "gpu-first")) as file:
            write(os.path.join(directory, "tools", "gpu-first"), file.read())
        write(os.path.join(directory, "bin", "strace"), "#!/bin/sh\nexit 1\n")
        done = subprocess.run(
            ["sh", os.path.join(directory, "tools", "gpu-first"), *words], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=HANG_S * 5,
            env=dict(os.environ, **{
                "WITH_CUBLAS": "500", "SWAPPED_IN": "4", "STOPPED": "", "CHECKED": "0",
                "PATH": os.path.join(directory, "bin") + ":" + os.environ["PATH"],
                **environment}))
    return done.returncode, done.stdout, table_of(done.stdout) if "\npart  " in done.stdout else {}


def soft(seconds):
    done = subprocess.run(["sh", "tools/gpu-first", "--soft", "--seconds", str(seconds)], cwd=ROOT,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=seconds + HANG_S * 5)
    return done.returncode, done.stdout, table_of(done.stdout)


def test_on_the_soft_gpu_no_part_fails_in_a_minute():
    status, said, table = soft(60)
    assert set(table) == PARTS and FAILED not in table.values() and status in (0, 3), said


def test_every_part_is_a_row_and_says_what_it_found():
    status, said, table = first()
    assert status == 0 and set(table) == PARTS, said
    assert all(table[part] == OK for part in PARTS - OF_TOOLS), said
    assert all(table[part] in (OK, NOT_THERE) for part in OF_TOOLS), said
    assert "cuBLAS takes 400 MiB" in said and "calls that failed: 0 of 48" in said, said
    assert re.search(r"^ +2 system call refused: call=open path=/a$", said, re.M), said
    assert "without strace" in said and "--rows 1,32,256" in said, said


def test_no_part_stops_another():
    broken = {"bench-gpu": "#!/bin/sh\nexit 1\n", "unit/cuda/test_engine": "#!/bin/sh\nexit 1\n"}
    status, said, table = first(files=broken, CHECKED="1", SWAPPED_IN="0")
    assert status == 1 and set(table) == PARTS, said
    assert {part for part in table if table[part] == FAILED} >= {
        "2 ceilings", "3 bits of the products, engine", "4 worker, swaps, seal", "5 gpu-check",
        "7 bench-gpu"}, said
    assert table["1 what is there"] == table["6 memory, loading"] == OK, said
    assert "blocks were not swapped both ways" in said, said
    status, said, table = first(STOPPED="call=fork")
    assert status == 1 and table["4 worker, swaps, seal"] == FAILED, said


def test_what_has_no_time_is_not_run_and_tools_may_be_there():
    status, said, table = first("--seconds", "0")
    assert status == 3 and set(table) == PARTS and set(table.values()) == {NOT_RUN}, said
    status, said, table = first("--seconds", "20", CHECKED="3",
                                files={"bench-gpu": "#!/bin/sh\nexec sleep 1000\n"})
    assert status == 3 and table["2 ceilings"] == table["5 gpu-check"] == NOT_RUN, said
    assert FAILED not in table.values(), said
    status, said, table = first(tools={"ncu": ECHO, "compute-sanitizer": "#!/bin/sh\nexit 9\n"})
    assert status == 1 and table["8 ncu, one layer"] == OK, said
    assert table["8 memcheck"] == table["8 racecheck"] == FAILED, said


def test_without_a_build_it_says_so():
    with tempfile.TemporaryDirectory() as directory:
        for tool in ("gpu-first", "gpu-check"):
            with open(os.path.join(ROOT, "tools", tool)) as file:
                write(os.path.join(directory, "tools", tool), file.read())
        done = subprocess.run(["sh", os.path.join(directory, "tools", "gpu-first")], text=True,
                              capture_output=True, timeout=HANG_S)
    assert done.returncode == 2 and "make gpu-carry" in done.stderr, done.stderr
