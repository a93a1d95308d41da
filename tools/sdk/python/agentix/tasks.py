# SPDX-License-Identifier: MIT
"""Tasks of this package, which a program does not see."""
from __future__ import annotations

import asyncio
from typing import Any, Coroutine


def background(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """A task of ours that a program leaves behind when it forgets close(): the client warns of that
    (ResourceWarning), and asyncio need not complain of a task that the program does not know."""
    task = asyncio.get_running_loop().create_task(coroutine)
    setattr(task, "_log_destroy_pending", False)
    return task
