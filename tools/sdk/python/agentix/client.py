# SPDX-License-Identifier: MIT
"""A client: many open calls and workflows over one connection, and over the next one when that
breaks.

What is open is an *exchange*: an object with `send()`, which makes all its frames from the
beginning, `take(kind, got, rest)` and `fail(error)`. After a break the client calls send() of each
again; the protocol promises that the answers are the same, so an exchange compares what it has.
"""
import asyncio
import collections
import random
import secrets
import time

from agentix import frames, wire
from agentix.call import Call
from agentix.chat import Format, Prompt
from agentix.connection import Connection, affinity_key, read_key
from agentix.errors import Error, Lost, ProtocolError, Refused
from agentix.sampling import Sampling

PAUSE_LEAST_S, PAUSE_MOST_S = 0.01, 0.5
OF_FLOWS = {frames.FLOW_OK, frames.VALUE, frames.ASK, frames.ROW_DONE, frames.FLOW_DONE}
# After the greeting.
FROM_APPLIANCE = OF_FLOWS | {frames.ACCEPT, frames.TOKENS, frames.DONE, frames.PROGRAM_OK,
                             frames.PONG, frames.CHAT, frames.ERROR}
# What an ERROR refuses by the id of a workflow.
FLOW_REQUESTS = {frames.FLOW_OPEN, frames.ROW, frames.ANSWER, frames.FLOW_CLOSE,
                 frames.FLOW_CANCEL}


async def connect(address="127.0.0.1:7411", *, key=None, key_file=None, patience_s=60.0,
                  affinity=""):
    """A client that is connected. `key` is an id and 32 bytes, `key_file` a file as
    `agx --key-file` takes it. A refusal as busy, or a break, is borne for `patience_s`. A load
    balancer in front of several appliances gives equal `affinity` the same one (docs/fleet.md):
    the name of a session, of at most 63 bytes; without one the client has a random one."""
    client = Client(address, read_key(key_file) if key_file else key, patience_s, affinity)
    await client.open()
    return client


class Pauses:
    """Of one request that finds the appliance busy, or gone: longer and longer, with chance."""

    def __init__(self, patience_s):
        self.patience_s, self.tries, self.since = patience_s, 0, None

    def next(self, hint_ms=0):
        """Seconds, or None: it has been enough."""
        self.since = self.since or time.monotonic()
        if time.monotonic() - self.since > self.patience_s:
            return None
        least = max(hint_ms / 1000, min(PAUSE_MOST_S, PAUSE_LEAST_S * 2 ** min(self.tries, 10)))
        self.tries += 1
        return least * random.uniform(1, 1.5)


