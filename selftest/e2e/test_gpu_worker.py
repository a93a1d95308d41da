# SPDX-License-Identifier: MIT
"""The GPU's worker on the soft GPU gives the CPU's tokens, through swaps, death and every fault
that the soft GPU injects (selftest/fake/softgpu/softgpu.h)."""
import contextlib
import os
import re
import resource
import signal
import tempfile
import threading

from appliance import (EMBEDDED_MODEL, HANG_S, NOISE, RANDOM_MODEL, Appliance, is_alive, wait_for)
from engines import prompt, sampling
from models import model
from protocol import Client
from skip import inside, long, open_files
from test_gpu import ON_SOFT, SOFT, check, refusal
from test_speculate import answers, speculate
from test_worker import open_of, poke, shared_parts

DEVICE_FAILED = 65
ON_GPU = ("engine.kind=cuda",) + ON_SOFT
# So little KV that calls preempt each other.
TIGHT = ("limits.context_tokens=128", "kv.block_tokens=8", "kv.device_blocks=16",
         "kv.host_ratio=4", "sched.quantum=1us")
KILLS = 30


def serve(a, numbers, at_once, max_tokens=20):
    """The tokens of these calls, with so many open at once."""
    tokens, numbers = {}, list(numbers)
    with Client(a.tcp) as c:
        for first in range(0, len(numbers), at_once):
            now = numbers[first:first + at_once]
            for number in now:
                c.start(number + 1, prompt(number), max_tokens=max_tokens, **sampling(number))
            for number in now:
                tokens[number] = c.finish(number + 1).check().tokens
                assert len(tokens[number]) == max_tokens, c.calls[number + 1].done
    return tokens


def serve_by_two(a, numbers, at_once, **options):
    """The same by two clients, half of the calls each."""
    parts = [{}, {}]

    def work(i):
        parts[i] = serve(a, numbers[i::2], at_once // 2, **options)
    threads = [threading.Thread(target=work, args=(i,)) for i in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S * 5)
    return {**parts[0], **parts[1]}


def of_the_cpu(*settings, count=30, **options):
    with Appliance(NOISE, *settings) as a:
        return serve(a, range(count), 1, **options)


def on_gpu(*settings, **environment):
    return Appliance(NOISE, *ON_GPU, *settings, environment=environment)


def test_the_worker_outlives_the_core():
    """Its weights stay on the device, and it gives the next core the same tokens."""
    with on_gpu() as a:
        worker = a.worker
        tokens = serve(a, range(6), 3)
        core = a.core
        os.kill(core, signal.SIGKILL)
        wait_for(lambda: a.children().get("agentix-core", core) != core, "there is another core")
        assert serve(a, range(6), 3) == tokens
        assert a.worker == worker and a.stats()["engine_restarts"] == 0


def test_tokens_are_the_cpus_alone_and_in_any_batch():
    cpu = of_the_cpu()
    with on_gpu() as a:
        assert serve(a, range(30), 1) == cpu
        assert serve_by_two(a, range(30), 16) == cpu
        assert a.stats()["engine_restarts"] == 0


def test_without_cublas_the_engines_own_products_serve():
    cpu = of_the_cpu()
    with on_gpu("engine.cublas_library=none", SOFTGPU_BLAS_SKEWED="1") as a:
        assert serve_by_two(a, range(30), 16) == cpu


def test_tokens_are_the_cpus_when_kv_is_swapped_and_computed_again():
    cpu = of_the_cpu(*TIGHT)
    for host in (TIGHT, TIGHT + ("kv.host_ratio=0",)):
        with on_gpu(*host) as a:
            assert serve_by_two(a, range(30), 16) == cpu
            stats = a.stats()
            assert stats["preemptions"] > 0 and stats["kv_blocks_used"] == 0
            if host is TIGHT:
                assert stats["swap_out_blocks"] > 0 and stats["swap_in_blocks"] > 0
            else:
                assert stats["recomputed_tokens"] > 0


def test_half_precision_kv_has_the_cpus_tokens():
    cpu = of_the_cpu("kv.type=f16")
    with on_gpu("kv.type=f16", SOFTGPU_LAZY="1") as a:      # nothing runs before it is asked for
        assert serve(a, range(30), 8) == cpu


def test_drafts_agree_and_change_no_token():
    right, none, _ = answers("sched.speculate=0")
    assert none["draft_tokens"] == 0
    tokens, stats, events = answers(*ON_GPU, "sched.speculate=7")
    assert tokens == right
    assert 0 < stats["draft_tokens_agreed"] <= stats["draft_tokens"], stats
    assert "drafted" in events and stats["steps_lost"] == 0, stats


def test_the_embedded_model_serves_by_the_gpu():
    with Appliance() as a, Client(a.tcp) as c:
        cpu = c.generate(1, b"The", max_tokens=12).check().tokens
    with Appliance(*ON_GPU) as a, Client(a.tcp) as c:
        assert c.generate(1, b"The", max_tokens=12).check().tokens == cpu


def test_auto_serves_by_the_gpu_if_there_is_one():
    with Appliance(NOISE, "engine.kind=auto", *ON_SOFT) as a:
        assert a.said("the CPU serves") == 0
        with open(inside(a.worker, "maps")) as maps:
            assert SOFT in maps.read()


# ---- death --------------------------------------------------------------------------------------

@long
def test_a_worker_that_is_killed_costs_nothing_but_time():
    cpu = of_the_cpu(*TIGHT)
    with on_gpu(*TIGHT, "engine.failures=0") as a:
        answers, enough = [], threading.Event()

        def work():
            while not enough.is_set():
                answers.append(serve_by_two(a, range(30), 16))
        server = threading.Thread(target=work)
        server.start()
        for _ in range(KILLS):
            steps, pid = a.stats()["steps"], a.worker
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: a.children().get("agentix-worker") not in (None, pid), "a new worker")
            wait_for(lambda: a.stats()["steps"] > steps + 3 or not server.is_alive(), "progress")
            assert server.is_alive(), "the clients ended early"
        enough.set()
        server.join(HANG_S * 5)
        stats = a.stats()
        print("  killed %d times, %d calls, %d blocks swapped out" % (
            KILLS, 30 * len(answers), stats["swap_out_blocks"]))
        assert answers and all(answer == cpu for answer in answers)
        assert stats["engine_restarts"] == KILLS and stats["swap_out_blocks"] > 0


