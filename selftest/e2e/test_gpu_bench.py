# SPDX-License-Identifier: MIT
"""build/bench-gpu runs on the soft GPU: every row is there, with numbers or a reason. What the
numbers are is not tested."""
import os
import re
import subprocess

from appliance import BUILD, HANG_S

BENCH = os.path.join(BUILD, "bench-gpu")
SOFT = os.path.join(BUILD, "libsoftgpu.so")
CEILINGS = """load weights, compared|device memory, read|device memory, written
device memory, copied|host to device|device to host|both directions
launch, one of 1000|event, one of 1000|smallest kernel between events|launch, on the host
operations, large product"""
OF_PRODUCTS = """decode, a round of 8|step of 8 rounds|step that ends in round 1
8 tokens by a draft of 7|prefill
product attn_qkv|product attn_output|product ffn_gate_up|product ffn_down|product output"""
SWAPS = """decode step, no swap|swap out|swap in|swap both ways|decode step, swap out
decode step, swap in|decode step, swap both ways"""
KERNELS = """attention, decode|attention, prefill|rms_norm|rope|swiglu|sample, greedy|sample, top_p
other kernels, all of a step"""
ROW = re.compile(r"^(\S.{29}) (\S+) +(\S+) +(\S+) +(not run: .+|[\d.]+ .*)$", re.M)


def names(text):
    return {name for line in text.split("\n") for name in line.split("|")}


def bench(*words, shape="tiny"):
    """What it says, and its rows: (name, products, rows, tokens, numbers or reason)."""
    done = subprocess.run([BENCH, "--cuda", SOFT, "--shape", shape, "--quick", *words], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=HANG_S * 5)
    rows = [(name.strip(), *rest) for name, *rest in ROW.findall(done.stdout)]
    return done.returncode, done.stdout, rows


def test_every_row_has_numbers_with_and_without_the_library():
    status, said, rows = bench("--library", SOFT, "--rows", "1,5")
    assert status == 0 and "not run" not in said, said
    assert len(rows) == len(said.rstrip("\n").split("\n")) - 2, said
    assert {row[0] for row in rows} == set().union(
        *map(names, (CEILINGS, OF_PRODUCTS, SWAPS, KERNELS)))
    for name in names(OF_PRODUCTS):
        for products in ("library", "own"):
            asked = {row[2] for row in rows if row[:2] == (name, products)}
            of_one = name in ("prefill", "8 tokens by a draft of 7")
            assert asked == ({"1"} if of_one else {"1", "5"}), (name, said)
    assert {row[3] for row in rows if row[0] == "prefill"} == {"64", "256"}
    assert {(row[2], row[3]) for row in rows if row[0] == "attention, decode"} == {
        ("1", "32"), ("1", "256"), ("5", "32"), ("5", "256")}


def test_weights_that_are_levels_are_multiplied_by_the_engines_own_products():
    for levels in ("q8_0", "q4_k"):
        status, said, rows = bench("--library", SOFT, "--rows", "1", "--part", "products",
                                   "--type", levels, shape="tiny-256")
        assert status == 0 and "not run" not in said, said
        assert {row[1] for row in rows if row[0].startswith("product")} == {"own"}, said


def test_what_cannot_be_measured_says_why():
    status, said, rows = bench("--library", "none", "--rows", "2", "--part", "ceilings",
                               "--type", "f16")
    assert status == 0 and {row[0] for row in rows} == names(CEILINGS), said
    assert [row[0] for row in rows if row[4] == "not run: no library"] == [
        "operations, large product"], said
    status, said, rows = bench("--library", "none", "--seconds", "1", "--rows", "1,64")
    assert status == 0 and "not run: no time is left" in said, said
    for words, sentence in ((("--rows", "0"), "--rows"), (("--shape", "9b"), "--shape"),
                            (("--library", "/none"), "/none"), (("--rows", "1025"), "--rows")):
        status, said, _ = bench(*words)
        assert status != 0 and sentence in said, said
