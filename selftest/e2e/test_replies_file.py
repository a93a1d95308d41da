# SPDX-License-Identifier: MIT
"""A file of replies: a call that has ended is not executed again, though the appliance was stopped,
killed, or upgraded since; and a file that was made for another one is refused and stays as it is.

Method: the appliance is started again with the same file, and asked the same calls again. Its
counters say whether they were executed.
"""
import contextlib
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile

from appliance import (BUILD, EXIT, HANG_S, NOISE, RANDOM_MODEL, Appliance, is_alive, run,
                       stopped, wait_for)
from protocol import IGNORE_EOS, PING, Client, frame, pack
from skip import inside
from test_auth import ALICE, BOB, KeyFile, keyed
from test_disk import NAMESPACE, need_namespace
from test_gpu import ON_SOFT
from test_restart import kill_all
from upgrade import Upgrade, family

PROMPT = list(range(3, 40))
PROGRAM = b"outlives-restart"
OPTIONS = {"max_tokens": 40, "program": PROGRAM, "flags": IGNORE_EOS}


class Disk:
    """A folder of its own; `file` is the setting that names a file in it."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="agentix-e2e-")
        self.path = os.path.join(self.folder, "replies")
        self.file = "limits.replies_file=" + self.path
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def read(self):
        with open(self.path, "rb") as file:
            return file.read()


def ask(a, number, again=False):
    with Client(a.tcp) as c:
        return c.generate(number, PROMPT, again=again, **OPTIONS).check()


class Either:
    """As `again` of a call: it may be executed or not."""

    def __eq__(self, other):
        return True


def expect_known(a, answers):
    """The calls are answered as they were, and none is executed."""
    for number, tokens in answers.items():
        assert ask(a, number, again=True).tokens == tokens
    stats = a.stats()
    assert stats["calls_replayed"] == len(answers), stats
    assert stats["calls_accepted"] == stats["tokens_generated"] == 0, stats


def test_calls_that_ended_are_known_after_a_restart():
    with Disk() as disk:
        answers = {}
        for boot in range(3):
            with Appliance(NOISE, disk.file) as a:
                expect_known(a, answers)
                for number in range(5 * boot, 5 * boot + 5):
                    answers[number] = ask(a, number).tokens
                assert a.stop() == 0
        with Appliance(NOISE, disk.file) as a:
            expect_known(a, answers)


def kill_keeper(a):
    """It alone: the others end with it, the writer when it has written."""
    wait_for(lambda: "agentix-writer" in a.children(), "a writer")
    pids = list(a.children().values())
    a.process.send_signal(signal.SIGKILL)
    assert a.stop() == -signal.SIGKILL
    wait_for(lambda: not any(map(is_alive, pids)), "all are gone, the writer last")


def test_calls_that_ended_are_known_when_the_keeper_was_killed():
    with Disk() as disk:
        a = Appliance(NOISE, disk.file)
        answers = {number: ask(a, number).tokens for number in range(5)}
        kill_keeper(a)
        with Appliance(NOISE, disk.file) as a:
            expect_known(a, answers)


def test_a_writer_that_dies_and_a_core_that_dies_lose_no_reply():
    with Disk() as disk:
        with Appliance(NOISE, disk.file) as a:
            answers = {1: ask(a, 1).tokens}
            for name in ("agentix-writer", "agentix-core", "agentix-writer"):
                pid = wait_for(lambda: a.children().get(name), name)
                os.kill(pid, signal.SIGKILL)
                wait_for(lambda: a.children().get(name) not in (None, pid), "another " + name)
                a.wait_ready()
                number = len(answers) + 1
                answers[number] = ask(a, number).tokens
        with Appliance(NOISE, disk.file) as a:
            expect_known(a, answers)


def test_replies_are_known_after_an_upgrade_and_a_restart():
    with Disk() as disk, family(NOISE, disk.file) as a:
        answers = {1: ask(a, 1).tokens}
        b = Upgrade(a, NOISE, disk.file)
        assert a.process.wait(HANG_S) == 0
        expect_known(b, answers)
        answers[2] = ask(b, 2).tokens
        wait_for(lambda: "agentix-writer" in b.children(), "it writes")
        assert b.stop() == 0
        with Appliance(NOISE, disk.file) as c:
            expect_known(c, answers)


def test_an_upgrade_that_goes_on_with_a_file_is_alike():
    """Else both would write it at once. One without a file may serve while the other drains."""
    with Disk() as disk, Disk() as other, family(NOISE, disk.file) as a:
        for settings in ((NOISE, other.file), (NOISE, disk.file, "limits.calls=7")):
            b = Upgrade(a, *settings, wait=False)
            assert b.fails() == EXIT["UPGRADE"], b.lines
            assert b.said("limits.replies_file goes on") and b.said("other limits"), b.lines
        assert b.said("limits.calls was 256 and is 7"), b.lines
        for why in ("limits.replies_file is another file", "limits.calls was 256 and is 7"):
            a.wait_said("other limits: " + why)
        assert a.said("warn upgrade: refused pid=") == 2, a.lines
        answers = {1: ask(a, 1).tokens}
        b = Upgrade(a, NOISE)
        assert a.process.wait(HANG_S) == 0
        assert ask(b, 1).tokens == answers[1] and b.stop() == 0
        with Appliance(NOISE, disk.file) as c:
            expect_known(c, answers)


def test_a_file_takes_no_place_of_a_connection():
    with Disk() as disk, Appliance(NOISE, disk.file, "limits.connections=10") as a, \
            contextlib.ExitStack() as stack:
        wait_for(lambda: a.children().get("agentix-writer"), "a writer")
        clients = [stack.enter_context(Client(a.tcp)) for _ in range(10)]
        texts = [stack.enter_context(socket.create_connection(a.text_address, timeout=HANG_S))
                 for _ in range(8)]
        for client in clients:
            client.generate(1, PROMPT, max_tokens=3).check()
        for text in texts:
            text.sendall(b"health\n")
            assert text.recv(5) == b"ready"


# ---- whose they are ------------------------------------------------------------------------------

def test_a_reply_stays_with_its_domain_though_the_file_of_keys_has_another_order():
    """Domains are numbered as the file of keys names them: bob's is where alice's was."""
    swapped = "bob %s blue\nalice %s red\n" % (BOB[1].hex(), ALICE[1].hex())
    with Disk() as disk:
        with KeyFile() as path, keyed(path, disk.file) as a, Client(a.tcp, key=ALICE) as c:
            right = c.generate(1, PROMPT, **OPTIONS).check().tokens
        with KeyFile(swapped) as path, keyed(path, disk.file) as a:
            for key, again in ((BOB, False), (ALICE, True)):
                with Client(a.tcp, key=key) as c:
                    got = c.generate(1, PROMPT, again=again, **OPTIONS).check()
                    assert got.tokens == right
        with KeyFile("bob %s blue\n" % BOB[1].hex()) as path, keyed(path, disk.file) as a:
            with Client(a.tcp, key=BOB) as c:
                assert c.generate(1, PROMPT, again=True, **OPTIONS).check().tokens == right
            assert a.stats()["calls_replayed"] == 1


# ---- files that are no use -----------------------------------------------------------------------

def refused(*settings, status="CONFIG"):
    done = run("agentix", "--set", "net.tcp=127.0.0.1:0", "--set", "text.listen=",
               *(word for each in settings for word in ("--set", each)))
    assert done.returncode == EXIT[status], done
    assert "limits.replies_file = " in done.stderr, done.stderr
    return done.stderr


def test_a_file_of_another_appliance_is_refused_and_stays():
    with Disk() as disk:
        with Appliance(NOISE, disk.file) as a:
            answers = {1: ask(a, 1).tokens}
        before = disk.read()
        assert "another model" in refused(disk.file)
        assert "another model" in refused(NOISE, disk.file, "kv.type=f32")
        assert "limits.replies" in refused(NOISE, disk.file, "limits.replies=7")
        assert "limits.reply_tokens" in refused(NOISE, disk.file, "limits.reply_tokens=100000")
        assert disk.read() == before
        with Appliance(NOISE, disk.file) as a:
            expect_known(a, answers)


def test_replies_of_a_gpu_are_a_gpus():
    with Disk() as disk:
        with Appliance(NOISE, "engine.kind=cuda", *ON_SOFT, disk.file, SYNC) as a:
            answers = {1: ask(a, 1).tokens}
        with Appliance(NOISE, "engine.kind=cuda", *ON_SOFT, disk.file, SYNC) as a:
            expect_known(a, answers)
        assert "engine.kind" in refused(NOISE, disk.file)


def test_replies_of_a_gpu_are_known_when_the_model_is_a_copy():
    """Another device, inode and time: as after a restart of the machine, or from another disk."""
    with Disk() as disk:
        answers = {}
        for name in ("first.gguf", "second.gguf"):
            model = os.path.join(disk.folder, name)
            shutil.copy(RANDOM_MODEL, model)
            with Appliance("model.path=" + model, "engine.kind=cuda", *ON_SOFT, disk.file) as a:
                expect_known(a, answers)
                answers[1] = ask(a, 1, again=Either()).tokens


def test_other_weights_with_the_same_header_are_refused():
    with Disk() as disk:
        model = os.path.join(disk.folder, "model.gguf")
        shutil.copy(RANDOM_MODEL, model)
        with Appliance("model.path=" + model, disk.file) as a:
            ask(a, 1)
        with open(model, "r+b") as file:
            file.seek(-64, os.SEEK_END)
            weights = file.read(64)
            file.seek(-64, os.SEEK_END)
            file.write(weights[32:] + weights[:32])
        assert "another model" in refused("model.path=" + model, disk.file)


def test_what_is_no_file_of_its_own_is_refused():
    with Disk() as disk:
        with open(disk.path, "w") as file:
            file.write("a letter")
        os.chmod(disk.path, 0o600)
        assert "no file of replies" in refused(disk.file)
        os.chmod(disk.path, 0o640)
        assert "0600" in refused(disk.file)
        os.unlink(disk.path)
        with open(os.path.join(disk.folder, "elsewhere"), "w"):
            pass
        os.symlink("elsewhere", disk.path)
        assert "symbolic link" in refused(disk.file)
        os.unlink(disk.path)
        os.mkdir(disk.path)
        assert "cannot be opened" in refused(disk.file)
        assert "limits.replies > 0" in refused(disk.file, "limits.replies=0")


def test_two_appliances_do_not_share_a_file():
    with Disk() as disk, Appliance(NOISE, disk.file) as a:
        answers = {1: ask(a, 1).tokens}
        assert "another appliance uses it" in refused(NOISE, disk.file, status="SYSTEM")
        assert ask(a, 1, again=True).tokens == answers[1]


def test_a_disk_without_room_is_refused_with_the_figures():
    inside(os.getpid(), "root")             # or Skip
    need_namespace()
    done = subprocess.run([*NAMESPACE, "sh", "-c", "mount -t tmpfs -o size=64k none /mnt && "
                           "exec \"$@\"", "sh", os.path.join(BUILD, "agentix"), "--set",
                           "net.tcp=127.0.0.1:0", "--set", "text.listen=", "--set",
                           "limits.replies_file=/mnt/replies"],
                          capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == EXIT["CONFIG"], done
    assert re.search(r"/mnt/replies: needs \d+ bytes, 65536 are free there", done.stderr), done


# ---- files that are damaged ----------------------------------------------------------------------

def test_garbage_in_the_file_costs_replies_and_shows_no_wrong_token():
    with Disk() as disk:
        with Appliance(NOISE, disk.file) as a:
            answers = {number: ask(a, number).tokens for number in range(8)}
        rng = random.Random(1)
        content = bytearray(disk.read())
        for at in rng.sample(range(4096, 4096 + 600), 4):      # records are there, one by one
            content[at] ^= 1 << rng.randrange(8)
        with open(disk.path, "wb") as file:
            file.write(content)
        with Appliance(NOISE, disk.file) as a:
            for number, tokens in answers.items():
                assert ask(a, number, again=Either()).tokens == tokens
            stats = a.stats()
        print("  %d of 8 were known" % stats["calls_replayed"])
        assert stats["calls_replayed"] + stats["calls_accepted"] == 8, stats
        assert 0 < stats["calls_replayed"] < 8, stats


def test_a_file_that_is_cut_while_it_serves_costs_no_call():
    with Disk() as disk:
        with Appliance(NOISE, disk.file) as a:
            answers = {1: ask(a, 1).tokens}
            core = a.core
            os.truncate(disk.path, 4096)
            answers[2] = ask(a, 2).tokens
            a.wait_said("limits.replies_file was cut")
            assert a.core == core
        with Appliance(NOISE, disk.file) as a:
            expect_known(a, answers)


def test_a_file_that_was_cut_before_its_writer_died_is_written_again():
    with Disk() as disk:
        with Appliance(NOISE, disk.file) as a:
            answers = {1: ask(a, 1).tokens}
            writer = wait_for(lambda: a.children().get("agentix-writer"), "a writer")
            os.truncate(disk.path, 0)
            os.kill(writer, signal.SIGKILL)
            a.wait_said("limits.replies_file was cut")
            assert a.stop() == 0
        with Appliance(NOISE, disk.file) as a:
            expect_known(a, answers)


def test_a_writer_that_dies_while_the_keeper_waits_for_it_has_a_successor():
    with Disk() as disk:
        a = Appliance(NOISE, disk.file)
        writer = wait_for(lambda: a.children().get("agentix-writer"), "a writer")
        with stopped(writer):
            answers = {1: ask(a, 1).tokens}
            a.process.send_signal(signal.SIGTERM)
            wait_for(lambda: list(a.children()) == ["agentix-writer"], "the others are gone")
            os.kill(writer, signal.SIGKILL)
        assert a.stop() == 0
        with Appliance(NOISE, disk.file) as a:
            expect_known(a, answers)


# ---- the end of a call waits for the disk --------------------------------------------------------

SYNC = "limits.replies_sync=yes"


def first_and_writer(a, c):
    """The tokens of a first call, which are those of each; and the writer."""
    writer = wait_for(lambda: a.children().get("agentix-writer"), "a writer")
    return c.generate(1, PROMPT, **OPTIONS).check().tokens, writer


def held_end(c, number):
    """A call of which all has come but its end."""
    held = c.start(number, PROMPT, **OPTIONS)
    while len(held.tokens) < 40:
        c.step()
    return held


def test_ends_wait_for_the_writer_and_tokens_do_not():
    with Disk() as disk, Appliance(NOISE, disk.file, SYNC) as a, Client(a.tcp) as c:
        right, writer = first_and_writer(a, c)
        with stopped(writer):
            held = held_end(c, 2)
            c.send(frame(PING, pack(PING, nonce=7)))    # it answers, and has not sent DONE
            while not c.pongs:
                c.step()
            assert held.done is None and a.stats()["calls_open"] == 1, a.stats()
        assert c.finish(2).check().tokens == right


def test_a_disk_that_fails_holds_ends_and_nothing_else():
    """A limit of the writer's file sizes stands for the disk: each write beyond it fails."""
    with Disk() as disk:
        with Appliance(NOISE, disk.file, SYNC) as a, Client(a.tcp) as c:
            right, writer = first_and_writer(a, c)
            before = resource.prlimit(writer, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
            held = held_end(c, 2)
            a.wait_said("limits.replies_file cannot be written")
            assert held.done is None
            resource.prlimit(writer, resource.RLIMIT_FSIZE, before)
            answers = {1: right, 2: c.finish(2).check().tokens}
            a.wait_said("limits.replies_file is written again")
        with Appliance(NOISE, disk.file, SYNC) as a:
            expect_known(a, answers)


def test_a_writer_whose_disk_fails_ends_with_the_appliance():
    with Disk() as disk:
        a = Appliance(NOISE, disk.file)
        writer = wait_for(lambda: a.children().get("agentix-writer"), "a writer")
        answers = {1: ask(a, 1).tokens}
        resource.prlimit(writer, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        assert ask(a, 2).tokens == answers[1]
        a.wait_said("limits.replies_file cannot be written")
        assert a.stop() == 0
        assert not is_alive(writer)


def test_what_was_told_is_known_though_all_were_killed_at_once():
    with Disk() as disk:
        a = Appliance(NOISE, disk.file, SYNC)
        answers = {number: ask(a, number).tokens for number in range(5)}
        kill_all(a)
        with Appliance(NOISE, disk.file, SYNC) as a:
            expect_known(a, answers)
            assert len(ask(a, 100).tokens) == 40


def test_a_core_that_dies_while_an_end_waits_tells_it_later():
    with Disk() as disk, Appliance(NOISE, disk.file, SYNC) as a, Client(a.tcp) as c:
        right, writer = first_and_writer(a, c)
        with stopped(writer):
            held_end(c, 2)
            core = a.core
            os.kill(core, signal.SIGKILL)
            wait_for(lambda: a.children().get("agentix-core") not in (None, core), "another core")
            a.wait_ready()
        assert c.finish(2).check().tokens == right
        assert a.stats()["tokens_generated"] <= 1, "it was not executed again"
