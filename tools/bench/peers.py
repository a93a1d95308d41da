# SPDX-License-Identifier: MIT
"""Peers, and the models that all engines read, for the scripts that compare.

A peer is a folder with binaries of llama.cpp or of a fork, as their builds leave them in bin/, and
with `llamacpp` (tools/bench/llamacpp.cpp says how to build it). A missing binary is not
measured."""
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

BUILD = Path(__file__).resolve().parents[2] / "build"
SHAPES = "15m,110m,1.1b"
TYPES = "f32,f16,bf16,q8_0,q4_0,q4_k,q6_k"


class NotMeasured(Exception):
    """Why there is no figure."""


class Peer:
    def __init__(self, text):
        name, _, folder = text.rpartition("=")
        self.folder = Path(folder).resolve()
        self.name = name or self.folder.name
        if not self.folder.is_dir():
            sys.exit(f"{folder}: no such folder")

    def tool(self, name):
        path = self.folder / name
        if not os.access(path, os.X_OK):
            raise NotMeasured(f"{self.folder} has no {name}")
        return path

    def repacks(self, tool):
        """The switch with which it repacks weights at load, if it has one."""
        asked = launch(tool, "--help")
        return ["-rtr"] if "-rtr," in asked.stdout + asked.stderr else []


def add_arguments(parser, shapes, types):
    parser.add_argument("--peer-bin", type=Peer, action="append", default=[], metavar="[NAME=]DIR",
                        help="programs of a peer; repeatable")
    parser.add_argument("--shapes", default=shapes, help=f"of {SHAPES} (default: {shapes})")
    parser.add_argument("--types", default=types, help=f"of {TYPES} (default: {types})")
    parser.add_argument("--threads", type=int, default=os.cpu_count())


def launch(*words, lines=None):
    """Runs in a folder of its own, because some peers leave a log there."""
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([str(word) for word in words], text=True, capture_output=True,
                              input=lines, cwd=folder)


def run(*words, lines=None, both=False):
    """Its output, with stderr if `both`; or raises with the cause."""
    done = launch(*words, lines=lines)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit {done.returncode}")
        raise NotMeasured(f"{Path(words[0]).name}: {said.splitlines()[-1]}")
    return done.stdout + (done.stderr if both else "")


def model(shape, kind):
    """Random weights of a shape in a type: made once, kept in build/."""
    path = BUILD / (f"model-{shape}.gguf" if kind == "f32" else f"model-{shape}-{kind}.gguf")
    if not path.exists():
        fresh = path.with_suffix(f".{os.getpid()}")      # two scripts may be at it
        run(BUILD / "tools" / "mkmodel", "--out", fresh, "--preset", shape, "--type", kind,
            "--seed", 1)
        fresh.rename(path)
    return path


def spread(values, digits=2):
    return (f"{statistics.median(values):.{digits}f} "
            f"({min(values):.{digits}f} to {max(values):.{digits}f})")
