# SPDX-License-Identifier: MIT
"""SIGHUP: who may come in changes while the appliance serves, everything else is refused by name.
And what a service manager does: it hands listeners over, so that clients wait during a restart."""
import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading

from appliance import HAND_OVER, HANG_S, NOISE, Appliance, run, wait_for
from protocol import ERROR, PROGRAM, Client
from skip import Skip
from test_auth import ALICE, BAD_AUTH, BOB, CAROL, PROMPT, copies, visit

WELCOME, REFUSAL = 0x81, 0x8f


class Files:
    """A configuration and a file of keys in a folder, and the appliance that reads both."""

    def __init__(self, folder, **options):
        self.config, self.keys = os.path.join(folder, "a.ini"), os.path.join(folder, "keys")
        self.options = options
        self.write_keys(ALICE, BOB)
        self.write_config("")

    def write(self, path, text):
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path + ".new", 0o600)
        os.rename(path + ".new", path)

    def write_keys(self, *keys, domain=""):
        self.write(self.keys, "".join("%s %s %s\n" % (name.decode(), secret.hex(), domain)
                                      for name, secret in keys))

    def write_config(self, text):
        self.write(self.config, "[auth]\ntcp = psk\nkeys = %s\n%s" % (self.keys, text))

    def appliance(self):
        return Appliance(NOISE, config=self.config, **self.options)


@contextlib.contextmanager
def served(**options):
    with tempfile.TemporaryDirectory() as folder:
        files = Files(folder, **options)
        with files.appliance() as a:
            yield files, a


def reload(a, said="reloaded"):
    """Sends the signal; returns when it says so once more, and the core has taken it."""
    times = a.said(said)
    a.process.send_signal(signal.SIGHUP)
    wait_for(lambda: a.said(said) == times + 1, "it says: " + said)
    a.stats()                       # a pass after the bell


def is_refused(a, key):
    """The answer to a client that proves the key."""
    with Client(a.tcp, greet=False) as c:
        c.greet()
        try:
            c.authenticate(key)
        except AssertionError as answer:
            assert answer.args[0] == ERROR, answer
            return True
    return False


# ---- keys ---------------------------------------------------------------------------------------

def test_keys_in_another_folder_take_a_restart():
    with served() as (files, a), tempfile.TemporaryDirectory() as folder:
        before, files.keys = files.keys, os.path.join(folder, "keys")
        files.write_keys(ALICE)
        files.write_config("")
        reload(a, "reload: nothing is taken up: auth.keys = %s: another folder" % files.keys)
        files.keys = before + ".other"
        files.write_keys(ALICE)
        files.write_config("")
        reload(a)
        assert is_refused(a, BOB)


def test_keys_that_are_added_open_and_those_that_are_removed_end_connections():
    with served() as (files, a), Client(a.tcp, key=ALICE) as alice, \
            Client(a.tcp, key=BOB) as bob:
        expected = alice.generate(1, PROMPT).check().tokens
        with a.standing_still():
            alice.start(2, PROMPT)
            bob.start(1, PROMPT)
            wait_for(lambda: a.stats()["calls_open"] == 2, "both calls are open")
            files.write_keys(CAROL, ALICE)
            reload(a)
            error = bob.error()
            assert error["status"] == BAD_AUTH and error["closes"], error
        assert alice.finish(2).check().tokens == expected
        with Client(a.tcp, key=CAROL) as carol:
            assert carol.generate(1, PROMPT).check().tokens == expected
        assert is_refused(a, BOB)
        a.wait_stats(calls_open=0)
        tenants = a.text("tenants")
        assert " key:1 (gone)\n" in tenants and "user" not in tenants, tenants


def test_a_key_with_another_secret_is_another_key():
    changed = (ALICE[0], bytes(range(100, 132)))
    with served() as (files, a), Client(a.tcp, key=ALICE) as alice:
        files.write_keys(changed)
        reload(a)
        assert alice.error()["status"] == BAD_AUTH
        assert is_refused(a, ALICE)
        with Client(a.tcp, key=changed) as c:
            c.generate(1, PROMPT).check()


