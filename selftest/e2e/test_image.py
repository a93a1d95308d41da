# SPDX-License-Identifier: MIT
"""The bootable image, in QEMU without KVM: the appliance is the first process of a machine."""
import os
import re
import socket
import tempfile

from appliance import BUILD, run, wait_for
from guest import HANG_S, Machine, make_image
from skip import long


def names_in(path):
    """The names of a cpio archive in the form "newc"."""
    with open(path, "rb") as file:
        archive = file.read()
    names, at = [], 0
    while True:
        size, length = int(archive[at + 54:at + 62], 16), int(archive[at + 94:at + 102], 16)
        name = archive[at + 110:at + 110 + length - 1].decode()
        if name == "TRAILER!!!":
            return names
        names.append(name)
        at += (110 + length + 3) // 4 * 4 + (size + 3) // 4 * 4


def agx(machine, folder, *words):
    return run("agx", "--to", "127.0.0.1:%d" % machine.port, "--key-file",
               os.path.join(folder, "agentix.keys"), *words, timeout=HANG_S)


def health(machine):
    """The machine's text port answers this to the address that it knows as its host's."""
    try:
        with socket.create_connection(("127.0.0.1", machine.text_port), timeout=HANG_S) as s:
            s.sendall(b"health\n")
            return s.makefile().readline()
    except OSError:
        return ""


def generate(machine, folder):
    answer = agx(machine, folder, "generate", "--prompt", "User: What do bees make?\n",
                 "--max-tokens", "12")
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@long
def test_an_image_boots_tests_itself_serves_survives_its_worker_and_powers_off():
    with tempfile.TemporaryDirectory(prefix="agentix-e2e-") as folder:
        make_image(folder, "--init", os.path.join(BUILD, "killer"))
        with Machine(folder) as m:
            m.wait_said("PASS: .* of .* checks")
            m.wait_said("up_ms=.* ready$")
            first = generate(m, folder)
            assert wait_for(lambda: health(m), "it says how it is", HANG_S)
            worker = m.kill("agentix-worker")
            m.wait_said("worker died pid=%d signal=9" % worker)
            assert generate(m, folder) == first
            assert m.kill("exe") > 1    # the keeper, by the name in /proc/self/exe
            m.wait_said("the appliance has ended: status=-1 signal=9")
            wait_for(lambda: sum(line.endswith(" ready") for line in m.time_line()) == 2,
                     "it is ready again", HANG_S)
            assert generate(m, folder) == first
            m.press_power()
            m.wait_said("keeper info draining")
            m.wait_off()
            assert m.time_line()[-1].endswith("power off")
            print("\n".join(m.time_line()))


@long
def test_ctrl_alt_del_drains_and_restarts():
    with tempfile.TemporaryDirectory(prefix="agentix-e2e-") as folder:
        make_image(folder)
        with Machine(folder, "selftest=none") as m:
            m.wait_said("up_ms=.* ready$")
            m.press_keys("ctrl-alt-delete")
            m.wait_said("keeper info draining")
            m.wait_off()                                # QEMU ends where a machine would restart
            assert m.time_line()[-1].endswith("restart")


@long
def test_an_image_that_cannot_serve_says_why_and_powers_off():
    with tempfile.TemporaryDirectory(prefix="agentix-e2e-") as folder:
        make_image(folder)
        with Machine(folder, "selftest=none", "--", "--set", "kv.block_tokens=9") as m:
            m.wait_said("kv.block_tokens = 9: not a multiple of 8")
            m.wait_off()


def test_an_image_holds_no_program_but_its_init():
    with tempfile.TemporaryDirectory(prefix="agentix-e2e-") as folder:
        make_image(folder)
        names = names_in(os.path.join(folder, "initramfs.cpio"))
        others = [name for name in names if not re.match(r"modules/[a-z_]+\.ko$", name)]
        assert sorted(others) == ["dev", "etc", "etc/agentix.ini", "etc/agentix.keys", "init",
                                  "modules", "modules/order", "proc", "sys", "tmp"], names
        before = open(os.path.join(folder, "initramfs.cpio"), "rb").read()
        make_image(folder)
        assert open(os.path.join(folder, "initramfs.cpio"), "rb").read() == before
