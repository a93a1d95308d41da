# SPDX-License-Identifier: MIT
"""Tasks that examine the embedded model, and that its training has not seen (tools/model)."""
import os
import subprocess
import sys

from appliance import HANG_S, ROOT

MODEL = os.path.join(ROOT, "tools", "model")
SEED = "2"


def task_file(count):
    """`count` tasks as `agx agent` reads them."""
    done = subprocess.run([os.path.join(MODEL, "eval"), "--write", "--tasks", str(count), "--seed",
                           SEED], text=True, capture_output=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def prompts(count):
    """The text before one answer of each of these tasks: of its first call, its second, ..."""
    sys.path.insert(0, MODEL)
    import tasks
    texts = []
    for i in range(count):
        calls = tasks.draw(tasks.TEST, "%s/%d" % (SEED, i)).transcripts[0]
        before = calls[:i % len(calls)]
        texts.append("".join(a + b for a, b in before) + calls[len(before)][0])
    return texts
