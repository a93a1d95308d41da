# SPDX-License-Identifier: MIT
"""A client: many open calls and workflows over one connection, and over the next one when that
breaks.

What is open is an *exchange*: an object with `send()`, which makes all its frames from the
beginning, `take(kind, got, rest)` and `fail(error)`. After a break the client calls send() of each
again; the protocol promises that the answers are the same, so an exchange compares what it has.
"""
from __future__ import annotations

import asyncio
import collections
import random
import secrets
import time
import warnings
from typing import (Any, Callable, Deque, Dict, Iterable, Optional, Protocol, Sequence, Set, Tuple,
                    Union)

from agentix import arguments, frames, tasks, wire
from agentix.call import Call, Prompted, Stream
from agentix.chat import Format, Message, Prompt, conversation
from agentix.connection import Connection, Key, affinity_key
from agentix.errors import Error, Lost, ProtocolError, Refused
from agentix.program import Program
from agentix.sampling import of_options

PAUSE_LEAST_S, PAUSE_MOST_S = 0.01, 0.5
DEADLINE_MOST_S = 3600                  # of a CALL: docs/protocol.md
OF_FLOWS = {frames.FLOW_OK, frames.VALUE, frames.ASK, frames.ROW_DONE, frames.FLOW_DONE}
# After the greeting.
FROM_APPLIANCE = OF_FLOWS | {frames.ACCEPT, frames.TOKENS, frames.DONE, frames.PROGRAM_OK,
                             frames.PONG, frames.CHAT, frames.ERROR}
# What an ERROR refuses by the id of a workflow.
FLOW_REQUESTS = {frames.FLOW_OPEN, frames.ROW, frames.ANSWER, frames.FLOW_CLOSE,
                 frames.FLOW_CANCEL}


class Exchange(Protocol):
    """What the client needs of a call, and of a run of a flow."""
    is_flow: bool
    id: int

    def send(self) -> None: ...
    def take(self, kind: int, got: wire.Fields, rest: bytes) -> None: ...
    def refuse(self, error: Refused) -> None: ...
    def fail(self, error: Exception) -> None: ...


class Pauses:
    """Of one request that finds the appliance busy, or gone: longer and longer, with chance."""

    def __init__(self, patience_s: float) -> None:
        self.patience_s, self.tries = patience_s, 0
        self.since: Optional[float] = None

    def next(self, hint_ms: int = 0) -> Optional[float]:
        """Seconds, or None: it has been enough."""
        self.since = self.since or time.monotonic()
        if time.monotonic() - self.since > self.patience_s:
            return None
        own_s: float = min(PAUSE_MOST_S, PAUSE_LEAST_S * 2 ** min(self.tries, 10))
        self.tries += 1
        return max(hint_ms / 1000, own_s) * random.uniform(1, 1.5)


