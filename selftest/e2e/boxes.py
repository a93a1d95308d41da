# SPDX-License-Identifier: MIT
"""Several boxes behind the real HAProxy, with the configuration of tools/haproxy.cfg.

Each box has a network namespace of its own, joined by a pair of virtual interfaces to the
namespace that the test makes for itself, HAProxy and its clients: box N is 10.7.N.2 and sees
HAProxy as 10.7.N.1. Clients come from addresses 10.7.0.x. Where namespaces are not allowed, all of
it is on loopback, and what needs addresses is skipped.
"""
import contextlib
import ctypes
import csv
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile

from appliance import HANG_S, NOISE, ROOT, Appliance, wait_for
from skip import Skip

NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000      # CLONE_NEWUSER, CLONE_NEWNET
SECRET = "cd" * 32
KEY = (b"fleet".ljust(32, b"\0"), bytes.fromhex(SECRET))
PORT, TEXT_PORT = 7411, 7412
FRONT = "10.7.0.1"                      # HAProxy, for its clients
PROXY_ON_LOOPBACK = "127.0.0.9"         # the address from which it connects, there
CONFIGURATION = os.path.join(ROOT, "tools", "haproxy.cfg")
# Quick checks: the test waits for what HAProxy finds out.
QUICK = "inter 100ms"
LIBC = ctypes.CDLL(None, use_errno=True)


def _check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), "a namespace")


def _unshare(flags):
    _check(LIBC.unshare(flags))


def _enter(descriptor):
    _check(LIBC.setns(descriptor, NEW_NETWORK))


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=HANG_S)


def become_root_of_a_network():
    """Leaves the network of the machine for good; raises OSError where that is not allowed."""
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        with contextlib.suppress(OSError):
            return _unshare(NEW_NETWORK)
    _unshare(NEW_USER | NEW_NETWORK)
    for name, line in (("setgroups", "deny"), ("uid_map", "0 %d 1" % uid),
                       ("gid_map", "0 %d 1" % gid)):
        with open("/proc/self/" + name, "w", encoding="ascii") as file:
            file.write(line)
    return None


class Box(Appliance):
    """An appliance in the network of this number. It is asked from within."""

    def __init__(self, number, network, *settings):
        self.number, self.network = number, network
        with self.inside():
            super().__init__(*settings, unix=True, wait=False)

    def inside(self):
        return self.network.inside(self.number)

    def ask(self, request):
        with self.inside():
            return super().ask(request)

    def die(self):
        """Without a word, as when the power fails."""
        self.process.kill()
        self.process.wait(HANG_S)


class Network:
    """`with Network() as n:` in a test that has started nothing yet. It is for good: a test is a
    process of its own."""

    def __init__(self):
        if shutil.which("haproxy") is None:
            raise Skip("needs haproxy (tools/setup tests installs it)")
        self.namespaces, self.holders = {}, []
        problem = self._problem()
        self.is_real = problem is None
        if problem is not None:
            print("no network namespaces here (%s): all boxes are on loopback" % problem)
        else:
            self._furnish()

    @staticmethod
    def _problem():
        """Why there are no networks of our own; None: now we are root of one."""
        if shutil.which("ip") is None:
            return "no ip, of Debian's iproute2"
        try:
            become_root_of_a_network()
        except OSError as error:
            return error.strerror
        ip("link", "set", "lo", "up")
        try:
            ip("link", "add", "probe", "type", "veth", "peer", "name", "eborp")
        except subprocess.CalledProcessError as error:
            return error.stderr.decode().strip()
        ip("link", "delete", "probe")
        return None

    def _furnish(self):
        """Addresses for HAProxy and for clients."""
        self.home = os.open("/proc/self/ns/net", os.O_RDONLY)
        ip("address", "add", FRONT + "/24", "dev", "lo")
        for last in range(11, 20):
            ip("address", "add", "10.7.0.%d/32" % last, "dev", "lo")

    def _make(self, number):
        """The network of a box."""
        holder = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                  preexec_fn=lambda: _unshare(NEW_NETWORK))
        self.holders.append(holder)
        self.namespaces[number] = os.open("/proc/%d/ns/net" % holder.pid, os.O_RDONLY)
        ip("link", "add", "box%d" % number, "type", "veth", "peer", "name", "eth0", "netns",
            str(holder.pid))
        ip("address", "add", "10.7.%d.1/24" % number, "dev", "box%d" % number)
        ip("link", "set", "box%d" % number, "up")
        with self.inside(number):
            ip("link", "set", "lo", "up")
            ip("address", "add", "10.7.%d.2/24" % number, "dev", "eth0")
            ip("link", "set", "eth0", "up")

    @contextlib.contextmanager
    def inside(self, number):
        """What is started or connected in the block is in the box's network."""
        if not self.is_real:
            yield
            return
        if number not in self.namespaces:
            self._make(number)
        _enter(self.namespaces[number])
        try:
            yield
        finally:
            _enter(self.home)

    def cut(self, number):
        """The cable of a box: nothing arrives, and no end is told."""
        ip("link", "set", "box%d" % number, "down")

    def address(self, number):
        return "10.7.%d.2" % number if self.is_real else "127.0.0.1"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for holder in self.holders:
            holder.stdin.close()
            holder.wait(HANG_S)


