# SPDX-License-Identifier: MIT
"""What a server, a model or a model file says cannot make a terminal do anything but show letters.

A hostile server puts every class of character that deceives into every text that it may send. Each
command of agx talks to it on a terminal of its own, so a command that prints a text past the filter
(tools/agx/printable.h) is found here, a new one too. Unicode's own categories are the judge."""
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import socket
import struct
import subprocess
import tempfile
import termios
import threading
import unicodedata

from appliance import BUILD, EMBEDDED_MODEL, HANG_S, Appliance, run
from protocol import (ACCEPT, CALL, CHAT, CHAT_ASK, DONE, HELLO, LENGTH, MAGIC, PING, PONG,
                      PROGRAM_END, PROGRAM_OK, PROGRAM_START, TOKENS, WELCOME, Client, digest,
                      frame, pack, unpack)

# A title, a clear screen, a question that the terminal would answer; the same with C1; turned
# text; lines that are none; text that is not seen. MARK shows that it came as far as the terminal.
DECEITS = ["\x1b]0;title\x07", "\x1b[2J", "\x1b[6n", "\x9b2J", "\x9d0;t\x9c", "\x7f", "\b\b\r",
           "\u202eevil\u202c", "\u2066a\u2069", "\u200e\u200f\u061c", "\u2028\u2029",
           "\u200b\u2060", "\ufeff", "\U000e0041\U000e007f", "\xad"]
MARK, GOOD = "MARK", "\xe4 \u4f60 \u0915\u094d\u200d\u0937"
HOSTILE = ("Answer: " + MARK + "".join(DECEITS) + GOOD).encode()
NAME = (MARK + "\x1b[2J\x9b2J\u202e\x7f").encode() + b"\x9b\xff"    # of the model; not even UTF-8
TOKEN = "<\x1b[2J\x9b\u202e>".encode()
JOINERS = "\u200c\u200d"
# A picture's own colours, moves and line ends: what agx draws, on a terminal that is large enough.
DRAWN = re.compile(r"\x1b\[\d*(;\d+)*[mAK]")


# ---- the server ----------------------------------------------------------------------------------

def answer_call(asked):
    """The text comes in frames of a few characters each, a token with each."""
    tokens, text = [], HOSTILE.decode()
    yield frame(ACCEPT, pack(ACCEPT, call_id=asked["call_id"], prompt_tokens=3))
    for at in range(0, len(text), 3):
        if len(tokens) < asked["max_tokens"]:
            part = text[at:at + 3].encode()
            yield frame(TOKENS, pack(TOKENS, call_id=asked["call_id"], first_index=len(tokens),
                                     tokens_count=1, text_bytes=len(part)) +
                        struct.pack("<I", 5) + part)
            tokens.append(5)
    yield frame(DONE, pack(DONE, call_id=asked["call_id"], finish=LENGTH, prompt_tokens=3,
                           generated_tokens=len(tokens), digest=digest(tokens)))


def answer(kind, payload):
    if kind == HELLO:
        return [frame(WELCOME, pack(WELCOME, version=1, frame_bytes_max=1 << 20, vocab_tokens=99,
                                    context_tokens_max=4096, calls_per_connection_max=64,
                                    programs_max=64, bos_id=1, eos_id=2, model=NAME,
                                    boot_id=b"b" * 16))]
    if kind in (PROGRAM_START, PROGRAM_END):
        return [frame(PROGRAM_OK, struct.pack("<16sIIQQ", payload[:16], kind, 0, 0, 0))]
    if kind == PING:
        return [frame(PONG, payload)]
    if kind == CHAT_ASK:
        asked, _ = unpack(CHAT_ASK, payload)
        return [frame(CHAT, pack(CHAT, nonce=asked["nonce"], verdict=1, template_bytes=9,
                                 format=b"plain", bos=TOKEN, eos=TOKEN))]
    return answer_call(unpack(CALL, payload)[0]) if kind == CALL else []


def receive(peer, count):
    got = b""
    while len(got) < count:
        part = peer.recv(count - len(got))
        if not part:
            raise EOFError
        got += part
    return got


def serve_frames(peer):
    while True:
        magic, kind, _, length, _ = struct.unpack("<IB3sII", receive(peer, 16))
        assert magic == MAGIC
        for reply in answer(kind, receive(peer, length)):
            peer.sendall(reply)


def serve_lines(peer):
    """As a text port: each answer is an error in the server's own words."""
    while peer.recv(4096):
        peer.sendall(b"error " + HOSTILE + b"\xff\x9b\nend\n")


@contextlib.contextmanager
def server(serve):
    """Yields the address of a server with a thread for each client."""
    def attend(peer):
        with contextlib.suppress(OSError, EOFError), peer:
            serve(peer)

    def accept(listener):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=attend, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, args=(listener,), daemon=True)
        thread.start()
        yield "127.0.0.1:%d" % listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(HANG_S)


# ---- the terminal --------------------------------------------------------------------------------

