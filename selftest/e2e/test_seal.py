# SPDX-License-Identifier: MIT
"""The seal of the real binary: a process that breaks it dies; later no descriptor changes."""
import contextlib
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile

from appliance import BUILD, EXIT, HANG_S, Appliance, TextFile, listens, wait_for
from protocol import Client
from skip import Skip, inside, open_files

# Acts of selftest/misbehave, and what the process must die of.
SYSTEM_CALLS = ("mmap", "mprotect", "brk", "open", "openat", "execve", "fork", "clone", "socket",
                "dup", "ptrace", "kill", "unlink", "write")
ACTS = {**dict.fromkeys(SYSTEM_CALLS, signal.SIGSYS), "malloc": signal.SIGILL,
        "assertion": signal.SIGILL, "stack": signal.SIGSEGV}
# The keeper maps, forks and opens, but no code, nothing to execute and nothing to write to.
KEEPER_CALLS = ("code", "mprotect", "open", "create", "execve", "fork", "socket", "dup", "ptrace",
                "kill", "write")
LANDLOCK_SIGNALS = 6            # the first version that knows them
KEEPER_ACTS = {**dict.fromkeys(KEEPER_CALLS, signal.SIGSYS), "assertion": signal.SIGILL}
# At boot a plan may be printed.
BOOT_ACTS = {act: number for act, number in KEEPER_ACTS.items() if act != "write"}


def misbehave(role, act, obituary):
    """The line that the keeper logs after `role` has done `act`."""
    a = Appliance(binary="agentix-misbehave", wait=False,
                  environment={"AGENTIX_MISBEHAVE": "%s:%s" % (role, act)})
    try:
        return wait_for(lambda: next((line for line in list(a.lines) if re.search(obituary, line)),
                                     None), "the end of %s by %s" % (role, act))
    finally:
        a.stop()
        assert not any("survived" in line for line in a.lines), (role, act, a.lines)


def test_core_that_breaks_the_seal_dies():
    for act, number in ACTS.items():
        line = misbehave("core", act, r"core ended")
        assert line.endswith("by signal %d" % number), (act, line)


def test_worker_that_breaks_the_seal_dies():
    for act, number in ACTS.items():
        line = misbehave("worker", act, r"worker died")
        assert "signal=%d " % number in line, (act, line)


def test_keeper_that_breaks_the_seal_dies_and_all_with_it():
    for role, act, number in [*(("keeper", *each) for each in KEEPER_ACTS.items()),
                              *(("boot", *each) for each in BOOT_ACTS.items())]:
        a = Appliance(binary="agentix-misbehave", wait=False,
                      environment={"AGENTIX_MISBEHAVE": role + ":" + act})
        assert a.process.wait(HANG_S) == -number, (role, act, a.process.returncode, a.lines)
        a.reader.join(HANG_S)           # to the end of the log, which the others have open, too
        assert a.said("survived") == 0 and not a.reader.is_alive(), (role, act, a.lines)


def test_keeper_reaches_no_file_and_no_process_of_others():
    with TextFile("mine\n") as file, subprocess.Popen(["sleep", "60"]) as other:
        a = Appliance(binary="agentix-misbehave", wait=False,
                      environment={"AGENTIX_MISBEHAVE": "keeper:reach", "AGENTIX_FILE": file,
                                   "AGENTIX_PID": str(other.pid)})
        try:
            assert a.process.wait(HANG_S) == 0, a.lines
            a.reader.join(HANG_S)
            if a.said("files are not confined"):
                raise Skip("this kernel has no Landlock")
            version = next(int(line.rsplit("=", 1)[1]) for line in a.lines
                           if "files confined landlock=" in line)
            assert {"read: Permission denied", "remove: Permission denied"} <= set(a.lines), a.lines
            assert os.path.exists(file)
            if version < LANDLOCK_SIGNALS:
                raise Skip("Landlock %d of this kernel does not know signals" % version)
            assert "end: Operation not permitted" in a.lines and other.poll() is None, a.lines
        finally:
            other.kill()


def test_descriptors_are_as_many_as_the_plan_has_places():
    with Appliance("limits.connections=10", unix=True) as a, contextlib.ExitStack() as stack:
        texts = [stack.enter_context(socket.create_connection(a.text_address, timeout=HANG_S))
                 for _ in range(7)]                 # the eighth is for a.stats()
        clients = [stack.enter_context(Client(a.unix)) for _ in range(10)]
        stack.enter_context(socket.create_connection(a.tcp, timeout=HANG_S))
        wait_for(lambda: a.stats()["connections_refused"] == 1, "an eleventh is turned away")
        for client in clients:
            client.generate(1, [1, 2, 3], max_tokens=3).check()
        for text in texts:
            text.sendall(b"health\n")
            assert text.recv(5) == b"ready"
        most = resource.prlimit(a.core, resource.RLIMIT_NOFILE)
        assert most[0] == most[1], most     # two are free: a.stats(), a refused client
        wait_for(lambda: len(os.listdir(inside(a.core, "fd"))) + 2 == most[0], "all are in use")


def test_more_places_than_the_system_has_descriptors_are_refused():
    def confine():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)

    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o711)
        binary = os.path.join(directory, "agentix")
        shutil.copy(os.path.join(BUILD, "agentix"), binary)
        done = subprocess.run(
            [binary, "--set", "text.listen=", "--set", "net.tcp=127.0.0.1:0", "--set",
             "limits.connections=100"], preexec_fn=confine, text=True, capture_output=True,
            timeout=HANG_S)
        assert done.returncode == EXIT["SYSTEM"] and "limits.connections = 100" in done.stderr, done


def test_what_was_open_by_mistake_is_closed():
    with open(__file__, encoding="utf-8") as stray, tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "s")
        process = subprocess.Popen(
            [os.path.join(BUILD, "agentix"), "--set", "net.tcp=", "--set", "text.listen=", "--set",
             "net.unix=" + path], pass_fds=[stray.fileno()], stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: listens(path), "the socket")
            with Client(path):                      # it serves, so no signal is lost
                names = open_files(process.pid)
            assert __file__ not in names, names
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(HANG_S) == 0