def test_programs_stay_with_their_domain():
    """Whatever the order of the file: the numbers of domains are those of the start."""
    with served() as (files, a):
        with Client(a.tcp, key=ALICE) as alice:
            alice.program = PROGRAM
            alice.generate(1, PROMPT).check()
            files.write_keys(CAROL, BOB, ALICE)
            reload(a)
            again = alice.generate(2, PROMPT).check()
            assert again.done["cached_tokens"] > 0, again.done
        for key in (BOB, CAROL):
            with Client(a.tcp, key=key) as other:
                other.program = PROGRAM
                assert other.generate(1, PROMPT).check().done["cached_tokens"] == 0
        tenants = a.text("tenants")
        assert all(name in tenants for name in ("alice", "bob", "carol")), tenants


def test_a_file_that_is_wrong_changes_nothing():
    with served() as (files, a), Client(a.tcp, key=BOB) as bob:
        for text in ("nonsense\n", "", "alice %s\n" % BOB[1].hex() * 2):
            files.write(files.keys, text)
            reload(a, "reload: nothing is taken up: " + files.keys)
        files.write_config("gids = no-such-group\n")
        reload(a, "nothing is taken up: %s:4: auth.gids = no-such-group" % files.config)
        bob.generate(1, PROMPT).check()
        with Client(a.tcp, key=ALICE) as alice:
            alice.generate(1, PROMPT).check()


def test_no_key_stays_where_it_is_not_needed():
    old, new = os.urandom(32), os.urandom(32)
    with served() as (files, a):
        for secret in (old, new):
            files.write_keys((b"me", secret))
            reload(a)
        with Client(a.tcp, key=(b"me", new)) as c:
            c.generate(1, PROMPT).check()
            try:
                found = [[copies(pid, secret) for pid in (a.core, a.process.pid, a.worker)]
                         for secret in (old, new, old.hex().encode(), new.hex().encode())]
            except PermissionError as error:
                raise Skip("needs root, or a kernel that lets a user trace: %s" % error)
    assert found == [[0, 0, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0]], found


def test_a_hundred_reloads_take_no_memory():
    """More than the heap of boot would have room for."""
    with served() as (files, a), Client(a.tcp, key=ALICE) as alice:
        files.write_config(";" + "x" * 150 + "\n" * 2000)
        for _ in range(100):
            reload(a)
        alice.generate(1, PROMPT).check()


# ---- users, and what takes a restart ------------------------------------------------------------

def test_groups_change_for_new_clients_and_for_those_that_are_connected():
    if os.getuid() != 0:
        raise Skip("needs root, to become another user")
    with served(unix=True) as (files, a):
        os.chmod(a.unix, 0o666)
        os.chmod(os.path.dirname(a.unix), 0o755)
        files.write_config("gids = 4100\n")
        reload(a)
        assert visit(a.unix, 4002, 4100)[0] == WELCOME
        member = subprocess.Popen(
            [sys.executable, "-c", STAY, a.unix, "4100"], stdout=subprocess.PIPE, text=True,
            cwd=os.path.dirname(__file__))
        assert member.stdout.readline() == "in\n"
        files.write_config("gids = 4101\nuids = 4003\n")
        reload(a)
        assert member.stdout.readline() == "out %d\n" % BAD_AUTH and member.wait(HANG_S) == 0
        assert visit(a.unix, 4002, 4100) == (REFUSAL, BAD_AUTH)
        assert visit(a.unix, 4002, 4101)[0] == visit(a.unix, 4003, 9)[0] == WELCOME
        assert visit(a.unix, 0, 0)[0] == WELCOME


STAY = """
import os, sys
from protocol import Client, hello
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(4002)
c = Client(sys.argv[1])
print("in", flush=True)
print("out", c.error()["status"], flush=True)
"""