def test_the_worker_dies_with_its_keeper():
    a = on_gpu()
    worker = a.worker
    a.process.kill()
    wait_for(lambda: not is_alive(worker), "the worker is gone")
    assert a.stop() == -signal.SIGKILL


# ---- faults -------------------------------------------------------------------------------------

def faulty(a, path, fault):
    """The next worker has this fault; its successors have none."""
    with open(path + ".new", "w") as file:
        file.write(fault)
    os.rename(path + ".new", path)
    os.kill(a.worker, signal.SIGKILL)
    wait_for(lambda: not os.path.exists(path), "the fault is taken")


def after(fault, word, *settings):
    """Calls get the CPU's tokens although one worker fails; the log names its end by `word`."""
    cpu = of_the_cpu()
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "faults")
        with on_gpu("engine.failures=0", *settings, SOFTGPU_FAULTS="@" + path) as a:
            faulty(a, path, fault)
            for _ in range(4):                  # until the fault has struck
                assert serve_by_two(a, range(30), 16) == cpu
                if a.said(word):
                    break
            # One that waits for the processor counts as hung, too, where engine.hang is short.
            wait_for(lambda: a.stats()["engine_restarts"] == 1 + a.said(word) >= 2, word)
            assert a.said(word) == 1 or "hang" in fault, a.lines[-10:]
            a.wait_ready()


def test_memory_that_is_refused_once_costs_a_start():
    after("alloc:1", "engine does not start: GPU: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY")


def test_weights_that_arrive_damaged_are_found_before_a_step():
    after("corrupt:40", "engine does not start: GPU: weights that were copied to it are others")


def test_a_launch_that_is_refused_costs_a_worker():
    """Without cuBLAS, whose products are launches, too."""
    after("launch:2000", "engine failed: GPU: cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
          "engine.cublas_library=none")


def test_an_error_that_stays_costs_a_worker():
    after("sticky:3000", "engine failed: GPU: cu")


def test_a_device_that_is_gone_costs_a_worker():
    after("lost:3000", "engine failed: GPU: cu")


def test_a_device_that_hangs_costs_a_worker():
    after("hang:6000", "engine worker was hung pid=", "engine.hang=5s")


def test_a_device_that_hangs_while_it_takes_the_weights_costs_a_start():
    after("hang:40", "engine worker was hung pid=", "engine.hang=1s")


def test_a_worker_allocates_once_on_the_device():
    with on_gpu(*TIGHT, SOFTGPU_FAULTS="alloc:2") as a:
        serve(a, range(16), 8)
        assert a.stats()["engine_restarts"] == 0


def test_a_fault_of_every_worker_ends_the_engine_and_health_says_so():
    with Appliance(NOISE, *ON_GPU, wait=False, environment={"SOFTGPU_FAULTS": "alloc:1"}) as a:
        wait_for(lambda: a.health().startswith("failed(engine died)"), "the engine is given up")
        a.wait_said("given up")
        a.wait_said("CUDA_ERROR_OUT_OF_MEMORY", 3)
        with Client(a.tcp) as c:
            assert c.generate(1, prompt(1)).error["status"] == DEVICE_FAILED


