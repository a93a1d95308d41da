# SPDX-License-Identifier: MIT
"""Why a test does not run: something is missing, or it takes too long for `make test`."""
import os

from appliance import SHARED


class Skip(Exception):
    """Raised where a test cannot run; says why."""


def long(test):
    """Decorates a test that `make test-long` runs, and `make test` does not."""
    test.is_long = True
    return test


def is_long(test):
    return getattr(test, "is_long", False)


def shared(path):
    """A file of the optional shared test data, which is of others, or Skip."""
    full = os.path.join(SHARED, path)
    if not os.path.exists(full):
        raise Skip("no ../shared/%s: only data of others can prove this" % path)
    return full


def inside(pid, entry):
    """/proc/PID/ENTRY, which only root may read, or Skip."""
    if os.geteuid() != 0:
        raise Skip("needs root, to look into the appliance")
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
