# SPDX-License-Identifier: MIT
"""Serving: the right tokens for any batch, threads and memory; stops; cancels; clients that vanish,
stop reading, or send rubbish."""
import contextlib
import itertools
import os
import random
import re
import signal
import socket
import struct
import threading

from appliance import EXIT, HANG_S, NOISE, Appliance, run, wait_for
from models import model
from protocol import (ADD_BOS, CALL, CANCELLED, DEADLINE, IGNORE_EOS, LENGTH, STOP_ID, STOP_TEXT,
                      WANT_TEXT, Client, Closed, call, frame, hello)
from skip import shared


def prompts(count, vocab, seed=1, longest=40):
    generator = random.Random(seed)
    return [[generator.randrange(3, vocab) for _ in range(generator.randrange(1, longest))]
            for _ in range(count)]


visits = itertools.count()


def serve_all(a, asked, at_once, begin=contextlib.nullcontext, **options):
    """The tokens of every prompt, with at most `at_once` calls open at a time, in seven new
    programs. The first calls, as many as may be open, are sent inside `begin`."""
    answers, visit = {}, next(visits)
    waiting, open_calls = list(enumerate(asked)), set()
    with Client(a.tcp) as c:
        def start_some():
            while waiting and len(open_calls) < at_once:
                index, prompt = waiting.pop(0)
                c.start(index + 1, prompt, program=struct.pack("<QQ", index % 7, visit), **options)
                open_calls.add(index + 1)

        with begin():
            start_some()
            while not all(c.calls[i].accepted for i in open_calls):
                c.step()
        while open_calls:
            c.step()
            for call_id in [i for i in open_calls if c.calls[i].done]:
                answers[call_id - 1] = c.calls[call_id].check().tokens
                open_calls.remove(call_id)
            start_some()
    return [answers[i] for i in range(len(asked))]


def test_tokens_do_not_depend_on_batch_threads_or_memory():
    asked = prompts(100, 500)
    with Appliance(NOISE, "engine.threads=1") as a:
        alone = serve_all(a, asked, 1, max_tokens=24)
    assert len({tuple(t) for t in alone}) > 50, "the answers differ from each other"
    with Appliance(NOISE, "engine.threads=1") as a:
        assert serve_all(a, asked, 32, max_tokens=24) == alone
    with Appliance(NOISE, "engine.threads=2", "sched.prefill_tokens=7",
                   "sched.steps_per_plan=3") as a:
        assert serve_all(a, asked, 32, max_tokens=24) == alone
    # Thirteen blocks of eight hold one maximal call: the others are preempted again and again. No
    # active set spares them that.
    with Appliance(NOISE, "engine.threads=2", "limits.context_tokens=96", "kv.block_tokens=8",
                   "kv.device_blocks=13", "kv.host_ratio=1", "sched.quantum=1us",
                   "sched.steps_per_plan=2", "sched.beta=8", "sched.active_set=off") as a:
        assert serve_all(a, asked, 32, a.standing_still, max_tokens=24) == alone
        assert a.stats()["preemptions"] > len(asked), a.stats()
        assert a.stats()["kv_blocks_used"] == 0


def test_tokens_do_not_depend_on_tiers_sharing_or_standbys():
    # Twelve beginnings with five ends each: much to share, and a pool for three calls at a time.
    ends = prompts(60, 500, seed=8, longest=12)
    begins = prompts(12, 500, seed=9, longest=40)
    asked = [begins[i % 12] + end for i, end in enumerate(ends)]
    small = ("limits.context_tokens=96", "kv.block_tokens=8", "kv.device_blocks=24",
             "kv.host_ratio=1", "sched.quantum=1us", "sched.batch=6")
    with Appliance(NOISE, "kv.sharing=off", "kv.host_ratio=0", "sched.standby=0") as a:
        alone = serve_all(a, asked, 1, max_tokens=24)
        assert a.stats()["swap_out_blocks"] == a.stats()["prefix_hit_tokens"] == 0
    for more in (("kv.sharing=domain", "sched.prefetch=yes", "kv.retain_device=1ms"),
                 ("kv.host_ratio=3", "sched.standby=16"), ("kv.host_ratio=0",),
                 ("kv.sharing=off", "kv.host_ratio=2"), ("sched.policy=rr", "kv.sharing=domain")):
        with Appliance(NOISE, *small, *more) as a:
            assert serve_all(a, asked, 24, a.standing_still, max_tokens=24) == alone, more
            stats = a.stats()
            assert stats["preemptions"] > 0 and stats["kv_blocks_used"] == 0, stats
            if "kv.host_ratio=0" not in more:
                out = stats["swap_out_blocks"] + stats["swap_returned_blocks"]
                assert out >= stats["swap_in_blocks"] > 0, stats
            if "kv.sharing=domain" in more:
                assert stats["prefix_hit_tokens"] > 0, stats


