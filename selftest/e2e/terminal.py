# SPDX-License-Identifier: MIT
"""A program on a terminal of its own: what it prints, and what is typed."""
import fcntl
import os
import pty
import select
import struct
import termios
import time

from appliance import BUILD, HANG_S


class Terminal:
    """`with Terminal("agx", "chat") as t: t.type("Hello\\n"); t.until("> ")`."""

    def __init__(self, program, *arguments, rows=24, columns=80):
        self.output = b""
        self.seen = 0
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            path = os.path.join(BUILD, program)
            os.execv(path, [path, *arguments])
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, size)

    def type(self, text):
        data = text.encode() if isinstance(text, str) else text
        while data:
            data = data[os.write(self.descriptor, data):]

    def _read(self):
        """False at the end."""
        if not select.select([self.descriptor], [], [], 0.1)[0]:
            return True
        try:
            data = os.read(self.descriptor, 65536)
        except OSError:
            data = b""
        self.output += data
        return data != b""

    def until(self, text):
        """Waits for it, behind what was waited for before; returns what came up to its end."""
        wanted, end = text.encode(), time.monotonic() + HANG_S
        while (at := self.output.find(wanted, self.seen)) < 0:
            assert self._read() and time.monotonic() < end, (text, self.output[self.seen:])
        first, self.seen = self.seen, at + len(wanted)
        return self.output[first:self.seen].decode(errors="replace")

    def wait(self):
        """Its exit code, after the rest of its output."""
        end = time.monotonic() + HANG_S
        while self._read():
            assert time.monotonic() < end, self.output[self.seen:]
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        os.close(self.descriptor)
