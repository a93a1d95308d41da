# SPDX-License-Identifier: MIT
"""The way to a client. One function serves both worlds: how its result is used says which client
is wanted."""
from __future__ import annotations

import os
from typing import Any, Callable, Generator, Optional

from agentix import arguments
from agentix.client import Client
from agentix.connection import Key, Path, read_key
from agentix.sync import SyncClient


INSTALLED = "/run/agentix/agentix.sock"


def default_address() -> str:
    """The socket of an installed appliance if it is there, else where a build listens."""
    return f"unix:{INSTALLED}" if os.path.exists(INSTALLED) else "127.0.0.1:7411"


def connect(address: str = "", *, key: Optional[Key] = None,
            key_file: Optional[Path] = None, patience_s: float = 60.0,
            affinity: str = "") -> Connecting:
    """A client that is connected:

        with agentix.connect() as ax:               # a SyncClient
        async with agentix.connect() as ax:         # a Client
        ax = agentix.connect().open()               # a SyncClient; ax.close() ends it
        ax = await agentix.connect()                # a Client; await ax.close() ends it

    Without an address: the socket of an appliance that is installed here, else 127.0.0.1:7411.
    `key` is an id and 32 bytes, `key_file` a file as `agx --key-file` takes it. A refusal as busy,
    or a break, is borne for `patience_s`. A load balancer in front of several appliances gives
    equal `affinity` the same one (docs/fleet.md): the name of a session, of at most 63 bytes;
    without one the client has a random one."""
    arguments.text("address", address)
    arguments.text("affinity", affinity)
    arguments.number("patience_s", patience_s)
    if key is not None and not (isinstance(key, tuple) and len(key) == 2 and
                                isinstance(key[0], str) and isinstance(key[1], bytes)):
        raise TypeError("key: a pair is needed, an id (a text) and a secret (32 bytes)")
    return Connecting(lambda: Client(address or default_address(),
                                     read_key(key_file) if key_file else key, patience_s,
                                     affinity))


class Connecting:
    """What connect() gives. A Client belongs to the event loop in which it is made, so it is made
    when one is there."""

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make
        self._client: Optional[Client] = None
        self._sync_client: Optional[SyncClient] = None

    def __getattr__(self, name: str) -> Any:
        """Of what a client has; else it is missing, as Python itself expects of an object."""
        if name.startswith("_") or not (hasattr(Client, name) or hasattr(SyncClient, name)):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise TypeError(f"{name}: there is no client yet: `with agentix.connect() as ax:`, or with "
                        "asyncio `async with agentix.connect() as ax:`")

    def open(self) -> SyncClient:
        return SyncClient(self._make)

    def __enter__(self) -> SyncClient:
        self._sync_client = self.open()
        return self._sync_client

    def __exit__(self, *_: object) -> None:
        if self._sync_client is not None:
            self._sync_client.close()

    def __await__(self) -> Generator[Any, None, Client]:
        return self._make().open().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self
        return self._client

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            await self._client.close()