def test_other_options_are_refused_by_name():
    with served() as (files, a), Client(a.tcp, key=ALICE) as alice:
        files.write_config("[sched]\nbatch = 7\n[door]\nlisten = 127.0.0.1:9\n")
        reload(a)
        a.wait_said("reload: sched.batch = 7 takes a restart")
        assert a.said("takes a restart") == 1, a.lines
        alice.generate(1, PROMPT).check()


def test_user_signals_are_ignored():
    with served() as (files, a), Client(a.tcp, key=ALICE) as alice:
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            for pid in (a.process.pid, a.core, a.worker):
                os.kill(pid, number)
        alice.generate(1, PROMPT).check()
        reload(a)


# ---- listeners that are handed over -------------------------------------------------------------

class Manager:
    """Listens, as systemd does for a .socket unit, and starts appliances that take over from it."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "s")
        self.local, self.tcp = socket.socket(socket.AF_UNIX), socket.socket()
        self.local.bind(self.path)
        self.tcp.bind(("127.0.0.1", 0))
        self.port = self.tcp.getsockname()[1]
        for listener in (self.local, self.tcp):
            listener.listen(128)

    def appliance(self, *settings):
        numbers = self.local.fileno(), self.tcp.fileno()
        return Appliance(
            NOISE, "net.unix=" + self.path, "net.tcp=127.0.0.1:%d" % self.port, *settings,
            through=(sys.executable, "-c", HAND_OVER, "2", *map(str, numbers)), pass_fds=numbers)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.local.close()
        self.tcp.close()


def test_clients_wait_while_the_appliance_restarts():
    with tempfile.TemporaryDirectory() as folder, Manager(folder) as manager:
        with manager.appliance() as a, Client(manager.path) as c:
            expected = c.generate(1, PROMPT).check().tokens
            a.wait_said("net.unix=%s inherited" % manager.path)
        assert stat.S_ISSOCK(os.stat(manager.path).st_mode)     # it is not the appliance's
        waiting = [Client(address, greet=False) for address in
                   (manager.path, ("127.0.0.1", manager.port)) for _ in range(3)]
        with manager.appliance():
            for c in waiting:
                c.greet()
                assert c.generate(1, PROMPT).check().tokens == expected
                c.close()


def test_clients_that_come_while_it_drains_are_served_by_the_next():
    with tempfile.TemporaryDirectory() as folder, Manager(folder) as manager:
        with manager.appliance() as a, Client(manager.path) as c:
            with a.standing_still():
                c.start(1, PROMPT)
                wait_for(lambda: a.stats()["calls_open"] == 1, "the call is open")
                a.process.send_signal(signal.SIGTERM)
                wait_for(lambda: a.health().startswith("draining"), "it drains")
                late = Client(manager.path, greet=False)
            expected = c.finish(1).check().tokens
            assert a.process.wait(HANG_S) == 0
        with manager.appliance():
            late.greet()
            assert late.generate(1, PROMPT).check().tokens == expected
            late.close()


def test_a_listener_at_another_address_is_closed():
    with tempfile.TemporaryDirectory() as folder, Manager(folder) as manager:
        with manager.appliance("net.unix=" + manager.path + "2") as a:
            a.wait_said("socket 0 of the service manager is none of net.unix")
            with Client(manager.path + "2") as c:
                c.generate(1, PROMPT).check()


def test_agx_goes_on_over_a_restart():
    with tempfile.TemporaryDirectory() as folder, Manager(folder) as manager:
        with manager.appliance() as a:
            done = []
            load = threading.Thread(target=lambda: done.append(run(
                "agx", "--to", "unix:" + manager.path, "load", "--calls", "3000")))
            load.start()
            wait_for(lambda: a.stats()["calls_completed"] > 100, "calls are served")
        with manager.appliance():
            load.join(HANG_S)
            assert done and done[0].returncode == 0, done
