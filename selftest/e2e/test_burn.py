# SPDX-License-Identifier: MIT
"""The self-test's checks of a GPU, on the soft GPU. They pass when it is sound. The check for an
injected fault finds it, by name, and the other checks still run."""
import os
import re
import subprocess

from appliance import BUILD, HANG_S

SOFT = os.path.join(BUILD, "libsoftgpu.so")
MIB = 1 << 20
MEMORY = 16 * MIB
QUICK = ("gpu", "gpu memory own address", "gpu memory checkerboard", "gpu memory walking bit",
         "gpu products", "gpu health")
FULL = ("gpu memory solid", "gpu memory random", "gpu swap to host and back")


def burn(*words, level="--selftest", kind="cuda", nvml=SOFT, cuda=SOFT, **environment):
    """(status, {check of the GPU: (amount, result)}, the lines below each, the last line)."""
    arguments = [os.path.join(BUILD, "agentix"), level, *words]
    for setting in ("engine.kind=" + kind, "engine.cuda_library=" + cuda,
                    "engine.nvml_library=" + nvml):
        arguments += ["--set", setting]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=HANG_S,
                          env=dict(os.environ, **{"SOFTGPU_MEMORY": str(MEMORY), **environment}))
    lines = done.stdout.splitlines()
    rows = [re.match(r"(gpu.{23}) (.{34,}) (ok|FAILED) +[\d.]+$", line) for line in lines]
    checks = {row[1].strip(): (row[2].strip(), row[3]) for row in rows if row}
    said = {name: [line.split(": ", 1)[1] for line in lines if line.startswith("  %s: " % name)]
            for name in checks}
    return done.returncode, checks, said, lines[-1]


def once(*words, **more):
    """All checks, each for one round."""
    more = {"SOFTGPU_MEMORY": str(80 * MIB), **more}
    return burn("--selftest-minutes", "0", "--selftest-memory", "64KiB", *words,
                level="--selftest=soak", **more)


def failed(checks):
    return {name for name, (_, result) in checks.items() if result == "FAILED"}


def test_a_sound_gpu_passes_over_nearly_all_of_its_memory():
    status, checks, _, verdict = burn()
    assert status == 0 and verdict == "PASS: 17 of 17 checks", verdict
    assert set(checks) == set(QUICK), checks
    for pattern in "own address", "checkerboard", "walking bit":
        amount = checks["gpu memory " + pattern][0]
        assert float(amount.split()[0]) * MIB >= 0.95 * MEMORY and ", 98 %, 40 C" in amount, amount
    assert checks["gpu"][0] == "soft, soft"
    assert checks["gpu health"][0] == "40 C, 1500 MHz, 100 W, ECC 0+0", checks


def test_each_of_several_gpus_is_checked_and_a_fault_says_whose():
    two = ("--set", "engine.devices=0,1", "--selftest-memory", "64KiB")
    status, checks, _, verdict = burn(*two, SOFTGPU_DEVICES="2")
    assert status == 0 and verdict == "PASS: 17 of 17 checks", verdict
    assert checks["gpu"][0] == "2 GPUs: soft, soft", checks
    status, checks, said, _ = burn(*two, SOFTGPU_DEVICES="2", SOFTGPU_CAPABILITY="0,75")
    assert status == 1 and failed(checks) == set(QUICK), checks
    assert said["gpu health"][0].startswith("GPU 1: soft: compute capability 7.5"), said


def test_each_check_of_full_passes():
    status, checks, _, verdict = once()
    assert status == 0 and verdict == "PASS: 25 of 25 checks", verdict
    assert set(checks) == set(QUICK + FULL), checks
    assert checks["gpu swap to host and back"][0] == "64 blocks x 1, 4 streams, 40 C", checks


def test_a_machine_without_a_gpu_fails_only_where_one_is_required():
    status, checks, _, verdict = burn(kind="auto", cuda="libcuda-none.so.1")
    assert (status, checks) == (0, {"gpu": ("none here", "ok")}), checks
    status, checks, said, verdict = burn(cuda="libcuda-none.so.1")
    assert status == 1 and verdict == "FAIL: 11 of 12 checks", verdict
    assert said["gpu"][0].startswith("libcuda-none.so.1: cannot be opened"), said
    status, checks, _, _ = burn(kind="cpu")
    assert (status, checks) == (0, {}), checks


def test_memory_that_sticks_is_found_by_each_pattern_with_its_bit():
    status, checks, said, _ = once(SOFTGPU_FAULTS="stuck:1")
    patterns = {name for name in checks if name.startswith("gpu memory")}
    assert status == 1 and patterns <= failed(checks) and len(patterns) == 5, checks
    for name in patterns:
        match = re.match(r"word 4096 of the area \(wrong words: 1\): address 0x[0-9a-f]+, bit 4: "
                         r"expected ([0-9a-f]{16}), found ([0-9a-f]{16})$", said[name][0])
        assert match and int(match[1], 16) ^ int(match[2], 16) == 16, said[name]


