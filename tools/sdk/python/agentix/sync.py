# SPDX-License-Identifier: MIT
"""The client for code without an event loop: the asyncio client, in a thread of its own.

Each method here runs the method of the same name there, and waits for it. The thread reads what the
appliance sends while the caller does something else: a loop that ran only while the caller waits
would leave the connection unread, and the appliance gives up readers that are slow. It also serves
callers that have an event loop already (notebooks), and several threads at once."""
from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import (Any, Awaitable, Callable, Dict, Generic, Iterable, List, Optional, Sequence,
                    TypeVar, Union)

from agentix import wire
from agentix.call import Piece, Prompted, Reply, Stream
from agentix.chat import Message
from agentix.client import Client
from agentix.errors import Error
from agentix.flow import Flow
from agentix.program import Program, Totals
from agentix.row import Row
from agentix.run import Rows

T = TypeVar("T")


class Awaited(Generic[T]):
    """What one thread waits for while another one's event loop does it. It is there before that
    begins, so an interrupt at any time finds what it is to cancel."""

    def __init__(self, function: Callable[[], Awaitable[T]]) -> None:
        self.result: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._function = function
        self._task: Optional[asyncio.Task[T]] = None

    def begin(self) -> None:
        async def body() -> T:
            return await self._function()
        self._task = asyncio.get_running_loop().create_task(body())
        self._task.add_done_callback(self._end)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _end(self, task: asyncio.Task[T]) -> None:
        error = None if task.cancelled() else task.exception()
        if task.cancelled():
            self.result.cancel()
        elif error is not None:
            self.result.set_exception(error)
        else:
            self.result.set_result(task.result())


class LoopThread:
    """An event loop that runs in a thread until stop()."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # A daemon: a client that was never closed does not keep the process.
        self._thread = threading.Thread(target=self._loop.run_forever, name="agentix", daemon=True)
        self._thread.start()

    def run(self, function: Callable[..., Awaitable[T]], *args: Any, **options: Any) -> T:
        """Calls function() in that thread, awaits it there, and returns what it gives. An interrupt
        of the caller (Ctrl-C) cancels it."""
        if threading.current_thread() is self._thread:
            raise Error("this would wait for its own thread; use the asyncio client there")
        if self._loop.is_closed():
            raise Error("the client was closed")
        awaited = Awaited(lambda: function(*args, **options))
        try:
            self._loop.call_soon_threadsafe(awaited.begin)
            return awaited.result.result()
        except BaseException:
            self.post(awaited.cancel)
            raise

    def post(self, function: Callable[[], None]) -> None:
        """Has function() called there, and does not wait."""
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:
            pass                            # the loop is closed, and what it had has ended

    @property
    def is_stopped(self) -> bool:
        return self._loop.is_closed()

    def stop(self) -> None:
        self.run(self._wind_up)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _wind_up(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._loop.shutdown_asyncgens()
        await self._loop.shutdown_default_executor()


class SyncStream:
    """What a call says, as it comes: `for`; then `reply`. A stream that is left, by close() or
    because nothing refers to it any more, cancels its call."""

    def __init__(self, thread: LoopThread, stream: Stream) -> None:
        self._thread, self._stream = thread, stream

    def __iter__(self) -> SyncStream:
        return self

    def __next__(self) -> Piece:
        piece = self._thread.run(self._next)
        if piece is None:
            raise StopIteration
        return piece

    async def _next(self) -> Optional[Piece]:
        """None at the end: a future does not carry StopIteration."""
        async for piece in self._stream:
            return piece
        return None

    @property
    def reply(self) -> Reply:
        """Once it has ended."""
        return self._stream.reply

    def close(self) -> None:
        self._thread.post(self._stream.close)

    def __del__(self) -> None:
        self.close()


class SyncCalls:
    """The calls that client and program have in common."""
    _thread: LoopThread
    _calls: Union[Client, Program]

    def call(self, prompt: Prompted, **options: Any) -> Reply:
        """The reply to `prompt`: a text, token ids, a conversation, or a chat.Prompt. `options` are
        those of Client.call()."""
        return self._thread.run(self._calls.call, prompt, **options)

    def chat(self, messages: Sequence[Message], **options: Any) -> Reply:
        """The next answer of a conversation, in the model's chat format."""
        return self._thread.run(self._calls.chat, messages, **options)

    def generate(self, prompt: Prompted, **options: Any) -> SyncStream:
        """The same as a stream: `for text in ax.generate(...)`."""
        async def start() -> Stream:
            return self._calls.generate(prompt, **options)
        return SyncStream(self._thread, self._thread.run(start))


class SyncProgram(SyncCalls):
    """A Program whose methods wait: `with ax.program("review", agent="reviewer") as p:`."""

    def __init__(self, thread: LoopThread, program: Program) -> None:
        self._thread, self._program, self._calls = thread, program, program

    def __enter__(self) -> SyncProgram:
        self._thread.run(self._program.__aenter__)
        return self

    def __exit__(self, *error: Any) -> None:
        self._thread.run(self._program.__aexit__, *error)

    @property
    def name(self) -> Optional[str]:
        return self._program.name

    @property
    def totals(self) -> Totals:
        return self._program.totals

    def gather(self, prompts: Iterable[Prompted], **options: Any) -> List[Reply]:
        """Asks all at once, each in a thread of its own; the replies are in their order. The first
        that fails cancels the others."""
        return self._thread.run(self._program.gather, prompts, **options)


class SyncClient(SyncCalls):
    """A Client whose methods wait: `with agentix.connect() as ax:`. Threads may share it."""

    def __init__(self, make: Callable[[], Client]) -> None:
        self._thread = LoopThread()
        try:
            self._client = self._calls = self._thread.run(lambda: make().open())
        except BaseException:
            self._thread.stop()
            raise

    def close(self) -> None:
        """Ends the connection; the appliance cancels what is still open."""
        if not self._thread.is_stopped:
            self._thread.run(self._client.close)
            self._thread.stop()

    def __enter__(self) -> SyncClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def address(self) -> str:
        return self._client.address

    @property
    def welcome(self) -> wire.Fields:
        """What the appliance said of itself."""
        return self._client.welcome

    def program(self, name: Optional[str] = None, *, agent: str = "") -> SyncProgram:
        """As Client.program()."""
        return SyncProgram(self._thread, self._client.program(name, agent=agent))

    def run(self, flow: Flow, rows: Rows, **options: Any) -> List[Row]:
        """The rows of a workflow, in their order. `options` are those of Flow.run()."""
        async def rows_of() -> List[Row]:
            return await flow.run(self._client, rows, **options)
        return self._thread.run(rows_of)

    def profile(self, flow: Flow, rows: Rows, **options: Any) -> Dict[str, int]:
        """As Flow.profile()."""
        return self._thread.run(flow.profile, self._client, rows, **options)

    def ping(self) -> wire.Fields:
        return self._thread.run(self._client.ping)
