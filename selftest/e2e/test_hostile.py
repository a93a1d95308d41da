# SPDX-License-Identifier: MIT
"""Bad moments: processes that are killed or stopped; descriptors that are missing, full or used up;
paths of others; bursts; full tables. All tokens stay right and all resources come back."""
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

from appliance import (BUILD, EXIT, HANG_S, NOISE, Appliance, is_alive, listens, run, stop,
                       wait_for)
from protocol import (FAILED, PING, PROGRAM_END, Client, Closed, Outcome, call, cancel, frame,
                      hello)
from skip import Skip, inside, open_files

AGENTIX = os.path.join(BUILD, "agentix")
OFF = ("--set", "net.tcp=", "--set", "text.listen=")
PROMPT = list(range(3, 13))
DEVICE_FAILED = 65


def children(pid):
    """pid -> name, of a process's children that are not ending."""
    names = {}
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        for child in file.read().split():
            try:
                with open("/proc/%s/comm" % child) as comm:
                    names[int(child)] = comm.read().strip()
            except OSError:
                pass
    return names


def child(pid, name):
    def find():
        return next((p for p, known in children(pid).items() if known == name), None)
    return wait_for(find, "a process named " + name)


def descriptors(pid):
    return len(os.listdir(inside(pid, "fd")))


def undisturbed(max_tokens):
    with Appliance(NOISE) as a, Client(a.tcp) as c:
        return c.generate(1, PROMPT, max_tokens=max_tokens).check().tokens


class Raw:
    """agentix on a unix socket alone, with standard descriptors of the test's choice."""

    def __init__(self, *prefix, settings=(), **options):
        self.directory = tempfile.TemporaryDirectory(prefix="agentix-e2e-")
        self.path = os.path.join(self.directory.name, "s")
        arguments = [*prefix, AGENTIX, "--set", "net.unix=" + self.path, *OFF]
        for setting in settings:
            arguments += ["--set", setting]
        self.process = subprocess.Popen(arguments, **options)
        wait_for(lambda: listens(self.path), "the socket")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.directory.cleanup()


# ---- roles that end -----------------------------------------------------------------------------

def test_the_end_of_the_core_ends_everything_with_a_status_of_its_own():
    a = Appliance("appliance.core_failures=1", unix=True)
    roles = [a.core, a.worker]
    with Client(a.tcp) as c:
        c.start(1, PROMPT, max_tokens=900)
        c.step()
        os.kill(a.core, signal.SIGKILL)
        assert a.process.wait(HANG_S) == EXIT["CORE"]
        assert c.is_closed()
    assert not any(is_alive(pid) for pid in roles)
    assert not os.path.exists(a.unix)
    assert a.stop() == EXIT["CORE"]


def test_no_process_survives_the_keeper_and_a_successor_takes_over():
    a = Appliance(unix=True)
    roles = [a.core, a.worker]
    for pid in roles:
        os.kill(pid, signal.SIGSTOP)
    a.process.kill()
    a.process.wait(HANG_S)
    wait_for(lambda: not any(is_alive(pid) for pid in roles), "both are gone")
    with Appliance("net.unix=" + a.unix):
        with Client(a.unix) as c:
            c.generate(1, PROMPT).check()
    assert not os.path.exists(a.unix)
    a.stop()


def test_a_second_sigterm_ends_a_stopped_core_too():
    a = Appliance(unix=True)
    core = a.core
    os.kill(core, signal.SIGSTOP)
    a.process.send_signal(signal.SIGTERM)
    wait_for(lambda: any("draining" in line for line in a.lines), "the first is taken")
    a.process.send_signal(signal.SIGTERM)
    assert a.process.wait(HANG_S) == EXIT["CORE"]
    assert not is_alive(core) and not os.path.exists(a.unix)
    a.stop()


def test_sigterm_ends_a_stopped_worker_at_the_drain_limit():
    a = Appliance("limits.drain=100ms")
    worker = a.worker
    stop(worker)
    with Client(a.tcp) as c:
        c.start(1, PROMPT)
        c.step()
        a.process.send_signal(signal.SIGTERM)
        assert c.finish(1).check().done["finish"] == FAILED
    assert a.stop() == 0
    assert not is_alive(worker)


