# SPDX-License-Identifier: MIT
"""What fails around agentix-door: clients that leave, workers and appliances that die, doors that
are restarted. No answer is lost or changed, and nothing is computed that no client wants.

Method: what an undisturbed door says is right. A call that must be open while something happens is
sent while the worker is stopped.
"""
import contextlib
import os
import signal
import subprocess
import tempfile
import threading

from appliance import BUILD, HANG_S, NOISE, Appliance, stop, wait_for
from between import Between
from door import CHAT, COMPLETIONS, MESSAGES, RESPONSES, Answer, Door, chat
from protocol import DONE, ERROR, Client
from test_restart import again, first, kill_all
from upgrade import Upgrade, family, is_left

LONG = {"prompt": "the", "max_tokens": 400, "ignore_eos": True, "temperature": 0.9, "seed": 5}


def text_of(events):
    return "".join(data["choices"][0]["text"] for _, data in events if data != "[DONE]")


def right_text(*settings):
    with Door(NOISE, *settings) as d:
        return d.right(COMPLETIONS, LONG)["choices"][0]["text"]


# ---- clients that leave --------------------------------------------------------------------------

def test_a_client_that_leaves_cancels_its_call_whatever_it_waits_for():
    bodies = ((COMPLETIONS, LONG), (COMPLETIONS, dict(LONG, stream=True)),
              (CHAT, chat("Hello", n=3, ignore_eos=True)), (MESSAGES, chat("Hello", max_tokens=50)),
              (RESPONSES, {"input": "Hello", "stream": True}))
    with Door(NOISE) as d:
        cancelled = 0
        for path, body in bodies:
            count = body.get("n", 1)
            with d.a.standing_still():
                connection = d.send("POST", path, body)
                d.a.wait_stats(calls_open=count)
                frames = d.a.stats()["frames_received"]
                connection.close()
                wait_for(lambda: d.a.stats()["frames_received"] >= frames + count,
                         "each is cancelled before it can end")
            cancelled += count
            d.a.wait_stats(calls_open=0, calls_cancelled=cancelled)
        assert d.a.stats()["calls_completed"] == 0


def test_a_client_that_leaves_amid_a_stream_cancels_its_call():
    with Door(NOISE) as d:
        stream = d.stream(COMPLETIONS, dict(LONG, max_tokens=450))
        next(iter(stream))
        stop(d.a.worker)
        worker, is_open = d.a.worker, d.a.stats()["calls_open"]
        stream.close()
        os.kill(worker, signal.SIGCONT)
        d.a.wait_stats(calls_open=0, calls_cancelled=is_open)
        assert d.right(COMPLETIONS, dict(LONG, max_tokens=3))


def test_a_client_that_leaves_during_its_prompt_stops_the_prompt():
    # A round takes 8 tokens, and a plan one round: the prompt takes many.
    with Door(NOISE, "sched.prefill_tokens=8", "sched.steps_per_plan=1") as d:
        ids = d.right("/tokenize", {"content": "word " * 60})["count"]
        assert ids > 64
        with d.a.standing_still():
            connection = d.send("POST", COMPLETIONS, dict(LONG, prompt="word " * 60))
            d.a.wait_stats(calls_open=1)
            frames = d.a.stats()["frames_received"]
            connection.close()
            wait_for(lambda: d.a.stats()["frames_received"] > frames, "the call is cancelled")
        d.a.wait_stats(calls_open=0, calls_cancelled=1)
        stats = d.a.stats()
        assert stats["tokens_generated"] == 0 and stats["tokens_computed"] < ids, stats


# ---- what dies -----------------------------------------------------------------------------------

def amid(d):
    """A stream whose first event has come; its iterator, and what has come."""
    events = iter(d.stream(COMPLETIONS, LONG))
    return events, [next(events)]


def stopped_amid(d):
    """The same, of a stream whose worker has stopped before the call could end."""
    for _ in range(100):
        events, got = amid(d)
        stop(d.a.worker)
        if d.a.stats()["calls_open"] == 1:
            return events, got
        os.kill(d.a.worker, signal.SIGCONT)     # the test was late
        list(events)
    raise AssertionError("each call has ended before its worker stopped")


def test_a_stream_goes_on_with_the_same_tokens_when_the_worker_dies():
    right = right_text()
    with Door(NOISE) as d:
        events, got = amid(d)
        os.kill(d.a.worker, signal.SIGKILL)
        assert text_of(got + list(events)) == right
        wait_for(lambda: d.a.stats()["engine_restarts"] == 1, "the worker was replaced")


