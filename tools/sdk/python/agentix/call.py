# SPDX-License-Identifier: MIT
"""One call: the request, and what came back for it."""
import asyncio
import dataclasses
import secrets
import struct

from agentix import frames, wire
from agentix.errors import Failed, ProtocolError

FINISHES = {frames.LENGTH: "length", frames.EOS: "eos", frames.STOP_ID: "stop_id",
            frames.STOP_TEXT: "stop_text", frames.CANCELLED: "cancelled",
            frames.DEADLINE: "deadline", frames.FAILED: "failed"}
SHUTDOWN = next(code for code, row in frames.STATUSES.items() if row[0] == "GONE_SHUTDOWN")


@dataclasses.dataclass(frozen=True)
class Reply:
    """`finish`: length, eos, stop_id or stop_text. Times are in seconds; `digest` covers all
    tokens."""
    text: str
    tokens: list
    finish: str
    prompt_tokens: int
    cached_tokens: int
    preemptions: int
    wait_s: float
    service_s: float
    total_s: float
    digest: int


def encode(fields, prompt, sampling, text):
    """A whole CALL frame. `prompt` is a text, ids, or a chat.Prompt, whose parts alternate."""
    flags = (frames.WANT_TEXT if text else 0) | (frames.IGNORE_EOS if sampling.ignore_eos else 0)
    lengths = []
    if isinstance(prompt, str):
        body, flags = prompt.encode(), flags | frames.TEXT_PROMPT | frames.ADD_BOS
    elif hasattr(prompt, "parts"):
        parts = [part.encode() for part in prompt.parts]
        body, lengths = b"".join(parts), [len(part) for part in parts]
        flags |= frames.TEXT_PROMPT | frames.PARSE_SPECIAL
    else:
        prompt = list(prompt)
        body = wire.ids(prompt)
    count = len(body) if flags & frames.TEXT_PROMPT else len(prompt)
    fixed = wire.pack(frames.CALL, flags=flags, prompt_count=count, parts=len(lengths),
                      **fields, **sampling.fields(secrets.randbits(64)))
    return wire.frame(frames.CALL, fixed + sampling.stops() +
                      struct.pack(f"<{len(lengths)}I", *lengths) + body)


class Call:
    """`await` it for the Reply; `async for` gives its text (without text: its tokens) as it comes.
    A task that is cancelled while it waits cancels the call."""
    is_flow = False

    def __init__(self, client, call_id, fields, request):
        self.client, self.id = client, call_id
        self.program = fields["program_id"]
        self.wants_text = request[2]
        self.frame = encode({"call_id": call_id, **fields}, *request)
        self.tokens, self.bytes = [], bytearray()
        self._seen, self._seen_bytes = 0, 0         # over this connection
        self._read, self._read_bytes = 0, 0         # by `async for`
        self._pauses, self._is_accepted = None, False
        self._news = asyncio.Event()
        self._done = asyncio.get_running_loop().create_future()
        self._starting = None

    @property
    def text(self):
        return self.bytes.decode(errors="replace")

    # ---- for the caller --------------------------------------------------------------------------

    def __await__(self):
        return self._result().__await__()

    async def _result(self):
        try:
            return await asyncio.shield(self._done)
        except asyncio.CancelledError:
            self.cancel()
            raise

    def __aiter__(self):
        return self

    async def __anext__(self):
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

    def _next_piece(self):
        if self.wants_text:
            piece = self.bytes[self._read_bytes:].decode(errors="replace")
            self._read_bytes = len(self.bytes)
        else:
            piece = self.tokens[self._read:]
            self._read = len(self.tokens)
        return piece

    def cancel(self):
        """Asks the appliance to end it; the call then fails as cancelled."""
        if self._starting is not None:
            self._starting.cancel()
        if self.client.is_current(self):
            self.client.send(wire.frame(frames.CANCEL, wire.pack(
                frames.CANCEL, call_id=self.id, program_id=self.program)))
        elif not self._done.done():
            self.fail(Failed("the call", 0, frames.CANCELLED))

    # ---- for the client --------------------------------------------------------------------------

    def start(self, room):
        """When there is room among the calls of the connection; at once, if there is."""
        self._starting = asyncio.create_task(self._start(room))

    async def _start(self, room):
        async with room:
            self._starting = None
            try:
                self.client.begin(self)
            except Exception as error:
                self.client.end(self)
                self.fail(error)
            await asyncio.wait([self._done])

    def send(self):
        if self.client.is_current(self):
            self._seen = self._seen_bytes = 0
            self._is_accepted = False
            self.client.send(self.frame)

    def take(self, kind, got, rest):
        if kind == frames.ACCEPT:
            self._is_accepted, self._pauses = True, None
        elif kind == frames.TOKENS:
            self._take_tokens(got, *wire.tokens_and_text(got, rest))
        elif kind == frames.DONE:
            self._finish(got)

    def _take_tokens(self, got, tokens, text):
        if got["first_index"] != self._seen:
            raise ProtocolError("a token is missing, or comes twice")
        known = self.tokens[self._seen:self._seen + len(tokens)]
        known_text = self.bytes[self._seen_bytes:self._seen_bytes + len(text)]
        if known != tokens[:len(known)] or known_text != text[:len(known_text)]:
            raise ProtocolError("a call that was sent again has another answer")
        self.tokens += tokens[len(known):]
        self.bytes += text[len(known_text):]
        self._seen += len(tokens)
        self._seen_bytes += len(text)
        self._news.set()

    def _finish(self, got):
        if got["finish"] == frames.FAILED and got["status"] == SHUTDOWN:
            return                          # a break like others: it is sent to the next start
        if got["generated_tokens"] != self._seen or got["digest"] != wire.digest(
                wire.ids(self.tokens[:self._seen])):
            raise ProtocolError("the digest of a call does not match its tokens")
        self.client.end(self)
        if got["finish"] in (frames.CANCELLED, frames.DEADLINE, frames.FAILED):
            self.fail(Failed("the call", got["status"], got["finish"]))
            return
        self._settle(Reply(
            self.text, list(self.tokens), FINISHES[got["finish"]], got["prompt_tokens"],
            got["cached_tokens"], got["preemptions"], got["wait_us"] / 1e6,
            got["service_us"] / 1e6, got["total_us"] / 1e6, got["digest"]))

    def refuse(self, error):
        if error.frame_type != frames.CALL:
            return                          # a CANCEL that came too late
        self._pauses = self._pauses or self.client.pauses()
        if not error.is_busy or not self.client.later(self._pauses, error, self.send):
            self.client.end(self)
            self.fail(error)

    def fail(self, error):
        if not self._done.done():
            self._done.set_exception(error)
            self._done.exception()          # read here, so that a call that is left is no warning
        self._news.set()

    def _settle(self, reply):
        if not self._done.done():
            self._done.set_result(reply)
        self._news.set()
