#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes what kernels/cuda/images.h declares, from the images that nvcc has made.

    mkimages.py table NVCC FILE.ARCH.SUFFIX...      C: the list; NVCC may be empty
    mkimages.py data FILE.ARCH.SUFFIX...            assembly: the bytes, in the same order"""
import os
import re
import subprocess
import sys

TABLE = """/* Made by tools/mkimages.py. */
#include "kernels/cuda/images.h"

const struct image images[] = {{
{rows}    {{0, 0, 0}},
}};
const uint32_t images_count = {count};
const uint32_t images_toolkit = {toolkit};
"""
IMAGE = """    .balign 64
.Limage_{index}:
    .incbin "{path}"
    .byte 0
"""
DATA = """/* Made by tools/mkimages.py. */
    .section .rodata
{images}    .section .data.rel.ro, "aw"
    .balign 8
    .global images_data
images_data:
{addresses}    .quad 0
    .section .note.GNU-stack,"",@progbits
"""


def toolkit_version(nvcc):
    """13000 for CUDA 13.0; 0 without nvcc."""
    if not nvcc:
        return 0
    text = subprocess.run([nvcc, "--version"], check=True, capture_output=True, text=True).stdout
    major, minor = re.search(r"release (\d+)\.(\d+)", text).groups()
    return int(major) * 1000 + int(minor) * 10


def write_table(nvcc, paths):
    rows = ""
    for path in paths:
        file, arch, _ = os.path.basename(path).split(".")
        rows += f'    {{"{file}", "{arch}", {os.path.getsize(path)}}},\n'
    print(TABLE.format(rows=rows, count=len(paths), toolkit=toolkit_version(nvcc)), end="")


def write_data(paths):
    images = "".join(IMAGE.format(index=index, path=path) for index, path in enumerate(paths))
    addresses = "".join(f"    .quad .Limage_{index}\n" for index in range(len(paths)))
    print(DATA.format(images=images, addresses=addresses), end="")


if __name__ == "__main__":
    if sys.argv[1] == "table":
        write_table(sys.argv[2], sys.argv[3:])
    else:
        write_data(sys.argv[2:])
