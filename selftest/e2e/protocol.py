# SPDX-License-Identifier: MIT
"""Protocol version 1 from docs/protocol.md, written a second time, so that the codec in net/wire.c
is not checked against itself. One connection, blocking, no cleverness."""
import hashlib
import hmac
import itertools
import os
import socket
import struct

from appliance import HANG_S

MAGIC = 0x31584741
HELLO, AUTH, PROGRAM_START, PROGRAM_END, CALL, CANCEL, PING = 1, 2, 3, 4, 5, 6, 7
WELCOME, AUTH_REPLY, PROGRAM_OK, ACCEPT, TOKENS, DONE, PONG, ERROR = (
    0x81, 0x82, 0x83, 0x85, 0x86, 0x87, 0x88, 0x8f)
REPLAYED = 1                                # flag of ACCEPT
TEXT_PROMPT, WANT_TEXT, IGNORE_EOS, ADD_BOS, PARSE_SPECIAL = 1, 2, 4, 8, 16
LENGTH, EOS, STOP_ID, STOP_TEXT, CANCELLED, DEADLINE, FAILED = 1, 2, 3, 4, 5, 6, 7
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


def hello(low=1, high=1, name=b"e2e"):
    return frame(HELLO, struct.pack("<HH64s", low, high, name))


def proof(side, key, boot_id, server_nonce, client_nonce):
    """`side` is b"c1" or b"s1", `key` an id and 32 bytes."""
    key_id, secret = key
    message = struct.pack("<2sH16s32s32s32s", side, 1, boot_id, server_nonce, client_nonce, key_id)
    return hmac.new(secret, message, hashlib.sha256).digest()


def auth(key_id, nonce, mac):
    return frame(AUTH, struct.pack("<32s32s32s", key_id, nonce, mac))


def digest(tokens):
    value = 0xcbf29ce484222325
    for token in tokens:
        for byte in struct.pack("<I", token):
            value = ((value ^ byte) * 0x100000001b3) & (2 ** 64 - 1)
    return value


def call(call_id, prompt, max_tokens=8, program=PROGRAM, thread=0, flags=IGNORE_EOS,
         temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, penalty=1.0, seed=0, deadline_us=0,
         stop_ids=(), stop_texts=()):
    """`prompt` is a list of ids, or bytes of text (the flag is set here)."""
    if isinstance(prompt, bytes):
        flags |= TEXT_PROMPT
        body, count = prompt, len(prompt)
    else:
        body, count = struct.pack("<%dI" % len(prompt), *prompt), len(prompt)
    payload = struct.pack("<Q16sIIIfIfffQQIBBH", call_id, program, thread, flags, max_tokens,
                          temperature, top_k, top_p, min_p, penalty, seed, deadline_us, count,
                          len(stop_ids), len(stop_texts), 0)
    payload += struct.pack("<%dI" % len(stop_ids), *stop_ids)
    for text in stop_texts:
        payload += struct.pack("<H", len(text)) + text
    return frame(CALL, payload + body)


def cancel(call_id, program=PROGRAM):
    return frame(CANCEL, struct.pack("<Q16s", call_id, program))


class Closed(Exception):
    pass


class Outcome:
    """What came back for one call. `again`: it has ended before, and is to be answered from the
    record; any other call is to be executed."""

    def __init__(self, again=False):
        self.again = again
        self.accepted = False
        self.tokens, self.text = [], b""
        self.queues = []            # of each TOKENS frame
        self.done = None            # dict of the terminal frame
        self.error = None           # dict of the ERROR frame

    def check(self):
        """The promises of the protocol, for a call that was accepted."""
        assert self.accepted and self.done is not None
        assert self.done["generated"] == len(self.tokens), self.done
        assert self.done["digest"] == digest(self.tokens)
        return self


class Client:
    numbers = itertools.count()

    def __init__(self, address, greet=True, receive_bytes=None, key=None):
        """`receive_bytes` bounds what the kernel buffers for a client that does not read; `key` is
        (id, secret), for an appliance that asks for one."""
        # Its own, because the appliance remembers the call ids of a program.
        self.program = b"e2e-client-%05d" % next(Client.numbers)
        self.socket = socket.socket(socket.AF_UNIX if isinstance(address, str)
                                    else socket.AF_INET)
        self.socket.settimeout(HANG_S)
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
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
        fields = struct.unpack("<HH16sIIIIIII64s32s", self.welcome_payload)
        names = ("version", "auth", "boot_id", "frame_bytes", "context", "vocab",
                 "calls_per_connection", "programs_max", "bos", "eos", "model", "nonce")
        self.welcome = dict(zip(names, fields))

    def authenticate(self, key):
        nonce, said = os.urandom(32), self.welcome
        self.send(auth(key[0], nonce, proof(b"c1", key, said["boot_id"], said["nonce"], nonce)))
        kind, payload = self.receive()
        assert kind == AUTH_REPLY, kind
        assert payload == proof(b"s1", key, said["boot_id"], said["nonce"], nonce)

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
        self.calls[call_id] = Outcome(again)
        self.send(call(call_id, prompt, **{"program": self.program, **options}))
        return self.calls[call_id]

    def cancel(self, call_id):
        self.send(cancel(call_id, self.program))

    def step(self):
        """Takes one frame and files it under its call."""
        kind, payload = self.receive()
        if kind == ACCEPT:
            call_id, _, flags = struct.unpack("<QII", payload)
            outcome = self.calls[call_id]
            assert not outcome.accepted and flags < 2
            assert (flags == REPLAYED) == outcome.again, "executed or not, as was meant"
            outcome.accepted = True
        elif kind == TOKENS:
            call_id, first, count, text_bytes, queue = struct.unpack("<QIIII", payload[:24])
            outcome = self.calls[call_id]
            assert outcome.accepted and outcome.done is None and queue < 64
            assert first == len(outcome.tokens), "indices are consecutive"
            outcome.queues.append(queue)
            outcome.tokens += struct.unpack("<%dI" % count, payload[24:24 + 4 * count])
            outcome.text += payload[24 + 4 * count:]
            assert len(payload) == 24 + 4 * count + text_bytes
        elif kind == DONE:
            names = ("call_id", "finish", "code", "queue", "prompt", "cached", "generated",
                     "preemptions", "wait_us", "service_us", "total_us", "digest")
            done = dict(zip(names, struct.unpack("<QIHHIIIIQQQQ", payload)))
            outcome = self.calls[done["call_id"]]
            assert outcome.accepted and outcome.done is None, "exactly one terminal frame"
            assert done["queue"] < 64
            outcome.done = done
        elif kind == ERROR:
            names = ("code", "field", "frame", "closes", "zero", "retry_ms", "call_id", "found",
                     "min", "max", "text")
            error = dict(zip(names, struct.unpack("<HBBBBHQQQQ96s", payload)))
            assert error["zero"] == 0
            error["text"] = error["text"].rstrip(b"\0").decode()
            self.errors.append(error)
            if error["call_id"] in self.calls and error["frame"] == CALL:
                self.calls[error["call_id"]].error = error
        elif kind == PROGRAM_OK:
            names = ("program", "kind", "calls", "service_us", "wait_us")
            self.programs.append(dict(zip(names, struct.unpack("<16sIIQQ", payload))))
        elif kind == PONG:
            self.pongs.append(struct.unpack("<Q", payload)[0])
        else:
            raise AssertionError("unexpected frame type %#x" % kind)
        return kind

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
