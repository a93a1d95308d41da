# SPDX-License-Identifier: MIT
"""A core that dies has a successor: listeners, weights, workers and connections stay, and calls go
on. One that dies too often ends the appliance."""
import contextlib
import itertools
import os
import re
import signal
import struct
import tempfile

from appliance import (HANG_S, NOISE, Appliance, is_alive, memory_bytes, run, stop, stopped,
                       wait_for)
from frames import STATUSES
from protocol import (CANCELLED, IGNORE_EOS, PING, PROGRAM, TOKENS as TOKENS_FRAME, WANT_TEXT,
                      Client, frame)
from test_auth import ALICE, BOB, CAROL
from test_hostile import EXIT
from test_reload import Files, is_refused, reload, served
from skip import long
from test_restart import expect_ids, generate, open_calls, right_answers
from test_worker import PROMPT, flip_weight

CALLS, TOKENS = 8, 900


def kill_core(a, waits=True):
    """Returns when another one has taken its place: the one that `waits`, or whichever comes."""
    core = a.core
    heir = a.next_core if waits else None
    os.kill(core, signal.SIGKILL)
    wait_for(lambda: a.children().get("agentix-core", core) != core, "there is another core")
    assert heir in (None, a.core)


def leave_a_step(a, c):
    """A worker that is stopped in a step of a core that has died."""
    worker, accepted = a.worker, a.stats()["calls_accepted"]
    c.start(1, PROMPT, max_tokens=900)
    a.wait_stats(calls_accepted=accepted + 1)
    stop(worker)
    c.start(2, PROMPT + [2], max_tokens=900)    # the first call may have ended meanwhile
    a.wait_stats(calls_accepted=accepted + 2)
    wait_for(lambda: a.stats()["calls_running"] >= 1, "it has a step still")
    kill_core(a)
    return worker


def test_clients_go_on_with_the_next_core_and_the_same_worker():
    right = right_answers(CALLS, TOKENS)
    with Appliance(NOISE) as a:
        clients, worker = open_calls(a, CALLS, TOKENS), a.worker
        stop(worker)
        kill_core(a)
        os.kill(worker, signal.SIGCONT)
        for client, tokens in zip(clients, right):
            assert "broke" not in expect_ids(client, tokens)
        stats = a.stats()
        assert a.worker == worker
        assert stats["core_restarts"] == 1 and stats["engine_restarts"] == 0, stats
        assert stats["calls_accepted"] == stats["calls_completed"], stats
        a.wait_said("another core takes over")
        a.wait_ready()


def test_cores_die_again_and_again_under_calls():
    right = right_answers(CALLS, TOKENS)
    with Appliance(NOISE, "appliance.core_failures=0") as a:
        clients, worker = open_calls(a, CALLS, TOKENS), a.worker
        for deaths in range(1, 21):
            if all(client.poll() is not None for client in clients):
                break
            kill_core(a, waits=deaths % 2 == 0)
        for client, tokens in zip(clients, right):
            assert "broke" not in expect_ids(client, tokens)
        assert a.worker == worker and a.stats()["core_restarts"] >= deaths - 1 > 0


@long
def test_a_thousand_deaths_under_calls_cost_no_token():
    """One whenever a client has its answer, and another has taken its place."""
    right, asked = right_answers(CALLS, 100), CALLS
    with Appliance(NOISE, "appliance.core_failures=0") as a:
        clients, worker = open_calls(a, CALLS, 100), a.worker
        while a.said("another core") < 1000:
            wait_for(lambda: any(client.poll() is not None for client in clients), "one has ended")
            for number, client in enumerate(clients):
                if client.poll() is not None:
                    expect_ids(client, right[number])
                    clients[number] = generate(a.to, number, 100)
                    asked += 1
            kill_core(a)
        for client, tokens in zip(clients, right):
            expect_ids(client, tokens)
        assert a.worker == worker and a.stats()["core_restarts"] >= 1000
    print("  1000 deaths, %d calls, each right" % asked)


