#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes config/unicode_table.c: which code points are letters, numbers, white space.

The table is checked in, so a build needs neither this program nor a certain Python. It follows
Unicode 15.1.0, the data of Python 3.13; another version is refused, because the tokenizers of
published models were made with that one.

    python3.13 tools/mkunicode.py > config/unicode_table.c
"""
import sys
import unicodedata

VERSION = "15.1.0"
OTHER, LETTER, NUMBER, SPACE = range(4)
# White_Space of PropList.txt: `\s` of regular expressions.
SPACES = {9, 10, 11, 12, 13, 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029,
          0x202F, 0x205F, 0x3000}


def class_of(code):
    if code in SPACES:
        return SPACE
    return {"L": LETTER, "N": NUMBER}.get(unicodedata.category(chr(code))[0], OTHER)


def main():
    if unicodedata.unidata_version != VERSION:
        sys.exit(f"needs Unicode {VERSION}, this Python has {unicodedata.unidata_version}")
    runs, last = [], None
    for code in range(0x110000):
        kind = class_of(code)
        if kind != last:
            runs.append(code << 2 | kind)
            last = kind
    print("/* SPDX-License-Identifier: MIT */")
    print("/*\n * What: runs of code points of one class, Unicode " + VERSION + "; generated:")
    print(" *     python3.13 tools/mkunicode.py > config/unicode_table.c")
    print(" * Each entry is (first code point << 2 | enum unicode_class); a run ends where")
    print(" * the next begins.\n */")
    print('#include "config/unicode.h"\n')
    print(f"const uint32_t unicode_runs_count = {len(runs)};")
    print("const uint32_t unicode_runs[] = {")
    for i in range(0, len(runs), 10):
        print("    " + " ".join(f"0x{run:x}," for run in runs[i:i + 10]))
    print("};")


main()
