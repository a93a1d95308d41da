# SPDX-License-Identifier: MIT
"""Nodes of a workflow in texts. A node that is formatted becomes a marker: a name of its own
between two private characters, which no other text has. Here markers are found again.

What is left of a marker that was altered would reach the model as noise, so it is refused. The
name has letters of both cases, so no upper(), lower() or title() leaves it as it is."""
from __future__ import annotations

import re
import secrets
from typing import Iterator, Tuple

BEFORE, AFTER = "\ue0a6", "\ue0a7"
_WHOLE = re.compile(f"{BEFORE}(aGx[0-9a-f]{{24}}){AFTER}")
# The private characters, how json.dumps() and repr() write them, or most of a name.
_TRACE = re.compile(f"[{BEFORE}{AFTER}]" r"|\\ue0a[67]|agx[0-9a-f]{16}", re.I)
_NEAR = 24


def draw() -> str:
    """A name that no other node has."""
    return "aGx" + secrets.token_hex(12)


def of(name: str) -> str:
    return BEFORE + name + AFTER


def split(text: str) -> Iterator[Tuple[bool, str]]:
    """The parts of a text: (True, the name of a node) or (False, a text)."""
    for i, part in enumerate(_WHOLE.split(text)):
        if i % 2 == 0:
            _check(part)
        yield i % 2 == 1, part


def has_trace(text: str) -> bool:
    """True when a node, or what is left of one, is in the text."""
    return _TRACE.search(text) is not None


def _check(text: str) -> None:
    trace = _TRACE.search(text)
    if trace is not None:
        near = text[max(0, trace.start() - _NEAR):trace.end() + _NEAR]
        raise ValueError(
            f"the text of a node was altered, near {near!a}. A node in a text stands for a value "
            "that is not known yet, so its text must stay as it is: put it in by {} or +, without "
            "!r and =, and leave the change to a function, flow.apply()")
