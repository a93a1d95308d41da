# SPDX-License-Identifier: MIT
"""A flow that runs: its rows go out as far as the appliance has room for them, its questions are
answered, and its values come back.

    FLOW_OPEN -> FLOW_OK, then ROWs -> ASK, VALUE, ROW_DONE; at last FLOW_CLOSE -> FLOW_DONE

After a break all of that begins again with the rows that are not done; the answers of functions are
kept until their row is."""
from __future__ import annotations

import asyncio
import inspect
import secrets
import warnings
from typing import (TYPE_CHECKING, Any, AsyncIterable, AsyncIterator, Callable, Coroutine, Dict,
                    Generator, Iterable, List, Optional, Set, Union)

from agentix import frames, submission, tasks, wire
from agentix.errors import SHUTDOWN, Error, Failed, ProtocolError, Refused
from agentix.progress import Progress
from agentix.row import OpenRow, Row

if TYPE_CHECKING:
    from agentix.client import Client
    from agentix.flow import Flow, Node

Rows = Union[Iterable[submission.Inputs], AsyncIterable[submission.Inputs]]
OPTIONS = {"keep", "progress", "on_value", "program", "format"}
# What an ANSWER meets when its row has gone on without it.
TOO_LATE = ("BAD_NODE_UNKNOWN", "BAD_FLOW_UNKNOWN")
# What says in `found` which row it is about; in others that is an amount.
SAYS_ROW = ("BUSY_ROWS", "BUSY_DRAINING", "BAD_ROW_REUSED")