def test_a_wrong_copy_is_found_at_its_target():
    back = "stream %d, block %d come back (wrong words: 1): address "
    for copy, lines in ((18, ["stream 1, block 1 on the host: address ", back % (1, 1)]),
                        (65, [back % (0, 0)])):
        status, _, said, _ = once(SOFTGPU_FAULTS="corrupt:%d" % copy)
        swap = said["gpu swap to host and back"]
        assert status == 1 and len(swap) == len(lines), swap
        for line, words in zip(swap, lines):
            assert line.startswith(words) and ", bit 0: expected " in line, swap


def test_a_product_that_is_wrong_is_found_in_row_and_output():
    _, checks, said, _ = burn(SOFTGPU_FAULTS="corrupt:3")      # x, weights, result
    words = r"weights F32, row 32, output 0: expected ([0-9a-f]{8}), found ([0-9a-f]{8})$"
    found = [re.match(words, line) for line in said["gpu products"]]
    assert len(found) == 1 and int(found[0][1], 16) ^ int(found[0][2], 16) == 1, said


def test_what_the_driver_refuses_is_named_and_the_other_checks_run():
    busy = set(QUICK) - {"gpu", "gpu health"}
    for fault, where, words in (
            ("launch:1", busy, "GPU: cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
            ("alloc:1", busy, "GPU: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY"),
            ("lost:1", {"gpu"}, "cuMemGetInfo: CUDA_ERROR_DEVICE_UNAVAILABLE"),
            ("sticky:4", {"gpu"}, "GPU: cuModuleLoadData: CUDA_ERROR_ILLEGAL_ADDRESS")):
        status, checks, said, verdict = burn(SOFTGPU_FAULTS=fault)
        assert status == 1 and where <= failed(checks) and set(checks) == set(QUICK), checks
        assert all(words in said[name][0] for name in where), said


def test_less_memory_is_taken_where_more_is_refused():
    status, checks, _, _ = burn(SOFTGPU_FAULTS="alloc:2")
    assert status == 0 and "98 %" not in checks["gpu memory checkerboard"][0], checks
    assert "97 %" in checks["gpu memory checkerboard"][0], checks


def test_a_process_that_crashes_or_hangs_fails_its_check():
    _, checks, said, verdict = burn(SOFTGPU_FAULTS="nonsense")
    assert verdict == "FAIL: 11 of 17 checks" and len(failed(checks)) == 6, verdict
    assert "the GPU worker ended without a report: status=0 signal=6" in said["gpu"], said
    _, checks, said, verdict = burn("--set", "engine.hang=1s", SOFTGPU_FAULTS="hang:2")
    assert verdict == "FAIL: 13 of 17 checks", verdict
    assert failed(checks) == set(QUICK) - {"gpu", "gpu health"}, checks
    assert said["gpu products"] == ["the GPU driver does not answer"], said


def test_an_unhealthy_gpu_fails_every_check_with_the_figure():
    for figures, words in (
            ("temperature:95", "too hot: 95 C, it slows down at 90 C"),
            ("held:64,sm:345", "throttled by hardware, too hot (reasons 0x40): 345 MHz at 40 C"),
            ("held:132", "throttled by the power supply's brake (reasons 0x84): 1500 MHz at 40 C")):
        _, checks, said, _ = burn(SOFTGPU_NVML=figures)
        assert failed(checks) == set(QUICK), (figures, checks)
        assert all(lines == [words] for lines in said.values()), said
    _, checks, said, _ = burn(SOFTGPU_NVML="uncorrected:3")
    assert failed(checks) == set(QUICK), checks
    for lines in said.values():
        assert len(lines) == 1 and re.match(r"\d+ new uncorrected ECC errors$", lines[0]), said


def test_memory_that_waits_for_repair_is_a_fault_of_its_health():
    for figures, words in (("failed:1", "rows of the memory could not be remapped"),
                           ("pending:1", "rows of the memory wait to be remapped: reset the GPU"),
                           ("pages:1", "pages of the memory wait to be retired: reset the GPU")):
        _, checks, said, _ = burn(SOFTGPU_NVML=figures)
        assert failed(checks) == {"gpu health"} and said["gpu health"] == [words], said


def test_missing_health_figures_are_no_fault():
    status, checks, _, _ = burn(
        SOFTGPU_NVML="temperature:-1,slowdown:-1,held:4,corrected:1,power:-1")
    assert status == 0 and re.match(r"- C, 1500 MHz, - W, ECC \d+\+0$", checks["gpu health"][0])
    status, checks, _, _ = burn(nvml="libnvml-none.so.1")
    assert status == 0, checks
    assert checks["gpu health"] == ("not measured: no libnvml-none.so.1", "ok"), checks
