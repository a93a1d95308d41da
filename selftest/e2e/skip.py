# SPDX-License-Identifier: MIT
import os

from appliance import SHARED


class Skip(Exception):
    """Raised where a test cannot run; says why."""


def shared(path):
    """A file of the optional shared test data, or Skip."""
    full = os.path.join(SHARED, path)
    if not os.path.exists(full):
        raise Skip("no shared test data: " + path)
    return full


def inside(pid, entry):
    """/proc/PID/ENTRY, which only root may read, or Skip."""
    if os.geteuid() != 0:
        raise Skip("looking into the appliance needs root")
    return "/proc/%d/%s" % (pid, entry)


def open_files(pid):
    """The targets of a process's open descriptors. One that closes meanwhile is left out."""
    names = []
    for descriptor in os.listdir(inside(pid, "fd")):
        try:
            names.append(os.readlink(inside(pid, "fd/" + descriptor)))
        except FileNotFoundError:
            pass
    return names
