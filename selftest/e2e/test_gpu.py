# SPDX-License-Identifier: MIT
"""engine.kind = cuda and auto, with the soft GPU: a process of its own reports the GPU and names
every fault of the driver; the CPU serves where it may."""
import os
import shutil
import subprocess
import tempfile

from appliance import BUILD, EXIT, HANG_S, NOISE, ROOT, Appliance, run, wait_for
from protocol import Client
from skip import Skip

SOFT = os.path.join(BUILD, "libsoftgpu.so")
ON_SOFT = ("engine.cuda_library=" + SOFT, "engine.cublas_library=" + SOFT)
ENGINE_EXIT = EXIT["ENGINE"]


def check(*settings, **environment):
    """agentix --check with settings and a soft GPU of this kind; (status, standard error)."""
    arguments = [os.path.join(BUILD, "agentix"), "--check"]
    for setting in settings:
        arguments += ["--set", setting]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=HANG_S,
                          env=dict(os.environ, **environment))
    return done.returncode, done.stderr


def refusal(*settings, **environment):
    status, said = check("engine.kind=cuda", *settings, **environment)
    assert status == ENGINE_EXIT and said.count("boot failed: engine.kind = cuda: ") == 1, said
    return said


def test_without_a_driver_cuda_is_refused_by_its_name():
    said = refusal("engine.cuda_library=libcuda-none.so.1")
    assert "libcuda-none.so.1: cannot be opened" in said and "NVIDIA driver" in said, said


def test_without_a_driver_auto_serves_by_the_cpu_and_says_why():
    with Appliance(NOISE, "engine.kind=auto", "engine.cuda_library=libcuda-none.so.1") as a:
        wait_for(lambda: sum("the CPU serves: libcuda-none.so.1" in line for line in a.lines) == 1,
                 "it is told")
        with Client(a.tcp) as c:
            c.generate(1, [5, 6, 7], max_tokens=4).check()


def test_a_device_is_reported_by_name():
    status, said = check("engine.kind=auto", *ON_SOFT)
    assert status == 0 and said.count(' gpu name="soft" arch=soft driver=13.0 ') == 1, said


def test_memory_is_what_the_library_leaves():
    """A plan may have what is free behind cuBLAS, whose code is hundreds of MB on a chip."""
    taken = {"SOFTGPU_BLAS_MEMORY": str(100 << 20)}
    for library, free in ((ON_SOFT[1], 156), ("engine.cublas_library=none", 256)):
        status, said = check("engine.kind=cuda", NOISE, ON_SOFT[0], library, **taken)
        assert status == 0 and " free_mib=%d" % free in said, said
    said = refusal(*ON_SOFT, NOISE, SOFTGPU_BLAS_MEMORY=str(255 << 20))
    assert "1.0 of 256.0 MiB are free" in said, said
    said = refusal(*ON_SOFT, NOISE, SOFTGPU_BLAS_MEMORY=str(257 << 20))
    assert "cuBLAS: does not start: " in said, said


def test_each_of_several_devices_is_looked_at():
    status, said = check("engine.kind=cuda", "engine.devices=2,0", *ON_SOFT, SOFTGPU_DEVICES="3")
    assert status == 0 and said.count("gpu device=") == 2, said
    assert said.index('gpu device=2 name="soft"') < said.index('gpu device=0 name="soft"'), said


def test_a_fault_of_one_device_is_named_with_its_number():
    two = ON_SOFT + ("engine.devices=0, 1",)
    for environment, words in (
            ({"SOFTGPU_DEVICES": "1"}, "GPU 1: engine.devices: 1: the driver shows 1, numbered"),
            ({"SOFTGPU_CAPABILITY": "0,75"}, "GPU 1: soft: compute capability 7.5: this build has"),
            ({"SOFTGPU_PROCESSORS": "2,4"}, "GPU 1 (soft, soft, 4 processors) is not like GPU 0"),
            ({"SOFTGPU_MEMORY": "268435456,3000000"}, "of GPU 1, 2.9 of 2.9 MiB are free"),
            ({"SOFTGPU_MEMORY": "3000000,268435456"}, "of GPU 0, 2.9 of 2.9 MiB are free")):
        assert words in refusal(*two, **{"SOFTGPU_DEVICES": "2", **environment}), words
    said = refusal(ON_SOFT[0], ON_SOFT[1], "engine.devices=5")
    assert "engine.kind = cuda: engine.devices: 5: the driver shows 1, numbered from 0" in said


