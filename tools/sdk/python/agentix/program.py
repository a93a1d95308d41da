# SPDX-License-Identifier: MIT
"""A program: the calls of one run of an agent, which the appliance schedules as one thing."""
from __future__ import annotations

import asyncio
import dataclasses
import itertools
import secrets
from typing import TYPE_CHECKING, Any, Iterable, List, Optional, Sequence, Set

from agentix import arguments, frames, wire
from agentix.call import Call, Prompted, Reply, Stream
from agentix.chat import Message, conversation
from agentix.errors import Error, Lost

if TYPE_CHECKING:
    from agentix.client import Client


END_PATIENCE_S = 1.0        # with an appliance that has gone: it will know no such program


@dataclasses.dataclass(frozen=True)
class Totals:
    """Of the calls that have been answered. Once the program has ended, calls, wait and service are
    what the appliance says of it, with calls that were cancelled."""
    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    wait_s: float = 0.0
    service_s: float = 0.0

    def plus(self, reply: Reply) -> Totals:
        return Totals(self.calls + 1, self.prompt_tokens + reply.prompt_tokens,
                      self.cached_tokens + reply.cached_tokens,
                      self.generated_tokens + reply.generated_tokens,
                      self.wait_s + reply.wait_s, self.service_s + reply.service_s)


class Program:
    """It starts with its block and ends with it:

        async with client.program("review", agent="reviewer") as p:
            replies = await p.gather(["a", "b", "c"])
        print(p.totals)

    Calls that are open when the block is left are cancelled."""

    def __init__(self, client: Client, name: Optional[str], agent: str) -> None:
        self.name = None if name is None else arguments.text("program", name)
        self.agent = arguments.class_name("agent", agent)
        self.id = wire.program_id(name or secrets.token_bytes(wire.ID_BYTES))
        self.start_payload = wire.pack(frames.PROGRAM_START, program_id=self.id) + agent.encode()
        self.totals = Totals()
        self._client = client
        self._open: Set[Call] = set()
        self._threads = itertools.count(1)      # 0 is that of calls that name none

    async def __aenter__(self) -> Program:
        await self._client.ask_patiently(frames.PROGRAM_START, self.start_payload)
        self._client.programs.add(self)
        return self

    async def __aexit__(self, _: object, error: Optional[BaseException], trace: object) -> None:
        self._client.programs.discard(self)
        await self._cancel_all()
        if not isinstance(error, Lost):         # else there is no appliance to tell
            await self._end()

    # ---- calls -----------------------------------------------------------------------------------

    def call(self, prompt: Prompted, **options: Any) -> Call:
        """As Client.call(), in this program."""
        call = self._client.call(prompt, program=self.id, **options)
        self._open.add(call)
        call.on_end = self._count
        return call

    def chat(self, messages: Sequence[Message], **options: Any) -> Call:
        """Asks for the next answer of a conversation, in the model's chat format."""
        return self.call(conversation(messages), **options)

    def generate(self, prompt: Prompted, **options: Any) -> Stream:
        """As Client.generate(), in this program."""
        return Stream(self.call(prompt, **options))

    async def gather(self, prompts: Iterable[Prompted], **options: Any) -> List[Reply]:
        """Asks all at once, each in a thread of its own; the replies are in their order. The first
        that fails cancels the others."""
        calls: List[Call] = []
        try:
            for prompt in prompts:
                calls.append(self.call(prompt, thread=next(self._threads), **options))
            return list(await asyncio.gather(*calls))
        except BaseException:
            for call in calls:
                call.cancel()
            raise

    def _count(self, call: Call) -> None:
        self._open.discard(call)
        try:
            self.totals = self.totals.plus(call.reply)
        except Exception:                       # Error, or what its caller gave wrongly
            pass                                # it failed, and its caller knows

    # ---- the end ---------------------------------------------------------------------------------

    async def _cancel_all(self) -> None:
        """Returns when the appliance has ended them: it ends no program with open calls."""
        left = list(self._open)
        for call in left:
            call.cancel()
        for call in left:
            await call.wait()

    async def _end(self) -> None:
        """Where the appliance has forgotten the program or has gone, or others go on with it, the
        totals stay those of our own replies."""
        try:
            told = await self._client.ask_patiently(
                frames.PROGRAM_END, wire.pack(frames.PROGRAM_END, program_id=self.id),
                min(END_PATIENCE_S, self._client.patience_s))
        except Error:
            return
        self.totals = dataclasses.replace(self.totals, calls=told["calls"],
                                          wait_s=told["wait_us"] / 1e6,
                                          service_s=told["service_us"] / 1e6)