class Client:
    """`welcome` has what the appliance said of itself; calls that name no program are of one that
    the client has for them. `async with agentix.connect(...) as client:` closes it."""

    def __init__(self, address: str, key: Optional[Key] = None, patience_s: float = 60.0,
                 affinity: str = "") -> None:
        self.address, self.key, self.patience_s = address, key, patience_s
        self.affinity = affinity_key(affinity).decode()     # every connection has the same
        self.own_program = secrets.token_bytes(wire.ID_BYTES)
        self.welcome: wire.Fields = {}
        self.programs: Set[Program] = set()     # those that a restarted appliance is told again
        self._connection: Optional[Connection] = None
        self._serving: Optional[asyncio.Task[None]] = None
        self._exchanges: Dict[Tuple[bool, int], Exchange] = {}      # by is_flow and id
        self._last_id = secrets.randbits(62)
        # Of requests that are answered in order: kind -> futures.
        self._waiting: Dict[int, Deque[asyncio.Future[Any]]] = \
            collections.defaultdict(collections.deque)
        self._room, self._is_open = asyncio.Semaphore(0), asyncio.Event()
        self._format: Optional[Format] = None

    async def open(self) -> Client:
        await self._connect()
        self._serving = tasks.background(self._serve())
        self._room = asyncio.Semaphore(self.welcome["calls_per_connection_max"])
        return self

    async def close(self) -> None:
        """Ends the connection; the appliance cancels what is still open."""
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)
        self._drop(Error("the client was closed"))
        self._disconnect()

    def __del__(self) -> None:
        if getattr(self, "_connection", None) is not None:
            warnings.warn(f"a client of {self.address} was never closed: use `async with` or "
                          "`with`, or call close()", ResourceWarning, source=self)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ---- requests --------------------------------------------------------------------------------

    def call(self, prompt: Prompted, *, max_tokens: Optional[int] = None,
             max: Optional[int] = None, program: Union[str, bytes, None] = None, thread: int = 0,
             text: bool = True, deadline_s: float = 0, **sampling: Any) -> Call:
        """Starts a call. `prompt` is a text, token ids, a conversation, or what chat_prompt()
        gives. Await it for its Reply, or read it as it comes: `async for text in client.call(...)`.
        `max` is another name of max_tokens, which is 128 if neither is given.

        sampling: temperature, top_k, top_p, min_p, repeat_penalty, presence_penalty,
        frequency_penalty, logit_bias (a dict of token ids), logprobs (how many alternatives), seed,
        stop, ignore_eos, drafts (True: the reply says what they brought)."""
        deadline_s = arguments.seconds("deadline_s", deadline_s, DEADLINE_MOST_S)
        fields = {"max_tokens": arguments.most_tokens(max, max_tokens),
                  "thread": arguments.whole("thread", thread),
                  "deadline": int(deadline_s * 1e6),
                  "program_id": wire.program_id(program or self.own_program)}
        call = Call(self, self.next_id(), fields, (prompt, of_options(Client.call, sampling), text))
        call.start(self._room)
        return call

    def chat(self, messages: Sequence[Message], **options: Any) -> Call:
        """Asks for the next answer of a conversation, in the model's chat format."""
        return self.call(conversation(messages), **options)

    def generate(self, prompt: Prompted, **options: Any) -> Stream:
        """A call as a stream of what it says: `async for`. A stream that is left, by close() or
        because nothing refers to it any more, cancels its call. `options` are those of call()."""
        return Stream(self.call(prompt, **options))

    def program(self, name: Optional[str] = None, *, agent: str = "") -> Program:
        """A program, which lasts as long as its block: `async with client.program(...) as p:`.
        Equal names are one program, in other clients too; without a name it has an id of its own.
        `agent` names its class: programs of one kind have one, and foretell each other's cost."""
        return Program(self, name, agent)

    async def start_program(self, name: Union[str, bytes],
                            program_class: str = "") -> wire.Fields:
        """Optional: names the class of a program before its first call."""
        payload = wire.pack(frames.PROGRAM_START, program_id=wire.program_id(name))
        words = arguments.text("program_class", program_class).encode()
        return await self.ask_patiently(frames.PROGRAM_START, payload + words)

    async def end_program(self, name: Union[str, bytes]) -> wire.Fields:
        """Calls, service and wait of the program."""
        return await self._ask(frames.PROGRAM_END,
                               wire.pack(frames.PROGRAM_END, program_id=wire.program_id(name)))

    async def ping(self) -> wire.Fields:
        return await self._ask(frames.PING, wire.pack(frames.PING, nonce=self.next_id()))

    async def chat_format(self) -> Format:
        """How the model wants a conversation to be written."""
        while self._format is None:
            said, system = await self._ask_chat(0), b""
            while True:
                system += said["system"][:said["system_bytes"] - len(system)]
                if len(system) >= said["system_bytes"]:
                    break
                said = await self._ask_chat(len(system))
            self._format = Format.of_chat(said, system.decode())
        return self._format

    async def chat_prompt(self, messages: Iterable[Message],
                          format: Optional[Format] = None) -> Prompt:
        """A conversation as the prompt that asks for the next answer."""
        return (format or await self.chat_format()).prompt(messages)

    async def _ask_chat(self, first: int) -> wire.Fields:
        return await self.ask_patiently(frames.CHAT_ASK, wire.pack(
            frames.CHAT_ASK, nonce=self.next_id(), first=first))

    async def ask_patiently(self, kind: int, payload: bytes,
                            patience_s: Optional[float] = None) -> wire.Fields:
        """A request that may be made twice: over breaks, and until the appliance is not busy."""
        patience_s = self.patience_s if patience_s is None else patience_s
        pauses = Pauses(patience_s)
        while True:
            try:
                return await self._ask(kind, payload, patience_s)
            except (Lost, Refused) as error:
                is_final = isinstance(error, Refused) and not error.is_busy
                pause_s = None if is_final else pauses.next(getattr(error, "retry_ms", 0))
                if pause_s is None or self._serving is None or self._serving.done():
                    raise
                await asyncio.sleep(pause_s)

    async def _ask(self, kind: int, payload: bytes,
                   patience_s: Optional[float] = None) -> wire.Fields:
        """A request that is answered in order; a break fails it."""
        await self.connected(self.patience_s if patience_s is None else patience_s)
        return await self._post(kind, payload)

    def _post(self, kind: int, payload: bytes) -> asyncio.Future[wire.Fields]:
        future: asyncio.Future[wire.Fields] = asyncio.get_running_loop().create_future()
        # Read here, so that an answer that nothing waits for is no warning.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._waiting[kind].append(future)
        self.send(wire.frame(kind, payload))
        return future

    # ---- exchanges -------------------------------------------------------------------------------

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def begin(self, exchange: Exchange) -> None:
        """Sends it now, or when there is a connection again."""
        if self._serving is None or self._serving.done():
            raise Error("the client was closed")
        self._exchanges[exchange.is_flow, exchange.id] = exchange
        self._is_open.set()
        if self._connection is not None:
            exchange.send()

    def end(self, exchange: Exchange) -> None:
        self._exchanges.pop((exchange.is_flow, exchange.id), None)

    def send(self, data: bytes) -> None:
        """One frame. Without a connection nothing is sent: the next one sends what is open."""
        most = self.welcome["frame_bytes_max"]
        if len(data) - wire.HEADER_BYTES > most:
            raise ValueError(f"{len(data) - wire.HEADER_BYTES} bytes; a frame has at most {most}")
        if self._connection is not None:
            self._connection.send(data)

    def pauses(self) -> Pauses:
        return Pauses(self.patience_s)

    def later(self, pauses: Pauses, error: Refused, again: Callable[[], None]) -> bool:
        """Calls `again` after a pause, unless the connection has broken by then: the next one sends
        what is open by itself, and twice would be once too often. False: it has been enough."""
        pause_s, connection = pauses.next(error.retry_ms), self._connection
        if pause_s is None:
            return False

        def unless_broken() -> None:
            if self._connection is connection:
                again()
        asyncio.get_running_loop().call_later(pause_s, unless_broken)
        return True

    def is_current(self, exchange: Exchange) -> bool:
        return self._exchanges.get((exchange.is_flow, exchange.id)) is exchange

    # ---- the connection --------------------------------------------------------------------------

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    async def connected(self, patience_s: float) -> None:
        """Waits until there is a connection."""
        pauses = Pauses(patience_s)
        while self._connection is None:
            pause_s = pauses.next()
            if pause_s is None or self._serving is None or self._serving.done():
                raise Lost("there is no connection")
            self._is_open.set()
            await asyncio.sleep(pause_s)

    async def _connect(self) -> Connection:
        """Within our patience: it may be starting, or full."""
        pauses = Pauses(self.patience_s if self.welcome else 0)
        while True:
            try:
                connection = await Connection.open(self.address, self.key, self.affinity,
                                                   self.patience_s)
                self._connection, self.welcome = connection, connection.welcome
                return connection
            except (Lost, Refused) as error:
                is_final = isinstance(error, Refused) and not error.is_busy
                pause_s = None if is_final else pauses.next(getattr(error, "retry_ms", 0))
                if pause_s is None:
                    raise
                await asyncio.sleep(pause_s)

    async def _serve(self) -> None:
        """Takes frames; connects again when something is open. An idle connection that the
        appliance closes is opened by the next request."""
        while True:
            try:
                connection = self._connection
                if connection is None:
                    await self._is_open.wait()
                    connection = await self._connect()
                    self._begin_again()
                self._take(*await connection.receive())
            except Lost as error:
                if self._connection is None:        # it did not come back
                    self._drop(error)
                self._disconnect()
            except Error as error:
                self._drop(error)
                self._disconnect()
            if not self._exchanges:
                self._is_open.clear()

    def _begin_again(self) -> None:
        """The appliance may have started anew, and know neither programs nor calls."""
        for program in self.programs:
            self._post(frames.PROGRAM_START, program.start_payload)
        for exchange in list(self._exchanges.values()):
            self._guard(exchange, exchange.send)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        for futures in self._waiting.values():
            while futures:
                self._settle(futures.popleft(), Lost("the connection broke"))

    def _drop(self, error: Exception) -> None:
        for exchange in list(self._exchanges.values()):
            self.end(exchange)
            exchange.fail(error)

    # ---- frames ----------------------------------------------------------------------------------

    @staticmethod
    def _settle(future: asyncio.Future[Any], result: Any) -> None:
        if future.done():
            return
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)

    def _take(self, kind: int, payload: bytes) -> None:
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
                self._guard(exchange, lambda: exchange.take(kind, got, rest))

    def _guard(self, exchange: Exchange, act: Callable[[], None]) -> None:
        """A fault of the caller's own function, or a request that does not fit the appliance that
        is there now, ends its exchange, and no other."""
        try:
            act()
        except ProtocolError:
            raise
        except Exception as error:
            self.end(exchange)
            exchange.fail(error)

    def _refuse(self, error: Refused) -> None:
        if error.closes and error.status == "GONE_DEADLINE":
            raise Lost("the appliance has closed a connection that was idle") from error
        if error.closes:
            raise error
        if self._waiting[error.frame_type]:
            self._settle(self._waiting[error.frame_type].popleft(), error)
            return
        exchange = self._exchanges.get((error.frame_type in FLOW_REQUESTS, error.id))
        if exchange is not None:
            self._guard(exchange, lambda: exchange.refuse(error))
