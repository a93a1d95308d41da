#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the tables of config/vocab/unicode.h from the data files of Debian's unicode-data: the
code points that are letters, numbers, punctuation, white space.

    config/vocab/mkunicode.py >build/unicode_classes.c

Data of another version than the one below are refused (decision 0035): the same text would have
other tokens, and the build would not show it."""
import hashlib
import sys

FOLDER, VERSION = "/usr/share/unicode", "15.0.0"
DIGESTS = {
    "UnicodeData.txt": "806e9aed65037197f1ec85e12be6e8cd870fc5608b4de0fffd990f689f376a73",
    "PropList.txt": "e05c0a2811d113dae4abd832884199a3ea8d187ee1b872d8240a788a96540bfd",
}
CODES, PAGE = 0x110000, 256
CLASSES = {"L": "LETTER", "N": "NUMBER", "P": "PUNCTUATION", "W": "SPACE", "O": "OTHER"}


def read(name):
    """The fields of each line that is not empty."""
    path = f"{FOLDER}/{name}"
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        sys.exit(f"mkunicode: {path}: {error.strerror}; install Debian's package unicode-data")
    if hashlib.sha256(content).hexdigest() != DIGESTS[name]:
        sys.exit(f"mkunicode: {path}: is not that of Unicode {VERSION}, which Debian 12 has")
    lines = (line.split("#")[0].strip() for line in content.decode().split("\n"))
    return [[field.strip() for field in line.split(";")] for line in lines if line]


def code_classes():
    classes, first = ["O"] * CODES, 0
    for code, name, category, *_ in read("UnicodeData.txt"):
        code = int(code, 16)
        first = first if name.endswith(", Last>") else code     # a range is two lines
        letter = category[0] if category[0] in "LNP" else "O"
        classes[first:code + 1] = [letter] * (code + 1 - first)
    for codes, name in read("PropList.txt"):
        if name == "White_Space":
            first, _, last = codes.partition("..")
            first, last = int(first, 16), int(last or first, 16)
            classes[first:last + 1] = ["W"] * (last + 1 - first)
    return classes


def write(declaration, values, columns):
    print(f"\nconst uint8_t {declaration} = {{")
    for i in range(0, len(values), columns):
        print("    " + " ".join(f"{value}," for value in values[i:i + columns]))
    print("};")


def main():
    classes = code_classes()
    pages, index = {}, []               # pages in the order of their first code point
    for first in range(0, CODES, PAGE):
        page = tuple(classes[first:first + PAGE])
        index.append(pages.setdefault(page, len(pages)))
    assert len(pages) <= 256
    print(f"/* Classes of code points, Unicode {VERSION}; written by config/vocab/mkunicode.py. */")
    print('#include "config/vocab/unicode.h"')
    print("\nenum {" + ", ".join(f"{c} = UNICODE_{name}" for c, name in CLASSES.items()) + "};")
    write(f"unicode_pages[{len(index)}]", index, 20)
    write("unicode_classes[]", [c for page in pages for c in page], 32)
    print(f"  UNICODE {VERSION}, {len(pages)} pages", file=sys.stderr)


main()
