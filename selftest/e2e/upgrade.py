# SPDX-License-Identifier: MIT
"""`agentix --upgrade` under test: the launcher, and the appliance that it leaves behind, which is
an orphan that this process takes in."""
import contextlib
import ctypes
import os
import re
import signal
import subprocess
import threading

from appliance import BUILD, HANG_S, PATIENT, Appliance, wait_for

PR_SET_CHILD_SUBREAPER = 36


class Orphan:
    """What a test asks of subprocess.Popen, for a grandchild that this process reaps, unless its
    parent has."""

    def __init__(self, pid, parent):
        self.pid, self.parent, self.stderr, self.returncode = pid, parent, parent.stderr, None

    def poll(self):
        if self.returncode is None and self.parent.poll() is not None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self.returncode = os.waitstatus_to_exitcode(status) if pid != 0 else None
            except ChildProcessError:
                self.returncode = self.parent.returncode
        return self.returncode

    def wait(self, limit_s=HANG_S):
        wait_for(lambda: self.poll() is not None, "it ends", limit_s)
        return self.returncode

    def send_signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        if self.poll() is None:
            self.send_signal(signal.SIGKILL)


@contextlib.contextmanager
def family(*settings, **options):
    """An appliance; when the block ends none of it is left, nor of those that took over from it."""
    a = Appliance(*settings, **options)
    a.family = [a]
    try:
        yield a
        for member in a.family:
            if member.process is not None and member.process.poll() is None:
                assert member.stop() == 0, member.lines
    except BaseException:
        print("\n".join(line for member in a.family for line in member.lines[-30:]))
        raise
    finally:
        for member in a.family:
            if member.process is not None and member.process.poll() is None:
                member.process.kill()


def is_left(client):
    """Its connection has been closed, and nothing was said before that."""
    client.socket.settimeout(HANG_S)
    return client.socket.recv(1) == b""


class Upgrade(Appliance):
    """One that takes over from `before`. With `wait`, it serves; else it may be anywhere, and
    launcher.wait() gives its status. It has the addresses of `before`; other options are those of
    subprocess.Popen."""

    def __init__(self, before, *settings, wait=True, **options):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.directory, self.unix, self.tcp = before.directory, before.unix, before.tcp
        self.text_address, self.lines, self.process = before.text_address, [], None
        self.family = before.family
        self.family.append(self)
        times = before.said("boots beside this one")
        arguments = [os.path.join(BUILD, "agentix"), "--upgrade", "--set",
                     "text.listen=%s:%d" % self.text_address]
        arguments += ["--set", "net.tcp=" + self.to] if self.tcp else []
        arguments += ["--set", "net.unix=" + self.unix] if self.unix else []
        for setting in (*PATIENT, *settings):
            arguments += ["--set", setting]
        options = {"stdout": subprocess.DEVNULL, **options}
        self.launcher = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True,
                                         stdin=subprocess.DEVNULL, **options)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        wait_for(lambda: before.said("boots beside this one") > times or self.launcher.poll(),
                 "it boots, or is refused")
        found = [re.search(r"pid=(\d+) boots", line) for line in before.lines]
        pids = [int(match.group(1)) for match in found if match]
        if before.said("boots beside this one") > times:
            self.process = Orphan(pids[-1], self.launcher)
        if wait:
            assert self.launcher.wait(HANG_S) == 0, self.lines

    def _read(self):
        for line in self.launcher.stderr:
            self.lines.append(line.rstrip("\n"))

    def fails(self):
        """Waits until it has given up; the launcher's status."""
        status = self.launcher.wait(HANG_S)
        if self.process is not None:
            self.process.wait()
        self.reader.join(HANG_S)
        return status
