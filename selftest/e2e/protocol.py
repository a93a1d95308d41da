# SPDX-License-Identifier: MIT
"""Protocol version 1 from docs/protocol.md, written a second time, so that the codec in net/wire.c
is not checked against itself; the lists of frames and fields are generated (frames.py), and
selftest/vectors/frames.txt pins their bytes. One connection, blocking, no cleverness."""
import hashlib
import hmac
import itertools
import os
import socket
import struct

from appliance import HANG_S
from frames import *                        # types, flags, ends, LAYOUTS; for the tests, too

MAGIC = 0x31584741
PROGRAM = b"e2e-program-0001"


def _crc_table():
    table = []
    for i in range(256):
        for _ in range(8):
            i = (i >> 1) ^ (0x82f63b78 if i & 1 else 0)
        table.append(i)
    return table


CRC = _crc_table()


def crc32c(data):
    value = 0xffffffff
    for byte in data:
        value = (value >> 8) ^ CRC[(value ^ byte) & 0xff]
    return value ^ 0xffffffff


def frame(kind, payload=b"", magic=MAGIC, reserved=b"\0\0\0", length=None, checksum=None):
    head = struct.pack("<IB3sI", magic, kind, reserved,
                       len(payload) if length is None else length)
    if checksum is None:
        checksum = crc32c(head + payload)
    return head + struct.pack("<I", checksum) + payload


def pack(kind, **values):
    """The payload of a frame, or its fixed part; a field that is not named is zero."""
    layout = LAYOUTS[kind]
    assert values.keys() <= layout.keys(), values.keys() - layout.keys()
    return struct.pack("<" + "".join(layout.values()),
                       *(values.get(name, b"" if form.endswith("s") else 0)
                         for name, form in layout.items()))


def unpack(kind, payload):
    """The fields of a payload by name, and what follows them."""
    layout = LAYOUTS[kind]
    form = "<" + "".join(layout.values())
    size = struct.calcsize(form)
    values = dict(zip(layout, struct.unpack(form, payload[:size])))
    assert not any(values.get("reserved", b""))
    return values, payload[size:]


def hello(low=1, high=1, name=b"e2e"):
    return frame(HELLO, pack(HELLO, version_min=low, version_max=high, name=name))


def proof(side, key, boot_id, server_nonce, client_nonce):
    """`side` is b"c1" or b"s1", `key` an id and 32 bytes."""
    key_id, secret = key
    message = struct.pack("<2sH16s32s32s32s", side, 1, boot_id, server_nonce, client_nonce, key_id)
    return hmac.new(secret, message, hashlib.sha256).digest()


def auth(key_id, nonce, mac):
    return frame(AUTH, pack(AUTH, key_id=key_id, client_nonce=nonce, mac=mac))


def digest(tokens):
    value = 0xcbf29ce484222325
    for token in tokens:
        for byte in struct.pack("<I", token):
            value = ((value ^ byte) * 0x100000001b3) & (2 ** 64 - 1)
    return value


def more_sampling(fields):
    """What a CALL with MORE has before its prompt: takes its fields, and `biases`, pairs of a token
    and a number, out of `fields`. None of them: no bytes."""
    layout = PARTS["call_more"]
    given = {name: fields.pop(name) for name in layout if name in fields}
    biases = fields.pop("biases", ())
    if not given and not biases:
        return b""
    values = {"logit_bias": len(biases), "reserved": b"", **given}
    fixed = struct.pack("<" + "".join(layout.values()), *(values.get(name, 0) for name in layout))
    return fixed + b"".join(struct.pack("<If", *bias) for bias in biases)


def call(call_id, prompt, program=PROGRAM, stop_ids=(), stop_texts=(), **fields):
    """`prompt` is a list of ids, or bytes of text (the flag is set here); `part_lengths` divides a
    text; other `fields` are those of CALL, and those of more_sampling()."""
    lengths = fields.pop("part_lengths", ())
    more = more_sampling(fields)
    values = {"call_id": call_id, "program_id": program, "flags": IGNORE_EOS, "max_tokens": 8,
              "top_p": 1.0, "repeat_penalty": 1.0, "prompt_count": len(prompt),
              "stop_ids": len(stop_ids), "stop_texts": len(stop_texts), "parts": len(lengths),
              **fields}
    values["flags"] |= MORE if more else 0
    if isinstance(prompt, bytes):
        values["flags"] |= TEXT_PROMPT
        body = prompt
    else:
        body = struct.pack("<%dI" % len(prompt), *prompt)
    payload = pack(CALL, **values) + struct.pack("<%dI" % len(stop_ids), *stop_ids)
    for text in stop_texts:
        payload += struct.pack("<H", len(text)) + text
    return frame(CALL, payload + struct.pack("<%dI" % len(lengths), *lengths) + more + body)


def cancel(call_id, program=PROGRAM):
    return frame(CANCEL, pack(CANCEL, call_id=call_id, program_id=program))


class Closed(Exception):
    pass


class Outcome:
    """What came back for one call. `again`: it has ended before, and is to be answered from the
    record; any other call is to be executed."""

    def __init__(self, again=False, wants_drafts=False):
        self.again, self.wants_drafts = again, wants_drafts
        self.accepted = False
        self.tokens, self.text = [], b""
        self.logprobs = []          # of each token: pairs of a token and a number, its own first
        self.queues = []            # of each TOKENS frame
        self.done = None            # dict of the terminal frame
        self.error = None           # dict of the ERROR frame

    def drafts(self, rest):
        """What follows the fixed part of DONE, as it was asked for."""
        layout = PARTS["done_drafts"] if self.wants_drafts else {}
        return dict(zip(layout, struct.unpack("<" + "".join(layout.values()), rest)))

    def check(self):
        """The promises of the protocol, for a call that was accepted."""
        assert self.accepted and self.done is not None
        assert self.done["generated_tokens"] == len(self.tokens), self.done
        assert self.done["digest"] == digest(self.tokens)
        return self


