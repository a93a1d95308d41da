#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds the wheel of package `agentix`, by the standard library alone: a wheel of pure Python is a
zip file with three pages about itself. The same sources give the same bytes.

usage: wheel.py FOLDER
    or by pip, whose build backend this is (PEP 517): pip install tools/sdk/python"""
from __future__ import annotations

import base64
import hashlib
import os
import re
import sys
import zipfile
from typing import Any, Dict, Optional

HERE = os.path.dirname(os.path.abspath(__file__))
LONG_AGO = (1980, 1, 1, 0, 0, 0)        # the earliest that a zip file knows
METADATA = """Metadata-Version: 2.1
Name: agentix
Version: {version}
Summary: Client of the Agentix appliance: calls, programs of calls, and workflows
License: MIT
Requires-Python: >=3.9
"""
WHEEL = """Wheel-Version: 1.0
Generator: agentix
Root-Is-Purelib: true
Tag: py3-none-any
"""


def version() -> str:
    with open(os.path.join(HERE, "agentix", "__init__.py"), encoding="utf-8") as file:
        found = re.search(r'^__version__ = "(.+)"$', file.read(), re.M)
    assert found is not None
    return found.group(1)


def sources() -> Dict[str, bytes]:
    """The files of the package by their names."""
    names = sorted(name for name in os.listdir(os.path.join(HERE, "agentix"))
                   if name.endswith(".py") or name == "py.typed")
    found = {}
    for name in names:
        with open(os.path.join(HERE, "agentix", name), "rb") as file:
            found["agentix/" + name] = file.read()
    return found


def record(files: Dict[str, bytes], own_name: str) -> bytes:
    """The list of all files with their digests, in which the list itself has none."""
    lines = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join([*lines, f"{own_name},,\n"]).encode()


def build_wheel(wheel_directory: str, config_settings: Optional[Dict[str, Any]] = None,
                metadata_directory: Optional[str] = None) -> str:
    """Returns the name of the file in that folder."""
    about = f"agentix-{version()}.dist-info/"
    files = {**sources(), about + "METADATA": METADATA.format(version=version()).encode(),
             about + "WHEEL": WHEEL.encode()}
    files[about + "RECORD"] = record(files, about + "RECORD")
    name = f"agentix-{version()}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, LONG_AGO)
            entry.external_attr = 0o100644 << 16
            wheel.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return name


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(os.path.join(sys.argv[1], build_wheel(sys.argv[1])))
