# SPDX-License-Identifier: MIT
"""One call: the request, and what came back for it."""
from __future__ import annotations

import asyncio
import dataclasses
import secrets
import struct
from typing import (TYPE_CHECKING, Any, Callable, Dict, Generator, Iterable, List, NamedTuple,
                    Optional, Sequence, Tuple, Union)

from agentix import arguments, chat, frames, tasks, wire
from agentix.errors import SHUTDOWN, Error, Failed, ProtocolError, Refused
from agentix.sampling import Sampling

if TYPE_CHECKING:
    from agentix.client import Client, Pauses

# What a call may be asked: a text, token ids, a conversation, what a chat format has made of one.
Prompted = Union[str, Iterable[int], Sequence[chat.Message], chat.Prompt]
Piece = Union[str, List[int]]       # of an answer: text, or token ids
FINISHES = {frames.LENGTH: "length", frames.EOS: "eos", frames.STOP_ID: "stop_id",
            frames.STOP_TEXT: "stop_text", frames.CANCELLED: "cancelled",
            frames.DEADLINE: "deadline", frames.FAILED: "failed"}


class Drafts(NamedTuple):
    """What drafts brought a call: tokens that were verified, and those of them that were right,
    each of which saved a round of the engine."""
    tokens: int
    agreed: int


_DRAFTS = struct.Struct("<" + "".join(frames.PARTS["done_drafts"].values()))


@dataclasses.dataclass(frozen=True)
class Reply:
    """`finish`: length, eos, stop_id or stop_text; in a Failed cancelled, deadline or failed. Times
    are in seconds; `digest` covers all tokens. `logprobs`: for each token pairs (id, log
    probability), its own first; `drafts`: what these brought. Either is None where it was not
    asked for. str() of it is its text."""
    text: str
    tokens: List[int]
    finish: str
    prompt_tokens: int
    cached_tokens: int
    preemptions: int
    wait_s: float
    service_s: float
    total_s: float
    digest: int
    logprobs: Optional[List[wire.Logprobs]] = None
    drafts: Optional[Drafts] = None

    @property
    def generated_tokens(self) -> int:
        return len(self.tokens)

    def __str__(self) -> str:
        return self.text


def encode(fields: Dict[str, Any], prompt: Any, sampling: Sampling, text: bool) -> bytes:
    """A whole CALL frame. `prompt` is a text, ids, or a chat.Prompt, whose parts alternate."""
    flags = (frames.WANT_TEXT if text else 0) | (frames.IGNORE_EOS if sampling.ignore_eos else 0)
    flags |= frames.MORE if sampling.has_more else 0
    flags |= frames.WANT_DRAFTS if sampling.drafts else 0
    lengths: List[int] = []
    if isinstance(prompt, str):
        body, flags = prompt.encode(), flags | frames.TEXT_PROMPT | frames.ADD_BOS
    elif isinstance(prompt, chat.Prompt):
        parts = [part.encode() for part in prompt.parts]
        body, lengths = b"".join(parts), [len(part) for part in parts]
        flags |= frames.TEXT_PROMPT | frames.PARSE_SPECIAL
    else:
        prompt = arguments.token_ids("prompt", prompt)
        body = wire.ids(prompt)
    count = len(body) if flags & frames.TEXT_PROMPT else len(prompt)
    fixed = wire.pack(frames.CALL, flags=flags, prompt_count=count, parts=len(lengths),
                      **fields, **sampling.fields(secrets.randbits(64)))
    return wire.frame(frames.CALL, fixed + sampling.stops() +
                      struct.pack(f"<{len(lengths)}I", *lengths) + sampling.more() + body)


