# SPDX-License-Identifier: MIT
"""One socket, greeted and, where the appliance asks for it, authenticated. Resumption is not here:
client.py opens another one."""
from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import stat
from typing import Optional, Tuple, Union

from agentix import frames, wire
from agentix.errors import Error, Lost, ProtocolError, Refused

Key = Tuple[str, bytes]         # id and secret
Path = Union[str, "os.PathLike[str]"]
GREETING_S = 10
AFFINITY_BYTES = 63


def read_key(path: Path) -> Key:
    """The first key of a file as `agx --key-file` takes it: ID SECRET [...]."""
    with open(path, encoding="ascii") as file:
        if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
            raise PermissionError(f"{path}: others may read it; it must have mode 0600")
        for line in file:
            words = line.split()
            if words and not words[0].startswith("#"):
                return words[0], bytes.fromhex(words[1])
    raise ValueError(f"{path}: there is no key in it")


async def _dial(address: str) -> Tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.startswith("unix:"):
        return await asyncio.open_unix_connection(address[len("unix:"):])
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise ValueError(f"{address}: an address is unix:PATH or HOST:PORT")
    return await asyncio.open_connection(host.strip("[]"), int(port))


def _unreached(address: str, error: BaseException) -> str:
    """With what to do about it, where that is known."""
    said = str(error) or f"no answer within {GREETING_S} s"
    is_gone = isinstance(error, (ConnectionRefusedError, FileNotFoundError))
    return f"{address}: {said}" + ("; is the appliance running, and is this its net.tcp or "
                                   "net.unix?" if is_gone else "")


def affinity_key(affinity: str = "") -> bytes:
    """The name in HELLO. A client without a key of its own has a random one, so that a load
    balancer spreads such clients."""
    name = (affinity or "python-" + secrets.token_hex(8)).encode()
    if len(name) > AFFINITY_BYTES or b"\0" in name:
        raise ValueError(f"an affinity key has at most {AFFINITY_BYTES} bytes, none of them zero")
    return name


class Connection:
    """`welcome` has the fields of WELCOME."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.welcome: wire.Fields = {}

    @classmethod
    async def open(cls, address: str, key: Optional[Key] = None, affinity: str = "",
                   patience_s: float = 0) -> Connection:
        """`key` is an id and a secret of 32 bytes; it is not used on a unix socket, where the
        kernel says who we are. `affinity`: see agentix.connect(). For `patience_s`, if that is
        longer than GREETING_S, it waits for the greeting: an appliance that ends may have a
        successor, which takes those that wait."""
        name = affinity_key(affinity)
        try:
            self = cls(*await asyncio.wait_for(_dial(address), GREETING_S))
        except (OSError, asyncio.TimeoutError) as error:
            raise Lost(_unreached(address, error)) from error
        try:
            await asyncio.wait_for(
                self._greet(name, None if address.startswith("unix:") else key),
                max(GREETING_S, patience_s))
        except asyncio.TimeoutError as error:
            self.close()
            raise Lost(f"{address}: it takes connections, and does not greet") from error
        except BaseException as error:
            self.close()
            if isinstance(error, (Lost, ProtocolError)) and not self.welcome:
                raise type(error)(f"{address}: {error}, without a greeting; is this its net.tcp or "
                                  "net.unix, and not its text port or a door?") from error
            raise
        return self

    async def _greet(self, name: bytes, key: Optional[Key]) -> None:
        self.send(wire.frame(frames.HELLO, wire.pack(frames.HELLO, version_min=1, version_max=1,
                                                     name=name)))
        self.welcome = await self._expect(frames.WELCOME)
        if bool(self.welcome["auth"]) != (key is not None):
            raise Error("the appliance asks for a key" if key is None else
                        "a key was given, and the appliance does not ask for one")
        if key is not None:
            await self._authenticate((key[0].encode(), key[1]))

    async def _authenticate(self, key: Tuple[bytes, bytes]) -> None:
        nonce = os.urandom(32)
        key = key[0].ljust(32, b"\0"), key[1]
        mac = wire.proof(b"c1", key, self.welcome, nonce)
        self.send(wire.frame(frames.AUTH, wire.pack(frames.AUTH, key_id=key[0],
                                                    client_nonce=nonce, mac=mac)))
        answer = await self._expect(frames.AUTH_REPLY)
        if not hmac.compare_digest(answer["mac"], wire.proof(b"s1", key, self.welcome, nonce)):
            raise Error("the appliance does not have the secret of this key")

    async def _expect(self, wanted: int) -> wire.Fields:
        kind, payload = await self.receive()
        if kind == frames.ERROR:
            raise Refused(wire.unpack(kind, payload)[0])
        if kind != wanted:
            raise ProtocolError(f"a frame of type {kind:#x} where {wanted:#x} was due")
        return wire.unpack(kind, payload)[0]

    async def receive(self) -> Tuple[int, bytes]:
        """(type, payload) of the next frame. Lost: there is none."""
        try:
            head = await self.reader.readexactly(wire.HEADER_BYTES)
            if head[:4] != wire.MAGIC.to_bytes(4, "little") or (
                    self.welcome and wire.length(head) > self.welcome["frame_bytes_max"]):
                raise ProtocolError("the peer does not speak this protocol" + (
                    ", but HTTP" if head[:5] == b"HTTP/" else ""))
            payload = await self.reader.readexactly(wire.length(head))
        except (OSError, EOFError) as error:
            raise Lost("the appliance closed the connection") from error
        return wire.check(head, payload), payload

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def close(self) -> None:
        self.writer.close()
