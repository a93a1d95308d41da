# SPDX-License-Identifier: MIT
"""Failures of other engines: requests and files that ended them, blocked them, or gave data away.

Each docstring says what happened there. The test does it here: it may cost its sender one call or
one connection, a witness gets its tokens as if alone, and all resources come back.
test_others_stalls.py has the failures of scheduling.

Failures that need no whole appliance are tested elsewhere. Collisions of the hash of KV blocks
(CVE-2025-25183): unit kvmem/cache, `collisions_are_compared_in_full`. A slot that is used again
before its old result comes (LMCache#4185): unit sched/settle and sched/intake. Health 200 over a
dead engine (vllm#39863, llama.cpp#27388): text, `health_leaves_ready_when_the_worker_is_stopped`.
Memory that grows for hours (vllm#28726, sglang#6914, ollama#18264): memory. An orderly end
(vllm#24885, sglang#1838): boot, `sigterm_drains_and_open_calls_finish`. Clients that do not read
(xinference#5213): serve, `two_hundred_clients_some_vanish_some_never_read`."""
import os
import re
import socket
import struct
import tempfile

from appliance import EXIT, HANG_S, NOISE, RANDOM_MODEL, ROOT, Appliance, run
from protocol import (ADD_BOS, AUTH, CALL, IGNORE_EOS, PING, TEXT_PROMPT, Client, call, cancel,
                      frame, hello)
from skip import open_files
from witness import (BAD_FIELD, BAD_FRAME_LENGTH, BAD_FRAME_TYPE, BAD_PROMPT_LENGTH, BAD_TEXT,
                     BAD_TOKEN, LARGEST, LONG, PROMPT, closed_without_a_word, ids, raw_call,
                     refused, witnessed)


# ---- one bad field ends everything -------------------------------------------------------------

def test_a_prompt_of_nothing():
    """CVE-2024-8768: an empty prompt ended vLLM's server."""
    with witnessed() as a:
        refused(a, raw_call(), BAD_FIELD)
        refused(a, raw_call(flags=TEXT_PROMPT), BAD_FIELD)
        with Client(a.tcp) as c:
            c.generate(1, b"", flags=IGNORE_EOS | ADD_BOS, max_tokens=2).check()


def test_tokens_that_no_vocabulary_has():
    """CVE-2025-48942 and similar: an id in a request was used before it was checked."""
    with witnessed() as a:
        for token in (512, 2 ** 31 - 1, 2 ** 31, LARGEST):
            assert refused(a, call(7, [5, token]), BAD_TOKEN)["found"] == token
            refused(a, call(7, [5], stop_ids=(token,)), BAD_TOKEN)


def test_more_stops_than_there_is_room_for():
    """CVE-2026-116173: more than 128 token ids in one field ended vLLM's engine."""
    with witnessed() as a:
        for count in (16, 129, 255):
            refused(a, raw_call(ids([1] * count) + ids([5]), stop_ids=count, prompt_count=1),
                    BAD_FIELD)
        refused(a, raw_call(ids([5]) + 5 * b"\1\0x", stop_texts=5, prompt_count=1), BAD_FIELD)
        refused(a, call(7, [5], stop_texts=(65 * b"x",)), BAD_FIELD)


def test_values_that_are_not_numbers():
    """CVE-2025-48943, -48944: an unchecked parameter reached the engine loop."""
    nan, infinite = float("nan"), float("inf")
    with witnessed() as a:
        for name, values in (("temperature", (nan, infinite, -infinite, -1.0, 1e-9, 1e30)),
                             ("top_p", (nan, 0.0, -0.5, 1.5, infinite)),
                             ("min_p", (nan, -0.1, 1.0)),
                             ("repeat_penalty", (nan, 0.0, -1.0, 11.0))):
            for value in values:
                refused(a, raw_call(ids([5]), **{name: value}), BAD_FIELD)


def test_limits_that_contradict_each_other():
    """CVE-2026-114051: a minimum of tokens above the maximum; CVE-2026-34756: n without bound."""
    with witnessed() as a:
        for most in (0, 2 ** 31, LARGEST):
            refused(a, raw_call(ids([5]), max_tokens=most), BAD_FIELD)
        refused(a, raw_call(ids([5]), max_tokens=2 ** 31 - 1), BAD_PROMPT_LENGTH)
        for name in ("flags", "top_k"):
            refused(a, raw_call(ids([5]), **{name: LARGEST}), BAD_FIELD)


def test_a_request_with_a_part_missing():
    """CVE-2026-94622: a missing key ended vLLM's engine."""
    whole = call(7, [5, 6, 7])[16:]
    with witnessed() as a:
        for length in (0, 1, 79, len(whole) - 1):
            refused(a, frame(CALL, whole[:length]), BAD_FRAME_LENGTH, closes=True)


