# SPDX-License-Identifier: MIT
"""A witness beside a bad client: its call runs meanwhile and must get the tokens it gets alone."""
import contextlib
import socket
import struct

from appliance import HANG_S, NOISE, Appliance
from protocol import CALL, Client, Outcome, call, frame, pack

BUSY_CALLS, BAD_FRAME_TYPE, BAD_FRAME_LENGTH, BAD_FIELD, BAD_CALL_UNKNOWN = 1, 18, 19, 22, 25
BAD_PROMPT_LENGTH, BAD_TOKEN, BAD_TEXT = 28, 29, 30
PROMPT = list(range(3, 40))
LARGEST = 2 ** 32 - 1
LONG = list(range(3, 500)) + list(range(3, 300))
references = {}


def reference(max_tokens):
    if max_tokens not in references:
        with Appliance(NOISE) as a, Client(a.tcp) as c:
            references[max_tokens] = c.generate(1, PROMPT, max_tokens=max_tokens).check().tokens
    return references[max_tokens]


def everything_is_back(a):
    a.wait_back()
    a.wait_ready()


@contextlib.contextmanager
def witnessed(*settings, max_tokens=120):
    """An appliance with a witness, whose call runs during the test and must get its tokens."""
    expected = reference(max_tokens)
    with Appliance(NOISE, *settings) as a:
        with Client(a.tcp) as witness:
            witness.start(1, PROMPT, max_tokens=max_tokens, program=b"the witness ....")
            yield a
            assert witness.finish(1).check().tokens == expected
        everything_is_back(a)


def start_together(client, *calls, first=1):
    """Calls first, first + 1, ..., each of its own program, in one send: they arrive in order."""
    words = b""
    for call_id, options in enumerate(calls, first):
        client.calls[call_id] = Outcome()
        words += call(call_id, PROMPT, program=b"together %07d" % call_id, **options)
    client.send(words)


def raw_call(prompt=b"", **fields):
    """A CALL with any fields, unchecked."""
    values = {"call_id": 7, "program_id": b"raw-program-0001", "max_tokens": 4, "top_p": 1.0,
              "repeat_penalty": 1.0, "prompt_count": len(prompt) // 4, **fields}
    return frame(CALL, pack(CALL, **values) + prompt)


def ids(tokens):
    return struct.pack("<%dI" % len(tokens), *tokens)


def refused(a, words, code, closes=False):
    """These bytes get this ERROR, and the connection goes on unless the error closes it."""
    with Client(a.tcp) as c:
        c.send(words)
        error = c.error()
        assert error["status"] == code and bool(error["closes"]) == closes, error
        assert "0x" not in error["text"] and not any(ord(l) < 32 for l in error["text"]), error
        if closes:
            assert c.is_closed()
        else:
            c.generate(8, PROMPT, max_tokens=2).check()
    return error


def closed_without_a_word(a, words):
    with socket.create_connection(a.tcp, timeout=HANG_S) as peer:
        peer.sendall(words)
        try:
            assert peer.recv(100) == b""
        except ConnectionResetError:
            pass