def test_a_stream_goes_on_with_the_same_tokens_when_the_appliance_dies():
    right = right_text()
    a = first(NOISE)
    with Door(NOISE, a=a) as d:
        def listen():
            texts.append(text_of(d.events(COMPLETIONS, LONG)))
        with a.standing_still():
            texts = []
            streams = [threading.Thread(target=listen) for _ in range(4)]
            for stream in streams:
                stream.start()
            a.wait_stats(calls_open=4)
        wait_for(lambda: a.stats()["tokens_generated"] > 100, "it is amid them")
        stop(a.worker)
        still_open = a.stats()["calls_open"]
        kill_all(a)
        with again(a, NOISE) as b:
            for stream in streams:
                stream.join()
            assert texts == [right] * 4
            assert b.stats()["calls_completed"] == still_open
            d.a = b
            assert d.right(COMPLETIONS, LONG)["choices"][0]["text"] == right


def test_without_an_appliance_requests_are_refused_until_it_is_back():
    a = first()
    with Door(a=a) as d:
        kill_all(a)
        wait_for(lambda: d.ask("GET", "/health").status == 503, "the door has seen it")
        for path, body in ((CHAT, chat("Hello")), (MESSAGES, chat("Hello", max_tokens=9)),
                           (RESPONSES, {"input": "Hello"})):
            answer = d.post(path, body)
            assert answer.status == 503 and int(answer.headers["Retry-After"]) > 0, answer.text
            assert answer.json["error"]["type"] == "overloaded_error"
        wait_for(lambda: any("cannot be reached: " in line for line in d.lines), "the log says so")
        wait_for(lambda: ": cannot connect: Connection refused" in d.ask("GET", "/health").text,
                 "clients are told the cause")
        assert a.to not in d.ask("GET", "/health").text
        assert any(a.to + ": cannot connect" in line for line in d.lines), "the log says where"
        with again(a):
            wait_for(lambda: d.ask("GET", "/health").status == 200, "the door is back")
            assert d.right(CHAT, chat("Hello"))
            wait_for(lambda: any("is reached again" in line for line in d.lines), "so does the log")
            said = [line for line in d.lines if "appliance cannot be reached" in line]
            assert len(said) == len(set(said)), said


# ---- an upgrade to what is not alike -------------------------------------------------------------

HELD = 8                                # two on each of the door's connections


def test_a_door_whose_log_is_a_file_says_what_there_is_to_say():
    """Its seal forbids it to open files, not to write the one that it has."""
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "log"), "w+") as log:
        door = subprocess.Popen([os.path.join(BUILD, "agentix-door"), "--set",
                                 "door.listen=127.0.0.1:0"], stderr=log)

        def has_said(text):
            assert door.poll() is None, door.returncode
            log.seek(0)
            return text in log.read()
        wait_for(lambda: has_said("listening door.listen=127.0.0.1:"), "the door listens")
        door.send_signal(signal.SIGHUP)
        wait_for(lambda: has_said("SIGHUP"), "it says what it makes of a SIGHUP")
        door.terminate()
        assert door.wait(HANG_S) == 0


def test_an_appliance_that_drains_ends_its_calls_and_others_go_to_its_successor():
    right = right_text()
    with family(NOISE, "limits.drain=10min") as a, Door(NOISE, a=a) as d:
        worker, idle = a.worker, Client(a.tcp)
        stop(worker)
        held = [d.send("POST", COMPLETIONS, LONG) for _ in range(HELD)]
        a.wait_stats(calls_open=HELD)
        d.a = b = Upgrade(a, NOISE, "limits.calls=99")
        a.wait_said("serves, and this process drains")
        assert is_left(idle)                # its core knows it, too
        idle.close()
        for _ in range(3):
            assert d.right(COMPLETIONS, LONG)["choices"][0]["text"] == right
        assert b.stats()["calls_completed"] == 3
        os.kill(worker, signal.SIGCONT)
        for connection in held:
            answer = Answer(connection.getresponse())
            assert answer.status == 200 and answer.json["choices"][0]["text"] == right, answer.text
            connection.close()
        assert a.process.wait(HANG_S) == 0, a.lines
        assert d.right(COMPLETIONS, LONG)["choices"][0]["text"] == right


# ---- another model -------------------------------------------------------------------------------

def says_other(answer):
    return answer.status == 503 and "serves another model" in answer.text


def test_an_appliance_with_another_model_than_the_doors_gets_no_call():
    with Appliance() as a, Door(NOISE, a=a, health=503) as d:
        for path, body in ((CHAT, chat("Hello")), (MESSAGES, chat("Hello", max_tokens=9)),
                           (COMPLETIONS, LONG), (RESPONSES, {"input": "Hello"})):
            wait_for(lambda: says_other(d.post(path, body)), "%s is refused" % path)
        assert says_other(d.ask("GET", "/health"))
        assert a.stats()["calls_accepted"] == 0
        (line,) = [line for line in d.lines if "serves another model" in line]
        assert "its name is not that of model.path" in line, line