def test_an_engine_that_cannot_start_again_is_tried_until_it_can():
    with Appliance("engine.failures=2") as a, Client(a.tcp) as c:
        tokens = c.generate(9, PROMPT).check().tokens
        worker = a.worker
        stop(worker)
        c.start(1, PROMPT)
        c.step()
        # Successors find no room for the engine's memory.
        resource.prlimit(a.process.pid, resource.RLIMIT_AS, (1 << 20, resource.RLIM_INFINITY))
        os.kill(worker, signal.SIGKILL)
        wait_for(lambda: a.health().startswith("degraded(engine backs off: died)"), "it says so")
        a.wait_said("cannot reserve the engine's memory")
        resource.prlimit(a.process.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
        assert c.finish(1).check().tokens == tokens
        a.wait_ready()


def slow_load(log):
    """Under strace, each later read of the model takes a second."""
    if shutil.which("strace") is None:
        raise Skip("needs strace (Debian package strace)")
    probe = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, text=True)
    if probe.returncode != 0:
        raise Skip("strace may not trace here: " + probe.stderr.strip())
    return Raw("strace", "-o", "/dev/null", "-e", "trace=pread64", "-e",
               "inject=pread64:delay_enter=1000000:when=20+",
               settings=(NOISE,), stderr=log)


def is_loaded(log):
    log.seek(0)
    return b"loaded" in log.read()


def test_sigterm_ends_the_reading_of_a_model():
    with tempfile.TemporaryFile() as log, slow_load(log) as a:
        keeper = child(a.process.pid, "agentix")
        core = child(keeper, "agentix-core")
        os.kill(keeper, signal.SIGTERM)
        assert a.process.wait(HANG_S) == 0
        assert not is_alive(core) and not os.path.exists(a.path) and not is_loaded(log)


def test_a_core_that_dies_ends_the_reading_of_a_model():
    with tempfile.TemporaryFile() as log, slow_load(log) as a:
        keeper = child(a.process.pid, "agentix")
        os.kill(child(keeper, "agentix-core"), signal.SIGKILL)
        assert a.process.wait(HANG_S) == EXIT["CORE"]
        assert not os.path.exists(a.path) and not is_loaded(log)


def test_stopped_core_and_worker_under_load_cost_time_only():
    alone = undisturbed(300)
    with Appliance(NOISE) as a, Client(a.tcp) as c:
        for call_id in range(1, 17):
            c.start(call_id, PROMPT, max_tokens=300)
        while not c.calls[1].tokens:
            c.step()
        core, worker = a.core, a.worker
        os.kill(worker, signal.SIGSTOP)
        wait_for(lambda: a.health().startswith("degraded("), "degraded under load")
        os.kill(core, signal.SIGSTOP)
        os.kill(worker, signal.SIGKILL)
        os.kill(core, signal.SIGCONT)
        for call_id in range(1, 17):
            assert c.finish(call_id).check().tokens == alone
        a.wait_ready()
        a.wait_stats(kv_blocks_used=0)


# ---- descriptors --------------------------------------------------------------------------------

def test_a_log_that_is_not_read_stops_nothing():
    read_end, write_end = os.pipe()
    with Raw(stderr=write_end) as a, Client(a.path) as c:
        c.generate(1, PROMPT).check()
        blocking = os.get_blocking(write_end)
        os.set_blocking(write_end, False)
        try:
            while True:
                os.write(write_end, b"x" * 4096)
        except BlockingIOError:
            os.set_blocking(write_end, blocking)
        os.kill(child(a.process.pid, "agentix-worker"), signal.SIGKILL)
        c.generate(2, PROMPT).check()
        a.process.send_signal(signal.SIGTERM)
        assert a.process.wait(HANG_S) == 0
    os.close(read_end)
    os.close(write_end)