def on_terminal(*arguments, rows=0, columns=0):
    """All that agx writes to a terminal of this size (0: it has none)."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    mode = termios.tcgetattr(theirs)
    mode[1] &= ~termios.OPOST           # bytes as they are
    mode[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, mode)
    process = subprocess.Popen([os.path.join(BUILD, "agx"), *arguments], stdin=theirs,
                               stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, b"hello\n\x04")      # for a command that reads lines, and their end
    said = b""
    with contextlib.suppress(OSError):  # EIO: the last writer is gone
        while True:
            assert select.select([ours], [], [], HANG_S)[0], (arguments, said)
            said += os.read(ours, 65536)
    os.close(ours)
    process.wait(HANG_S)
    return said


def check_clean(said, what):
    text = said.decode("utf-8")         # strict: no stray bytes
    for character in DRAWN.sub("", text):
        kind = unicodedata.category(character)
        is_good = kind not in ("Cc", "Cf", "Zl", "Zp", "Cs", "Cn") or character in "\n\t" + JOINERS
        assert is_good or character == "\r", (what, hex(ord(character)), said)
    assert "\b" not in text and "\x1b[2J" not in text and "\x1b[6n" not in text, (what, said)
    return text


# ---- tests ---------------------------------------------------------------------------------------

TALK = json.dumps({"messages": [{"role": "user", "content": HOSTILE.decode()}]})
TASKS = "task chat a\n> Hello.\n= hello\n"
REPLAYED = "agentix-trace 1\nprogram 0 0 one\ncall 0 after=- gap=0 in=u:5 out=6\n"
# The words of each command, and whether the server's words are to be seen. A new command runs with
# no words of its own until it has a row; what it prints is checked all the same.
ROWS = {
    "generate": (["--prompt", "a", "--stats"], True),
    "chat": ([], True),
    "render": (["--format", "plain", "--text", "{talk}"], True),
    "demo": (["--against", "{to}", "--tasks", "{tasks}"], True),
    "agent": (["{tasks}", "--verbose"], True),
    "trace": (["--text", "{text}", "--out", "{folder}/t.json"], True),
    "replay": (["{trace}"], False),
    "load": (["--calls", "3", "--max-tokens", "4"], False),
    "ping": (["--count", "1"], False),
    "tokenize": (["--vocab", EMBEDDED_MODEL, "a"], False),
}


def commands():
    table = run("agx", "help").stdout.split("exit codes")[0]
    found = re.findall(r"^  ([a-z]+) {2,}\S", table, re.M)
    assert set(ROWS) <= set(found), found
    return [name for name in found if name != "help"]


def test_no_command_passes_on_what_deceives_a_terminal():
    with server(serve_frames) as to, server(serve_lines) as text, \
            tempfile.TemporaryDirectory() as folder:
        places = {"to": to, "text": text, "folder": folder}
        for name, content in (("tasks", TASKS), ("trace", REPLAYED), ("talk", TALK)):
            places[name] = os.path.join(folder, name)
            with open(places[name], "w", encoding="utf-8") as file:
                file.write(content)
        for name in commands():
            words, is_seen = ROWS.get(name, ([], False))
            for size in (0, 0), (24, 80):
                said = on_terminal("--to", to, name, *[word.format(**places) for word in words],
                                   rows=size[0], columns=size[1])
                shown = check_clean(said, name)
                assert not is_seen or MARK in shown, (name, said)


def test_generate_shows_all_scripts_and_a_dot_for_each_deceit():
    with server(serve_frames) as to:
        shown = check_clean(on_terminal("--to", to, "generate", "--prompt", "a"), "generate")
    wanted = "".join("." if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") and
                     c not in JOINERS else c for c in HOSTILE.decode())
    assert shown == wanted + "\n", shown


def test_generate_into_a_pipe_changes_nothing():
    with server(serve_frames) as to:
        done = subprocess.run([os.path.join(BUILD, "agx"), "--to", to, "generate", "--prompt", "a"],
                              capture_output=True, timeout=HANG_S, check=True)
    assert done.stdout == HOSTILE and done.stderr == b""


def test_names_from_outside_are_safe_in_the_log_and_on_the_wire():
    """Of a model file, and of the environment: an event stays one line of printable ASCII."""
    deceit = b"\x1b[2J\xc2\x9b\xe2\x80\xae12"
    with open(EMBEDDED_MODEL, "rb") as file:
        content = file.read()
    named = content.replace(b"agentix-agent", (deceit + b"345")[:13], 1)
    assert named != content and len(named) == len(content)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "named.gguf")
        with open(path, "wb") as file:
            file.write(named)
        notify = {"NOTIFY_SOCKET": "no path" + deceit.decode() + "\n1.0 core error"}
        with Appliance("model.path=" + path, environment=notify) as a, Client(a.tcp) as c:
            name = c.welcome["model"].rstrip(b"\0")
            assert name.startswith(b"?[2J") and all(0x20 <= byte < 0x7f for byte in name), name
            a.wait_said("NOTIFY_SOCKET=no path?[2J")
            assert all(0x20 <= ord(letter) < 0x7f for line in a.lines for letter in line), a.lines
            assert not any(line.startswith("1.0 core") for line in a.lines), a.lines