def test_an_appliance_that_comes_back_with_another_model_gets_no_call_until_ours_is_back():
    right = right_text()
    a = first(NOISE)
    with Door(NOISE, a=a) as d:
        events, got = stopped_amid(d)
        kill_all(a)
        with again(a) as other:
            got += list(events)
            assert "serves another model" in got[-2][1]["error"]["message"], got[-2:]
            assert right.startswith(text_of(got[:-2])), "nothing of the other's was passed on"
            wait_for(lambda: says_other(d.ask("GET", "/health")), "the door says why")
            other.wait_stats(calls_open=0)
        with again(a, NOISE) as b:
            d.a = b
            wait_for(lambda: d.ask("GET", "/health").status == 200, "ours is back")
            assert d.right(COMPLETIONS, LONG)["choices"][0]["text"] == right


# ---- the door dies -------------------------------------------------------------------------------

def test_a_door_that_is_killed_costs_its_clients_their_requests_and_the_appliance_nothing():
    with Door(NOISE) as d:
        with d.a.standing_still():
            connection = d.send("POST", COMPLETIONS, LONG)
            d.a.wait_stats(calls_open=1)
            d.restart()
            with contextlib.suppress(OSError):
                assert connection.sock.recv(1) == b"", "the old door is gone"
        d.a.wait_stats(calls_open=0, calls_cancelled=1)
        assert d.right(COMPLETIONS, LONG)


# ---- the same request again ----------------------------------------------------------------------

def test_a_request_with_a_key_is_computed_once_also_after_a_restart_of_the_door():
    named = {"X-Agentix-Program": "careful", "Idempotency-Key": "one"}
    with Door(NOISE) as d:
        text = d.right(COMPLETIONS, dict(LONG, seed=None), named)["choices"][0]["text"]
        again_ = [d.right(COMPLETIONS, dict(LONG, seed=None), named)["choices"][0]["text"]]
        d.restart()
        again_ += [d.right(COMPLETIONS, dict(LONG, seed=None), named)["choices"][0]["text"]]
        again_ += [text_of(d.events(COMPLETIONS, dict(LONG, seed=None), named))]
        assert again_ == [text] * 3
        stats = d.a.stats()
        assert stats["calls_completed"] == 1 and stats["calls_replayed"] == 3, stats
        other = d.post(COMPLETIONS, dict(LONG, max_tokens=7), named)
        assert other.status == 409, other.text


def test_a_key_of_a_request_that_is_open_is_refused():
    named = {"X-Agentix-Program": "careful", "Idempotency-Key": "one"}
    with Door(NOISE) as d:
        with d.a.standing_still():
            connection = d.send("POST", COMPLETIONS, LONG, named)
            d.a.wait_stats(calls_open=1)
            answer = d.post(COMPLETIONS, LONG, named)
            assert answer.status == 409, answer.text
        assert connection.getresponse().status == 200
        connection.close()


def test_a_cancel_that_came_too_late_does_not_refuse_the_request_that_is_sent_again():
    named = {"X-Agentix-Program": "careful", "Idempotency-Key": "one"}
    with Appliance(NOISE) as a, Between(a) as between, \
            Door(NOISE, "net.tcp=" + between.to, a=a) as d:
        between.hold(DONE)
        left = d.send("POST", COMPLETIONS, LONG, named)
        a.wait_stats(calls_completed=1)
        frames = a.stats()["frames_received"]
        left.close()
        wait_for(lambda: a.stats()["frames_received"] > frames, "it is cancelled, too late")
        between.hold(ERROR)
        wait_for(lambda: "agentix_door_calls 0\n" in d.ask("GET", "/metrics").text,
                 "the door knows that the call has ended")
        same = d.send("POST", COMPLETIONS, LONG, named)
        a.wait_stats(calls_replayed=1)
        between.hold()
        answer = Answer(same.getresponse())
        same.close()
        assert answer.status == 200, answer.text


def test_the_doors_calls_are_bounded_and_a_refusal_says_when_to_come_again():
    with Door(NOISE, "door.calls=2") as d:
        with d.a.standing_still():
            held = [d.send("POST", COMPLETIONS, LONG) for _ in range(2)]
            d.a.wait_stats(calls_open=2)
            answer = d.post(COMPLETIONS, LONG)
            assert answer.status == 429 and int(answer.headers["Retry-After"]) > 0
            assert answer.error[0] == "rate_limit_error"
        for connection in held:
            assert connection.getresponse().status == 200
            connection.close()
