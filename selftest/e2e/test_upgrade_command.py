# SPDX-License-Identifier: MIT
"""agentix --upgrade as a command: when it ends well the new process serves, whatever comes, and
what is sent to the command then is not the appliance's.

Method: as in test_upgrade.py.
"""
import os
import signal

from appliance import HANG_S, NOISE, stop, wait_for
from test_upgrade import Reader, ends, old_yields
from upgrade import Upgrade, family


def test_what_goes_on_is_no_part_of_the_command():
    """Its output ends with the command, and signals for the command's group do not reach it."""
    with family(NOISE) as a:
        reads, writes = os.pipe()
        b = Upgrade(a, NOISE, stdout=writes, start_new_session=True)
        os.close(writes)
        assert os.read(reads, 1) == b""
        os.close(reads)
        assert os.getpgid(b.process.pid) == os.getsid(b.process.pid) == b.process.pid
        assert b.process.pid != b.launcher.pid
        assert b.stop() == 0


def test_a_core_that_dies_as_the_command_ends_has_a_successor():
    """Once the command says that the new process serves, it does, whatever comes."""
    with family(NOISE, "appliance.core_failures=0") as a:
        reader = Reader(a)
        for _ in range(8):
            b = Upgrade(a, NOISE, "appliance.core_failures=0", wait=False)
            wait_for(lambda: "agentix-core" in b.children(), "it has a core")
            core = b.core
            assert b.launcher.wait(HANG_S) == 0, b.lines
            os.kill(core, signal.SIGKILL)
            ends(a)
            b.wait_said("another core takes over")
            b.wait_ready()
            a = b
        reader.ends_well()


def test_a_command_that_is_told_to_end_too_late_ends_nothing():
    """It is stopped while it has its word, and passes the signal on before it reads that."""
    with family(NOISE) as a:
        reader = Reader(a)
        b = old_yields(a)
        stop(b.launcher.pid)
        os.kill(a.core, signal.SIGCONT)
        b.wait_said("this process has all")
        b.launcher.send_signal(signal.SIGTERM)
        os.kill(b.launcher.pid, signal.SIGCONT)
        assert b.launcher.wait(HANG_S) == 0, b.lines
        ends(a)
        b.wait_said("told to end when this process had all")
        reader.ends_well()
        b.wait_ready()
        assert b.said("draining") == 0, b.lines