def test_a_reply_outlives_the_core():
    """Sent again, its call is answered from the record; another call with its ids is refused."""
    with Appliance(NOISE) as a:
        with Client(a.tcp) as c:
            first = c.generate(1, PROMPT, program=PROGRAM, max_tokens=200).check()
        for deaths in (1, 2):
            kill_core(a)
            a.wait_ready()
            with Client(a.tcp) as c:
                again = c.generate(1, PROMPT, again=True, program=PROGRAM, max_tokens=200).check()
                other = c.generate(1, PROMPT, program=PROGRAM, max_tokens=201)
                assert STATUSES[other.error["status"]][0] == "BAD_CALL_REUSED", other.error
            stats = a.stats()
            assert again.tokens == first.tokens and again.done == first.done
            assert stats["calls_replayed"] == 1 and stats["tokens_generated"] == 0, stats
            assert stats["core_restarts"] == deaths


KINDS = (                           # of calls, which leave different things
    {},
    {"temperature": 1.0, "seed": 7, "presence_penalty": 0.5},
    {"flags": IGNORE_EOS | WANT_TEXT},
    {"logprobs": 1, "top_logprobs": 2},
    {"flags": IGNORE_EOS | WANT_TEXT, "logprobs": 1, "stop_texts": (b"no such text",)},
)


def said(outcome):
    outcome.check()
    return outcome.tokens, outcome.text, outcome.logprobs, outcome.done["finish"]


def start_all(c):
    for number, options in enumerate(KINDS):
        c.start(number, PROMPT + [number], max_tokens=400, **options)


def test_a_client_sees_nothing_of_a_death():
    """Each frame once and in order, on the connection that it has, while the core dies between its
    frames; what it has sent in halves, and a command, are not lost either."""
    with Appliance(NOISE, "appliance.core_failures=0") as a:
        with Client(a.tcp) as c:
            start_all(c)
            right = [said(c.finish(number)) for number in range(len(KINDS))]
        with Client(a.tcp) as c:
            start_all(c)
            for deaths in range(1, 11):
                while c.step() != TOKENS_FRAME:
                    pass
                ping = frame(PING, struct.pack("<Q", deaths))
                c.send(ping[:9])
                kill_core(a)
                c.send(ping[9:])
            assert [said(c.finish(number)) for number in range(len(KINDS))] == right
            c.send(frame(PING, struct.pack("<Q", 0)))
            while 0 not in c.pongs:
                c.step()
            assert c.pongs == list(range(1, 11)) + [0] and not c.errors
            stats = a.stats()
        assert stats["connections_kept"] == 1 and stats["connections_accepted"] == 0, stats
        assert stats["core_restarts"] == 10, stats


def test_what_a_slow_client_has_not_read_is_not_lost():
    with Appliance(NOISE, "appliance.core_failures=0") as a:
        with Client(a.tcp) as c:
            right = c.generate(1, PROMPT, max_tokens=900).check().tokens
        with Client(a.tcp, receive_bytes=4096) as c:
            outcomes = [c.start(number, PROMPT, max_tokens=900) for number in range(8)]
            for _ in range(5):
                a.wait_ready()
                kill_core(a)
            for number, outcome in enumerate(outcomes):
                assert c.finish(number).check().tokens == right
                assert outcome.error is None
        assert a.stats()["connections_accepted"] == 0


@contextlib.contextmanager
def caught_open(a, c, of, least):
    """A call of so many tokens, of which the client has some, while the worker stands still."""
    for number in range(2, 1000):
        with a.standing_still():
            outcome = c.start(number, PROMPT, max_tokens=of)
        while len(outcome.tokens) < least:
            c.step()
        with a.standing_still():
            if a.stats()["calls_open"] == 1:
                yield number, outcome
                return
        c.finish(number)                        # the engine was faster


def test_only_what_a_client_has_not_got_is_computed():
    """But for the step that is lost: the client may have its first tokens."""
    with Appliance(NOISE, "sched.steps_per_plan=8") as a, Client(a.tcp) as c:
        right = c.generate(1, PROMPT, max_tokens=900).check().tokens
        with caught_open(a, c, of=900, least=300) as (number, _):
            kill_core(a)
        assert c.finish(number).check().tokens == right
        stats = a.stats()
        assert stats["calls_continued"] == 1 and stats["tokens_generated"] <= 608, stats


def program_of(a, program):
    """What `programs` on the text port shows of it: its first columns."""
    head, *rows = [line.split() for line in a.text("programs").split("\n")]
    [row] = [row for row in rows if program.hex().startswith(row[1])]
    return dict(zip(head[:6], row))


def service_of(a, program):
    """In whole milliseconds, as `programs` shows it."""
    return int(program_of(a, program)["service_ms"])


