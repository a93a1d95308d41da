#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""usage: completion.py PROGRAM

Writes the completion of bash(1) for the program, from the tables of its options: what `PROGRAM
--help=markdown` prints, and for `agentix` tables of build/docgen. Values are completed where they
are words of a choice, files, or options of the configuration after --set."""
import os
import re
import sys

from manual import output
from page import blocks

FILES = ("FILE", "PATH", "MODEL", "TRACE", "ROWS")
FUNCTION = """# SPDX-License-Identifier: MIT
# Completion of {program} for bash; made by tools/package/completion.py.
{function}()
{{
    local -A options=({options})
    local -A values=({values})
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} lead= command= at
    # bash makes a word of each `=`, of --option=value and of --set section.key=value.
    at=$COMP_CWORD
    if [ "$word" = = ]; then word= before==; else at=$((at - 1)); fi
    if [ "$before" = = ]; then
        before=${{COMP_WORDS[at - 1]}}
        case "$before" in --*) ;; *) lead=$before= before=${{COMP_WORDS[at - 2]}} ;; esac
    fi
    for ((at = 1; at < COMP_CWORD; at++)); do
        if [ -n "${{options[${{COMP_WORDS[at]}}]-}}" ]; then command=${{COMP_WORDS[at]}}; break; fi
    done
    local known=${{values[$command $before]-}}
    case "$known" in
    files) compopt -o default; COMPREPLY=() ;;
    any) COMPREPLY=() ;;
    ?*) COMPREPLY=($(compgen -W "$known" -- "$lead$word"))
        COMPREPLY=("${{COMPREPLY[@]#"$lead"}}")
        case "${{COMPREPLY-}}" in *=) compopt -o nospace ;; esac ;;
    *) COMPREPLY=($(compgen -W "${{options[${{command:-main}}]}}" -- "$word")) ;;
    esac
}}
complete -F {function} {program}
"""


def rows_of(text):
    """(option, name of its value, allowed words) of each option that a page has."""
    for kind, content in blocks(text):
        if kind == "table" and content[0][0] in ("option", "argument"):
            for row in content[1:]:
                name, _, value = row[0].strip("`").replace("[=", " ").partition(" ")
                words = re.findall(r"`([^`]+)`", row[1]) if len(row) == 3 else []
                yield name, value.rstrip("]"), words


def assignments():
    """What may stand behind --set: section.key=, with each word of a choice."""
    section = ""
    for kind, content in blocks(output("build/docgen", "config")):
        if kind == "heading":
            section = content[1].strip("[]")
        if kind == "table":
            for row in content[1:]:
                key = f"{section}.{row[0].strip('`')}="
                yield from ([key + word for word in row[3].split("|")] if row[1] == "choice" else
                            [key])


def pages_of(program):
    """The page of options of the program, named main, and those of its commands."""
    name = os.path.basename(program)
    if name == "agentix":
        return {"main": output("build/docgen", "table", "arguments")}
    own = output(program, "--help=markdown")
    commands = [word for word in re.findall(r"^      (\w+)  +\S", own, re.M) if word != "help"]
    return {"main": own} | {each: output(program, each, "--help=markdown") for each in commands}


def main(program):
    pages = pages_of(program)
    options, values = {}, {}
    for command, text in pages.items():
        rows = list(rows_of(text))
        options[command] = " ".join([row[0] for row in rows] + ["--help"] * (command != "main"))
        for name, value, words in rows:
            of = "" if command == "main" else command
            known = " ".join(assignments()) if name == "--set" else " ".join(words) or \
                ("files" if value in FILES else "any" if value else "")
            if known:
                values[f"{of} {name}"] = known
    options["main"] += " " + " ".join(name for name in pages if name != "main")

    def array(entries):
        return "".join(f'\n        ["{key}"]="{entry}"' for key, entry in entries.items())
    name = os.path.basename(program)
    print(FUNCTION.format(program=name, function="_" + name.replace("-", "_"),
                          options=array(options), values=array(values)), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
