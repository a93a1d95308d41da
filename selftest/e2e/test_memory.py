# SPDX-License-Identifier: MIT
"""Nothing grows: memory map and resident set of all three roles are the same before and after many
calls (SOAK_CALLS)."""
import os

from appliance import HANG_S, NOISE, Appliance, run

CALLS = int(os.environ.get("SOAK_CALLS", "1000000"))


def memory(pid):
    """What the kernel says about a process: its mappings and, in KiB, its sizes."""
    maps = open("/proc/%d/maps" % pid).read()
    rollup = dict(line.split()[:2] for line in open("/proc/%d/smaps_rollup" % pid)
                  if line.split()[0] in ("Rss:", "Anonymous:", "Locked:"))
    status = dict(line.split()[:2] for line in open("/proc/%d/status" % pid)
                  if line.split()[0] in ("VmPeak:", "VmSize:", "VmData:"))
    return maps, rollup, status


def load(a, calls):
    done = run("agx", "--to", a.to, "load", "--calls", str(calls), "--in-flight", "64",
               "--max-tokens", "4", timeout=HANG_S * 20)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_many_calls_leave_memory_as_it_was():
    with Appliance(NOISE) as a:
        load(a, 500)
        pids = {"core": a.core, "worker": a.worker, "keeper": a.process.pid}
        before = {role: memory(pid) for role, pid in pids.items()}
        load(a, CALLS)
        after = {role: memory(pid) for role, pid in pids.items()}
        for role in pids:
            assert before[role] == after[role], (role, before[role][1:], after[role][1:])
        stats = a.stats()
        assert stats["calls_completed"] == CALLS + 500
        assert stats["kv_blocks_used"] == 0
        print("  %d calls: %s" % (CALLS, after["core"][1]))
