# SPDX-License-Identifier: MIT
"""The museum: what other engines died of, or hung on, or gave away. Each exhibit says what happened
there, does it here, and sees that it costs its sender one call or one connection: a witness whose
call runs meanwhile gets its tokens as if alone, and everything comes back.

What needs no whole appliance hangs elsewhere: collisions of the hash of KV blocks (CVE-2025-25183)
in unit kvmem/cache, `collisions_are_compared_in_full`; a slot that is used again before its old
result comes (LMCache#4185) in unit sched/settle and sched/intake; health that says 200 over a dead
engine (vllm#39863, llama.cpp#27388) in text, `health_leaves_ready_when_the_worker_is_stopped`;
memory that grows for hours (vllm#28726, sglang#6914, ollama#18264) in memory; ends in an orderly
way (vllm#24885, sglang#1838) in boot, `sigterm_drains_and_open_calls_finish`; clients that do not
read (xinference#5213) in serve, `two_hundred_clients_some_vanish_some_never_read`."""
import contextlib
import socket
import struct
import tempfile

from appliance import HANG_S, NOISE, RANDOM_MODEL, Appliance, run, wait_for
from protocol import (ADD_BOS, AUTH, CALL, CANCELLED, DEADLINE, IGNORE_EOS, LENGTH, PING,
                      TEXT_PROMPT, Client, Closed, Outcome, call, cancel, frame, hello, pack)
from skip import open_files

BUSY_CALLS, BAD_FRAME_TYPE, BAD_FRAME_LENGTH, BAD_FIELD, BAD_CALL_UNKNOWN = 1, 18, 19, 22, 25
BAD_PROMPT_LENGTH, BAD_TOKEN, BAD_FRAME_ORDER, BAD_TEXT = 28, 29, 21, 30
PROMPT = list(range(3, 40))
LARGEST = 2 ** 32 - 1
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
def hall(*settings, max_tokens=120):
    """An appliance with a witness whose call runs while the exhibit is shown."""
    expected = reference(max_tokens)
    with Appliance(NOISE, *settings) as a:
        with Client(a.tcp) as witness:
            witness.start(1, PROMPT, max_tokens=max_tokens, program=b"the witness ....")
            yield a
            assert witness.finish(1).check().tokens == expected
        everything_is_back(a)


def start_together(client, *calls, first=1):
    """Calls first, first + 1, ... of a program each, in one send: they come in one order, whatever
    the time."""
    words = b""
    for call_id, options in enumerate(calls, first):
        client.calls[call_id] = Outcome()
        words += call(call_id, PROMPT, program=b"together %07d" % call_id, **options)
    client.send(words)


