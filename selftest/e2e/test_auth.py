# SPDX-License-Identifier: MIT
"""Access: keys on TCP, users on the unix socket, preauth places of others. A trust domain learns
nothing of another."""
import os
import socket
import struct
import subprocess
import sys

from appliance import EXIT, HANG_S, NOISE, Appliance, TextFile, run, wait_for
from protocol import (CALL, ERROR, PROGRAM, PROGRAM_END, PROGRAM_START, Client, auth, call, frame,
                      hello, proof)
from skip import Skip

BUSY_CALLS_OF_PROG, BUSY_CALLS_OF_KEY = 7, 8
BAD_FRAME_ORDER, BAD_PROGRAM_UNKNOWN, BAD_AUTH = 21, 26, 31
ALICE = (b"alice", bytes(range(32)))
BOB = (b"bob", bytes(range(32, 64)))
CAROL = (b"carol", bytes(range(64, 96)))
KEYS = "# who\nalice %s red\nbob %s blue 2\ncarol %s red\n" % (
    ALICE[1].hex(), BOB[1].hex(), CAROL[1].hex())
PROMPT = list(range(3, 40))


class KeyFile(TextFile):
    """A key file."""

    def __init__(self, text=KEYS, mode=0o600):
        super().__init__(text, mode)


def keyed(path, *settings, **options):
    return Appliance(NOISE, "auth.tcp=psk", "auth.keys=" + path, *settings, **options)


def refused_boot(*settings):
    words = [word for each in settings for word in ("--set", each)]
    done = run("agentix", "--check", *words)
    assert done.returncode == EXIT["CONFIG"], done
    return done.stderr


# ---- keys ---------------------------------------------------------------------------------------

def test_a_key_opens_and_tokens_do_not_depend_on_it():
    with Appliance(NOISE) as a, Client(a.tcp) as c:
        expected = c.generate(1, PROMPT).check().tokens
    with KeyFile() as path, keyed(path) as a:
        for key in (ALICE, BOB, CAROL):
            with Client(a.tcp, key=key) as c:
                assert c.generate(1, PROMPT).check().tokens == expected
        assert a.stats()["auth_refused"] == 0


def test_wrong_keys_get_one_answer_and_the_end():
    with KeyFile() as path, keyed(path) as a:
        answers = set()
        for key in ((b"alice", BOB[1]), (b"mallory", ALICE[1]), (b"", ALICE[1]),
                    (b"alice", bytes(32)), (b"bob", ALICE[1])):
            c = Client(a.tcp, greet=False)
            c.greet()
            nonce, said = os.urandom(32), c.welcome
            mac = proof(b"c1", key, said["boot_id"], said["server_nonce"], nonce)
            c.send(auth(key[0], nonce, mac))
            kind, payload = c.receive()
            assert kind == ERROR
            answers.add(payload)
            assert c.is_closed()
        assert len(answers) == 1
        assert struct.unpack("<H", answers.pop()[:2])[0] == BAD_AUTH
        with Client(a.tcp, key=ALICE) as c:
            c.generate(1, PROMPT).check()
        assert a.stats()["auth_refused"] == 5


def test_nothing_is_served_before_the_proof():
    with KeyFile() as path, keyed(path) as a:
        for data in (call(1, PROMPT), frame(PROGRAM_START, PROGRAM), hello()):
            c = Client(a.tcp, greet=False)
            c.greet()
            c.send(data)
            assert c.error()["status"] == BAD_FRAME_ORDER
            assert c.is_closed()
        stats = a.stats()
        assert stats["calls_accepted"] == 0 and stats["programs_started"] == 0


def test_a_recorded_proof_opens_nothing():
    with KeyFile() as path, keyed(path) as a:
        first = Client(a.tcp, greet=False)
        first.greet()
        nonce, said = os.urandom(32), first.welcome
        recorded = auth(ALICE[0], nonce,
                        proof(b"c1", ALICE, said["boot_id"], said["server_nonce"], nonce))
        first.send(recorded)
        first.receive()
        second = Client(a.tcp, greet=False)
        second.greet()
        assert second.welcome["server_nonce"] != first.welcome["server_nonce"]
        second.send(recorded)
        assert second.error()["status"] == BAD_AUTH
        first.close()


def test_agx_proves_its_key_and_checks_the_appliance():
    with KeyFile() as path, keyed(path, unix=True) as a, \
            KeyFile("alice %s\n" % ALICE[1].hex()) as mine, \
            KeyFile("alice %s\n" % BOB[1].hex()) as wrong:
        assert run("agx", "--to", a.to, "--key-file", mine, "ping").returncode == 0
        environment = dict(os.environ, AGX_KEY="bob " + BOB[1].hex())
        assert run("agx", "--to", a.to, "load", "--calls", "20", env=environment).returncode == 0
        assert run("agx", "--to", "unix:" + a.unix, "--key-file", mine, "ping").returncode == 0
        done = run("agx", "--to", a.to, "--key-file", wrong, "ping")
        assert done.returncode == 4 and "does not accept this one" in done.stderr, done
        done = run("agx", "--to", a.to, "ping")
        assert done.returncode == 4 and "asks for a key" in done.stderr, done
        done = run("agx", "--to", a.to, "--key-file", path, "ping")
        assert done.returncode == 2 and "3 keys, need one" in done.stderr, done
        os.chmod(mine, 0o644)
        done = run("agx", "--to", a.to, "--key-file", mine, "ping")
        assert done.returncode == 2 and "mode 0644, need 0600" in done.stderr, done


