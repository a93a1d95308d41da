# SPDX-License-Identifier: MIT
"""Frames to bytes and back: docs/protocol.md. The lists of frames and fields are frames.py."""
from __future__ import annotations

import hashlib
import hmac
import struct
from typing import Any, Dict, List, Sequence, Tuple, Union

from agentix import frames
from agentix.errors import ProtocolError

MAGIC = 0x31584741
HEADER_BYTES = 16
ID_BYTES = 16
NONE = 0xffffffff               # of an id: there is none
Fields = Dict[str, Any]         # of a frame, by name
Logprobs = List[Tuple[int, float]]  # of a token: ids and numbers, its own first
_HEAD = struct.Struct("<IB3sI")
_FORMS = {kind: struct.Struct("<" + "".join(layout.values()))
          for kind, layout in frames.LAYOUTS.items()}


def _crc_table() -> List[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82f63b78 if value & 1 else 0)
        table.append(value)
    return table


_CRC = _crc_table()
# Two bytes at once: half as many turns of the loop.
_CRC2 = [_CRC[(_CRC[pair & 0xff] ^ (pair >> 8)) & 0xff] ^ (_CRC[pair & 0xff] >> 8)
         for pair in range(1 << 16)]


def crc32c(data: bytes) -> int:
    value = 0xffffffff
    whole = len(data) & ~1
    for pair in memoryview(data)[:whole].cast("H"):
        value = (value >> 16) ^ _CRC2[(value ^ pair) & 0xffff]
    for byte in data[whole:]:
        value = (value >> 8) ^ _CRC[(value ^ byte) & 0xff]
    return value ^ 0xffffffff


def frame(kind: int, payload: bytes = b"") -> bytes:
    head = _HEAD.pack(MAGIC, kind, b"", len(payload))
    return head + struct.pack("<I", crc32c(head + payload)) + payload


def pack(kind: int, **values: Any) -> bytes:
    """The fixed part of a payload; a field that is not named is zero."""
    layout = frames.LAYOUTS[kind]
    assert values.keys() <= layout.keys(), values.keys() - layout.keys()
    return _FORMS[kind].pack(*(values.get(name, b"" if form.endswith("s") else 0)
                               for name, form in layout.items()))


def unpack(kind: int, payload: bytes) -> Tuple[Fields, bytes]:
    """The fields of a payload by name, and what follows them."""
    form = _FORMS[kind]
    if len(payload) < form.size:
        raise ProtocolError(f"a frame of type {kind:#x} is too short")
    return dict(zip(frames.LAYOUTS[kind], form.unpack_from(payload))), payload[form.size:]


def check(head: bytes, payload: bytes) -> int:
    """The type of a frame whose bytes these are."""
    magic, kind, reserved, length = _HEAD.unpack_from(head)
    checksum, = struct.unpack_from("<I", head, _HEAD.size)
    if magic != MAGIC or reserved != b"\0\0\0" or length != len(payload):
        raise ProtocolError("the peer does not speak this protocol")
    if crc32c(head[:_HEAD.size] + payload) != checksum:
        raise ProtocolError("a frame's checksum does not match")
    return int(kind)


def length(head: bytes) -> int:
    return int.from_bytes(head[8:12], "little")


def ids(tokens: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(tokens)}I", *tokens)


def tokens_and_text(got: Fields, rest: bytes) -> Tuple[List[int], bytes]:
    """The tail of TOKENS and VALUE."""
    count, text_bytes = got["tokens_count"], got["text_bytes"]
    if len(rest) != 4 * count + text_bytes:
        raise ProtocolError("counts do not add up")
    return list(struct.unpack_from(f"<{count}I", rest)), rest[4 * count:]


def logprobs(got: Fields, rest: bytes) -> Tuple[List[Logprobs], bytes]:
    """What TOKENS has behind its text: for each token pairs (id, log probability), its own first;
    and the rest without it."""
    count, end = got["tokens_count"], 4 * got["tokens_count"] + got["text_bytes"]
    each = (len(rest) - end) // (8 * count) if count and len(rest) > end else 0
    if each == 0:
        return [], rest
    pairs = list(struct.iter_unpack("<If", rest[end:end + 8 * count * each]))
    return [pairs[i:i + each] for i in range(0, len(pairs), each)], \
        rest[:end] + rest[end + 8 * count * each:]


def digest(data: bytes, value: int = 0xcbf29ce484222325) -> int:
    """FNV-1a of bytes, from an earlier digest on."""
    for byte in data:
        value = ((value ^ byte) * 0x100000001b3) & 0xffffffffffffffff
    return value


def proof(side: bytes, key: Tuple[bytes, bytes], welcome: Fields, client_nonce: bytes) -> bytes:
    """`side` is b"c1" or b"s1", `key` an id and 32 bytes."""
    message = struct.pack("<2sH16s32s32s32s", side, 1, welcome["boot_id"],
                          welcome["server_nonce"], client_nonce, key[0])
    return hmac.new(key[1], message, hashlib.sha256).digest()


def program_id(name: Union[str, bytes]) -> bytes:
    """16 bytes as they are, or those that stand for a text, in the C library too."""
    if isinstance(name, str):
        half = digest(name.encode())
        return struct.pack("<QQ", half, digest(name.encode(), half))
    if not isinstance(name, (bytes, bytearray)):
        raise TypeError(f"program: a text or {ID_BYTES} bytes are needed, not {name!r}")
    if len(name) != ID_BYTES:
        raise ValueError(f"a program id has {ID_BYTES} bytes, not {len(name)}")
    return bytes(name)