def test_closed_standard_descriptors_are_not_given_to_sockets():
    def close_all():
        for descriptor in (0, 1, 2):
            os.close(descriptor)
    with Raw(preexec_fn=close_all) as a, Client(a.path) as c:
        c.generate(1, PROMPT).check()
        core = child(a.process.pid, "agentix-core")
        for descriptor in (0, 1, 2):
            target = os.readlink(inside(core, "fd/%d" % descriptor))
            assert target == "/", target
        a.process.send_signal(signal.SIGTERM)
        assert a.process.wait(HANG_S) == 0


def test_only_the_keeper_keeps_the_model_open():
    with Appliance(NOISE) as a:
        for pid in (a.core, a.worker):
            names = open_files(pid)
            assert not any("gguf" in name for name in names), names


def test_used_up_descriptors_come_back_and_open_connections_go_on():
    alone = undisturbed(100)
    with Appliance(NOISE) as a:
        core, before = a.core, descriptors(a.core)
        with Client(a.tcp) as c:
            limits = resource.prlimit(core, resource.RLIMIT_NOFILE)
            resource.prlimit(core, resource.RLIMIT_NOFILE, (before + 8, limits[1]))
            crowd = [socket.create_connection(a.tcp, timeout=HANG_S) for _ in range(40)]
            wait_for(lambda: descriptors(core) == before + 8, "no descriptor is left")
            assert c.generate(1, PROMPT, max_tokens=100).check().tokens == alone
            for s in crowd:
                s.close()
        with Client(a.tcp) as c:
            assert c.generate(1, PROMPT, max_tokens=100).check().tokens == alone
        a.wait_back()
        wait_for(lambda: descriptors(core) <= before, "descriptors are back")


def test_hundreds_of_short_visits_leave_no_descriptor():
    with Appliance("limits.connections=8") as a:
        core, before = a.core, descriptors(a.core)
        for visit in range(600):
            with socket.create_connection(a.tcp, timeout=HANG_S) as s:
                s.sendall(hello()[:visit % 90])
        a.wait_back()
        wait_for(lambda: descriptors(core) <= before, "descriptors are back")


# ---- paths --------------------------------------------------------------------------------------

def test_a_boot_that_fails_leaves_no_socket_behind():
    with Appliance() as a, tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "s")
        done = run("agentix", "--set", "net.unix=" + path, "--set", "net.tcp=" + a.to, "--set",
                   "text.listen=")
        assert done.returncode == EXIT["LISTEN"], done.stderr
        assert not os.path.exists(path)


def test_the_end_of_an_instance_keeps_the_socket_of_another():
    first = Appliance(unix=True)
    os.unlink(first.unix)
    with Appliance("net.unix=" + first.unix):
        first.process.send_signal(signal.SIGTERM)
        assert first.process.wait(HANG_S) == 0
        with Client(first.unix) as c:
            c.generate(1, PROMPT).check()
    first.stop()


def test_a_live_instance_that_does_not_answer_is_neither_replaced_nor_waited_for():
    with Appliance(unix=True) as a:
        os.kill(a.core, signal.SIGSTOP)
        crowd = []
        try:
            while True:
                s = socket.socket(socket.AF_UNIX)
                crowd.append(s)
                s.setblocking(False)
                s.connect(a.unix)
        except BlockingIOError:
            pass
        done = run("agentix", "--set", "net.unix=" + a.unix, *OFF)
        for s in crowd:
            s.close()
        os.kill(a.core, signal.SIGCONT)
        assert done.returncode == EXIT["LISTEN"], done.stderr
        wait_for(lambda: a.stats()["connections_accepted"] >= len(crowd) - 1, "backlog is empty")
        with Client(a.unix) as c:
            c.generate(1, PROMPT).check()


# ---- bursts, races, full tables -----------------------------------------------------------------

def test_a_burst_of_pings_is_answered_and_others_are_served():
    pings = 20000
    alone = undisturbed(40)
    with Appliance(NOISE) as a, Client(a.tcp) as loud, Client(a.tcp) as c:
        burst = frame(PING, b"12345678") * pings
        sender = threading.Thread(target=lambda: loud.send(burst), daemon=True)
        sender.start()
        assert c.generate(1, PROMPT, max_tokens=40).check().tokens == alone
        while len(loud.pongs) < pings:
            loud.step()
        sender.join(HANG_S)


