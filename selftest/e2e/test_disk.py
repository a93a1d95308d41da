# SPDX-License-Identifier: MIT
"""A full disk: the appliance writes its log and nothing else, and goes on without it; the client
says that its output is not whole. The disk is a file system of 32 KiB in a mount namespace."""
import os
import signal
import subprocess
import time

from appliance import BUILD, NOISE, Appliance, run, wait_for
from protocol import Client
from skip import Skip, inside
from test_log import LINE

PROMPT = list(range(3, 40))
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")
ON_SMALL_DISK = "mount -t tmpfs -o size=32k none /mnt && exec \"$@\" 2>/mnt/log"


def need_namespace():
    try:
        done = subprocess.run([*NAMESPACE, "sh", "-c", "mount -t tmpfs none /mnt"],
                              capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Skip("needs unshare, of the package util-linux")
    if done.returncode != 0:
        raise Skip("this kernel gives a user no mount namespace: " + done.stderr.strip())


class OnSmallDisk(Appliance):
    """Its log is a file on a small disk of its own: `lines` is what that file holds."""

    def __init__(self, *settings):
        inside(os.getpid(), "root")             # or Skip
        need_namespace()
        super().__init__(*settings, through=(*NAMESPACE, "sh", "-c", ON_SMALL_DISK, "sh"))

    def on_disk(self, name):
        return inside(self.process.pid, "root/mnt/" + name)

    def _read(self):
        while self.process.poll() is None:
            try:
                with open(self.on_disk("log"), errors="replace") as log:
                    self.lines[:] = log.read().split("\n")
            except OSError:
                pass                            # it has not begun, or has ended
            time.sleep(0.01)

    def fill_disk(self):
        """To the last byte."""
        ballast = os.open(self.on_disk("ballast"), os.O_WRONLY | os.O_CREAT)
        try:
            while True:
                os.write(ballast, b"x" * 100)
        except OSError:
            pass
        finally:
            os.close(ballast)


def test_a_full_disk_costs_lines_of_the_log_and_nothing_else():
    with OnSmallDisk(NOISE, "engine.failures=0") as a, Client(a.tcp) as c:
        tokens = c.generate(1, PROMPT, max_tokens=50).check().tokens
        a.fill_disk()
        number = 2
        while a.stats()["log_lines_lost"] < 3:  # each worker that dies is a line, at least
            worker = a.worker
            os.kill(worker, signal.SIGKILL)
            wait_for(lambda: a.children().get("agentix-worker") not in (None, worker), "a worker")
            assert c.generate(number, PROMPT, max_tokens=50).check().tokens == tokens
            number += 1
        a.wait_ready()
        os.unlink(a.on_disk("ballast"))
        os.kill(a.worker, signal.SIGKILL)
        wait_for(lambda: any(" keeper warn log lost=" in line for line in a.lines), "it says so")
        assert c.generate(number, PROMPT, max_tokens=50).check().tokens == tokens
        a.wait_ready()
        cut = [line for line in a.lines if line and not LINE.fullmatch(line)]
        print("%d lines lost; cut: %s" % (a.stats()["log_lines_lost"], cut))
        assert len(cut) <= 1 and not any("lost=" in line for line in cut), cut


def test_output_that_is_not_whole_is_no_success():
    with Appliance(NOISE) as a, open("/dev/full", "w", encoding="utf-8") as full:
        for words in (["ask", "stats"], ["ask", "--all", "events"], ["report"],
                      ["top", "--once"],
                      ["generate", "--prompt", "What do bees make?", "--max-tokens", "4"],
                      ["ping"], ["help"], ["--help"], ["--version"]):
            done = subprocess.run([os.path.join(BUILD, "agx"), "--to", a.to, *words], stdout=full,
                                  stderr=subprocess.PIPE, text=True, check=False,
                                  env=dict(os.environ, AGX_TEXT="%s:%d" % a.text_address))
            assert done.returncode == 1, (words, done.returncode, done.stderr)
            assert "output" in done.stderr, (words, done.stderr)
        done = run("agx", "--to", a.to, "trace", "--seconds", "0", "--out", "/dev/full",
                   env=dict(os.environ, AGX_TEXT="%s:%d" % a.text_address))
        assert done.returncode == 1 and "not all could be written" in done.stderr, done


def test_a_socket_that_finds_no_room_ends_the_boot_with_its_name():
    need_namespace()
    words = [os.path.join(BUILD, "agentix"), "--set", "net.unix=/mnt/s", "--set", "net.tcp=",
             "--set", "text.listen="]
    done = subprocess.run([*NAMESPACE, "sh", "-c",
                           "mount -t tmpfs -o nr_inodes=2 none /mnt && touch /mnt/last && "
                           "exec \"$@\"", "sh", *words],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 69, done
    assert "net.unix = /mnt/s: cannot bind: No space left on device" in done.stderr, done.stderr
