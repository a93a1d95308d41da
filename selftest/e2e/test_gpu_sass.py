# SPDX-License-Identifier: MIT
"""tools/bench/gpu/sass holds the machine code of the GPU kernels to its table, where the CUDA
Toolkit's disassembler is at hand; and it finds each kind of fault in code that was written here."""
import os
import subprocess
import sys
import tempfile

from appliance import ROOT
from skip import Skip

SASS = os.path.join(ROOT, "tools", "bench", "gpu", "sass")
# A loop of four instructions around one load of 512 bytes a warp, and what others must have.
LOOP = """LDG.E.128 R4, desc[UR4][R2.64]
FADD R0, R0, R4
ISETP.NE.AND P0, PT, R0, RZ, PT
@P0 BRA 0x%x"""
HAS = {"product_few": "LDSM.16.M88.4 R1\nHMMA.16816.F32 R1",
       "product_many": "LDSM.16.M88.4 R1\nHMMA.16816.F32 R1",
       "attend_split": "STS.128 R1\nLDS.128 R1", "attend_tile": "STS.128 R1\nLDS.128 R1",
       "sample_scan": "STG.E.128 R1", "sample_weigh": "ATOMS.ADD R1", "sample_gather": "",
       "kv_gather": "ST.E.128 R1", "kv_scatter": "ST.E.128 R1", "pattern_fold": ""}


def loop_of(name):
    """The loop with that kernel's kind of load, and in products with its matrix instruction."""
    loop = LOOP
    if name.startswith("product"):
        loop = loop.replace("LDG.E.128", "LDGSTS.E.BYPASS.128").replace("FADD", "HMMA.16816.F32")
    elif name.startswith(("attend", "kv")):
        loop = loop.replace("LDG.E.128", "LD.E.128")
    return loop


def listing(name, code):
    lines = ["\t\tFunction : " + name]
    for i, line in enumerate(code):
        guard, _, rest = line.partition(" ") if line.startswith("@") else ("", "", line)
        lines.append("        /*%04x*/ %12s %s ;        /* 0x0 */" % (i * 16, guard, rest))
    return "\n".join(lines) + "\n"


def said_of(change=lambda name, code: code):
    """What is said of kernels that hold, but for `change` of their lines."""
    text = ""
    for name, has in HAS.items():
        head = has.splitlines()
        code = head + (loop_of(name) % (16 * len(head))).splitlines() + ["EXIT"]
        changed = change(name, code)
        text += listing(name, changed) if changed else ""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "text")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run([SASS, "--text", path], text=True, capture_output=True)
    assert done.stderr == "", done.stderr
    return done.returncode, done.stdout


def test_what_holds_passes_and_each_fault_is_found():
    status, said = said_of()
    assert status == 0 and "kv_gather             " in said, said
    assert "%6d" % 8 in said, said              # four instructions for half a KB
    bloat = ["IADD3 R1"] * 80

    def of(kernel, change):
        return lambda name, code: change(code) if name == kernel else code
    for kernel, change, fault in (
            ("product_few", lambda code: code[1:], "lacks LDSM.16.M88.4"),
            ("sample_scan", lambda code: code + ["LDL R1"], "has LDL"),
            ("sample_weigh", lambda code: code + ["@P0 ATOMS.CAST.SPIN.64 P0, [R1]"],
             "has ATOMS.CAST.SPIN.64"),
            ("kv_scatter", lambda code: code[:3] + bloat + code[3:4] + [
                "@P0 BRA 0x10"], "takes 168 instructions a KB, most: 40"),
            ("pattern_fold", lambda code: [line.replace(".128", "") for line in code],
             "lacks LDG.E.128"),
            ("attend_tile", lambda code: code[:-2] + ["EXIT"], "loads nothing by 16 bytes"),
            ("kv_gather", lambda code: None, "there is no kv_gather")):
        status, said = said_of(of(kernel, change))
        assert status == 1, (kernel, said)
        assert any(fault in line and kernel in line for line in said.splitlines()), said


def test_the_kernels_of_this_build_hold():
    done = subprocess.run([sys.executable, SASS], text=True, capture_output=True)
    if done.returncode == 2:
        raise Skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout
