# SPDX-License-Identifier: MIT
"""tools/bench/gpu/sass holds the machine code of the GPU kernels to its table, where the CUDA
Toolkit's disassembler is at hand; and it finds each kind of fault in code that was written here."""
import os
import subprocess
import tempfile

from appliance import ROOT
from skip import Skip

SASS = os.path.join(ROOT, "tools", "bench", "gpu", "sass")
# A loop of four instructions around one load of 512 bytes a warp, and one around FFMA.
LOOP = ["LDG.E.128 R4, desc[UR4][R2.64]", "FADD R0, R0, R4", "ISETP.NE.AND P0, PT, R0, RZ, PT"]
OF_FLOATS = ["LDS.128 R1"] * 8 + ["FFMA R0, R1, R2, R0"] * 32
HAS = {"product_few": ["LDSM.16.M88.4 R1", "HMMA.16816.F32 R1"],
       "product_many": ["LDSM.16.M88.4 R1", "HMMA.16816.F32 R1"],
       **dict.fromkeys(("product_few_levels", "product_many_levels"),
                       ["LDS.64 R1", "HFMA2 R1", "PRMT R1", "HMMA.16816.F32 R1"]),
       "attend_split": ["STS.128 R1"], "attend_tile": ["STS.128 R1"],
       "sample_scan": ["STG.E.128 R1"], "sample_weigh": ["ATOMS.ADD R1"], "sample_gather": [],
       "kv_gather": ["ST.E.128 R1"], "kv_scatter": ["ST.E.128 R1"], "pattern_fold": []}


def looped(code, body):
    """`code`, and behind it a loop of `body`."""
    return code + body + ["@P0 BRA 0x%x" % (16 * len(code))]


def code_of(name, extra=()):
    """A kernel that holds: its loop has that kernel's kind of load. `extra` is in the loop, too."""
    body = LOOP + list(extra)
    if name.startswith("product"):
        body[:2] = ["LDGSTS.E.BYPASS.128 [R1]", "HMMA.16816.F32 R1"]
    elif name.startswith(("attend", "kv")):
        body[0] = "LD.E.128 R4, [R2.64]"
    code = looped(HAS[name], body)
    return (looped(code, OF_FLOATS) if name.startswith("attend") else code) + ["EXIT"]


def listing(name, code):
    lines = ["\t\tFunction : " + name]
    for i, line in enumerate(code):
        guard, _, rest = line.partition(" ") if line.startswith("@") else ("", "", line)
        lines.append("        /*%04x*/ %12s %s ;        /* 0x0 */" % (i * 16, guard, rest))
    return "\n".join(lines) + "\n"


def sass(*words):
    return subprocess.run([SASS, *words], text=True, capture_output=True)


def said_of(codes):
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "text")
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(listing(name, code) for name, code in codes.items()))
        done = sass("--text", path)
    assert done.stderr == "", done.stderr
    return done.returncode, done.stdout


def test_what_holds_passes_and_each_fault_is_found():
    good = {name: code_of(name) for name in HAS}
    status, said = said_of(good)
    assert status == 0, said
    rows = [line.split() for line in said.splitlines() if "a KB" in line]
    assert {(row[0], row[4]) for row in rows} == {
        (name, "8.0") for name in HAS if not name.startswith("sample")}, said
    for kernel, code, fault in (
            ("product_few", good["product_few"][1:], "lacks LDSM.16.M88.4"),
            ("product_few_levels", good["product_few_levels"][1:], "lacks LDS.64"),
            ("sample_scan", good["sample_scan"] + ["LDL R1"], "has LDL"),
            ("sample_weigh", good["sample_weigh"] + ["@P0 ATOMS.CAST.SPIN.64 P0, [R1]"],
             "has ATOMS.CAST.SPIN.64"),
            ("kv_scatter", code_of("kv_scatter", ["IADD3 R1"] * 80),
             "takes 168.0 instructions a KB, most: 40"),
            ("attend_tile", looped(code_of("attend_tile"), OF_FLOATS + ["IADD3 R1"] * 80),
             "takes 3.8 instructions an FFMA, most: 2.3"),
            ("attend_split", looped(HAS["attend_split"] + ["LDS.128 R1"],
                                    ["LD.E.128 R4, [R2.64]"] + LOOP[1:]),
             "has no loop with FFMA"),
            ("pattern_fold", [line.replace(".128", "") for line in good["pattern_fold"]],
             "lacks LDG.E.128"),
            ("kv_gather", HAS["kv_gather"] + ["LD.E.128 R4", "EXIT"], "has no loop with LD.E.128"),
            ("kv_gather", None, "there is no kv_gather")):
        codes = {name: code if name == kernel else of for name, of in good.items()}
        status, said = said_of({name: of for name, of in codes.items() if of})
        assert status == 1, (kernel, said)
        assert [line for line in said.splitlines() if fault in line and kernel in line], said


def test_the_kernels_of_this_build_hold():
    done = sass()
    if done.returncode == 2:
        raise Skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout
