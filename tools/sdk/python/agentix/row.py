# SPDX-License-Identifier: MIT
"""A row of a workflow: on its way, and done."""
from __future__ import annotations

import asyncio
from typing import Any, Dict, List, Optional

from agentix import frames, wire
from agentix.errors import Error, ProtocolError


class Row:
    """A row that is done. `row["name"]` is the text of an output; it raises `error` where the row
    has failed before it. `calls` were executed for it, `shared` with others, `fetched` from the
    appliance's cache."""

    def __init__(self, number: int, inputs: Dict[str, str]) -> None:
        self.number, self.inputs = number, inputs
        self.tokens: Dict[str, List[int]] = {}
        self.texts: Dict[str, str] = {}
        self.error: Optional[Error] = None
        self.calls = self.shared = self.fetched = 0

    def __getitem__(self, name: str) -> str:
        if name not in self.texts and self.error is not None:
            raise self.error
        return self.texts[name]

    def __repr__(self) -> str:
        return f"<row {self.number}: {self.error or self.texts}>"


class OpenRow:
    """A row that is on its way."""

    def __init__(self, number: int, inputs: Dict[str, str], payload: bytes) -> None:
        self.number, self.inputs, self.frame = number, inputs, wire.frame(frames.ROW, payload)
        # By node: the task of its function.
        self.answers: Dict[int, asyncio.Task[Optional[str]]] = {}
        self.functions_error: Optional[Exception] = None
        self.values: Dict[int, List[Any]] = {}          # by output: tokens, text, is it whole
        self.questions: Dict[int, bytearray] = {}       # by node

    def forget(self) -> None:
        """What this connection has brought."""
        self.values, self.questions = {}, {}

    def value(self, got: wire.Fields, tokens: List[int], text: bytes) -> List[Any]:
        known = self.values.setdefault(got["output"], [[], bytearray(), False])
        if got["first_index"] == 0 and not known[2]:
            known[0], known[1] = [], bytearray()
        if got["first_index"] != len(known[0]):
            raise ProtocolError("a token of a value is missing, or comes twice")
        known[0] += tokens
        known[1] += text
        known[2] = bool(got["flags"] & frames.LAST)
        return known

    def digest(self) -> int:
        return wire.digest(b"".join(wire.ids(self.values[output][0])
                                    for output in sorted(self.values)))
