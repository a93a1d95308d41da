# SPDX-License-Identifier: MIT
"""The Python client when its connection breaks at an awkward moment: against an appliance in the
event loop of the test, which says what a real one says rarely."""
import asyncio
import os
import sys

from appliance import HANG_S, ROOT
from protocol import (ACCEPT, CALL, DONE, ERROR, HELLO, PING, PONG, STATUSES, WELCOME, digest,
                      frame, pack, unpack)

sys.path.insert(0, os.path.join(ROOT, "tools", "sdk", "python"))
import agentix  # noqa: E402
from agentix import connection  # noqa: E402

CODES = {row[0]: code for code, row in STATUSES.items()}
RETRY_MS = 20


class Scripted:
    """Greets, and does what on_call(number, writer, call_id) says for each connection. After the
    first one a frame has at most `frame_bytes`."""

    def __init__(self, on_call, frame_bytes=4096):
        self.on_call, self.frame_bytes = on_call, frame_bytes
        self.connections, self.calls = 0, []

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.to = "127.0.0.1:%d" % self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.server.close()

    async def _serve(self, reader, writer):
        number, self.connections = self.connections, self.connections + 1
        try:
            while True:
                head = await reader.readexactly(16)
                payload = await reader.readexactly(int.from_bytes(head[8:12], "little"))
                self._answer(number, head[4], payload, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _answer(self, number, kind, payload, writer):
        if kind == HELLO:
            most = self.frame_bytes if number else 4096
            writer.write(frame(WELCOME, pack(WELCOME, version=1, frame_bytes_max=most,
                                             context_tokens_max=64, vocab_tokens=64,
                                             calls_per_connection_max=4)))
        elif kind == PING:
            writer.write(frame(PONG, payload))
        elif kind == CALL:
            call_id = unpack(CALL, payload)[0]["call_id"]
            self.calls.append((number, call_id))
            self.on_call(number, writer, call_id)


def error(status, call_id, closes=0):
    return frame(ERROR, pack(ERROR, status=CODES[status], frame_type=CALL, call_id=call_id,
                             retry_ms=RETRY_MS, closes=closes))


def end(writer, call_id):
    writer.write(frame(ACCEPT, pack(ACCEPT, call_id=call_id)))
    writer.write(frame(DONE, pack(DONE, call_id=call_id, finish=1, digest=digest([]))))


def test_a_call_that_was_busy_when_the_connection_broke_is_sent_once_over_the_next():
    def on_call(number, writer, call_id):
        if number == 0:
            writer.write(error("BUSY_DRAINING", call_id))
            writer.close()
        else:                               # this timer is behind that of the client's pause
            asyncio.get_running_loop().call_later(RETRY_MS / 10, end, writer, call_id)

    async def body():
        async with Scripted(on_call) as appliance, \
                await agentix.connect(appliance.to, patience_s=HANG_S) as client:
            await client.call([1], max_tokens=1)
            await client.ping()             # what was sent before it has come by now
            assert [number for number, _ in appliance.calls] == [0, 1], appliance.calls
    asyncio.run(asyncio.wait_for(body(), HANG_S))


def test_a_call_that_crosses_the_end_of_an_idle_connection_is_sent_again():
    def on_call(number, writer, call_id):
        if number == 0:
            writer.write(error("GONE_DEADLINE", 0, closes=1))
            writer.close()
        else:
            end(writer, call_id)

    async def body():
        async with Scripted(on_call) as appliance, \
                await agentix.connect(appliance.to, patience_s=HANG_S) as client:
            assert (await client.call([1])).finish == "length"
            assert [number for number, _ in appliance.calls] == [0, 1], appliance.calls
    asyncio.run(asyncio.wait_for(body(), HANG_S))


def test_an_appliance_that_takes_connections_and_does_not_greet_is_lost():
    async def dial(address):
        ends = await dialled(address)
        connection.GREETING_S = 0.01        # from here on
        return ends

    async def body():
        server = await asyncio.start_server(lambda *ends: None, "127.0.0.1", 0)
        to = "127.0.0.1:%d" % server.sockets[0].getsockname()[1]
        try:
            await agentix.connect(to, patience_s=0.01)
        except agentix.Lost as error:
            assert "does not greet" in str(error), error
        else:
            raise AssertionError("it has greeted")
        server.close()
    dialled, connection._dial = connection._dial, dial
    asyncio.run(asyncio.wait_for(body(), HANG_S))


def test_a_call_that_does_not_fit_the_next_appliance_fails_and_others_go_on():
    def on_call(number, writer, call_id):
        if number == 0 and len(appliances[0].calls) == 2:
            writer.close()
        elif number > 0:
            end(writer, call_id)

    async def body():
        async with Scripted(on_call, frame_bytes=256) as appliance, \
                await agentix.connect(appliance.to, patience_s=HANG_S) as client:
            appliances.append(appliance)
            long, short = client.call([1] * 500), client.call([1])
            try:
                await long
            except ValueError as error:
                assert "a frame has at most 256" in str(error), error
            else:
                raise AssertionError("it was taken")
            assert (await short).finish == "length"
            await client.ping()
    appliances = []
    asyncio.run(asyncio.wait_for(body(), HANG_S))