def serve_until_it_shows(a, c, program, first_call):
    """Calls of the program, until `programs` shows more service than before: a fast machine ends
    a call within a millisecond."""
    c.generate(first_call, PROMPT, program=program, max_tokens=100).check()
    had = service_of(a, program)
    for call_id in itertools.count(first_call + 1):
        c.generate(call_id, PROMPT, program=program, max_tokens=100).check()
        if service_of(a, program) > had:
            return call_id + 1


def test_what_a_program_has_had_outlives_the_core():
    """A long program is not a new one after a death, whether it has a call open or not."""
    def service():
        return service_of(a, PROGRAM)

    with Appliance(NOISE, "appliance.core_failures=0") as a, Client(a.tcp) as c:
        next_call = serve_until_it_shows(a, c, PROGRAM, 1)
        had = service()
        assert had > 0
        for _ in range(3):
            kill_core(a)
            a.wait_ready()
            assert service() == had
            assert program_of(a, PROGRAM)["ended"] == str(next_call - 1)
        next_call = serve_until_it_shows(a, c, PROGRAM, next_call)
        with a.standing_still():
            had = service()
            c.start(next_call, PROMPT, program=PROGRAM, max_tokens=900)
            c.step()                            # ACCEPT
            kill_core(a)
            wait_for(lambda: a.stats()["calls_open"] == 1, "the call goes on")
            assert service() == had and program_of(a, PROGRAM)["open"] == "1"
        c.finish(next_call).check()


def test_a_command_that_is_under_way_is_kept():
    """A cancelled call ends so; one whose client leaves while there is no core ends, too."""
    with Appliance(NOISE, "appliance.core_failures=0") as a:
        with Client(a.tcp) as c:
            with a.standing_still():
                c.start(1, PROMPT, max_tokens=900)
                c.step()                        # ACCEPT
                c.cancel(1)
                wait_for(lambda: a.stats()["frames_received"] == 3, "CANCEL has come")
                kill_core(a)
            assert c.finish(1).check().done["finish"] == CANCELLED
            a.wait_ready()
            with a.standing_still():
                c.start(2, PROMPT, max_tokens=900)
                c.step()
                with stopped(a.process.pid):
                    os.kill(a.core, signal.SIGKILL)
                    c.close()
        a.wait_stats(calls_open=0, connections_open=0, core_restarts=2)


def test_users_of_the_unix_socket_stay_or_come_back():
    """Where it cannot be known how much of a stream has moved, the connection is closed, and its
    client comes back by itself."""
    right = right_answers(CALLS, TOKENS)
    with Appliance(NOISE, "appliance.core_failures=0", unix=True) as a:
        clients = open_calls(a, CALLS, TOKENS)
        for _ in range(10):
            kill_core(a)
        for client, tokens in zip(clients, right):
            expect_ids(client, tokens)


def test_what_a_core_leaves_is_its_domains_own():
    """Also where the file of keys has changed, which numbers domains."""
    with served() as (files, a):
        with Client(a.tcp, key=BOB) as c:
            right = c.generate(1, PROMPT, program=PROGRAM, max_tokens=50).check().tokens
        files.write_keys(BOB, CAROL)
        kill_core(a)
        a.wait_ready()
        for key, again in ((CAROL, False), (BOB, True)):
            with Client(a.tcp, key=key) as c:
                got = c.generate(1, PROMPT, again=again, program=PROGRAM, max_tokens=50).check()
                assert got.tokens == right


def test_a_step_of_the_dead_core_is_not_taken_for_one_of_the_next():
    """It is done at last, and its worker serves; while it is not, the engine is not ready."""
    with Appliance(NOISE, "engine.hang=60s") as a:
        with Client(a.tcp) as c:
            tokens = c.generate(1, PROMPT, max_tokens=300).check().tokens
        with Client(a.tcp) as c:
            worker = leave_a_step(a, c)
            assert not a.health().startswith("ready"), a.health()
            os.kill(worker, signal.SIGCONT)
        a.wait_ready()
        with Client(a.tcp) as c:
            assert c.generate(1, PROMPT, max_tokens=300).check().tokens == tokens
        assert a.worker == worker and a.said("worker was") == 0


def test_a_worker_that_never_ends_the_step_of_a_dead_core_is_replaced():
    with Appliance(NOISE, "engine.hang=2s") as a, Client(a.tcp) as c:
        worker = leave_a_step(a, c)
        a.wait_said("engine worker was hung pid=%d" % worker)
        a.wait_ready()
        with Client(a.tcp) as other:
            other.generate(1, PROMPT).check()


