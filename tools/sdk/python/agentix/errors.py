# SPDX-License-Identifier: MIT
"""What can go wrong, as exceptions."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Mapping, Optional, Union

from agentix import frames

if TYPE_CHECKING:
    from agentix.call import Reply

# The appliance ends: what is left is the next one's, at the same address.
SHUTDOWN = next(code for code, row in frames.STATUSES.items() if row[0] == "GONE_SHUTDOWN")


class Error(Exception):
    """Of this package, all of them."""


class ProtocolError(Error):
    """The appliance said what it must not say: it is another program, or it is broken."""


class Lost(Error, ConnectionError):
    """The appliance cannot be reached, or it went away and did not come back in time."""


_FLOATS = {name for layout in (*frames.LAYOUTS.values(), *frames.PARTS.values())
           for name, code in layout.items() if code == "f"}


def _value(number: int, field: str) -> Union[int, float]:
    """On the wire floats are signed thousandths."""
    if field not in _FLOATS:
        return number
    return (number - (1 << 64) if number >> 63 else number) / 1000


class Refused(Error):
    """An ERROR frame. `status` is its name, such as BAD_FIELD; `field` the field that it is about;
    found, min and max are what was sent and what is allowed."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.code: int = fields["status"]
        self.status, text = frames.STATUSES.get(self.code, (f"status {self.code}", ""))
        self.field = frames.ERROR_FIELDS.get(fields["field"], "")
        self.frame_type, self.id = fields["frame_type"], fields["call_id"]
        self.closes, self.retry_ms = bool(fields["closes"]), fields["retry_ms"]
        numbers: Any = [_value(fields[name], self.field) for name in ("found", "min", "max")]
        self.found, self.min, self.max = numbers
        said = fields["text"].rstrip(b"\0").decode(errors="replace") or text
        bounds = f" (found {self.found}, allowed {self.min} to {self.max})" if self.max else ""
        about = f"{self.field}: " if self.field not in ("", "none") else ""
        super().__init__(f"{self.status}: {about}{said}{bounds}")

    @property
    def is_busy(self) -> bool:
        """True when the same request may be made again later."""
        return self.status.startswith("BUSY_")


class Failed(Error):
    """What was accepted ended early: a call (`finish` says how) or a row of a workflow. Of a call,
    `reply` is what had come until then, `text` and `tokens` are those of it."""

    def __init__(self, what: str, code: int, finish: Optional[int] = None,
                 reply: Optional[Reply] = None) -> None:
        self.code, self.finish, self.reply = code, finish, reply
        self.status, text = frames.STATUSES.get(code, ("", ""))
        how = {frames.CANCELLED: "cancelled",
               frames.DEADLINE: "its deadline passed"}.get(finish or 0)
        super().__init__(f"{what}: {text or how or 'failed'}")

    @property
    def text(self) -> str:
        return self.reply.text if self.reply is not None else ""

    @property
    def tokens(self) -> List[int]:
        return self.reply.tokens if self.reply is not None else []
