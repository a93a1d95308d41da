# SPDX-License-Identifier: MIT
"""What puts the requests of other HTTP clients into a program: headers, which the appliance's HTTP
front door reads.

The transports are transports of httpx without being classes of it: httpx asks for these methods
only, and the newer clients use its successor, httpx2. So this file imports neither; the transport
that a request goes on to is of the library that has made the request."""
from __future__ import annotations

import sys
from typing import Any, Dict, Optional

from agentix import arguments
from agentix.threads import Threads

PROGRAM, THREAD, CLASS = "X-Agentix-Program", "X-Agentix-Thread", "X-Agentix-Class"
END = "X-Agentix-End"


def headers(program: str, thread: Optional[int] = None, agent: str = "", *,
            end: bool = False) -> Dict[str, str]:
    """Of a request of this program. `agent` is the class of the program. `end`: the program ends
    with this request; without one, the door ends it when it has been idle for long."""
    for value in (program, agent):
        if not value.isascii() or value and not value.isprintable():
            raise ValueError(f"{value!r}: a header has printable ASCII characters only")
    if not program:
        raise ValueError("a program has a name")
    made = {PROGRAM: program}
    if thread is not None:
        made[THREAD] = str(arguments.whole("thread", thread))
    if agent:
        made[CLASS] = agent
    if end:
        made[END] = "1"
    return made


class _Marking:
    """Puts the headers on requests; those that a request has already stay."""

    INNER = ""                              # the class of httpx that sends

    def __init__(self, program: str, agent: str = "", inner: Any = None) -> None:
        self._made, self._threads, self._inner = headers(program, agent=agent), Threads(), inner

    def _mark(self, request: Any) -> Any:
        """The transport that sends the request."""
        for name, value in self._made.items():
            request.headers.setdefault(name, value)
        if THREAD not in request.headers:
            request.headers[THREAD] = str(self._threads.current())
        if self._inner is None:
            library: Any = sys.modules[type(request).__module__.partition(".")[0]]
            # The appliance says which request waits; here, none waits for a connection.
            self._inner = getattr(library, self.INNER)(limits=library.Limits())
        return self._inner


class Transport(_Marking):
    """For httpx.Client(transport=...), and so for every client that takes one. Parallel threads of
    Python are parallel threads of the program. `inner` sends; by default an HTTPTransport()."""

    INNER = "HTTPTransport"

    def handle_request(self, request: Any) -> Any:
        return self._mark(request).handle_request(request)

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()

    def __enter__(self) -> Transport:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncTransport(_Marking):
    """For httpx.AsyncClient(transport=...). Parallel tasks are parallel threads of the program."""

    INNER = "AsyncHTTPTransport"

    async def handle_async_request(self, request: Any) -> Any:
        return await self._mark(request).handle_async_request(request)

    async def aclose(self) -> None:
        if self._inner is not None:
            await self._inner.aclose()

    async def __aenter__(self) -> AsyncTransport:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