def test_a_device_with_too_little_memory_is_refused_with_figures():
    said_of = refusal(*ON_SOFT, NOISE, SOFTGPU_MEMORY="5000000")
    assert re.search(r"needs [\d.]+ MiB of the GPU, 4.8 of 4.8 MiB are free", said_of)
    assert "no command fits" in said_of or "this command fits" in said_of, said_of
    status, text = check("engine.kind=auto", *ON_SOFT, NOISE, SOFTGPU_MEMORY="5000000")
    assert status == 0 and "the CPU serves: the plan needs" in text, text


def test_models_of_levels_give_the_same_tokens_alone_and_together():
    """The CPU rounds activations to eight bits, the GPU does not: their tokens may differ."""
    for levels in ("q8_0", "q4_0", "q4_k", "q6_k"):
        with model("llama", "--dim", "256", "--ffn", "256", "--layers", "1", "--type",
                   levels) as path:
            with on_gpu("model.path=" + path) as a:
                alone = serve(a, range(4), 1, max_tokens=8)
                assert serve(a, range(4), 4, max_tokens=8) == alone, levels
                assert len(set(map(tuple, alone.values()))) > 1, levels


def test_weights_rounded_for_the_cpu_are_refused():
    said_of = refusal(*ON_SOFT, NOISE, "model.weights=bf16")
    assert "model.weights = bf16 is for the CPU engine; the GPU engine needs file" in said_of


def test_kv_in_levels_is_refused():
    said_of = refusal(*ON_SOFT, NOISE, "kv.type=q8")
    assert "kv.type = q8 is for the CPU engine; the GPU engine needs f16 or f32" in said_of


# ---- the seal -----------------------------------------------------------------------------------