def test_agx_with_a_key_does_not_talk_to_an_appliance_without():
    with Appliance() as a, KeyFile("alice %s\n" % ALICE[1].hex()) as mine:
        done = run("agx", "--to", a.to, "--key-file", mine, "ping")
        assert done.returncode == 6 and "does not prove" in done.stderr, done


def test_files_of_keys_are_refused_by_line_and_mode_and_never_shown():
    with KeyFile(mode=0o644) as path:
        text = refused_boot("auth.tcp=psk", "auth.keys=" + path)
        assert path + ": mode 0644, need 0600" in text, text
    with KeyFile(KEYS + "dora 1234\n") as path:
        text = refused_boot("auth.tcp=psk", "auth.keys=" + path)
        assert path + ":5: " in text and "1234" not in text, text
    assert "auth.keys" in refused_boot("auth.tcp=psk")
    assert "auth.tcp = psk" in refused_boot("net.tcp=0.0.0.0:7411")
    with KeyFile() as path:
        done = run("agentix", "--check", "--set", "auth.tcp=psk", "--set", "auth.keys=" + path)
        assert done.returncode == 0 and "keys: 3, trust domains: 2" in done.stdout, done
        for key in (ALICE, BOB, CAROL):
            assert key[1].hex() not in done.stdout + done.stderr
        done = run("agentix", "--check", "--set", "auth.keys=" + path)
        assert done.returncode == 0 and "auth.keys is not read" in done.stderr, done.stderr


def test_agx_without_a_key_says_how_to_give_one():
    with KeyFile() as path, keyed(path) as a:
        done = run("agx", "--to", a.to, "ping")
        assert done.returncode == 4 and "--key-file or AGX_KEY" in done.stderr, done


def test_beyond_loopback_only_with_keys():
    with KeyFile() as path, keyed(path, "net.tcp=0.0.0.0:0") as a:
        with Client(("127.0.0.1", a.tcp[1]), key=ALICE) as c:
            c.generate(1, PROMPT).check()


def copies(pid, secret):
    """Number of places in a process's memory that hold these bytes."""
    count = 0
    with open("/proc/%d/maps" % pid) as maps, open("/proc/%d/mem" % pid, "rb", 0) as memory:
        for line in maps:
            span, mode = line.split()[:2]
            if not mode.startswith("rw"):
                continue
            start, end = (int(part, 16) for part in span.split("-"))
            try:
                memory.seek(start)
                count += memory.read(end - start).count(secret)
            except OSError:
                continue
    return count


def test_only_the_core_keeps_the_keys():
    secret = os.urandom(32)
    with KeyFile("me %s\n" % secret.hex()) as path, keyed(path) as a:
        with Client(a.tcp, key=(b"me", secret)) as c:
            c.generate(1, PROMPT).check()
            try:
                roles = a.core, a.process.pid, a.worker, a.next_core
                found = [copies(pid, secret) for pid in roles]
                text = [copies(pid, secret.hex().encode()) for pid in roles]
            except PermissionError as error:
                raise Skip("needs root, or a kernel that lets a user trace: %s" % error)
    assert found == [1, 0, 0, 0], found
    assert text == [0, 0, 0, 0], text


# ---- users --------------------------------------------------------------------------------------

SAY_HELLO = """
import os, socket, sys
os.setgroups([int(word) for word in sys.argv[5:]])
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[1]))
s = socket.socket(socket.AF_UNIX)
s.settimeout(60)
s.connect(sys.argv[3])
try:
    s.sendall(bytes.fromhex(sys.argv[4]))
except BrokenPipeError:
    pass                        # it has answered and closed
got = b""
while len(got) < 18:
    more = s.recv(4096)
    if not more:
        break
    got += more
sys.stdout.buffer.write(got)
"""


def visit(path, uid, gid, *groups):
    """The answer to a process of this user: the type of the frame, and the code of an ERROR."""
    done = subprocess.run(
        [sys.executable, "-c", SAY_HELLO, str(uid), str(gid), path, hello().hex(),
         *map(str, groups)],
        capture_output=True, timeout=HANG_S)
    assert len(done.stdout) >= 18, done
    return done.stdout[4], struct.unpack("<H", done.stdout[16:18])[0]