def raw_call(prompt=b"", **fields):
    """A CALL whose fields are what they are."""
    values = {"call_id": 7, "program_id": b"raw-program-0001", "max_tokens": 4, "top_p": 1.0,
              "repeat_penalty": 1.0, "prompt_count": len(prompt) // 4, **fields}
    return frame(CALL, pack(CALL, **values) + prompt)


def ids(tokens):
    return struct.pack("<%dI" % len(tokens), *tokens)


def refused(a, words, code, closes=False):
    """What is sent gets this ERROR, and the connection lives exactly if it should."""
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


# ---- one bad field ends everything -------------------------------------------------------------

def test_a_prompt_of_nothing():
    """CVE-2024-8768: an empty prompt ended vLLM's server."""
    with hall() as a:
        refused(a, raw_call(), BAD_FIELD)
        refused(a, raw_call(flags=TEXT_PROMPT), BAD_FIELD)
        with Client(a.tcp) as c:
            c.generate(1, b"", flags=IGNORE_EOS | ADD_BOS, max_tokens=2).check()


def test_tokens_that_no_vocabulary_has():
    """CVE-2025-48942 and its kin: what a request names is used before it is looked at."""
    with hall() as a:
        for token in (512, 2 ** 31 - 1, 2 ** 31, LARGEST):
            assert refused(a, call(7, [5, token]), BAD_TOKEN)["found"] == token
            refused(a, call(7, [5], stop_ids=(token,)), BAD_TOKEN)


def test_more_stops_than_there_is_room_for():
    """CVE-2026-116173: more than 128 token ids in one field ended vLLM's engine."""
    with hall() as a:
        for count in (16, 129, 255):
            refused(a, raw_call(ids([1] * count) + ids([5]), stop_ids=count, prompt_count=1),
                    BAD_FIELD)
        refused(a, raw_call(ids([5]) + 5 * b"\1\0x", stop_texts=5, prompt_count=1), BAD_FIELD)
        refused(a, call(7, [5], stop_texts=(65 * b"x",)), BAD_FIELD)


def test_numbers_that_are_none():
    """CVE-2025-48943, -48944: a parameter that nobody checked reached the engine loop."""
    nan, infinite = float("nan"), float("inf")
    with hall() as a:
        for name, values in (("temperature", (nan, infinite, -infinite, -1.0, 1e-9, 1e30)),
                             ("top_p", (nan, 0.0, -0.5, 1.5, infinite)),
                             ("min_p", (nan, -0.1, 1.0)),
                             ("repeat_penalty", (nan, 0.0, -1.0, 11.0))):
            for value in values:
                refused(a, raw_call(ids([5]), **{name: value}), BAD_FIELD)


def test_limits_that_contradict_each_other():
    """CVE-2026-114051: fewest tokens above most tokens; CVE-2026-34756: n as large as one likes."""
    with hall() as a:
        for most in (0, 2 ** 31, LARGEST):
            refused(a, raw_call(ids([5]), max_tokens=most), BAD_FIELD)
        refused(a, raw_call(ids([5]), max_tokens=2 ** 31 - 1), BAD_PROMPT_LENGTH)
        for name in ("flags", "top_k"):
            refused(a, raw_call(ids([5]), **{name: LARGEST}), BAD_FIELD)


def test_a_request_with_a_part_missing():
    """CVE-2026-94622: a key that was not there ended vLLM's engine."""
    whole = call(7, [5, 6, 7])[16:]
    with hall() as a:
        for length in (0, 1, 79, len(whole) - 1):
            refused(a, frame(CALL, whole[:length]), BAD_FRAME_LENGTH, closes=True)


def test_negative_counts():
    """CVE-2026-21869: a negative n_discard wrote before llama.cpp's buffer."""
    with hall() as a:
        for count in (-1 & LARGEST, 2 ** 31, 2 ** 30, 5):
            refused(a, raw_call(ids([5, 6]), prompt_count=count), BAD_FRAME_LENGTH, closes=True)
        refused(a, raw_call(ids([5]), deadline=2 ** 63), BAD_FIELD)


def test_text_that_is_none():
    """PYSEC-2026-2303 and its kin: text that does not decode ended the process that decoded it."""
    with hall() as a:
        for text in (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a\x80"):
            refused(a, call(7, text), BAD_TEXT)
        refused(a, call(7, b"a", stop_texts=(b"\xff",)), BAD_TEXT)


# ---- work and memory without bounds ------------------------------------------------------------

def test_a_flood_that_blocks_the_event_loop():
    """CVE-2025-62426: one client's work kept vLLM's event loop from everybody else's."""
    with hall() as a, Client(a.tcp) as flood:
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


def test_text_that_takes_square_time():
    """CVE-2025-46560: a prompt whose tokenization took square time held the server."""
    with hall() as a, Client(a.tcp) as c:
        for unit in (b" ", b"a", b"aaaaaaab", "\u00e9".encode(), b"<", b"<s>"):
            text = unit * (60000 // len(unit))
            outcome = c.generate(1, text, max_tokens=1)
            assert outcome.error is None or outcome.error["status"] == BAD_PROMPT_LENGTH
            assert outcome.error is not None or outcome.check()


def test_stop_texts_that_nearly_match_for_ever():
    """CVE-2025-48887: patterns of a request that took exponential time."""
    stops = tuple(b"a" * n + b"\xe2\x98\x83" for n in (61, 60, 59, 58))
    with hall() as a, Client(a.tcp) as c:
        c.generate(1, PROMPT, max_tokens=200, stop_texts=stops).check()


def test_a_cache_that_fills_the_disk():
    """CVE-2025-29770: what requests made vLLM compile was kept on disk, without end."""
    with hall() as a:
        for role in (a.core, a.worker):
            for target in open_files(role):
                assert not target.startswith("/") or target == "/dev/null", target


# ---- sizes that are computed with --------------------------------------------------------------

def test_lengths_of_frames():
    """CVE-2026-118375, memcached's family: a length from the wire was believed."""
    with hall() as a:
        for length in (0, 1, 79, 2 ** 24, 2 ** 31 - 1, 2 ** 31, LARGEST):
            refused(a, frame(CALL, b"", length=length), BAD_FRAME_LENGTH, closes=True)


def model_file(changes):
    """The random model with these (key, bytes behind the key, new bytes)."""
    with open(RANDOM_MODEL, "rb") as file:
        model = bytearray(file.read())
    for key, behind, new in changes:
        name = struct.pack("<Q", len(key)) + key
        at = model.index(name) + len(name) + behind if key else behind
        model[at:at + len(new)] = new
    return bytes(model)


def test_model_files_that_lie():
    """CVE-2025-53630, -2026-27940 (sizes that overflow), -2024-23505 and -21825 (counts of keys and
    lengths of texts), -2025-49847, -52566 (tokens' lengths as signed numbers), scores of another
    type that were read as floats: llama.cpp wrote where it should not. Here boot ends with 3."""
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
            assert done.returncode == 3, (word, done.returncode, done.stderr)
            assert "offset" in done.stderr and word in done.stderr, (word, done.stderr)


# ---- code in data ------------------------------------------------------------------------------

def test_objects_that_unpickle():
    """SGLang CVE-2026-3059, -3060, -3989, vLLM CVE-2025-32444, -30165: what came in was
    unpickled."""
    pickle = b"\x80\x04\x95\x1d\0\0\0\0\0\0\0\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R."
    with hall() as a:
        closed_without_a_word(a, pickle)
        refused(a, frame(CALL, pickle), BAD_FRAME_LENGTH, closes=True)


def test_ports_that_listen_to_the_world():
    """SGLang's broker bound tcp://* by default; vLLM serves whoever comes."""
    done = run("agentix", "--set", "net.tcp=0.0.0.0:0", "--check")
    assert done.returncode == 2 and "0.0.0.0" in done.stderr, done.stderr
    done = run("agentix", "--set", "text.listen=[::]:0", "--check")
    assert done.returncode == 2, done.stderr
    with Appliance(NOISE) as a:
        assert a.tcp[0] == "127.0.0.1" and a.text_address[0] == "127.0.0.1"


# ---- who has not said who he is ----------------------------------------------------------------

def test_a_way_around_the_door():
    """CVE-2026-48746: a request that was parsed in two ways passed unauthenticated."""
    with hall() as a:
        for words in (call(1, [5]), cancel(1), frame(PING, bytes(8)), hello()[:60] + call(1, [5])):
            with Client(a.tcp, greet=False) as c:
                c.send(words)
                assert c.is_closed() and not c.calls
                assert all(error["closes"] for error in c.errors)


def test_errors_that_tell_of_memory():
    """CVE-2026-22778: an error's text told an address of the heap. Texts here are fixed ones."""
    with hall() as a:
        texts = {refused(a, call(7, [5, token]), BAD_TOKEN)["text"] for token in (512, LARGEST)}
        assert len(texts) == 1


def test_scanners():
    """vllm#44486: a security scanner's probe ended the engine after a week."""
    probes = (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
              b"SSH-2.0-probe\r\n", b"\0" * 64, b"\xff" * 64, b"OPTIONS * RTSP/1.0\r\n\r\n",
              b"*1\r\n$4\r\nPING\r\n", b"\x03\x00\x00\x13\x0e\xe0", b"EHLO x\r\n", b"agx1" * 8)
    with hall() as a:
        for probe in probes * 5:
            closed_without_a_word(a, probe)
        for command in (b"GET /../../etc/passwd HTTP/1.0\r\n\r\n", b"POST /stats HTTP/1.1\r\n\r\n"):
            with socket.create_connection(a.text_address, timeout=HANG_S) as peer:
                peer.sendall(command)
                assert peer.recv(100).startswith(b"HTTP/1.0 4")


# ---- who goes, and who changes his mind --------------------------------------------------------

LONG = list(range(3, 500)) + list(range(3, 300))


def gone_when(a, reached, prompt=PROMPT, max_tokens=100):
    """A client that leaves as soon as its call has come so far."""
    with Client(a.tcp) as c:
        outcome = c.start(1, prompt, max_tokens=max_tokens, program=b"leaving client..")
        while not reached(outcome):
            c.step()


def test_clients_that_leave_while_their_prompt_is_computed():
    """llama.cpp#24496, ds4#333: five prefills of a conversation, each for a client long gone."""
    with hall("sched.prefill_tokens=16", "kv.sharing=off") as a:
        before = a.stats()["tokens_computed"]
        for _ in range(5):
            with a.standing_still():
                gone_when(a, lambda outcome: outcome.accepted, LONG)
                a.wait_stats(connections_open=1)
        wait_for(lambda: a.stats()["calls_cancelled"] == 5, "the leavers' calls are gone")
        computed = a.stats()["tokens_computed"] - before
        assert computed < 5 * len(LONG), computed


def test_clients_that_leave_in_mid_answer():
    """llama.cpp#13262, Rapid-MLX#1759: slots that stayed taken for clients that had gone."""
    with hall("sched.batch=2") as a:
        for _ in range(20):
            gone_when(a, lambda outcome: outcome.tokens)


def test_clients_that_leave_in_the_queue():
    """am17an/llama.cpp#20: a slot was wedged for 14 hours."""
    with hall("sched.batch=1", "sched.standby=0", max_tokens=200) as a:
        for _ in range(20):
            gone_when(a, lambda outcome: outcome.accepted)


def test_clients_that_close_one_half():
    """vllm#44100: a client that had said all it would say was taken for one that listens."""
    with hall() as a:
        for _ in range(10):
            with Client(a.tcp) as c:
                c.start(1, PROMPT, max_tokens=100)
                c.socket.shutdown(socket.SHUT_WR)
                with contextlib.suppress(Closed):
                    while True:
                        c.step()


def test_an_abort_that_stops_everybody():
    """llama.cpp#27604: after an abort nobody was served any more."""
    with hall() as a, Client(a.tcp) as c:
        for call_id in range(1, 101):
            c.start(call_id, PROMPT, max_tokens=100)
            c.send(cancel(call_id))
            assert c.finish(call_id).check().done["finish"] in (CANCELLED, LENGTH)


def test_a_cancel_that_meets_somebody_else():
    """ik_llama.cpp#1929: one client's cancel ended another's decoding."""
    with hall() as a, Client(a.tcp) as c:
        for program in (b"the witness ....", b"e2e-program-0001"):
            for call_id in (0, 1, 2, 2 ** 64 - 1):
                c.send(cancel(call_id, program))
                assert c.error()["status"] == BAD_CALL_UNKNOWN


def test_a_result_that_comes_for_who_is_gone():
    """LMCache#4185: a late completion of an aborted request ended the engine."""
    with hall("limits.calls=2", "sched.steps_per_plan=16") as a:
        for i in range(60):
            with Client(a.tcp) as c:
                c.start(1, PROMPT, max_tokens=100, program=b"late %011d" % i)
                if i % 3:
                    c.step()


# ---- pools that are full -----------------------------------------------------------------------

def test_a_call_that_can_never_fit():
    """vllm#35541: it waited for ever, and everybody behind it did."""
    with hall("limits.context_tokens=256") as a:
        refused(a, call(7, [5] * 200, max_tokens=57), BAD_PROMPT_LENGTH)
        refused(a, call(7, [5], max_tokens=256), BAD_PROMPT_LENGTH)
        with Client(a.tcp) as c:
            c.generate(1, [5] * 200, max_tokens=56).check()
    done = run("agentix", "--set", "kv.device_blocks=3", "--check")
    assert done.returncode == 2 and "kv.device_blocks" in done.stderr, done.stderr


def many_calls_through(a, calls, max_tokens):
    with Client(a.tcp) as c:
        with a.standing_still():
            for call_id in range(1, calls + 1):
                c.start(call_id, PROMPT, max_tokens=max_tokens, program=b"many %011d" % call_id)
            while not all(call.accepted for call in c.calls.values()):
                c.step()
        for call_id in range(1, calls + 1):
            assert c.finish(call_id).check().tokens == reference(max_tokens)


def test_a_pool_that_is_full():
    """vllm#1206, #1607, #1927, sglang#10408, #36081: no block left, and then a hang or a crash."""
    with hall("limits.context_tokens=256", "kv.device_blocks=16", "kv.host_ratio=0",
              "sched.quantum=1ms") as a:
        many_calls_through(a, 16, 120)
        assert a.stats()["recomputed_tokens"] > 0


def test_preempted_calls_that_thrash():
    """vllm#5051, #24256, inference-sim#963: they took each other's memory in turn and got
    nowhere."""
    with hall("limits.context_tokens=256", "kv.device_blocks=16", "sched.quantum=1us",
              "sched.steps_per_plan=1") as a:
        many_calls_through(a, 16, 120)


def test_preempted_calls_that_compute_all_again():
    """vllm#18115: a preempted request could only be recomputed. With a host tier it seldom is."""
    with hall("limits.context_tokens=256", "kv.device_blocks=16", "kv.host_ratio=20",
              "sched.quantum=1ms") as a:
        many_calls_through(a, 16, 120)
        stats = a.stats()
        assert stats["preemptions"] > 0 and stats["swap_in_blocks"] > 0
        assert stats["recomputed_tokens"] * 10 < stats["restored_tokens"], stats


def test_sessions_that_hold_what_others_wait_for():
    """sglang#27024, #29099: open sessions kept their memory, and nobody could go on."""
    with hall("limits.context_tokens=256", "kv.device_blocks=16", "kv.retain_device=1h",
              "kv.retain_host=1h", "kv.retain_drop=1h", "kv.host_ratio=0") as a:
        with Client(a.tcp) as c:
            for i in range(1, 11):
                c.generate(i, PROMPT, max_tokens=100, program=b"session %08d" % i).check()
            c.generate(99, [5] * 200, max_tokens=56, program=b"one that needs it").check()


def test_a_queue_without_an_end():
    """vllm#18826, #2901, llama.cpp PR#5018: whoever came was queued; nobody was told how long."""
    with hall("limits.calls=8", "sched.batch=1") as a, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(a.tcp)) for _ in range(4)]    # none has too many
        with a.standing_still():
            for i, c in enumerate(clients):
                start_together(c, *5 * [{"max_tokens": 100}], first=1 + 5 * i)
            for c in clients:
                while not all(call.accepted or call.error for call in c.calls.values()):
                    c.step()
        outcomes = [c.finish(call_id) for c in clients for call_id in list(c.calls)]
        errors = [outcome.error for outcome in outcomes if outcome.error is not None]
        assert len(errors) in (12, 13), len(errors)     # with or without the witness
        assert all(error["status"] == BUSY_CALLS and error["max"] == 8 for error in errors), errors


def test_an_end_in_the_queue_that_looks_like_an_answer():
    """atlas#482: whose time was over in the queue was told that his answer was complete."""
    with hall("sched.batch=1", "sched.standby=0", "sched.policy=fcfs") as a, Client(a.tcp) as c:
        start_together(c, {"max_tokens": 200}, {"max_tokens": 50, "deadline": 1})
        done = c.finish(2).check().done
        assert done["finish"] == DEADLINE and done["generated_tokens"] == 0, done
        assert c.finish(1).check().done["finish"] == LENGTH


# ---- order -------------------------------------------------------------------------------------

def test_priority_that_cannot_displace():
    """vllm#40004, llama.cpp#22916: who runs runs to the end, whatever waits."""
    with hall("sched.batch=1", "sched.standby=0", "sched.quantum=1us") as a, Client(a.tcp) as c:
        start_together(c, {"max_tokens": 400}, {"max_tokens": 4})
        c.finish(2).check()
        assert c.calls[1].done is None, "the short one was done before the long one"
        c.finish(1).check()


def test_starvation_by_those_who_come_later():
    """vllm#11067, sglang#31954: a running request starved behind a stream of new ones."""
    expected = reference(100)
    with Appliance(NOISE, "sched.batch=1", "sched.standby=0", "sched.quantum=1ms",
                   "sched.queues=8", "sched.wait_max=50ms") as a:
        with Client(a.tcp) as old, Client(a.tcp) as young:
            old.socket.setblocking(False)
            old.start(1, PROMPT, max_tokens=100, program=b"who came first..")
            in_flight = 32
            for call_id in range(1, in_flight + 1):
                young.start(call_id, PROMPT, max_tokens=8, program=b"young %010d" % call_id)
            newest = in_flight
            while old.calls[1].done is None:
                with contextlib.suppress(BlockingIOError):
                    old.step()
                young.finish(newest - in_flight + 1).check()
                newest += 1
                young.start(newest, PROMPT, max_tokens=8, program=b"young %010d" % newest)
            assert old.calls[1].check().tokens == expected
            for call_id in range(newest - in_flight + 1, newest + 1):
                young.finish(call_id)


# ---- what one tenant learns of another ---------------------------------------------------------

def test_a_cache_that_answers_faster_for_what_others_asked():
    """CVE-2025-46570: the time to the first token told what others had asked before."""
    with hall() as a, Client(a.tcp) as mine, Client(a.tcp) as yours:
        mine.generate(1, LONG, max_tokens=2, program=b"my program ....!").check()
        again = mine.generate(2, LONG, max_tokens=2, program=b"my program ....!").check()
        other = yours.generate(1, LONG, max_tokens=2, program=b"your program ..!").check()
        assert again.done["cached_tokens"] > len(LONG) - 32 and other.done["cached_tokens"] == 0


def test_names_of_caches_that_come_from_the_wire():
    """CVE-2026-105754, -105756: forged salts and hashes read what others had cached. The wire has
    no such field; reserved bytes and unknown flags are refused."""
    with hall() as a:
        refused(a, raw_call(ids([5]), reserved=b"\1"), 23, closes=True)
        for bit in range(5, 32):
            refused(a, raw_call(ids([5]), flags=1 << bit), BAD_FIELD)
        refused(a, frame(AUTH | 0x40, bytes(32)), BAD_FRAME_TYPE, closes=True)
