# SPDX-License-Identifier: MIT
"""What the processes give up when root starts them, be it root of a user namespace: user, groups,
capabilities; and that reload, replacement of workers and the socket's file go on working."""
import ctypes
import errno
import os
import shutil
import signal
import struct
import subprocess
import tempfile

from appliance import BUILD, EXIT, Appliance, run, wait_for
from protocol import Client
from skip import Skip
from test_auth import ALICE, BOB, PROMPT
from test_reload import Files, is_refused, reload

USER = 54321, 54322             # no file of this machine is theirs
NAMED = "appliance.user=%d:%d" % USER
LOCKS = 1 << 14                 # CAP_IPC_LOCK: the keeper's, where the limit cannot be raised


def needs_root():
    if os.geteuid() != 0:
        raise Skip("needs root: another user has nothing to give up")


LANDLOCK_CREATE_RULESET = 444
NAMESPACE = shutil.which("unshare"), "--user", "--map-root-user"


def needs_namespaces():
    if NAMESPACE[0] is None or subprocess.call([*NAMESPACE, "true"]) != 0:
        raise Skip("needs user namespaces")


def status(pid):
    """/proc/PID/status: name -> words."""
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        return {line.split(":", 1)[0]: line.split(":", 1)[1].split() for line in file}


def roles(a):
    """name -> status of the three roles, once they are sealed."""
    wait_for(lambda: a.said("sealed system_calls=") == 3, "all are sealed")
    return {"keeper": status(a.process.pid), "core": status(a.core), "worker": status(a.worker)}


def has_given_up(a):
    for role, words in roles(a).items():
        left = {name: int(words[name][0], 16)
                for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
        for name in ("CapPrm", "CapEff"):
            left[name] &= ~(LOCKS if role == "keeper" else 0)
        assert not any(left.values()), (role, left)
        assert words["NoNewPrivs"] == ["1"], (role, words)


def test_root_without_a_name_has_no_capabilities():
    needs_root()
    with Appliance("memory.lock=yes") as a:
        has_given_up(a)
        a.wait_said("set appliance.user to run as another user")


def test_a_named_user_is_all_that_the_processes_are():
    needs_root()
    with Appliance(NAMED, "memory.lock=yes", unix=True, extra_groups=[77, 78]) as a:
        has_given_up(a)
        for role, words in roles(a).items():
            assert words["Uid"] == [str(USER[0])] * 4, (role, words["Uid"])
            assert words["Gid"] == [str(USER[1])] * 4, (role, words["Gid"])
            assert words["Groups"] == [], (role, words["Groups"])
        file = os.stat(a.unix)
        assert (file.st_uid, file.st_gid, file.st_mode & 0o777) == (*USER, 0o660), file
        assert a.said("appliance.user names a user") == 0
        with Client(a.unix) as c:
            before = c.generate(1, PROMPT).check().tokens
        first = a.worker
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: a.children().get("agentix-worker") not in (None, first), "another worker")
        a.wait_ready()
        assert status(a.worker)["Uid"] == [str(USER[0])] * 4
        with Client(a.unix) as c:
            assert c.generate(1, PROMPT).check().tokens == before


def test_root_of_a_user_namespace_has_no_capabilities():
    needs_namespaces()
    with Appliance(through=NAMESPACE) as a:
        has_given_up(a)
        a.wait_said("set appliance.user to run as another user")
        with Client(a.tcp) as c:
            c.generate(1, PROMPT).check()


def test_a_user_that_the_namespace_does_not_have_is_refused():
    needs_namespaces()
    done = run(*NAMESPACE, os.path.join(BUILD, "agentix"), "--set", NAMED, "--check")
    assert done.returncode == EXIT["CONFIG"], done
    assert "cannot become user %d with group %d: " % USER in done.stderr, done.stderr


def hide_landlock():
    """In the child that becomes the appliance: its kernel answers ENOSYS."""
    def instruction(code, true, false, value):
        return struct.pack("=HBBI", code, true, false, value)

    libc = ctypes.CDLL(None, use_errno=True)
    code = ctypes.create_string_buffer(
        instruction(0x20, 0, 0, 0) +                                    # number of the call
        instruction(0x15, 0, 1, LANDLOCK_CREATE_RULESET) +
        instruction(0x06, 0, 0, 0x50000 | errno.ENOSYS) +
        instruction(0x06, 0, 0, 0x7fff0000))                            # all others: allowed
    program = struct.pack("@HP", 4, ctypes.addressof(code))
    assert libc.prctl(38, 1, 0, 0, 0) == 0                              # no new privileges
    assert libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()    # a filter


def test_a_kernel_without_landlock_is_named_and_serves():
    with Appliance(preexec_fn=hide_landlock) as a:
        a.wait_said("files are not confined: Landlock: Function not implemented")
        assert a.said("files confined") == 0, a.lines
        with Client(a.tcp) as c:
            c.generate(1, PROMPT).check()


class OwnFiles(Files):
    """Files that belong to the user."""

    def write(self, path, text):
        super().write(path, text)
        os.chown(path, *USER)

    def write_config(self, text):
        super().write_config(text + "[appliance]\nuser = %d:%d\n" % USER)


def test_a_named_user_reloads_what_it_may_read():
    needs_root()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        files = OwnFiles(folder)
        with files.appliance() as a:
            files.write_keys(ALICE)
            reload(a)
            assert is_refused(a, BOB)
            os.chown(files.keys, 0, 0)
            reload(a, said="reload: nothing is taken up")
            a.wait_said("keys: cannot be opened: Permission denied")
            with Client(a.tcp, key=ALICE) as c:
                c.generate(1, PROMPT).check()


def test_a_key_file_that_a_reload_could_not_read_is_refused_at_boot():
    needs_root()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        files = OwnFiles(folder)
        os.chown(files.keys, 0, 0)
        done = run("agentix", "--config", files.config, "--check")
        assert done.returncode == EXIT["CONFIG"], done
        assert "cannot be opened: Permission denied: it belongs to user" in done.stderr, done


def test_only_root_becomes_another_user():
    def confine():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)

    needs_root()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path, binary = os.path.join(folder, "a.ini"), os.path.join(folder, "agentix")
        shutil.copy(os.path.join(BUILD, "agentix"), binary)     # where all may execute it
        with open(path, "w", encoding="utf-8") as file:
            file.write("[appliance]\nuser = %d:%d\n" % USER)
        done = run(binary, "--config", path, "--check", preexec_fn=confine)
        assert done.returncode == EXIT["CONFIG"], done
        assert "user 65534 cannot become user %d" % USER[0] in done.stderr, done.stderr
        same = run(binary, "--set", "appliance.user=65534:65534", "--check", preexec_fn=confine)
        assert same.returncode == 0, same