class Client:
    """`welcome` has what the appliance said of itself; `program` is the one whose calls name no
    other. `async with await agentix.connect(...) as client:` closes it."""

    def __init__(self, address, key=None, patience_s=60.0, affinity=""):
        self.address, self.key, self.patience_s = address, key, patience_s
        self.affinity = affinity_key(affinity).decode()     # every connection has the same
        self.program = secrets.token_bytes(wire.ID_BYTES)
        self.welcome = None
        self._connection, self._serving = None, None
        self._exchanges = {}            # (is_flow, id) -> exchange
        self._last_id = secrets.randbits(62)
        self._waiting = collections.defaultdict(collections.deque)     # kind -> futures, in order
        self._room, self._is_open, self._format = None, asyncio.Event(), None

    async def open(self):
        await self._connect()
        self._serving = asyncio.create_task(self._serve())
        self._room = asyncio.Semaphore(self.welcome["calls_per_connection_max"])
        return self

    async def close(self):
        """Ends the connection; the appliance cancels what is still open."""
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)
        self._drop(Error("the client was closed"))
        self._disconnect()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()

    # ---- requests --------------------------------------------------------------------------------

    def call(self, prompt, *, max_tokens=128, program=None, thread=0, text=True, deadline_s=0,
             **sampling):
        """Starts a call. `prompt` is a text, token ids, or what chat_prompt() gives. Await it for
        its Reply, or read it as it comes: `async for text in client.call(...)`.

        sampling: temperature, top_k, top_p, min_p, repeat_penalty, seed, stop, ignore_eos."""
        fields = {"max_tokens": max_tokens, "thread": thread, "deadline": int(deadline_s * 1e6),
                  "program_id": wire.program_id(program or self.program)}
        call = Call(self, self.next_id(), fields, (prompt, Sampling(**sampling), text))
        call.start(self._room)
        return call

    async def start_program(self, name, program_class=""):
        """Optional: names the class of a program before its first call."""
        payload = wire.pack(frames.PROGRAM_START, program_id=wire.program_id(name))
        return await self._ask(frames.PROGRAM_START, payload + program_class.encode())

    async def end_program(self, name):
        """Calls, service and wait of the program."""
        return await self._ask(frames.PROGRAM_END,
                               wire.pack(frames.PROGRAM_END, program_id=wire.program_id(name)))

    async def ping(self):
        return await self._ask(frames.PING, wire.pack(frames.PING, nonce=self.next_id()))

    async def chat_format(self):
        """How the model wants a conversation to be written."""
        while self._format is None:
            said, system = None, b""
            while said is None or len(system) < said["system_bytes"]:
                said = await self._ask(frames.CHAT_ASK, wire.pack(
                    frames.CHAT_ASK, nonce=self.next_id(), first=len(system)))
                system += said["system"][:said["system_bytes"] - len(system)]
            self._format = Format.of_chat(said, system.decode())
        return self._format

    async def chat_prompt(self, messages, format=None) -> Prompt:
        """A conversation as the prompt that asks for the next answer."""
        return (format or await self.chat_format()).prompt(messages)

    async def _ask(self, kind, payload):
        """A request that is answered in order; a break fails it."""
        await self.connected()
        future = asyncio.get_running_loop().create_future()
        self._waiting[kind].append(future)
        self.send(wire.frame(kind, payload))
        return await future

    # ---- exchanges -------------------------------------------------------------------------------

    def next_id(self):
        self._last_id += 1
        return self._last_id

    def begin(self, exchange):
        """Sends it now, or when there is a connection again."""
        if self._serving is None or self._serving.done():
            raise Error("the client was closed")
        self._exchanges[exchange.is_flow, exchange.id] = exchange
        self._is_open.set()
        if self._connection is not None:
            exchange.send()

    def end(self, exchange):
        self._exchanges.pop((exchange.is_flow, exchange.id), None)

    def send(self, data):
        """One frame. Without a connection nothing is sent: the next one sends what is open."""
        most = self.welcome["frame_bytes_max"]
        if len(data) - wire.HEADER_BYTES > most:
            raise ValueError(f"{len(data) - wire.HEADER_BYTES} bytes; a frame has at most {most}")
        if self._connection is not None:
            self._connection.send(data)

    def pauses(self):
        return Pauses(self.patience_s)

    def later(self, pauses, error, again):
        """Calls `again` after a pause. False: it has been enough."""
        pause_s = pauses.next(error.retry_ms)
        if pause_s is None:
            return False
        asyncio.get_running_loop().call_later(pause_s, again)
        return True

    def is_current(self, exchange):
        return self._exchanges.get((exchange.is_flow, exchange.id)) is exchange

    # ---- the connection --------------------------------------------------------------------------

    async def connected(self):
        """Waits until there is a connection."""
        pauses = self.pauses()
        while self._connection is None:
            pause_s = pauses.next()
            if pause_s is None or self._serving is None or self._serving.done():
                raise Lost("there is no connection")
            self._is_open.set()
            await asyncio.sleep(pause_s)

    async def _connect(self):
        """Within our patience: it may be starting, or full."""
        pauses = Pauses(self.patience_s if self.welcome else 0)
        while True:
            try:
                self._connection = await Connection.open(self.address, self.key,
                                                         self.affinity)
                self.welcome = self._connection.welcome
                return
            except (Lost, Refused) as error:
                is_final = isinstance(error, Refused) and not error.is_busy
                pause_s = None if is_final else pauses.next(getattr(error, "retry_ms", 0))
                if pause_s is None:
                    raise
                await asyncio.sleep(pause_s)

    async def _serve(self):
        """Takes frames; connects again when something is open. An idle connection that the
        appliance closes is opened by the next request."""
        while True:
            try:
                if self._connection is None:
                    await self._is_open.wait()
                    await self._connect()
                    for exchange in list(self._exchanges.values()):
                        exchange.send()
                self._take(*await self._connection.receive())
            except Lost as error:
                if self._connection is None:        # it did not come back
                    self._drop(error)
                self._disconnect()
            except Error as error:
                self._drop(error)
                self._disconnect()
            if not self._exchanges:
                self._is_open.clear()

    def _disconnect(self):
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        for futures in self._waiting.values():
            while futures:
                self._settle(futures.popleft(), Lost("the connection broke"))

    def _drop(self, error):
        for exchange in list(self._exchanges.values()):
            self.end(exchange)
            exchange.fail(error)

    # ---- frames ----------------------------------------------------------------------------------

    @staticmethod
    def _settle(future, result):
        if future.done():
            return
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)

    def _take(self, kind, payload):
        if kind not in FROM_APPLIANCE:
            raise ProtocolError(f"a frame of type {kind:#x} where none is due")
        got, rest = wire.unpack(kind, payload)
        if kind == frames.ERROR:
            self._refuse(Refused(got))
        elif kind in (frames.PROGRAM_OK, frames.PONG, frames.CHAT):
            asked = {frames.PONG: frames.PING, frames.CHAT: frames.CHAT_ASK}
            futures = self._waiting[asked.get(kind) or got["kind"]]
            if futures:
                self._settle(futures.popleft(), got)
        else:
            is_flow = kind in OF_FLOWS
            exchange = self._exchanges.get((is_flow, got["flow_id" if is_flow else "call_id"]))
            if exchange is not None:        # else it was left: its last frames still come
                self._pass_on(exchange, kind, got, rest)

    def _pass_on(self, exchange, kind, got, rest):
        """A fault of the caller's own function ends its exchange, and no other."""
        try:
            exchange.take(kind, got, rest)
        except ProtocolError:
            raise
        except Exception as error:
            self.end(exchange)
            exchange.fail(error)

    def _refuse(self, error):
        if error.closes:
            raise error
        if self._waiting[error.frame_type]:
            self._settle(self._waiting[error.frame_type].popleft(), error)
            return
        exchange = self._exchanges.get((error.frame_type in FLOW_REQUESTS, error.id))
        if exchange is not None:
            exchange.refuse(error)