class Run:
    """`plan` has what FLOW_OK said: given, pruned, merged, left. `total` is how many rows have been
    taken so far, `done` how many of them are done."""
    is_flow = True

    def __init__(self, client: Client, flow: Flow, rows: Rows, outputs: Dict[str, Node],
                 options: Dict[str, Any]) -> None:
        self.client, self.flow = client, flow
        self.output_names, self.output_nodes = list(outputs), list(outputs.values())
        self.options, self.id = options, client.next_id()
        progress = options.get("progress")
        self._progress: Optional[Callable[[Run], None]] = \
            Progress() if progress is True else progress
        self.plan: Dict[str, int] = {}
        self.is_resumed = False
        self.total = self.done = self.calls = self.shared = self.fetched = 0
        self.is_over = self._is_cancelled = False
        self._rows = rows
        self._open: Dict[int, OpenRow] = {}
        self._results: List[Row] = []
        self._rows_max, self._is_fed, self._breaks, self._digest = 0, False, -1, 0
        self._payload, self._pauses = b"", client.pauses()
        self._tasks: Set[asyncio.Task[Any]] = set()
        self._room, self._news = asyncio.Event(), asyncio.Event()
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._feeding = tasks.background(self._feed())

    # ---- for the caller --------------------------------------------------------------------------

    def __await__(self) -> Generator[Any, None, List[Row]]:
        return self.result().__await__()

    async def result(self) -> List[Row]:
        """The same as a coroutine, which asyncio.create_task() and task groups insist on."""
        async for _ in self:
            pass
        return sorted(self._results, key=lambda row: row.number)

    async def __aiter__(self) -> AsyncIterator[Row]:
        read = 0
        try:
            while read < len(self._results) or not self._over.done():
                if read == len(self._results):
                    self._news.clear()
                    await self._news.wait()
                    continue
                read += 1
                yield self._results[read - 1]
            self._over.result()
        finally:
            if not self._over.done():
                self._leave()

    def cancel(self) -> None:
        """Ends all rows; they come back as cancelled."""
        self._feeding.cancel()
        self._is_fed = self._is_cancelled = True
        if self.client.is_current(self):
            self._send(frames.FLOW_CANCEL)
        elif not self._over.done():
            self._end()                     # the appliance has not heard of it

    def _leave(self) -> None:
        """The caller does not wait any more. What is to be kept goes on without us."""
        if not self.options.get("keep"):
            self._send(frames.FLOW_CANCEL)
        self.client.end(self)
        self.fail(Error("the run was left"))

    # ---- rows go out -----------------------------------------------------------------------------

    async def _feed(self) -> None:
        try:
            await self._prepare()
            async for row in _each(self._rows):
                inputs = submission.columns(self.flow, row)
                while self._rows_max == 0 or len(self._open) >= self._rows_max:
                    self._room.clear()
                    await self._room.wait()
                self._add(inputs)
            self._is_fed = True
            self._close()
        except Exception as error:      # of the caller's rows, too
            self._send(frames.FLOW_CANCEL)
            self.client.end(self)
            self.fail(error)

    async def _prepare(self) -> None:
        format = self.options.get("format")
        if format is None and submission.needs_format(self.flow):
            format = await self.client.chat_format()
        keep, on_value = self.options.get("keep"), self.options.get("on_value")
        self._head = {"flow_id": self.id, "program_id": self._program_id(),
                      "flags": frames.FLOW_OPEN_WANT_TEXT | (frames.KEEP if keep else 0) |
                      (frames.STREAM if on_value else 0)}
        self._payload = submission.flow_open(self.flow, self.output_nodes, self._head, format)
        if isinstance(keep, str):
            # The same name and the same flow: the same frame, byte for byte.
            self.id = wire.digest(keep.encode() + self._payload[8:])
            self._head["flow_id"] = self.id
            self._payload = submission.flow_open(self.flow, self.output_nodes, self._head, format)
        self.client.begin(self)

    def _program_id(self) -> bytes:
        keep = self.options.get("keep")
        return wire.program_id(self.options.get("program") or
                               (keep if isinstance(keep, str) else secrets.token_bytes(16)))

    def _add(self, inputs: Dict[str, str]) -> None:
        payload = submission.flow_row(self.id, self.total, inputs.values())
        self._open[self.total] = OpenRow(self.total, inputs, payload)
        self.client.send(self._open[self.total].frame)
        self.total += 1

    def _close(self) -> None:
        """Once every row is done: a row on its way may be refused as busy, and be sent again."""
        if self._is_fed and not self._open and self._rows_max > 0:
            self._send(frames.FLOW_CLOSE)

    def _send(self, kind: int) -> None:
        if self.client.is_current(self):
            self.client.send(wire.frame(kind, wire.pack(kind, flow_id=self.id)))

    # ---- for the client --------------------------------------------------------------------------

    def send(self) -> None:
        """From the beginning; the rows follow FLOW_OK."""
        if not self.client.is_current(self):
            return
        self._breaks += 1
        self._rows_max = 0
        for row in self._open.values():
            row.forget()
        self.client.send(wire.frame(frames.FLOW_OPEN, self._payload))
        if self._is_cancelled:              # what is kept is still there; its rows do not follow
            self._send(frames.FLOW_CANCEL)

    def take(self, kind: int, got: wire.Fields, rest: bytes) -> None:
        if kind == frames.FLOW_OK:
            self._begin(got)
        elif kind == frames.FLOW_DONE:
            self._finish(got)
        elif got["row"] not in self._open:
            return                          # it was done before a break
        elif kind == frames.VALUE:
            self._take_value(self._open[got["row"]], got, rest)
        elif kind == frames.ASK:
            self._take_question(self._open[got["row"]], got, rest)
        elif kind == frames.ROW_DONE:
            self._finish_row(got)

    def _begin(self, got: wire.Fields) -> None:
        self.plan = {name: got[name] for name in ("given", "pruned", "merged", "left")}
        self.is_resumed = self.is_resumed or bool(got["flags"] & frames.RESUMED)
        self._rows_max = got["rows"]
        self._pauses = self.client.pauses()
        if not self._is_cancelled:
            for row in self._open.values():
                self.client.send(row.frame)
            self._close()
        self._room.set()
        self._report()

    def _take_value(self, row: OpenRow, got: wire.Fields, rest: bytes) -> None:
        if got["output"] >= len(self.output_names):
            raise ProtocolError("a value of an output that there is not")
        value = row.value(got, *wire.tokens_and_text(got, rest))
        if value[2] and self.options.get("on_value"):
            self.options["on_value"](row.number, self.output_names[got["output"]],
                                     value[1].decode(errors="replace"))

    def _finish_row(self, got: wire.Fields) -> None:
        if got["status"] == SHUTDOWN:
            return                          # a break like others: it is sent to the next start
        row = self._open[got["row"]]
        if got["digest"] != row.digest():
            raise ProtocolError("the digest of a row does not match its values")
        del self._open[got["row"]]
        for task in row.answers.values():
            task.cancel()
        done = Row(row.number, row.inputs)
        for output, value in row.values.items():
            done.tokens[self.output_names[output]] = value[0]
            done.texts[self.output_names[output]] = value[1].decode(errors="replace")
        if got["status"] != 0:
            done.error = Failed(f"row {row.number}", got["status"])
            done.error.__cause__ = row.functions_error
        self._digest += wire.digest(wire.ids([row.number]) + got["digest"].to_bytes(8, "little"))
        self._add_result(done, got)

    def _add_result(self, row: Row, counts: wire.Fields) -> None:
        for name in ("calls", "shared", "fetched"):
            setattr(row, name, counts.get(name, 0))
            setattr(self, name, getattr(self, name) + counts.get(name, 0))
        self._results.append(row)
        self.done += 1
        self._pauses = self.client.pauses()
        self._room.set()
        self._news.set()
        self._report()
        self._close()

    def _finish(self, got: wire.Fields) -> None:
        is_left = bool(self._open) or not self._is_fed
        if is_left and got["status"] == SHUTDOWN:
            self._rows_max = 0          # send() begins again at the appliance after the break
            return
        self.client.end(self)
        whole = self._breaks == 0 and not self.is_resumed
        if self._is_cancelled:
            for row in list(self._open.values()):
                self._refuse_row(row, Failed(f"row {row.number}", got["status"]))
            self._end()
        elif is_left:
            self.fail(Failed("the workflow", got["status"]))
        elif whole and got["rows"] != self.done or \
                whole and got["digest"] != self._digest & (1 << 64) - 1:
            self.fail(ProtocolError("the digest of the workflow does not match its rows"))
        else:
            self._end()

    def refuse(self, error: Refused) -> None:
        """An ERROR that names this workflow; of a ROW it says which."""
        again = error.is_busy or (error.status == "BAD_FLOW_OPEN" and
                                  (self._breaks > 0 or self.options.get("keep")))
        if error.frame_type == frames.FLOW_OPEN:
            if again and self.client.later(self._pauses, error, self.send):
                return
        elif error.frame_type == frames.ROW and error.status in SAYS_ROW and \
                error.found in self._open:
            row = self._open[error.found]
            if again and self.client.later(self._pauses, error, lambda: self._send_row(row)):
                return
            self._refuse_row(row, error)
            return
        elif error.frame_type == frames.ANSWER and error.status not in TOO_LATE:
            warnings.warn(f"the answer of a function was refused, so its row fails: {error}")
            return
        elif error.status in TOO_LATE:
            return
        self.client.end(self)
        self.fail(error)

    def _send_row(self, row: OpenRow) -> None:
        if self._open.get(row.number) is row and self._rows_max > 0:
            self.client.send(row.frame)

    def _refuse_row(self, row: OpenRow, error: Union[Refused, Failed]) -> None:
        del self._open[row.number]
        done = Row(row.number, row.inputs)
        done.error = error
        self._add_result(done, {})

    # ---- functions -------------------------------------------------------------------------------

    def _take_question(self, row: OpenRow, got: wire.Fields, rest: bytes) -> None:
        question = row.questions.setdefault(got["node"], bytearray())
        if got["first_byte"] == 0:
            question.clear()
        if got["first_byte"] != len(question) or len(rest) != got["text_bytes"]:
            raise ProtocolError("a part of a question is missing")
        question += rest
        if not got["flags"] & frames.ASK_LAST:
            return
        if got["node"] not in row.answers:
            row.answers[got["node"]] = self._start(self._call_function(
                row, self._function_of(got["node"]), question.decode()))
        self._start(self._answer(row, got["node"]))

    def _start(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _function_of(self, index: int) -> Callable[[str], Any]:
        function = self.flow.nodes[index].function if index < len(self.flow.nodes) else None
        if function is None:
            raise ProtocolError("a question that is none of this workflow's")
        return function

    @staticmethod
    async def _call_function(row: OpenRow, function: Callable[[str], Any],
                             question: str) -> Optional[str]:
        """Its answer, or None: it has failed."""
        try:
            if inspect.iscoroutinefunction(function):
                return str(await function(question))
            answer = await asyncio.to_thread(function, question)
            return str(await answer if inspect.isawaitable(answer) else answer)
        except Exception as error:          # of the caller's function: the row fails with it
            row.functions_error = error
            return None

    async def _answer(self, row: OpenRow, node: int) -> None:
        answer = await row.answers[node]
        if self._open.get(row.number) is not row or not self.client.is_current(self):
            return
        try:
            self._send_answer(row.number, node, answer)
        except ValueError as error:         # it is longer than a frame
            row.functions_error = error
            self._send_answer(row.number, node, None)

    def _send_answer(self, row: int, node: int, answer: Optional[str]) -> None:
        fixed = wire.pack(frames.ANSWER, flow_id=self.id, row=row, node=node,
                          failed=int(answer is None))
        self.client.send(wire.frame(frames.ANSWER, fixed + (answer or "").encode()))

    # ---- the end ---------------------------------------------------------------------------------

    def fail(self, error: Exception) -> None:
        if not self._over.done():
            self._over.set_exception(error)
            self._over.exception()
        self._wind_up()

    def _end(self) -> None:
        if not self._over.done():
            self._over.set_result(None)
        self._wind_up()

    def _wind_up(self) -> None:
        self._feeding.cancel()
        for task in list(self._tasks):
            task.cancel()
        self.is_over = True
        self._news.set()
        try:
            self._report()
        except Exception:               # the run has its end already, and others wait for theirs
            pass

    def _report(self) -> None:
        """A function that raises is not called again."""
        progress, self._progress = self._progress, None
        if progress is not None:
            progress(self)
            self._progress = progress


async def _each(rows: Rows) -> AsyncIterator[submission.Inputs]:
    if isinstance(rows, AsyncIterable):
        async for row in rows:
            yield row
    else:
        for row in rows:
            yield row
