# SPDX-License-Identifier: MIT
"""The appliance under a service manager: its messages to NOTIFY_SOCKET, and the files of
tools/systemd, checked by systemd's own tools where they are installed."""
import itertools
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time

from appliance import BUILD, HANG_S, NOISE, ROOT, Appliance, wait_for
from protocol import Client
from skip import Skip, open_files

FILES = os.path.join(ROOT, "tools", "systemd")
QUIET_S = 1                     # ten ticks of the keeper


class Manager:
    """`with Manager() as m, Appliance(..., environment=m.environment)`: receives its messages."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0agentix-e2e-%d" % os.getpid())
        self.environment = {"NOTIFY_SOCKET": "@agentix-e2e-%d" % os.getpid(),
                            "WATCHDOG_USEC": "30000000"}

    def hear(self, line):
        """Takes datagrams up to the first that has the line; returns all lines received."""
        self.socket.settimeout(HANG_S)
        lines = []
        while line not in lines:
            lines += self.socket.recv(4096).decode().split("\n")
        return lines

    def heard(self):
        """All lines received so far."""
        self.socket.setblocking(False)
        lines = []
        try:
            while True:
                lines += self.socket.recv(4096).decode().split("\n")
        except BlockingIOError:
            return lines

    def is_fed(self):
        """True when the watchdog is fed after the messages that were already sent."""
        self.heard()
        time.sleep(QUIET_S)
        return "WATCHDOG=1" in self.heard()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def test_boot_is_ready_once_it_serves():
    with Manager() as m:
        a = Appliance(wait=False, environment=m.environment)
        lines = m.hear("READY=1")
        assert a.health().startswith("ready"), a.health()
        assert "STATUS=ready" in lines + m.hear("WATCHDOG=1"), lines
        assert lines[0].startswith("STATUS=loading model "), lines
        assert any(line.startswith("EXTEND_TIMEOUT_USEC=") for line in lines), lines
        assert a.stop() == 0


def test_watchdog_is_fed_while_idle_and_while_serving():
    with Manager() as m, Appliance(NOISE, environment=m.environment) as a, Client(a.tcp) as c:
        m.heard()
        m.hear("WATCHDOG=1")
        for call_id in itertools.count(1):
            c.generate(call_id, [1, 2, 3], max_tokens=200).check()
            if "WATCHDOG=1" in m.heard():
                break


def test_watchdog_starves_with_a_worker_that_owes_a_step():
    with Manager() as m, Appliance(NOISE, environment=m.environment) as a, Client(a.tcp) as c:
        with a.standing_still():
            c.start(1, [1, 2, 3])
            m.hear("STATUS=degraded")
            wait_for(lambda: not m.is_fed(), "nothing is fed")
        m.hear("WATCHDOG=1")
        c.finish(1).check()


def test_watchdog_starves_with_a_core_that_does_not_run():
    with Manager() as m, Appliance(environment=m.environment) as a:
        os.kill(a.core, signal.SIGSTOP)
        try:
            wait_for(lambda: not m.is_fed(), "nothing is fed")
        finally:
            os.kill(a.core, signal.SIGCONT)
        m.hear("WATCHDOG=1")


def test_stopping_is_reported_when_it_begins():
    with Manager() as m, Appliance(environment=m.environment) as a:
        m.heard()
        a.process.send_signal(signal.SIGTERM)
        m.hear("STOPPING=1")
        assert a.process.wait(HANG_S) == 0


def test_only_the_keeper_has_the_socket():
    def sockets(pid):
        return {name for name in open_files(pid) if name.startswith("socket:")}

    with Manager() as m, Appliance(environment=m.environment) as a:
        keeper, core = sockets(a.process.pid), sockets(a.core)
        assert len(keeper - core) == 4, "the manager's, three for upgrades; others are both's"
        assert not keeper & sockets(a.worker)


def systemd(tool, *arguments, stdin=""):
    """Runs one of systemd's tools to its end; returns its output."""
    if shutil.which(tool) is None:
        raise Skip("needs %s (Debian package systemd)" % tool)
    done = subprocess.run([tool, *arguments], input=stdin, text=True, capture_output=True,
                          timeout=HANG_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_units_leave_little_exposed():
    for unit, most in (("agentix.service", "10"), ("agentix-door.service", "12")):
        systemd("systemd-analyze", "security", "--offline=true", "--threshold=" + most,
                os.path.join(FILES, unit))


def test_unit_leaves_a_worker_without_memory_to_the_keeper():
    """By default systemd ends a service of which the kernel kills a process for want of memory."""
    with open(os.path.join(FILES, "agentix.service"), encoding="utf-8") as unit:
        assert "OOMPolicy=continue\n" in unit.readlines()


def test_unit_is_valid_for_systemd():
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "agentix.service")
        with open(os.path.join(FILES, "agentix.service"), encoding="utf-8") as unit, \
                open(path, "w", encoding="utf-8") as copy:
            copy.write(unit.read().replace("/usr/bin/agentix", os.path.join(BUILD, "agentix")))
        shutil.copy(os.path.join(FILES, "agentix.socket"), directory)
        for drop_in in (None, "gpu.conf"):
            if drop_in:
                os.mkdir(path + ".d")
                shutil.copy(os.path.join(FILES, drop_in), path + ".d")
            said = systemd("systemd-analyze", "verify", path)
            assert "agentix" not in said, said      # other units do not count


def test_unit_of_the_door_is_valid_for_systemd():
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "agentix-door.service")
        with open(os.path.join(FILES, "agentix-door.service"), encoding="utf-8") as unit, \
                open(path, "w", encoding="utf-8") as copy:
            copy.write(unit.read().replace("/usr/bin/agentix-door",
                                           os.path.join(BUILD, "agentix-door")))
        shutil.copy(os.path.join(FILES, "agentix-door.socket"), directory)
        said = systemd("systemd-analyze", "verify", path)
        assert path not in said and "agentix-door" not in said, said


def test_user_and_folders_are_made():
    if os.geteuid() != 0:
        raise Skip("needs root, to make users and folders")
    with tempfile.TemporaryDirectory() as root:
        os.mkdir(os.path.join(root, "etc"))
        for tool, options, file in (("systemd-sysusers", (), "agentix.sysusers"),
                                    ("systemd-tmpfiles", ("--create",), "agentix.tmpfiles")):
            with open(os.path.join(FILES, file), encoding="utf-8") as lines:
                systemd(tool, "--root=" + root, *options, "-", stdin=lines.read())
        users = open(os.path.join(root, "etc", "passwd"), encoding="utf-8").read().split(":")
        gid = int(users[3])
        for folder, mode, group in (("etc/agentix", 0o755, 0), ("var/lib/agentix", 0o750, gid)):
            made = os.stat(os.path.join(root, folder))
            assert stat.S_IMODE(made.st_mode) == mode, oct(made.st_mode)
            assert (made.st_uid, made.st_gid) == (0, group), made
