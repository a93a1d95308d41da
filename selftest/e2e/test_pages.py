# SPDX-License-Identifier: MIT
"""Commands of the pages do what they say when they are pasted into a shell at the top of the tree.

Method: each block of a page whose first line is a command is given to bash, in the order of the
page, with an appliance and a door at addresses of their own. A line with a word in capitals that
the reader has to fill in is left out; so are lines that start servers, install or build.
"""
import os
import re
import subprocess

from appliance import BUILD, HANG_S, ROOT, Appliance
from door import Door

COMMAND = re.compile(r"(build/|tools/|printf |curl )")
QUOTED_OR_SAID = re.compile(r"'[^']*'|\"[^\"]*\"|#.*")
FILL_IN = re.compile(r"(?<![\w$])[A-Z]{3,}")
SERVERS = re.compile(r"&\s*(#|$)|build/agx (chat|top)|measure\.py|tools/setup")
PAGES = {"README.md": 1, "docs/traces.md": 5, "docs/lab.md": 5, "docs/chat.md": 2,
         "docs/workflows.md": 3, "docs/door.md": 1}


def is_left_out(line):
    return FILL_IN.search(QUOTED_OR_SAID.sub("", line)) or SERVERS.search(line)


def blocks(text):
    """Lines of code that stand together, as they would be pasted."""
    for block in re.findall(r"(?:^ {4}.*\n)+", text, re.M):
        lines = [line[4:] for line in block.splitlines()]
        if COMMAND.match(lines[0]):
            yield re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()


def test_commands_of_the_pages_run_as_they_are_pasted():
    with Appliance() as a, Door(a=a) as d:
        addresses = {**os.environ, "AGX_TO": a.to, "AGX_TEXT": "%s:%d" % a.text_address}
        for page, least in PAGES.items():
            with open(os.path.join(ROOT, page), encoding="utf-8") as file:
                given = [[line for line in lines if not is_left_out(line)]
                         for lines in blocks(file.read())]
            assert sum(len(lines) for lines in given) >= least, (page, given)
            for lines in given:
                text = "\n".join(lines).replace("127.0.0.1:8080", "127.0.0.1:%d" % d.port)
                text = re.sub(r"(?m)^build/", BUILD + "/", text)
                done = subprocess.run(["bash", "-euc", text], text=True, capture_output=True,
                                      cwd=ROOT, env=addresses, timeout=2 * HANG_S)
                assert done.returncode == 0, (page, text, done.stderr)
                assert '"error"' not in done.stdout, (page, text, done.stdout)
