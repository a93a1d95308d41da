# SPDX-License-Identifier: MIT
"""A control group of the test's own, which limits memory; of version 1 or 2."""
import os

from skip import Skip


class ControlGroup:
    """`with ControlGroup(bytes) as g:` and then preexec_fn=g.enter; Skip where that is not
    allowed. All processes in it have ended when the block ends."""

    def __init__(self, limit_bytes):
        self.one = os.path.isdir("/sys/fs/cgroup/memory")
        self.path = "/sys/fs/cgroup/%sagentix-e2e-%d" % ("memory/" if self.one else "",
                                                         os.getpid())
        self.limit_bytes = limit_bytes

    def __enter__(self):
        try:
            os.mkdir(self.path)
        except OSError as error:
            raise Skip("needs root and a writable /sys/fs/cgroup: %s" % error)
        limit = os.path.join(self.path, "memory.limit_in_bytes" if self.one else "memory.max")
        if not os.path.exists(limit):
            os.rmdir(self.path)
            raise Skip("control groups do not limit memory here")
        with open(limit, "w", encoding="ascii") as file:
            file.write(str(self.limit_bytes))
        return self

    def __exit__(self, *_):
        os.rmdir(self.path)

    def enter(self):
        with open(os.path.join(self.path, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write("0")

    def kills(self):
        """How many processes the kernel has killed for want of memory."""
        name = "memory.oom_control" if self.one else "memory.events"
        with open(os.path.join(self.path, name), encoding="ascii") as file:
            rows = dict(line.split() for line in file)
        if "oom_kill" not in rows:
            raise Skip("this kernel does not count whom it kills for want of memory")
        return int(rows["oom_kill"])