def test_users_on_the_unix_socket_are_admitted_by_uid():
    if os.getuid() != 0:
        raise Skip("needs root, to become another user")
    welcome, refusal = 0x81, 0x8f
    with Appliance("auth.uids=4001", "auth.gids=4100", unix=True) as a:
        # The file's mode refuses first; this is about the check after it.
        os.chmod(a.unix, 0o666)
        os.chmod(os.path.dirname(a.unix), 0o755)
        assert visit(a.unix, 0, 0)[0] == welcome
        assert visit(a.unix, 4001, 9)[0] == welcome
        assert visit(a.unix, 4002, 4100)[0] == welcome
        assert visit(a.unix, 4002, 9, 4099, 4100)[0] == welcome
        assert visit(a.unix, 4002, 4001, 4099) == (refusal, BAD_AUTH)
        assert visit(a.unix, 65534, 65534) == (refusal, BAD_AUTH)
        assert a.stats()["auth_refused"] == 2


def test_the_socket_is_for_owner_and_group():
    with Appliance(unix=True) as a:
        assert os.stat(a.unix).st_mode & 0o777 == 0o660


# ---- connections before they authenticate --------------------------------------------------------

def test_members_are_admitted_while_preauth_is_full():
    with KeyFile() as path, keyed(path, "net.preauth=4", "net.handshake=6s", unix=True) as a:
        member = Client(a.tcp, key=ALICE)
        silent = [socket.create_connection(a.tcp, timeout=HANG_S) for _ in range(12)]
        wait_for(lambda: a.stats()["connections_preauth"] == 4, "preauth is full")
        member.generate(1, PROMPT).check()
        with Client(a.unix) as local:
            local.generate(1, PROMPT).check()
        with Client(a.tcp, key=BOB) as late:        # after all of them, and still admitted
            late.generate(1, PROMPT).check()
        stats = a.stats()
        assert stats["connections_displaced"] > 0 and stats["connections_preauth"] <= 4, stats
        for connection in silent:
            connection.close()
        member.close()


# ---- domains ------------------------------------------------------------------------------------

def end_program(client):
    """The answer to PROGRAM_END: the program's totals, or an error's code."""
    programs, errors = len(client.programs), len(client.errors)
    client.send(frame(PROGRAM_END, PROGRAM))
    while len(client.programs) == programs and len(client.errors) == errors:
        client.step()
    return client.programs[-1] if len(client.programs) > programs else client.errors[-1]["status"]


def test_a_foreign_program_of_the_same_id_shares_nothing():
    for sharing in ("program", "domain"):
        with KeyFile() as path, keyed(path, "kv.sharing=" + sharing, unix=True) as a, \
                Client(a.tcp, key=ALICE) as alice, Client(a.tcp, key=BOB) as bob, \
                Client(a.tcp, key=CAROL) as carol, Client(a.unix) as root:
            for client in (alice, bob, carol, root):
                client.program = PROGRAM
            tokens = alice.generate(1, PROMPT).check().tokens
            for foreign in (bob, root):
                assert end_program(foreign) == BAD_PROGRAM_UNKNOWN
                outcome = foreign.generate(1, PROMPT).check()
                assert outcome.tokens == tokens and outcome.done["cached_tokens"] == 0, outcome.done
                assert end_program(foreign)["calls"] == 1
            again = carol.generate(2, PROMPT).check()       # of the same domain
            assert again.done["cached_tokens"] > 0, again.done
            assert end_program(carol)["calls"] == 2


def test_open_calls_of_a_program_and_of_a_key_are_limited():
    with KeyFile() as path, keyed(path, "limits.calls_per_program=3") as a, \
            Client(a.tcp, key=BOB) as bob, Client(a.tcp, key=ALICE) as alice:
        with a.standing_still():
            for i in range(3):
                bob.start(i, PROMPT, max_tokens=400)
            error = bob.finish(2).error
            assert error["status"] == BUSY_CALLS_OF_KEY, error
            assert (error["found"], error["max"]) == (2, 2), error
            assert error["retry_ms"] > 0 and error["frame_type"] == CALL
            for i in range(4):
                alice.start(i, PROMPT, max_tokens=400)
            error = alice.finish(3).error
        assert (error["status"], error["max"]) == (BUSY_CALLS_OF_PROG, 3), error
        for i in range(3):
            alice.finish(i).check()


def test_a_call_without_a_deadline_gets_the_configured_one():
    with Appliance(NOISE, "limits.call_deadline=1ms") as a, Client(a.tcp) as c:
        assert c.generate(1, PROMPT, max_tokens=900).check().done["finish"] == 6


def test_peers_on_tcp_get_keepalive_probes():
    with Appliance("net.keepalive=7s") as a, Client(a.tcp) as c:
        port = c.socket.getsockname()[1]

        def timer():
            for line in open("/proc/net/tcp"):
                words = line.split()
                if words[2].endswith(":%04X" % port) and words[1].endswith(":%04X" % a.tcp[1]):
                    return words[5].split(":")[0]
            return None
        # 02 is a keepalive timer that runs; before that, a retransmission timer may run.
        wait_for(lambda: timer() == "02", "the keepalive timer runs")
