# SPDX-License-Identifier: MIT
"""Checks of what a caller gives: errors that name the argument, what was given and what is needed.

Types, and what has room on the wire; which values are allowed says the appliance (Refused)."""
from __future__ import annotations

import difflib
import inspect
import math
import os
from typing import Any, Callable, Iterable, Mapping, Optional

U32, U64 = (1 << 32) - 1, (1 << 64) - 1
CLASS_BYTES = 32
MAX_TOKENS = 128                        # of an answer whose length the caller does not say


def whole(name: str, value: Any, most: int = U32) -> int:
    """numpy's numbers are whole numbers too; True is none."""
    if isinstance(value, (bool, str, float)) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}: a whole number is needed, not {value!r}")
    number = int(value)
    if not 0 <= number <= most:
        raise ValueError(f"{name}: {number} is not within 0 to {most}")
    return number


def number(name: str, value: Any) -> float:
    if isinstance(value, (bool, str)) or not (hasattr(value, "__float__") or
                                              hasattr(value, "__index__")):
        raise TypeError(f"{name}: a number is needed, not {value!r}")
    if not math.isfinite(value) or abs(value) > 1e30:
        raise ValueError(f"{name}: {value} is too large, or is no number")
    return float(value)


def known(function: Callable[..., Any], given: Iterable[str], more: Iterable[str]) -> None:
    """`given` are named arguments that the function passes on to what takes those in `more`."""
    wrong = set(given) - set(more)
    if not wrong:
        return
    own = [each.name for each in inspect.signature(function).parameters.values()
           if each.kind == each.KEYWORD_ONLY]
    near = difflib.get_close_matches(min(wrong), [*own, *more], 1)
    raise TypeError(f"{function.__qualname__}() has no argument {min(wrong)}" +
                    (f"; is {near[0]} meant?" if near else ""))


def most_tokens(max: Optional[int], max_tokens: Optional[int]) -> int:
    """The argument has two names: that of the protocol, and a short one."""
    if max is not None and max_tokens is not None:
        raise TypeError("max and max_tokens are two names of one argument; give one of them")
    if max is not None:
        return whole("max", max)
    return MAX_TOKENS if max_tokens is None else whole("max_tokens", max_tokens)


def seconds(name: str, value: Any, most: float) -> float:
    if not 0 <= number(name, value) <= most:
        raise ValueError(f"{name}: {value} is not within 0 to {most} seconds")
    return float(value)


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name}: a text is needed, not {value!r}")
    return value


def path(name: str, value: Any) -> Any:
    """Not the number of an open file, which open() would take."""
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name}: the path of a file is needed, not {value!r}")
    return value


def token_ids(name: str, value: Any) -> list[int]:
    """Of anything that holds whole numbers, but for bytes: those would be a text."""
    if isinstance(value, (bytes, bytearray)) or not hasattr(value, "__iter__"):
        raise TypeError(f"{name}: a text, token ids or a conversation is needed, not {value!r}")
    label = f"{name}: token id"
    return [whole(label, each) for each in value]


def rows(value: Any) -> None:
    """One row is none, though it can be gone through: by its characters, or its columns."""
    if isinstance(value, (str, bytes, Mapping)) or not (hasattr(value, "__iter__") or
                                                        hasattr(value, "__aiter__")):
        raise TypeError(f"rows: a list of rows is needed, not {value!r}")


def class_name(name: str, value: str) -> str:
    """Empty: no class."""
    text(name, value)
    if len(value) > CLASS_BYTES or any(not "!" <= one <= "~" for one in value):
        raise ValueError(f"{name}: {value!r} is no name of at most {CLASS_BYTES} printable ASCII "
                         "characters, without blanks")
    return value
