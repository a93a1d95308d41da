# SPDX-License-Identifier: MIT
"""Which thread of its program a request belongs to, found out where the request is made: code that
knows nothing of programs runs its parallel calls in asyncio tasks, or in threads."""
from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import weakref
from typing import Any, Dict, Iterator, Optional

_CHOSEN: contextvars.ContextVar[Optional[int]] = contextvars.ContextVar("agentix_thread",
                                                                        default=None)


@contextlib.contextmanager
def thread(number: int) -> Iterator[None]:
    """Requests that are made in the block, and in tasks that start in it, are of this thread."""
    token = _CHOSEN.set(number)
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def _strand() -> Any:
    """The task that runs here, or else the thread."""
    try:
        return asyncio.current_task() or threading.current_thread()
    except RuntimeError:                    # there is no event loop
        return threading.current_thread()


def _is_over(strand: Any) -> bool:
    if isinstance(strand, asyncio.Task):
        return strand.done()
    return strand is None or not strand.is_alive()


class Threads:
    """The threads of one program. Each task, and each thread of Python, has a number of its own,
    the least that is free: those of tasks that are over are given again."""

    def __init__(self) -> None:
        self._strands: Dict[int, weakref.ref[Any]] = {}     # by number
        self._lock = threading.Lock()

    def current(self) -> int:
        """The number of thread(), or else that of the task that asks."""
        chosen = _CHOSEN.get()
        return self._number_of(_strand()) if chosen is None else chosen

    def _number_of(self, strand: Any) -> int:
        with self._lock:
            free = None
            for number in range(len(self._strands) + 1):
                known = self._strands[number]() if number in self._strands else None
                if known is strand:
                    return number
                if free is None and _is_over(known):
                    free = number
            assert free is not None         # the last number of the range is new
            self._strands[free] = weakref.ref(strand)
            return free
