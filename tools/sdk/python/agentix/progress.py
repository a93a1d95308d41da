# SPDX-License-Identifier: MIT
"""How far a run is, for people."""
from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentix.run import Run


class Progress:
    """A bar on stderr; where that is no terminal, a line at the end."""

    WIDTH = 30

    def __call__(self, run: Run) -> None:
        line = (f"{run.done} of {run.total} rows, {run.calls} calls, "
                f"{run.shared + run.fetched} saved" + ("\n" if run.is_over else ""))
        if sys.stderr.isatty():
            filled = self.WIDTH * run.done // max(1, run.total)
            sys.stderr.write(f"\r{'#' * filled:<{self.WIDTH}} {line}")
            sys.stderr.flush()
        elif run.is_over:
            sys.stderr.write(line)
