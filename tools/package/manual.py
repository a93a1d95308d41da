#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""usage: manual.py PAGE.md [PROGRAM]

Writes a page of the manual for man(1). A page in this folder begins with its name, section and
purpose, `# agx(1): client`; for those of docs the table below has that line. Two marks ask for
what tables of the code say:

  <!-- table: NAME -->      a table of build/docgen
  <!-- options -->          the options of PROGRAM, and of each of its commands"""
import os
import re
import subprocess
import sys

from page import plain, roff

HERE = os.path.dirname(os.path.abspath(__file__))
OF_DOCS = {
    "docs/config.md": "agentix.ini(5): configuration of the Agentix appliance",
    "docs/protocol.md": "agentix-protocol(7): binary protocol of the Agentix appliance",
}
SEE_ALSO = ("agentix(1)", "agx(1)", "agentix-door(1)", "agentix.ini(5)", "agentix-protocol(7)")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def options(program):
    """The options of the program; behind them those of its commands, which its help lists."""
    own = output(program, "--help=markdown")
    pages = [own]
    for name in re.findall(r"^      (\w+)  +\S", own, re.M):
        if name != "help":
            pages.append(f"### {name}\n\n" + output(program, name, "--help=markdown"))
    return "\n".join(pages)


def read(path, program):
    """(name, section, purpose, text)."""
    with open(path, encoding="utf-8") as file:
        first, text = file.read().split("\n", 1)
    title = OF_DOCS.get(path)
    if title:
        text = "## Description\n" + re.sub(r"^Made from .*\n", "", text, flags=re.M)
    found = re.match(r"(\S+)\((\d)\): (.*)", title or first.lstrip("# "))
    text = re.sub(r"<!-- table: (\w+) -->",
                  lambda mark: output("build/docgen", "table", mark.group(1)), text)
    return (*found.groups(), text.replace("<!-- options -->", options(program) if program else ""))


def main(path, program=None):
    name, section, purpose, text = read(path, program)
    version, date = output(os.path.join(HERE, "version")).split()
    others = [other for other in SEE_ALSO if other != f"{name}({section})"]
    print("'\\\" t")
    print(f".\\\" SPDX-License-Identifier: MIT; made from {path}")
    print(f'.TH {plain(name.upper())} {section} {date} "Agentix {version}" "Agentix"')
    print(".ad l\n.nh\n.if n .pl 32000")  # on a terminal no page ends within a table
    print(f".SH NAME\n{plain(name)} \\- {plain(purpose)}")
    print("\n".join(roff(text)))
    print(".SH SEE ALSO")
    print(",\n".join("\\fB" + other.replace("(", "\\fR(") for other in others))
    print(".PP\nPages that are named as docs/NAME.md are in\n.IR share/doc/agentix ,\n"
          "below the prefix of the installation (/usr).")


if __name__ == "__main__":
    main(*sys.argv[1:])