@contextlib.contextmanager
def acting(act):
    """An appliance whose driver makes this system call at a launch after the seal."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "faults")
        with on_gpu("engine.failures=0", SOFTGPU_FAULTS="@" + path, SOFTGPU_ACT=act) as a:
            faulty(a, path, "act:1000")
            with Client(a.tcp) as c:
                c.generate(1, prompt(1), max_tokens=100).check()
            yield a


def test_a_driver_that_breaks_the_seal_dies_and_its_successor_serves():
    for act, name in (("code", "mmap of code"), ("mprotect", "mprotect to code"),
                      ("execve", "execve"), ("fork", "fork"), ("clone", "clone of a process"),
                      ("kill", "kill"), ("ptrace", None)):      # by the keeper's own filter
        with acting(act) as a:
            wait_for(lambda: a.said("worker died pid=") >= 2, "it dies of " + act)
            if name:
                a.wait_said("ends by a system call that is not allowed: call=" + name)
            a.wait_said("signal=%d status=0" % signal.SIGSYS)
            assert a.said("survived") == 0


def test_a_driver_that_opens_what_it_may_not_is_refused_and_serves_on():
    for act, told in (("open", "open path=/nonexistent"), ("openat", "openat path=/nonexistent"),
                      ("create", "openat path=/nonexistent"), ("socket", "socket path=-"),
                      ("unlink", "unlink path=/nonexistent")):
        with acting(act) as a:
            a.wait_said("system call refused: call=" + told)
            a.wait_said("survived its misbehaviour")
            assert a.said("worker died") == 1           # by the test's own kill


def test_a_driver_opens_nothing_after_the_seal():
    """What it opens at the first use of something it has opened in the rehearsal."""
    cpu = of_the_cpu(*TIGHT)
    for library in ((), ("engine.cublas_library=none",)):
        with on_gpu(*TIGHT, *library, "sched.speculate=7", SOFTGPU_OPENS="1") as a:
            with Client(a.tcp) as c:
                speculate(c)
            assert serve_by_two(a, range(30), 16) == cpu
            with Client(a.tcp) as c:
                c.generate(1, prompt(1), max_tokens=8, temperature=1, presence_penalty=0.5,
                           biases=((5, 1.0),), logprobs=1, top_logprobs=3).check()
            stats = a.stats()
            assert stats["swap_out_blocks"] > 0 and stats["swap_in_blocks"] > 0
            assert stats["draft_tokens"] > 0
            assert a.said("system call refused") == 0, a.lines
            assert stats["engine_restarts"] == 0


def test_steps_without_room_for_a_draft_are_rehearsed():
    for least in (("sched.batch=1",), ("sched.steps_per_plan=1",), ("limits.context_tokens=2",)):
        with on_gpu("sched.speculate=7", *least) as a, Client(a.tcp) as c:
            assert len(c.generate(1, [5], max_tokens=1).check().tokens) == 1
            assert a.stats()["draft_tokens"] == 0 and a.stats()["engine_restarts"] == 0


def test_the_sealed_worker_has_what_it_needs_and_no_more():
    with on_gpu() as a:
        names = open_files(a.worker)
        assert not [name for name in names if "gguf" in name or "agentix-gpu-page" in name or
                    "agentix-shared" in name or "agentix-kept" in name], names
        numbers = {int(number) for number in os.listdir(inside(a.worker, "fd"))}
        free = min(set(range(len(numbers) + 1)) - numbers)
        assert resource.prlimit(a.worker, resource.RLIMIT_NOFILE) == (free, free), numbers
        assert resource.prlimit(a.worker, resource.RLIMIT_CORE) == (0, 0)
        assert [part[2] for part in shared_parts(a.worker)] == ["r--s", "rw-s", "r--s", "rw-s"]
        names = open_files(a.core)              # kept memory: it holds the lock of that
        assert [name.split()[0] for name in names if "memfd" in name] == ["/memfd:agentix-kept"]
        assert not [name for name in names if "gguf" in name]
        for pid in (a.process.pid, a.core):
            with open(inside(pid, "maps")) as maps:
                assert not re.search("softgpu|libcuda|libc.so", maps.read())


# ---- silent corruption --------------------------------------------------------------------------

def flip_weight(pid):
    """Flips a bit of a weight wherever the worker has it; the host has no copy any more."""
    with open(RANDOM_MODEL, "rb") as file:
        file.seek(-256, os.SEEK_END)
        wanted = file.read(64)
    places = []
    for line in open_of(pid, "maps", "r"):
        match = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
        first, end = (int(number, 16) for number in match.groups()) if match else (0, 0)
        with open_of(pid, "mem", "rb") as memory:
            memory.seek(first)
            at = memory.read(end - first).find(wanted)
        if at >= 0:
            places.append(first + at + 2)
    assert places
    poke(pid, places[0], bytes([wanted[2] ^ 0x40]))
    with contextlib.suppress(OSError):      # the canary has found the first, and the worker is gone
        for place in places[1:]:
            poke(pid, place, bytes([wanted[2] ^ 0x40]))


def test_a_weight_that_changes_on_the_device_is_found_by_the_canary():
    cpu = of_the_cpu(count=4)
    with on_gpu("engine.canary=1s", "engine.failures=0") as a:
        wait_for(lambda: a.stats()["canaries"] > 0, "the canary is known")
        flip_weight(a.worker)
        a.wait_said("engine worker was wrong pid=")
        a.wait_ready()
        assert serve(a, range(4), 4) == cpu


def overwritten(change, says=""):
    """health, when the next worker reads the file after `change`, and the log `says` why."""
    with open(RANDOM_MODEL, "rb") as file:
        model = file.read()
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        file.write(model)
        file.flush()
        with Appliance("model.path=" + file.name, *ON_GPU) as a:
            wait_for(lambda: a.stats()["canaries"] > 0, "the canary is known")
            file.seek(0)
            file.write(change(model))
            file.flush()
            os.kill(a.worker, signal.SIGKILL)
            health = wait_for(lambda: a.health().startswith("failed") and a.health(),
                              "the engine is given up")
            wait_for(lambda: a.said(says) > 0, "it says: " + says)
            return health


def test_a_model_whose_weights_are_overwritten_is_found_by_the_canary():
    def change(model):
        model = bytearray(model)
        for at in range(len(model) - 4096 + 2, len(model), 4):
            model[at] ^= 0x40
        return model
    health = overwritten(change)
    assert health.startswith("failed(canary)"), health


def test_a_model_that_becomes_another_is_refused():
    def change(_):
        with open(EMBEDDED_MODEL, "rb") as file:
            return file.read()
    health = overwritten(change, says=".gguf: it is another model than at boot")
    assert health.startswith("failed(engine died)"), health


def test_a_step_that_is_damaged_on_its_way_hangs_no_client():
    """No check finds one wrong bit in one copy of one step (docs/caveats.md): the tokens of that
    step may be wrong. Service goes on, and later calls are right."""
    cpu = of_the_cpu(count=8)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "faults")
        with on_gpu("engine.failures=0", SOFTGPU_FAULTS="@" + path) as a:
            faulty(a, path, "corrupt:150")
            with Client(a.tcp) as c:
                for number in range(8):
                    c.start(number + 1, prompt(number), max_tokens=20)
                for number in range(8):
                    c.finish(number + 1).check()
            assert serve(a, range(8), 8) == cpu