class Call:
    """`await` it for the Reply; `async for` gives its text (without text: its tokens) as it comes.
    A task that is cancelled while it waits cancels the call."""
    is_flow = False

    def __init__(self, client: Client, call_id: int, fields: Dict[str, Any],
                 request: Tuple[Prompted, Sampling, bool]) -> None:
        self.client, self.id = client, call_id
        self.program: bytes = fields["program_id"]
        self.wants_text = request[2]
        self._fields, self._request = {"call_id": call_id, **fields}, request
        # A conversation is encoded when its format is known, and all else here, where it can raise.
        self._frame = b"" if chat.is_conversation(request[0]) else encode(self._fields, *request)
        self.tokens: List[int] = []
        self.bytes = bytearray()
        self.logprobs: List[wire.Logprobs] = []
        count = request[1].logprobs
        self._entries = 0 if count is None else 1 + count
        self._seen, self._seen_bytes = 0, 0         # over this connection
        self._read, self._read_bytes = 0, 0         # by `async for`
        self._pauses: Optional[Pauses] = None
        self.is_cancelled = False                   # by us; the appliance may not know yet
        self._news = asyncio.Event()
        self._done: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._starting: Optional[asyncio.Task[None]] = None
        self.on_end: Callable[[Call], None] = lambda call: None     # before its waiters go on

    @property
    def text(self) -> str:
        return self.bytes.decode(errors="replace")

    # ---- for the caller --------------------------------------------------------------------------

    def __await__(self) -> Generator[Any, None, Reply]:
        return self.result().__await__()

    async def result(self) -> Reply:
        """The same as a coroutine, which asyncio.create_task() and task groups insist on."""
        try:
            return await asyncio.shield(self._done)
        except asyncio.CancelledError:
            self.cancel()
            raise

    @property
    def is_done(self) -> bool:
        return self._done.done()

    @property
    def reply(self) -> Reply:
        """Of a call that has ended."""
        if not self.is_done:
            raise Error("the call has not ended")
        return self._done.result()

    async def wait(self) -> None:
        """For its end, whatever that is."""
        await asyncio.wait([self._done])

    def __aiter__(self) -> Call:
        return self

    async def __anext__(self) -> Piece:
        while True:
            piece = self._next_piece()
            if piece:
                return piece
            if self._done.done():
                self._done.result()
                raise StopAsyncIteration
            self._news.clear()
            try:
                await self._news.wait()
            except asyncio.CancelledError:
                self.cancel()
                raise

    def _next_piece(self) -> Piece:
        if self.wants_text:
            text = self.bytes[self._read_bytes:].decode(errors="replace")
            self._read_bytes = len(self.bytes)
            return text
        tokens = self.tokens[self._read:]
        self._read = len(self.tokens)
        return tokens

    def cancel(self) -> None:
        """Asks the appliance to end it; the call then fails as cancelled."""
        self.is_cancelled = True
        if self._starting is not None:
            self._starting.cancel()
        if self.client.is_current(self) and self.client.is_connected:
            self.client.send(wire.frame(frames.CANCEL, wire.pack(
                frames.CANCEL, call_id=self.id, program_id=self.program)))
        elif not self._done.done():
            self._fail_as_cancelled()

    def _fail_as_cancelled(self) -> None:
        """Here alone: the appliance has cancelled it when the connection broke."""
        self.client.end(self)
        tokens = list(self.tokens)          # what else a Reply has, only the appliance knows
        self.fail(Failed("the call", 0, frames.CANCELLED, Reply(
            self.text, tokens, "cancelled", 0, 0, 0, 0.0, 0.0, 0.0, wire.digest(wire.ids(tokens)),
            self.logprobs if self._entries else None)))

    # ---- for the client --------------------------------------------------------------------------

    def start(self, room: asyncio.Semaphore) -> None:
        """When there is room among the calls of the connection; at once, if there is."""
        self._starting = tasks.background(self._start(room))

    async def _start(self, room: asyncio.Semaphore) -> None:
        async with room:
            try:
                if not self._frame:
                    self._frame = await self._encode_conversation()
                self._starting = None
                self.client.begin(self)
            except Exception as error:
                self.client.end(self)
                self.fail(error)
            await self.wait()

    async def _encode_conversation(self) -> bytes:
        messages, sampling, text = self._request
        prompt = await self.client.chat_prompt(messages)    # type: ignore[arg-type]
        return encode(self._fields, prompt, sampling.with_stop(prompt.stop), text)

    def send(self) -> None:
        if self.is_cancelled:
            self._fail_as_cancelled()
        elif self.client.is_current(self):
            self._seen = self._seen_bytes = 0
            self.client.send(self._frame)

    def take(self, kind: int, got: wire.Fields, rest: bytes) -> None:
        if kind == frames.ACCEPT:
            self._pauses = None
        elif kind == frames.TOKENS:
            logprobs, rest = wire.logprobs(got, rest)
            self._take_tokens(got, *wire.tokens_and_text(got, rest), logprobs)
        elif kind == frames.DONE:
            self._finish(got, rest)

    def _take_tokens(self, got: wire.Fields, tokens: List[int], text: bytes,
                     logprobs: List[wire.Logprobs]) -> None:
        if got["first_index"] != self._seen:
            raise ProtocolError("a token is missing, or comes twice")
        known = self.tokens[self._seen:self._seen + len(tokens)]
        known_text = self.bytes[self._seen_bytes:self._seen_bytes + len(text)]
        if known != tokens[:len(known)] or known_text != text[:len(known_text)]:
            raise ProtocolError("a call that was sent again has another answer")
        if [len(each) for each in logprobs] != [self._entries] * len(tokens) * (self._entries > 0):
            raise ProtocolError("not the log probabilities that were asked for")
        self.tokens += tokens[len(known):]
        self.logprobs += logprobs[len(known):]
        self.bytes += text[len(known_text):]
        self._seen += len(tokens)
        self._seen_bytes += len(text)
        self._news.set()

    def _finish(self, got: wire.Fields, rest: bytes) -> None:
        if got["finish"] == frames.FAILED and got["status"] == SHUTDOWN:
            return                          # a break like others: it is sent to the next start
        if got["generated_tokens"] != self._seen or got["digest"] != wire.digest(
                wire.ids(self.tokens[:self._seen])):
            raise ProtocolError("the digest of a call does not match its tokens")
        asks = self._request[1].drafts
        if len(rest) != asks * _DRAFTS.size:
            raise ProtocolError("the end of a call is not as it was asked for")
        self.client.end(self)
        reply = self._reply(got, Drafts(*_DRAFTS.unpack(rest)) if asks else None)
        if got["finish"] in (frames.CANCELLED, frames.DEADLINE, frames.FAILED):
            self.fail(Failed("the call", got["status"], got["finish"], reply))
        else:
            self._settle(reply)

    def _reply(self, got: wire.Fields, drafts: Optional[Drafts]) -> Reply:
        return Reply(
            self.text, list(self.tokens), FINISHES[got["finish"]], got["prompt_tokens"],
            got["cached_tokens"], got["preemptions"], got["wait_us"] / 1e6,
            got["service_us"] / 1e6, got["total_us"] / 1e6, got["digest"],
            self.logprobs if self._entries else None, drafts)

    def refuse(self, error: Refused) -> None:
        if error.frame_type != frames.CALL:
            return                          # a CANCEL that came too late
        self._pauses = self._pauses or self.client.pauses()
        if not error.is_busy or not self.client.later(self._pauses, error, self.send):
            self.client.end(self)
            self.fail(error)

    def fail(self, error: Exception) -> None:
        if not self._done.done():
            self._done.set_exception(error)
            self._done.exception()          # read here, so that a call that is left is no warning
            self.on_end(self)
        self._news.set()

    def _settle(self, reply: Reply) -> None:
        if not self._done.done():
            self._done.set_result(reply)
            self.on_end(self)
        self._news.set()


class Stream:
    """What a call says, as it comes; then `reply`. A stream that is left, by close() or because
    nothing refers to it any more, cancels its call."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self._loop = asyncio.get_running_loop()

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Piece:
        return await self.call.__anext__()

    @property
    def reply(self) -> Reply:
        """Once it has ended."""
        return self.call.reply

    def close(self) -> None:
        if not self.call.is_done and not self._loop.is_closed():
            self.call.cancel()

    async def aclose(self) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
