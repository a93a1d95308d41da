# SPDX-License-Identifier: MIT
"""A door that is stopped lets no more clients in, and its open requests end as they would have;
with a socket that is handed over, clients that come meanwhile wait for the next door."""
import json
import os
import signal
import socket
import threading

from appliance import NOISE, Appliance, wait_for
from door import COMPLETIONS, Door
from test_door_failures import LONG, right_text, text_of

PATIENT = "door.drain=1h"


def refuses(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) != 0


def open_requests(d, answers):
    """Two threads, one that reads a stream and one that waits for a whole answer."""
    def listen():
        answers.append(text_of(d.stream(COMPLETIONS, LONG)))

    def wait():
        answers.append(d.right(COMPLETIONS, LONG)["choices"][0]["text"])
    threads = [threading.Thread(target=listen), threading.Thread(target=wait)]
    for thread in threads:
        thread.start()
    d.a.wait_stats(calls_open=2)
    return threads


def test_a_door_that_is_stopped_ends_when_its_requests_have_ended():
    right, answers = right_text(), []
    with Door(NOISE, PATIENT) as d:
        with d.a.standing_still():
            threads = open_requests(d, answers)
            d.process.terminate()
            wait_for(lambda: refuses(d.port), "no one is let in")
            assert d.process.poll() is None
        for thread in threads:
            thread.join()
        assert answers == [right] * 2
        wait_for(lambda: d.process.poll() is not None, "it has ended")
        assert d.process.returncode == 0


def test_a_second_signal_and_the_end_of_the_time_end_it_at_once():
    for patience, signals in ((PATIENT, 2), ("door.drain=1ms", 1)):
        with Door(NOISE, patience) as d, d.a.standing_still():
            connection = d.send("POST", COMPLETIONS, LONG)
            d.a.wait_stats(calls_open=1)
            d.process.terminate()
            wait_for(lambda: refuses(d.port), "no one is let in")
            if signals == 2:
                d.process.terminate()
            wait_for(lambda: d.process.poll() is not None, "it has ended")
            assert d.process.returncode == 0
            connection.close()


def test_a_socket_that_is_handed_over_keeps_clients_waiting_while_the_door_restarts():
    with Appliance(NOISE) as a, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        answers = []
        with Door(NOISE, PATIENT, a=a, listener=listener) as d:
            with a.standing_still():
                threads = open_requests(d, answers)
                d.process.terminate()
                wait_for(lambda: not os.path.exists("/proc/%d/fd/3" % d.process.pid),
                         "its listener is closed")
                waiting = d.send("POST", COMPLETIONS, LONG)
            for thread in threads:
                thread.join()
            wait_for(lambda: d.process.poll() is not None, "it has ended")
        with Door(NOISE, a=a, listener=listener) as d:
            assert any("a socket was handed over" in line for line in d.lines), d.lines
            answer = waiting.getresponse()
            assert answer.status == 200
            answers.append(json.load(answer)["choices"][0]["text"])
            waiting.close()
        assert answers == [right_text()] * 3


def test_a_reload_is_answered_by_a_line():
    with Door() as d:
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: any("SIGHUP: options and tokens" in line for line in d.lines),
                 "it says so")
        assert d.ask("GET", "/health").status == 200