class Client:
    numbers = itertools.count()

    def __init__(self, address, greet=True, receive_bytes=None, key=None, source=None):
        """`receive_bytes` bounds what the kernel buffers for a client that does not read; `key` is
        (id, secret), for an appliance that asks for one; `source` is the client's own address."""
        # Its own, because the appliance remembers the call ids of a program.
        self.program = b"e2e-client-%05d" % next(Client.numbers)
        self.socket = socket.socket(socket.AF_UNIX if isinstance(address, str) else
                                    socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        self.socket.settimeout(HANG_S)
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        if source is not None:
            self.socket.bind((source, 0))
        self.socket.connect(address)
        self.buffer = b""
        self.calls = {}
        self.programs, self.pongs, self.errors = [], [], []
        if greet:
            self.greet()
            assert self.welcome["auth"] == (key is not None)
        if greet and key is not None:
            self.authenticate(key)

    def greet(self):
        self.send(hello())
        kind, self.welcome_payload = self.receive()
        assert kind == WELCOME, kind
        self.welcome, rest = unpack(WELCOME, self.welcome_payload)
        assert not rest

    def authenticate(self, key):
        nonce, said = os.urandom(32), self.welcome
        ids = said["boot_id"], said["server_nonce"], nonce
        self.send(auth(key[0], nonce, proof(b"c1", key, *ids)))
        kind, payload = self.receive()
        assert kind == AUTH_REPLY, kind
        assert payload == proof(b"s1", key, *ids)

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        self.socket.sendall(data)

    def _need(self, count):
        while len(self.buffer) < count:
            try:
                got = self.socket.recv(1 << 16)
            except ConnectionResetError:
                got = b""
            if not got:
                raise Closed()
            self.buffer += got

    def receive(self):
        """(type, payload) of the next frame, its header and checksum verified."""
        self._need(16)
        magic, kind, reserved, length, checksum = struct.unpack("<IB3sII", self.buffer[:16])
        assert magic == MAGIC and reserved == b"\0\0\0"
        self._need(16 + length)
        payload = self.buffer[16:16 + length]
        assert crc32c(self.buffer[:12] + payload) == checksum
        self.buffer = self.buffer[16 + length:]
        return kind, payload

    def start(self, call_id, prompt, again=False, **options):
        self.calls[call_id] = Outcome(again, options.get("flags", 0) & WANT_DRAFTS)
        self.send(call(call_id, prompt, **{"program": self.program, **options}))
        return self.calls[call_id]

    def cancel(self, call_id):
        self.send(cancel(call_id, self.program))

    def step(self):
        """Takes one frame and files it under its call."""
        kind, payload = self.receive()
        if kind not in (ACCEPT, TOKENS, DONE, ERROR, PROGRAM_OK, PONG):
            raise AssertionError("unexpected frame type %#x" % kind)
        got, rest = unpack(kind, payload)
        assert kind in (TOKENS, DONE) or not rest
        if kind == ACCEPT:
            outcome = self.calls[got["call_id"]]
            assert not outcome.accepted and got["flags"] < 2
            assert (got["flags"] == REPLAYED) == outcome.again, "executed or not, as was meant"
            outcome.accepted = True
        elif kind == TOKENS:
            self.take_tokens(self.calls[got["call_id"]], got, rest)
        elif kind == DONE:
            outcome = self.calls[got["call_id"]]
            assert outcome.accepted and outcome.done is None, "exactly one terminal frame"
            assert got["queue"] < 64
            outcome.done = {**got, **outcome.drafts(rest)}
        elif kind == ERROR:
            got["text"] = got["text"].rstrip(b"\0").decode()
            self.errors.append(got)
            if got["call_id"] in self.calls and got["frame_type"] == CALL:
                self.calls[got["call_id"]].error = got
        elif kind == PROGRAM_OK:
            self.programs.append(got)
        else:
            self.pongs.append(got["nonce"])
        return kind

    @staticmethod
    def take_tokens(outcome, got, rest):
        assert outcome.accepted and outcome.done is None and got["queue"] < 64
        assert got["first_index"] == len(outcome.tokens), "indices are consecutive"
        count = got["tokens_count"]
        text_end = 4 * count + got["text_bytes"]
        pairs = list(struct.iter_unpack("<If", rest[text_end:]))
        assert len(rest) >= text_end and len(pairs) % max(count, 1) == 0
        outcome.queues.append(got["queue"])
        outcome.tokens += struct.unpack("<%dI" % count, rest[:4 * count])
        outcome.text += rest[4 * count:text_end]
        each = len(pairs) // count if count else 0
        outcome.logprobs += [pairs[i:i + each] for i in range(0, len(pairs), each or 1)]

    def finish(self, call_id):
        """Runs until the call has its terminal frame or its refusal."""
        outcome = self.calls[call_id]
        while outcome.done is None and outcome.error is None:
            self.step()
        return outcome

    def generate(self, call_id, prompt, **options):
        self.start(call_id, prompt, **options)
        return self.finish(call_id)

    def error(self):
        """The next ERROR frame."""
        count = len(self.errors)
        while len(self.errors) == count:
            self.step()
        return self.errors[-1]

    def is_closed(self):
        """Reads to the end of the stream."""
        try:
            while True:
                self.step()
        except Closed:
            return True