def test_a_model_that_fits_no_single_device_is_refused_whatever_all_have():
    said = refusal(*ON_SOFT, "engine.devices=0,1,2,3", SOFTGPU_DEVICES="4",
                   SOFTGPU_MEMORY=str(20 << 20))
    assert "of each GPU, which has the whole model" in said, said
    assert "a model must fit one, several do not share it" in said, said
    status, said = check("engine.kind=auto", *ON_SOFT, "engine.devices=0,1", SOFTGPU_DEVICES="2",
                         SOFTGPU_MEMORY=str(20 << 20))
    assert status == 0 and "the CPU serves: the plan needs" in said, said


def test_the_plan_counts_each_device():
    plans = []
    for devices in ("0", "0,1,2"):
        settings = ("engine.kind=cuda", "engine.devices=" + devices, *ON_SOFT)
        done = run("agentix", "--check", *(word for one in settings for word in ("--set", one)),
                   env=dict(os.environ, SOFTGPU_DEVICES="3"))
        assert done.returncode == 0, done.stderr
        plans.append({row.split()[-2 if "all" in row or "each" in row else -1].rstrip(","): float(
            row.split()[1]) for row in done.stdout.splitlines() if row.startswith("sum ")})
    assert "1.8 on each GPU: a model must fit one" in done.stdout, done.stdout
    one, three = plans
    assert three["device"] == one["device"] and three["weights"] == one["weights"] == 0
    assert abs(three["engine"] - 3 * one["engine"]) < 0.01, plans


def test_every_fault_of_the_driver_is_named():
    for environment, words in (
            ({"SOFTGPU_VERSION": "11080"}, "the driver is of CUDA 11.8"),
            ({"SOFTGPU_LACKS": "cuEventRecord"}, "lacks cuEventRecord"),
            ({"SOFTGPU_DEVICES": "0"}, "cuInit: CUDA_ERROR_NO_DEVICE: there is no GPU"),
            ({"SOFTGPU_CAPABILITY": "75"}, "soft: compute capability 7.5: this build has no"),
            ({"SOFTGPU_FAULTS": "sticky:1"}, "cuMemGetInfo: CUDA_ERROR_ILLEGAL_ADDRESS"),
            ({"SOFTGPU_FAULTS": "lost:1"}, "cuMemGetInfo: CUDA_ERROR_DEVICE_UNAVAILABLE")):
        assert words in refusal(*ON_SOFT, **environment), words


def test_the_binary_holds_the_image_that_it_lists():
    if "gpu kernels: none" in run("agentix", "--version").stdout:
        raise Skip("no GPU kernels in this build: needs NVIDIA's nvcc, CUDA 12.8 or later")
    with open(os.path.join(ROOT, "build", "cuda", "kernels.fatbin"), "rb") as image, \
            open(os.path.join(BUILD, "agentix"), "rb") as binary:
        assert image.read() in binary.read()


def test_a_library_that_is_not_cublas_is_named():
    assert "libc.so.6: lacks cublasCreate_v2" in refusal(ON_SOFT[0],
                                                         "engine.cublas_library=libc.so.6")


def test_without_a_c_library_the_worker_cannot_run_and_says_so():
    if os.geteuid() != 0:
        raise Skip("needs root, for chroot")
    with tempfile.TemporaryDirectory() as directory:
        shutil.copy(os.path.join(BUILD, "agentix"), directory)
        done = subprocess.run(["/agentix", "--check", "--set", "engine.kind=cuda"], timeout=HANG_S,
                              preexec_fn=lambda: (os.chroot(directory), os.chdir("/")),
                              capture_output=True, text=True)
    assert done.returncode == ENGINE_EXIT and "system's C library" in done.stderr, done.stderr


def test_a_driver_that_crashes_ends_only_its_own_process():
    said = refusal(*ON_SOFT, SOFTGPU_FAULTS="nonsense")
    assert "the GPU worker ended without a report: status=0 signal=6" in said, said
    status, said = check("engine.kind=auto", *ON_SOFT, SOFTGPU_FAULTS="nonsense")
    assert status == 0 and "the CPU serves: the GPU worker ended without" in said, said