def test_the_next_core_knows_whom_a_reload_let_in():
    with served() as (files, a):
        assert a.next_core                      # from before the reload
        files.write_keys(ALICE, CAROL)
        reload(a)
        kill_core(a)
        a.wait_ready()
        assert is_refused(a, BOB)
        for key in (ALICE, CAROL):
            with Client(a.tcp, key=key) as c:
                c.generate(1, PROMPT).check()
        files.write_keys(BOB)
        reload(a)
        assert is_refused(a, ALICE) and not is_refused(a, BOB)


def test_what_takes_a_restart_is_not_taken_up_by_the_next_core():
    with served() as (files, a):
        files.write(files.config, "[auth]\ntcp = none\nkeys = %s\n[net]\nproxy = 127.0.0.1\n"
                    % files.keys)
        reload(a, "auth.tcp = none takes a restart")
        kill_core(a)
        a.wait_ready()
        with Client(a.tcp, key=ALICE) as c:
            c.generate(1, PROMPT).check()
        assert is_refused(a, CAROL)


def test_the_next_core_does_not_learn_the_canary_from_a_worker_that_computes_wrongly():
    with Appliance(NOISE, "engine.canary=60s") as a:
        with Client(a.tcp) as c:
            tokens = c.generate(1, PROMPT, max_tokens=50).check().tokens
        worker = a.worker
        flip_weight(worker)
        kill_core(a)
        a.wait_said("engine worker was wrong pid=%d" % worker)
        a.wait_ready()
        with Client(a.tcp) as c:
            assert c.generate(1, PROMPT, max_tokens=50).check().tokens == tokens
        assert a.stats()["engine_wrong"] == 1


def test_one_engine_that_serves_is_enough_for_the_next_core():
    with Appliance(NOISE, "engine.workers=2", "engine.hang=60s") as a:
        a.wait_ready()
        stopped = a.worker
        stop(stopped)
        kill_core(a)
        with Client(a.tcp) as c:
            c.generate(1, PROMPT, max_tokens=50).check()
        os.kill(stopped, signal.SIGCONT)
        a.wait_ready()


def test_the_next_core_waits_with_all_its_memory():
    """It is there before it is needed, and what it waits with is in the plan; one that dies in its
    wait costs nothing."""
    plan = run("agentix", "--check").stdout
    planned = int(re.search(r"^the next core +1 x +(\d+) ", plan, re.M)[1])
    core = sum(int(count) * int(size) for count, size in
               re.findall(r" (\d+) x +(\d+) +[\d.]+  core$", plan, re.M))
    assert core <= planned < core + 64 * plan.count("  core\n"), (core, planned)
    with Appliance("appliance.core_failures=0") as a:
        for _ in range(2):
            waits = a.next_core
            wait_for(lambda pid=waits: memory_bytes(pid, "RssAnon") >= planned, "it has its memory")
            kill_core(a)
            assert a.core == waits
        os.kill(a.next_core, signal.SIGKILL)
        kill_core(a, waits=False)
        a.wait_ready()
        with Client(a.tcp) as c:
            c.generate(1, PROMPT).check()
    with Appliance("appliance.core_failures=1") as a:
        assert "the next core" not in run("agentix", "--check", "--set",
                                          "appliance.core_failures=1").stdout
        assert len(a.children()) == 2


def test_no_core_serves_with_keys_that_cannot_be_read():
    with tempfile.TemporaryDirectory() as folder:
        files = Files(folder)
        a = files.appliance()
        os.chmod(files.keys, 0o644)
        os.kill(a.core, signal.SIGKILL)
        assert a.process.wait(HANG_S) == EXIT["CORE"]
        assert a.stop() == EXIT["CORE"] and a.said("no other core: ") == 1, a.lines


def test_cores_that_die_too_often_end_the_appliance():
    a = Appliance("appliance.core_failures=2", unix=True)
    kill_core(a)
    a.wait_ready()
    roles = [a.core, a.worker]
    os.kill(roles[0], signal.SIGKILL)
    assert a.process.wait(HANG_S) == EXIT["CORE"]
    assert not any(is_alive(pid) for pid in roles) and not os.path.exists(a.unix)
    assert a.stop() == EXIT["CORE"]
