# SPDX-License-Identifier: MIT
"""An image of the appliance that runs in QEMU, by emulation: its console, its ports, its power
button, and its second serial port, which kills processes where selftest/misbehave/killer.c
listens."""
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

from appliance import BUILD, ROOT, wait_for
from skip import Skip

KERNEL = os.path.join(ROOT, "build", "kernel")
HANG_S = 900                            # an emulated machine is a hundred times as slow
PROMPT = b"(qemu) "


def free_ports(count):
    held = [socket.socket() for _ in range(count)]
    for s in held:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def make_image(folder, *options):
    """Makes an image in the folder, or Skip."""
    if shutil.which("qemu-system-x86_64") is None:
        raise Skip("needs qemu-system-x86 of Debian: tools/setup image")
    if not os.path.isdir(os.path.join(KERNEL, "boot")):
        raise Skip("needs the package linux-image-cloud-amd64 of Debian in build/kernel: "
                   "tools/setup image")
    made = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "image"), "--out", folder,
                           "--binary", os.path.join(BUILD, "agentix"), *options],
                          capture_output=True, text=True)
    assert made.returncode == 0, made.stderr


class Machine:
    """`with Machine(folder) as m:` runs the image in the folder; `words` go to the kernel."""

    def __init__(self, folder, *words):
        self.lines, self.folder = [], tempfile.TemporaryDirectory(prefix="agentix-e2e-")
        self.port, self.text_port = free_ports(2)
        self.monitor = os.path.join(self.folder.name, "m")
        self.second = os.path.join(self.folder.name, "s")
        append = " ".join(("console=ttyS0 quiet panic=-1 ip=10.0.2.15::10.0.2.2", *words))
        # The machine's clock counts its instructions, a nanosecond each, and waits when it idles:
        # so its time line is that of a machine, and not of the emulation.
        command = ["qemu-system-x86_64", "-M", "q35", "-accel", "tcg", "-icount", "shift=0",
                   "-cpu", "max", "-m", "512",
                   "-display", "none", "-no-reboot", "-nodefaults", "-serial", "stdio",
                   "-serial", "unix:%s,server,nowait" % self.second,
                   "-monitor", "unix:%s,server,nowait" % self.monitor,
                   "-kernel", os.path.join(folder, "vmlinuz"),
                   "-initrd", os.path.join(folder, "initramfs.cpio"), "-append", append,
                   "-netdev", "user,id=n,restrict=on,hostfwd=tcp:127.0.0.1:%d-:7411,"
                   "hostfwd=tcp:127.0.0.1:%d-:7412" % (self.port, self.text_port),
                   "-device", "virtio-net-pci,netdev=n"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        errors="replace")
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip())

    def wait_said(self, pattern):
        """The first line of the console with it."""
        def find():
            found = next((line for line in list(self.lines) if re.search(pattern, line)), None)
            assert found or self.process.poll() is None, "it has ended\n" + "\n".join(self.lines)
            return found
        return wait_for(find, "the console says: " + pattern, HANG_S)

    def press_power(self):
        self._command(b"system_powerdown")

    def press_keys(self, keys):
        self._command(b"sendkey " + keys.encode())

    def kill(self, name):
        """Ends the process of that name in the machine; its number."""
        with self._connected(self.second) as s:
            s.sendall(name.encode() + b"\n")
            return int(s.makefile("rb").readline())

    def _command(self, words):
        """The monitor drops what it has not read when its peer leaves: its next prompt says that
        the command was run."""
        with self._connected(self.monitor) as s:
            for request in (b"", words + b"\n"):
                s.sendall(request)
                said = b""
                while not said.endswith(PROMPT):
                    more = s.recv(4096)
                    assert more, "the monitor has gone: %r" % said
                    said += more

    def _connected(self, path):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(HANG_S)
        s.connect(path)
        return s

    def time_line(self):
        """The lines of init that have a time."""
        return [line for line in self.lines if " init info up_ms=" in line]

    def wait_off(self):
        assert self.process.wait(HANG_S) == 0
        self.reader.join(HANG_S)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None:
            print("\n".join(["the console said:"] + self.lines[-40:]))
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.join(5)
        self.process.stdout.close()
        self.folder.cleanup()
