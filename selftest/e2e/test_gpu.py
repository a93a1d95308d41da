# SPDX-License-Identifier: MIT
"""engine.kind = cuda and auto, with the soft GPU: a process of its own reports the GPU and names
every fault of the driver; the CPU serves where it may."""
import os
import shutil
import subprocess
import tempfile

from appliance import BUILD, HANG_S, NOISE, ROOT, Appliance, run, wait_for
from protocol import Client
from skip import Skip

SOFT = os.path.join(BUILD, "libsoftgpu.so")
ON_SOFT = ("engine.cuda_library=" + SOFT, "engine.cublas_library=" + SOFT)
ENGINE_EXIT = 6


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