def test_frames_may_come_byte_by_byte():
    alone = undisturbed(20)
    with Appliance(NOISE) as a, Client(a.tcp) as c:
        c.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with Client(a.tcp, greet=False) as other:
            for byte in hello():
                other.send(bytes([byte]))
            other.receive()
        c.calls[1] = Outcome()
        for byte in call(1, PROMPT, max_tokens=20):
            c.send(bytes([byte]))
        assert c.finish(1).check().tokens == alone


def test_cancels_that_race_with_the_end_never_cost_a_token():
    alone = undisturbed(12)
    with Appliance(NOISE) as a, Client(a.tcp) as c:
        for call_id in range(1, 301):
            c.start(call_id, PROMPT, max_tokens=1 + call_id % 12)
            c.cancel(call_id)
            tokens = c.finish(call_id).check().tokens
            assert tokens == alone[:len(tokens)]
        c.close()
        a.wait_back()


def test_a_burst_of_calls_is_answered_one_by_one():
    alone = undisturbed(10)
    calls = 1000
    few = ("limits.calls=8", "limits.calls_per_connection=8")
    with Appliance(NOISE, *few) as a, Client(a.tcp) as c:
        c.calls = {i: Outcome() for i in range(1, calls + 1)}
        burst = b"".join(call(i, PROMPT, max_tokens=10) for i in c.calls)
        sender = threading.Thread(target=lambda: c.send(burst), daemon=True)
        sender.start()
        outcomes = [c.finish(i) for i in list(c.calls)]
        sender.join(HANG_S)
        served = [o.check().tokens for o in outcomes if o.done]
        assert len(served) >= 8 and all(tokens == alone for tokens in served)
        assert all(o.error["text"] for o in outcomes if not o.done)
        c.close()
        a.wait_back()


def test_a_program_belongs_to_no_connection_and_does_not_end_under_its_calls():
    with Appliance() as a, Client(a.tcp) as c, Client(a.tcp) as other:
        with a.standing_still():
            c.start(1, PROMPT, max_tokens=100)
            c.step()
            other.send(frame(PROGRAM_END, c.program))
            assert "open calls" in other.error()["text"]
            other.send(cancel(1, c.program))
            assert "no open call" in other.error()["text"], "a foreign call is an unknown one"
        other.generate(2, PROMPT, program=c.program).check()
        c.finish(1).check()
        other.send(frame(PROGRAM_END, c.program))
        while not other.programs:
            other.step()
        assert other.programs[0]["calls"] == 2


def test_a_full_program_table_refuses_and_recovers():
    with Appliance("limits.programs=2") as a, Client(a.tcp) as c:
        with a.standing_still():
            for number in range(1, 4):
                c.start(number, PROMPT, program=b"%016d" % number)
            assert "program" in c.finish(3).error["text"]
        c.finish(1).check()
        c.finish(2).check()
        for number in range(10, 20):
            c.generate(number, PROMPT, program=b"%016d" % number).check()


def test_the_smallest_and_the_busiest_configurations_give_the_same_tokens():
    alone = undisturbed(20)
    tiny = ("limits.calls=1", "limits.connections=1", "sched.batch=1", "sched.steps_per_plan=1",
            "sched.queues=1", "limits.programs=1", "limits.context_tokens=32",
            "kv.block_tokens=8", "kv.device_blocks=4", "sched.prefill_tokens=1",
            "net.send_bytes=4KiB", "net.unsent_tokens=1")
    for settings in (tiny, ("kv.block_tokens=256", "limits.calls=1"), ("engine.threads=64",),
                     ("sched.steps_per_plan=64", "sched.batch=1024", "limits.calls=2000"),
                     ("sched.queues=16", "sched.quantum=1us"),
                     ("sched.beta=0.001", "sched.wait_max=1us")):
        with Appliance(NOISE, *settings) as a, Client(a.tcp) as c:
            assert c.generate(1, PROMPT, max_tokens=20).check().tokens == alone, settings
            try:
                with Client(a.tcp) as other:
                    other.generate(2, PROMPT).check()
            except (Closed, AssertionError):
                assert settings == tiny, "only one connection has a place there"