def test_only_the_next_call_of_a_program_finds_its_history():
    own, other = struct.pack("<QQ", 1, 2), struct.pack("<QQ", 3, 4)
    history = prompts(1, 500, seed=10)[0] * 2 + [7] * 40
    with Appliance(NOISE, "kv.sharing=program") as a, Client(a.tcp) as c:
        first = c.generate(1, history, program=own, max_tokens=20).check()
        assert first.done["cached_tokens"] == 0
        history += first.tokens + [11, 12, 13]
        mine = c.generate(2, history, program=own, max_tokens=20).check()
        theirs = c.generate(3, history, program=other, max_tokens=20).check()
        assert mine.tokens == theirs.tokens
        # All but the three new tokens and the one that was sampled but not fed.
        assert mine.done["cached_tokens"] == len(history) - 4
        assert theirs.done["cached_tokens"] == 0


def test_branches_of_a_history_begin_with_a_copy_and_give_the_same_tokens():
    # Six calls at once branch after the history, and six more before its last token: in the middle
    # of a block.
    program, ends = struct.pack("<QQ", 1, 2), prompts(12, 500, seed=11)
    history = prompts(1, 500, seed=12)[0] + [7] * 37

    def branches(*settings):
        with Appliance(NOISE, "sched.prefill_tokens=64", *settings) as a, Client(a.tcp) as c:
            known = history + c.generate(99, history, program=program, max_tokens=20).tokens
            asked = [known[:len(known) - i // 6] + end for i, end in enumerate(ends)]
            for i, prompt in enumerate(asked):
                c.start(i, prompt, program=program, max_tokens=20)
            return [c.finish(i).check() for i in range(12)], len(known), a.stats()

    alone, _, stats = branches("kv.sharing=off")
    assert stats["kv_copied_blocks"] == 0
    shared_kv, known, stats = branches("kv.sharing=program")
    assert [call.tokens for call in shared_kv] == [call.tokens for call in alone]
    # Only an earlier branch had fed the last token of the history, which was sampled.
    assert all(call.done["cached_tokens"] in (known - 1, known) for call in shared_kv)
    assert stats["kv_copied_blocks"] == 11, stats


def test_sampled_tokens_are_reproducible_too():
    asked = prompts(40, 500, seed=2)
    options = {"max_tokens": 16, "temperature": 0.9, "top_k": 50, "top_p": 0.95, "min_p": 0.01,
               "repeat_penalty": 1.1, "seed": 42}
    with Appliance(NOISE, "engine.threads=1") as a:
        alone = serve_all(a, asked, 1, **options)
    with Appliance(NOISE, "engine.threads=2", "kv.block_tokens=8", "limits.context_tokens=64",
                   "kv.device_blocks=9", "kv.host_ratio=1") as a:
        assert serve_all(a, asked, 24, **options) == alone


def test_tokens_leave_while_their_step_goes_on():
    """A step of 64 rounds has one TOKENS frame if its tokens wait for its end."""
    with Appliance(NOISE, "sched.steps_per_plan=64") as a, Client(a.tcp) as c:
        alone = c.generate(1, [5, 6, 7], max_tokens=448).check()
        ids = itertools.count(2)

        def has_streamed():
            before = a.stats()["steps"]
            outcome = c.generate(next(ids), [5, 6, 7], max_tokens=448).check()
            assert outcome.tokens == alone.tokens
            return len(outcome.queues) > a.stats()["steps"] - before
        wait_for(has_streamed, "a token leaves before its step has ended")
        stats = a.stats()
        assert 0 < stats["first_token_us_p50"] <= stats["first_token_us_p99"]
        assert 0 < stats["token_gap_us_p99"]


def test_every_policy_serves():
    asked = prompts(30, 500, seed=3)
    answers = []
    for policy in ("plas", "atlas", "mlfq", "fcfs", "rr"):
        with Appliance(NOISE, "sched.policy=" + policy, "sched.quantum=1ms") as a:
            answers.append(serve_all(a, asked, 30, max_tokens=12))
    assert all(answer == answers[0] for answer in answers)


def test_frames_name_the_queue_of_their_call():
    settings = ("sched.quantum=1us", "sched.wait_max=0", "sched.beta=0", "sched.queues=4")
    with Appliance("sched.policy=mlfq", *settings) as a, Client(a.tcp) as c:
        outcome = c.generate(1, [5, 6, 7], max_tokens=60).check()
        assert outcome.queues == sorted(outcome.queues), "nothing promotes"
        assert outcome.queues[-1] == outcome.done["queue"] == 3, outcome.queues
    with Appliance("sched.policy=fcfs", *settings) as a, Client(a.tcp) as c:
        outcome = c.generate(1, [5, 6, 7], max_tokens=60).check()
        assert set(outcome.queues) == {0} and outcome.done["queue"] == 0


def test_rounded_kv_gives_the_same_tokens_through_swaps_and_copies():
    # Eight tokens in a KV block, thirteen blocks: calls are swapped, recomputed, begun with copies.
    asked = prompts(40, 500, seed=4)
    small = ("limits.context_tokens=96", "kv.block_tokens=8", "kv.device_blocks=13",
             "kv.host_ratio=1", "sched.quantum=1us", "sched.steps_per_plan=2")
    for kind in "kv.type=f16", "kv.type=q8":
        with Appliance(NOISE, kind, "engine.threads=1", "kv.sharing=off") as a:
            alone = serve_all(a, asked, 1, max_tokens=24)
        for more in (("engine.simd=plain",), small,
                     (*small, "kv.sharing=domain", "kv.host_ratio=3")):
            with Appliance(NOISE, kind, "engine.threads=2", *more) as a:
                assert serve_all(a, asked, 24, max_tokens=24) == alone, (kind, more)
    block_bytes = {}
    for kind in "f32", "f16", "q8":
        plan = run("agentix", "--check", "--set", NOISE, "--set", "kv.type=" + kind).stdout
        row = re.search(r"^kernels kv blocks +\d+ x +(\d+)", plan, re.M)
        block_bytes[kind] = int(row[1])
    assert block_bytes["f32"] == 2 * block_bytes["f16"], block_bytes
    assert 0.5 < block_bytes["q8"] / block_bytes["f16"] < 0.8, block_bytes      # short heads


def sets_of_kernels():
    """The CPU features that each set of kernels needs; and those of this CPU."""
    takes = {"plain": set(), "auto": set(), "avx2": {"avx2", "fma", "f16c"}}
    takes["avx512"] = takes["avx2"] | {"avx512" + part for part in ("f", "bw", "vl", "dq", "_vnni")}
    takes["avx512bf16"] = takes["avx512"] | {"avx512_bf16"}
    with open("/proc/cpuinfo") as file:
        return takes, set(re.search(r"^flags\s*:(.*)$", file.read(), re.M)[1].split())


def test_all_kernels_that_the_cpu_has_give_the_same_tokens_and_others_are_refused():
    asked = prompts(10, 500, seed=4)
    takes, flags = sets_of_kernels()
    answers = []
    for simd, needed in takes.items():
        if needed <= flags:
            with Appliance(NOISE, "engine.simd=" + simd) as a:
                answers.append(serve_all(a, asked, 10))
        else:
            refused = run("agentix", "--check", "--set", NOISE, "--set", "engine.simd=" + simd)
            assert refused.returncode == EXIT["CONFIG"], (simd, refused.stderr)
            assert f"engine.simd = {simd}: this CPU lacks what that takes" in refused.stderr
    assert all(answer == answers[0] for answer in answers)


def test_weights_as_bfloats_are_those_of_a_file_of_bfloats():
    asked = prompts(10, 500, seed=4)
    takes, flags = sets_of_kernels()
    with model("llama", "--type", "bf16") as bfloats, model("llama", "--type", "f32") as floats:
        with Appliance("model.path=" + bfloats, "engine.threads=1") as a:
            expected = serve_all(a, asked, 10)
        with Appliance("model.path=" + floats) as a:
            assert serve_all(a, asked, 10) != expected, "they are rounded only if asked for"
        for simd in (simd for simd, needed in takes.items() if needed <= flags):
            with Appliance("model.path=" + floats, "model.weights=bf16", "engine.threads=2",
                           "engine.simd=" + simd) as a:
                assert serve_all(a, asked, 10) == expected, simd


def test_trained_model_answers_a_question_of_its_training():
    with Appliance() as a:
        done = run("agx", "--to", a.to, "generate", "--prompt", "What do bees make?")
        assert done.returncode == 0 and "honey" in done.stdout, done


def test_trained_model_of_others_tells_its_story():
    path = shared("models/stories260K.gguf")
    expected = open(shared("models/stories260K.expected.txt")).read()
    with Appliance("model.path=" + path) as a:
        done = run("agx", "--to", a.to, "generate", "--prompt", "", "--max-tokens", "200")
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip().startswith(expected.strip()) or \
            expected.strip().startswith(done.stdout.strip()), done.stdout


def test_text_and_tokens_agree_and_text_is_utf8():
    with Appliance(NOISE) as a, Client(a.tcp) as c:
        outcome = c.generate(1, b"hello", max_tokens=40, flags=IGNORE_EOS | WANT_TEXT | ADD_BOS)
        outcome.check()
        outcome.text.decode("utf-8")
        assert outcome.text
        ids = c.generate(2, b"hello", max_tokens=40, flags=IGNORE_EOS | ADD_BOS).check()
        assert ids.tokens == outcome.tokens and ids.text == b""


def test_stop_ids_and_stop_strings_end_a_call():
    with Appliance(NOISE) as a, Client(a.tcp) as c:
        free = c.generate(1, [5, 6, 7], max_tokens=60, flags=IGNORE_EOS | WANT_TEXT).check()
        stop = free.tokens[10]
        first = free.tokens.index(stop)
        ended = c.generate(2, [5, 6, 7], max_tokens=60, stop_ids=(stop,)).check()
        assert ended.done["finish"] == STOP_ID
        assert ended.tokens == free.tokens[:first + 1]
        text = free.text.decode("utf-8", "replace")
        word = text[len(text) // 2:len(text) // 2 + 3].encode()
        if b"\xef\xbf\xbd" in word or not word.strip():
            word = text[3:5].encode()
        ended = c.generate(3, [5, 6, 7], max_tokens=60, flags=IGNORE_EOS | WANT_TEXT,
                           stop_texts=(word,)).check()
        assert ended.done["finish"] == STOP_TEXT, ended.done
        assert word not in ended.text and free.text.startswith(ended.text)


def test_cancel_and_deadline_end_calls_and_give_everything_back():
    with Appliance() as a, Client(a.tcp) as c:
        for i in range(1, 9):
            c.start(i, [4] * 30, max_tokens=900)
        while not c.calls[1].tokens:
            c.step()
        for i in range(1, 9):
            c.cancel(i)
        for i in range(1, 9):
            assert c.finish(i).check().done["finish"] in (CANCELLED, LENGTH)
        ended = c.generate(20, [4] * 30, max_tokens=900, deadline=1000).check()
        assert ended.done["finish"] == DEADLINE
        wait_for(lambda: a.stats()["kv_blocks_used"] == 0, "blocks are back")
        assert a.stats()["calls_open"] == 0


def test_refusals_name_the_field_and_the_connection_lives():
    with Appliance() as a, Client(a.tcp) as c:
        vocab, context = c.welcome["vocab_tokens"], c.welcome["context_tokens_max"]
        nan = struct.unpack("<f", b"\0\0\xc0\x7f")[0]
        for options, prompt in (({}, []), ({}, [vocab]), ({}, [1] * context),
                                ({"max_tokens": 0}, [1]), ({"max_tokens": context}, [1]),
                                ({"temperature": nan}, [1]), ({"temperature": -1.0}, [1]),
                                ({"temperature": float("inf")}, [1]), ({"top_p": 1.5}, [1]),
                                ({"top_p": 0.0}, [1]), ({"min_p": 1.0}, [1]),
                                ({"repeat_penalty": nan}, [1]), ({"flags": 1 << 20}, [1]),
                                ({"deadline": 2 ** 63}, [1]), ({"stop_ids": (vocab,)}, [1])):
            outcome = c.generate(7, prompt, **options)
            assert outcome.error is not None, (options, len(prompt))
            assert outcome.error["field"] != 0 and outcome.error["text"], outcome.error
            assert outcome.error["closes"] == 0
        c.generate(8, [1, 2, 3]).check()
        c.cancel(8)
        assert "no open call" in c.error()["text"]


def test_the_same_call_id_twice_is_refused():
    with Appliance() as a, Client(a.tcp) as c, Client(a.tcp) as other:
        with a.standing_still():
            c.start(1, [1, 2])
            c.step()
            outcome = other.generate(1, [1, 2], program=c.program)
            assert "another connection" in outcome.error["text"]
        other.generate(1, [1, 2], program=b"another program!").check()
        c.finish(1).check()


def test_strangers_are_closed_and_other_clients_go_on():
    with Appliance() as a, Client(a.tcp) as honest:
        honest.start(1, [1, 2, 3], max_tokens=300)
        for opening in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b"SSH-2.0-OpenSSH_9.2\r\n",
                        os.urandom(64), b"\0" * 32):
            with socket.create_connection(a.tcp, timeout=HANG_S) as s:
                s.sendall(opening)
                with contextlib.suppress(ConnectionResetError):
                    assert s.recv(100) == b"", opening
        for opening in (frame(99), frame(CALL, b"x" * 100)[:-1] + b"y", frame(1, b"z" * 68),
                        frame(7, b"12345678", checksum=1), frame(7, length=2 ** 32 - 1),
                        frame(7, b"12345678", reserved=b"\1\0\0"), hello(2, 9),
                        call(1, [1]), frame(2, b"key")):
            with Client(a.tcp, greet=False) as s:
                s.send(opening)
                try:
                    while True:
                        kind, _ = s.receive()
                except Closed:
                    pass
                except socket.timeout:
                    raise AssertionError("left open: %r" % opening[:20])
        with Client(a.tcp) as s:
            s.send(hello())
            assert s.error()["closes"] == 0, "a second HELLO is refused, the connection lives"
            s.generate(5, [1, 2], program=b"0123456789abcdef").check()
        honest.finish(1).check()
        a.wait_ready()


def test_a_worker_that_is_killed_costs_nothing_but_time(kills=int(os.environ.get("KILLS", "100"))):
    asked = prompts(60, 500, seed=5)
    with Appliance(NOISE, "engine.threads=1") as a:
        alone = serve_all(a, asked, 16, max_tokens=200)
    with Appliance(NOISE, "engine.threads=2", "engine.failures=0") as a:
        answers, enough = [], threading.Event()

        def serve():
            while not enough.is_set():
                answers.append(serve_all(a, asked, 16, max_tokens=200))
        server = threading.Thread(target=serve)
        server.start()
        for _ in range(kills):
            steps = a.stats()["steps"]
            pid = a.worker
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: a.children().get("agentix-worker") not in (None, pid), "a new worker")
            # Those whom the last death met have shown by then that they are not its cause.
            wait_for(lambda: a.stats()["steps"] > steps + 40 or not server.is_alive(), "progress")
            assert server.is_alive(), "the client ended early"
        enough.set()
        server.join(HANG_S * 3)
        print("  worker killed %d times, %d calls" % (kills, len(answers) * len(asked)))
        assert answers and all(round_ == alone for round_ in answers)
        assert a.stats()["engine_restarts"] == kills


class Crowd(threading.Thread):
    """One client of many: `obey`, `vanish` at a random moment, or `stall` (sends, never reads)."""

    def __init__(self, a, number, kind):
        super().__init__(daemon=True)
        self.a, self.number, self.kind = a, number, kind
        self.random = random.Random(number)
        self.program = struct.pack("<QQ", number, 77)
        self.answers = []

    def prompt(self, index):
        return [3 + (self.number * 31 + index * 7 + i) % 400 for i in range(10)]

    def run(self):
        with Client(self.a.tcp, receive_bytes=4096 if self.kind == "stall" else None) as c:
            getattr(self, self.kind)(c)

    def obey(self, c):
        for index in range(3):
            c.start(index + 1, self.prompt(index), max_tokens=20, program=self.program)
            self.answers.append(c.finish(index + 1).check().tokens)

    def vanish(self, c):
        for index in range(3):
            c.start(index + 1, self.prompt(index), max_tokens=200, program=self.program)
        for _ in range(self.random.randrange(12)):
            c.step()
        c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def stall(self, c):
        for index in range(6):
            c.send(call(index + 1, self.prompt(index), max_tokens=900, program=self.program,
                        flags=IGNORE_EOS | WANT_TEXT))
        wait_for(lambda: self.a.obeyed, "the others are done", HANG_S * 3)


def test_two_hundred_clients_some_vanish_some_never_read():
    kinds = ["stall"] * 20 + ["vanish"] * 20 + ["obey"] * 160
    # A place for each handshake: threads that share an interpreter are late with their HELLO.
    with Appliance(NOISE, "net.write_deadline=1s", "net.send_bytes=4KiB", "limits.calls=512",
                   "net.preauth=%d" % len(kinds)) as a:
        a.obeyed = False
        crowd = [Crowd(a, number, kind) for number, kind in enumerate(kinds)]
        for client in crowd:
            client.start()
        for client in crowd:
            if client.kind != "stall":
                client.join(HANG_S * 3)
        wait_for(lambda: a.stats()["connections_dropped"] == 20, "slow readers are dropped")
        a.obeyed = True
        for client in crowd:
            client.join(HANG_S)
        assert all(len(client.answers) == 3 for client in crowd if client.kind == "obey")
        a.wait_back()
        a.wait_ready()
        with Client(a.tcp) as c:
            for client in crowd[40:]:
                for index, tokens in enumerate(client.answers):
                    alone = c.generate(3 * client.number + index, client.prompt(index),
                                       max_tokens=20)
                    assert alone.check().tokens == tokens