def free_ports(count):
    """Of loopback, and none twice."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Fleet:
    """`with Fleet() as f:` has f.boxes, 1 to 3, and f.front, the address of HAProxy. Its clients
    have one address, and places enough before they are admitted."""

    def __init__(self, *settings, needs=None, preauth=("net.preauth=64",
                                                       "net.preauth_per_address=64")):
        """`needs`: for what the test needs namespaces."""
        self.stack = contextlib.ExitStack()
        self.network = self.stack.enter_context(Network())
        if needs is not None and not self.network.is_real:
            raise Skip("needs network namespaces, " + needs)
        self.directory = self.stack.enter_context(
            tempfile.TemporaryDirectory(prefix="agentix-e2e-"))
        self.keys = self._file("keys", "fleet %s\n")
        self.settings = (NOISE, "auth.tcp=psk", "auth.keys=" + self.keys, *preauth, *settings)
        real = self.network.is_real
        self.front = (FRONT, PORT) if real else ("127.0.0.1", free_ports(1)[0])
        self.http_front = (FRONT, 8080) if real else ("127.0.0.1", free_ports(1)[0])
        self.ports = {}                 # of each box: its own and its text port
        self.doors = {}                 # of each box that has a door: its port
        self.boxes, self.haproxy = {}, None
        self.socket = os.path.join(self.directory, "admin")

    def _file(self, name, text):
        path = os.path.join(self.directory, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write(text % SECRET)
        return path

    @property
    def to(self):
        return "%s:%d" % self.front

    def start_box(self, number):
        """Or starts it again."""
        real = self.network.is_real
        if number not in self.ports:
            self.ports[number] = (PORT, TEXT_PORT) if real else free_ports(2)
        port, text_port = self.ports[number]
        proxy = "10.7.%d.1" % number if real else PROXY_ON_LOOPBACK
        host = "0.0.0.0" if real else "127.0.0.1"
        self.boxes[number] = box = Box(
            number, self.network, *self.settings, "net.tcp=%s:%d" % (host, port),
            "text.listen=%s:%d" % (host, text_port), "net.proxy=" + proxy,
            *(["text.peers=" + proxy] if real else []))
        return box

    # ---- HAProxy ---------------------------------------------------------------------------------

    def _configuration(self):
        """tools/haproxy.cfg with the addresses of the test, and quicker checks."""
        with open(CONFIGURATION, encoding="ascii") as file:
            text = file.read()

        def replace(pattern, replacement, times):
            nonlocal text
            text, count = re.subn(pattern, replacement, text, flags=re.M)
            assert count == times, (pattern, count)
        replace(r"stats socket \S+", "stats socket " + self.socket, 1)
        replace(r"^    bind :7411", "    bind %s:%d" % self.front, 1)
        replace(r"^    bind :8080", "    bind %s:%d" % self.http_front, 1)
        replace(r" inter 1s", " " + QUICK, 2)
        replace(r"agent-inter 1s", "agent-" + QUICK, 2)
        replace(r" port 7412", "", 1)
        replace(r" agent-port 7412", "", 2)
        replace(r"^    server box\d .*\n(?=    server door|\n)", "@boxes\n", 1)
        replace(r"^    server (box|door)\d .*\n", "", 5)
        return text.replace("@boxes\n", self._servers("box", self.ports)) + \
            self._servers("door", self.doors)

    def _servers(self, name, ports):
        """The lines of those that are there: `ports` has the port of each box."""
        source = "" if self.network.is_real else " source " + PROXY_ON_LOOPBACK
        lines = ""
        for number, port in ports.items():
            own, text_port = (port[0] if name == "box" else port), self.ports[number][1]
            check = " port %d" % text_port if name == "box" else ""
            lines += "    server %s%d %s:%d%s agent-port %d%s\n" % (
                name, number, self.network.address(number), own, check, text_port, source)
        return lines

    def start_haproxy(self):
        """Or reloads it: the one before keeps its connections and takes no more."""
        before = self.haproxy
        path = os.path.join(self.directory, "haproxy.cfg")
        with open(path, "w", encoding="ascii") as file:
            file.write(self._configuration())
        self.log = open(os.path.join(self.directory, "log"), "a+", encoding="utf-8")
        words = ["haproxy", "-db", "-f", path] + (["-sf", str(before.pid)] if before else [])
        self.haproxy = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=self.log)
        self.stack.callback(self._end, self.haproxy)
        wait_for(self._listens, "HAProxy listens")
        self.wait_all_up()

    @staticmethod
    def _end(process):
        process.terminate()
        process.wait(HANG_S)

    def _listens(self):
        """True when it is the present one that answers."""
        try:
            return not self._ended() and "Pid: %d\n" % self.haproxy.pid in self.admin("show info")
        except OSError:
            return False

    def _ended(self):
        if self.haproxy.poll() is not None:
            self.log.seek(0)
            raise AssertionError("HAProxy ended: " + self.log.read())
        return False

    def admin(self, command):
        """What HAProxy answers to a command of an operator."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(HANG_S)
            s.connect(self.socket)
            s.sendall(command.encode() + b"\n")
            return b"".join(iter(lambda: s.recv(1 << 16), b"")).decode()

    def servers(self):
        """(state, weight) of each box, as HAProxy sees it."""
        rows = csv.DictReader(self.admin("show stat").lstrip("# ").splitlines())
        return {int(row["svname"][3:]): (row["status"], int(row["weight"])) for row in rows
                if row["pxname"] == "boxes" and row["svname"].startswith("box")}

    def wait_server(self, number, state, weight=None):
        def is_there():
            found = self.servers()[number]
            return found[0].startswith(state) and weight in (None, found[1])
        wait_for(is_there, "HAProxy sees box %d as %s, %s: %s" % (number, state, weight,
                                                                  self.servers()))

    def wait_all_up(self):
        for number in self.boxes:
            self.wait_server(number, "UP", 100)

    def order(self, number, what):
        """`drain` or `ready`."""
        answer = self.admin("set server boxes/box%d state %s" % (number, what))
        assert answer.strip() == "", answer

    # ---- the block -------------------------------------------------------------------------------

    def __enter__(self):
        try:
            for number in (1, 2, 3):
                self.start_box(number)
            for box in self.boxes.values():
                box.wait_ready()
            self.start_haproxy()
        except BaseException:
            self.__exit__(RuntimeError, None, None)
            raise
        return self

    def __exit__(self, kind, value, trace):
        if self.haproxy is not None and kind is not None:
            self.log.seek(0)
            print("HAProxy said:\n" + self.log.read())
        for box in self.boxes.values():
            if box.process.poll() == -signal.SIGKILL:       # by the test
                box.stop()
            else:
                box.__exit__(kind, value, trace)
        self.stack.close()