def test_negative_counts():
    """CVE-2026-21869: a negative n_discard wrote before llama.cpp's buffer."""
    with witnessed() as a:
        for count in (-1 & LARGEST, 2 ** 31, 2 ** 30, 5):
            refused(a, raw_call(ids([5, 6]), prompt_count=count), BAD_FRAME_LENGTH, closes=True)
        refused(a, raw_call(ids([5]), deadline=2 ** 63), BAD_FIELD)


def test_text_that_is_not_utf8():
    """PYSEC-2026-2303 and similar: text that does not decode ended the process that decoded it."""
    with witnessed() as a:
        for text in (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a\x80"):
            refused(a, call(7, text), BAD_TEXT)
        refused(a, call(7, b"a", stop_texts=(b"\xff",)), BAD_TEXT)


# ---- work and memory without bounds ------------------------------------------------------------

def test_a_flood_that_blocks_the_event_loop():
    """CVE-2025-62426: one client's work kept vLLM's event loop from all others."""
    with witnessed() as a, Client(a.tcp) as flood:
        nonces = 20000
        flood.send(b"".join(frame(PING, struct.pack("<Q", i)) for i in range(100)))
        for i in range(100, nonces):
            flood.send(frame(PING, struct.pack("<Q", i)))
            flood.step()
        with Client(a.tcp) as other:
            other.generate(1, PROMPT, max_tokens=4).check()
        while len(flood.pongs) < nonces:
            flood.step()
        assert flood.pongs == list(range(nonces))


def test_text_that_takes_quadratic_time():
    """CVE-2025-46560: a prompt whose tokenization took quadratic time blocked the server."""
    with witnessed() as a, Client(a.tcp) as c:
        for unit in (b" ", b"a", b"aaaaaaab", "\u00e9".encode(), b"<", b"<s>"):
            text = unit * (60000 // len(unit))
            outcome = c.generate(1, text, max_tokens=1)
            assert outcome.error is None or outcome.error["status"] == BAD_PROMPT_LENGTH
            assert outcome.error is not None or outcome.check()


def test_stop_texts_that_nearly_match_for_ever():
    """CVE-2025-48887: patterns in a request took exponential time."""
    stops = tuple(b"a" * n + b"\xe2\x98\x83" for n in (61, 60, 59, 58))
    with witnessed() as a, Client(a.tcp) as c:
        c.generate(1, PROMPT, max_tokens=200, stop_texts=stops).check()


def test_a_cache_that_fills_the_disk():
    """CVE-2025-29770: requests filled a cache of compiled code on disk without bound."""
    with witnessed() as a:
        for role in (a.core, a.worker):
            for target in open_files(role):         # a memfd is memory, and its size is sealed
                assert not target.startswith("/") or target == "/dev/null" or \
                       target.startswith("/memfd:agentix-"), target


# ---- sizes that are computed with --------------------------------------------------------------

def test_lengths_of_frames():
    """CVE-2026-118375, as once in memcached: a length from the wire was trusted."""
    with witnessed() as a:
        for length in (0, 1, 79, 2 ** 24, 2 ** 31 - 1, 2 ** 31, LARGEST):
            refused(a, frame(CALL, b"", length=length), BAD_FRAME_LENGTH, closes=True)


def model_file(changes):
    """The random model with these changes: (key, bytes after the key, new bytes)."""
    with open(RANDOM_MODEL, "rb") as file:
        model = bytearray(file.read())
    for key, behind, new in changes:
        name = struct.pack("<Q", len(key)) + key
        at = model.index(name) + len(name) + behind if key else behind
        model[at:at + len(new)] = new
    return bytes(model)


def test_model_files_that_lie():
    """llama.cpp wrote out of bounds for CVE-2025-53630, -2026-27940 (sizes that overflow),
    -2024-23505, -21825 (counts of keys, lengths of texts), -2025-49847, -52566 (lengths of tokens
    as signed numbers), and scores of another type read as floats. Here boot ends with status 3."""
    u32, u64 = (lambda value: struct.pack("<I", value)), (lambda value: struct.pack("<Q", value))
    files = (
        ("tensors", [(b"", 8, u64(2 ** 63))]),
        ("tensors", [(b"", 8, u64(2 ** 64 - 1))]),
        ("keys", [(b"", 16, u64(2 ** 64 - 1))]),
        ("a key", [(b"", 24, u64(2 ** 64 - 8))]),
        ("output_norm", [(b"output_norm.weight", 4, u64(2 ** 62))]),
        ("token_embd", [(b"token_embd.weight", 4, u64(2 ** 32) + u64(2 ** 32))]),
        ("offset", [(b"token_embd.weight", 24, u64(2 ** 64 - 32))]),
        ("tokenizer.ggml.scores", [(b"tokenizer.ggml.scores", 4, u32(1))]),
        ("tokenizer.ggml.tokens", [(b"tokenizer.ggml.tokens", 16, u64(2 ** 31))]),
        ("tokenizer.ggml.tokens", [(b"tokenizer.ggml.tokens", 8, u64(2 ** 61))]),
        ("tokenizer.ggml.bos_token_id", [(b"tokenizer.ggml.bos_token_id", 4, u32(2 ** 31))]),
        ("head_count", [(b"llama.attention.head_count", 4, u32(0))]),
    )
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        for word, changes in files:
            file.seek(0)
            file.write(model_file(changes))
            file.flush()
            done = run("agentix", "--set", "model.path=" + file.name, "--check")
            assert done.returncode == EXIT["MODEL"], (word, done.returncode, done.stderr)
            assert "offset" in done.stderr and word in done.stderr, (word, done.stderr)


# ---- code in data ------------------------------------------------------------------------------

def test_objects_that_unpickle():
    """SGLang CVE-2026-3059, -3060, -3989, vLLM CVE-2025-32444, -30165: input was unpickled."""
    pickle = b"\x80\x04\x95\x1d\0\0\0\0\0\0\0\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R."
    with witnessed() as a:
        closed_without_a_word(a, pickle)
        refused(a, frame(CALL, pickle), BAD_FRAME_LENGTH, closes=True)


def test_ports_that_listen_to_the_world():
    """SGLang's broker bound tcp://* by default; vLLM serves every address."""
    done = run("agentix", "--set", "net.tcp=0.0.0.0:0", "--check")
    assert done.returncode == EXIT["CONFIG"] and "0.0.0.0" in done.stderr, done.stderr
    done = run("agentix", "--set", "text.listen=[::]:0", "--check")
    assert done.returncode == EXIT["CONFIG"], done.stderr
    with Appliance(NOISE) as a:
        assert a.tcp[0] == "127.0.0.1" and a.text_address[0] == "127.0.0.1"


# ---- unauthenticated senders -------------------------------------------------------------------

def test_a_way_around_authentication():
    """CVE-2026-48746: a request that was parsed in two ways passed unauthenticated."""
    with witnessed() as a:
        for words in (call(1, [5]), cancel(1), frame(PING, bytes(8)), hello()[:60] + call(1, [5])):
            with Client(a.tcp, greet=False) as c:
                c.send(words)
                assert c.is_closed() and not c.calls
                assert all(error["closes"] for error in c.errors)


def test_errors_that_show_addresses():
    """CVE-2026-22778: an error's text showed a heap address. Texts here are fixed."""
    with witnessed() as a:
        texts = {refused(a, call(7, [5, token]), BAD_TOKEN)["text"] for token in (512, LARGEST)}
        assert len(texts) == 1


def test_scanners():
    """vllm#44486: a security scanner's probe ended the engine after a week."""
    probes = (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
              b"SSH-2.0-probe\r\n", b"\0" * 64, b"\xff" * 64, b"OPTIONS * RTSP/1.0\r\n\r\n",
              b"*1\r\n$4\r\nPING\r\n", b"\x03\x00\x00\x13\x0e\xe0", b"EHLO x\r\n", b"agx1" * 8)
    with witnessed() as a:
        for probe in probes * 5:
            closed_without_a_word(a, probe)
        for command in (b"GET /../../etc/passwd HTTP/1.0\r\n\r\n", b"POST /stats HTTP/1.1\r\n\r\n"):
            with socket.create_connection(a.text_address, timeout=HANG_S) as peer:
                peer.sendall(command)
                assert peer.recv(100).startswith(b"HTTP/1.0 4")


# ---- what one tenant learns of another ---------------------------------------------------------

def test_a_cache_that_answers_faster_for_what_others_asked():
    """CVE-2025-46570: the time to the first token showed what others had asked."""
    with witnessed() as a, Client(a.tcp) as mine, Client(a.tcp) as yours:
        mine.generate(1, LONG, max_tokens=2, program=b"my program ....!").check()
        again = mine.generate(2, LONG, max_tokens=2, program=b"my program ....!").check()
        other = yours.generate(1, LONG, max_tokens=2, program=b"your program ..!").check()
        assert again.done["cached_tokens"] > len(LONG) - 32 and other.done["cached_tokens"] == 0


def test_names_of_caches_that_come_from_the_wire():
    """CVE-2026-105754, -105756: forged salts and hashes read others' cached KV. The protocol has no
    such field; reserved bytes and unknown flags are refused."""
    with witnessed() as a:
        refused(a, frame(CALL, raw_call(ids([5]))[16:], reserved=b"\1\0\0"), 23, closes=True)
        with open(os.path.join(ROOT, "net", "frames.def"), encoding="utf-8") as rows:
            known = int(re.search(r"^FLAGS\(CALL, (\d+)\)", rows.read(), re.M)[1])
        for bit in range(known.bit_length(), 32):
            refused(a, raw_call(ids([5]), flags=1 << bit), BAD_FIELD)
        refused(a, frame(AUTH | 0x40, bytes(32)), BAD_FRAME_TYPE, closes=True)
