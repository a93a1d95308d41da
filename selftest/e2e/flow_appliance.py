# SPDX-License-Identifier: MIT
"""An appliance for workflows alone, in the event loop of the test: so that what the Python client
does can be tested against what a real appliance does rarely. A token is a byte; what the model says
is said(prompt). It merges nothing, and keeps nothing over a break but with KEEP."""
import asyncio
import struct
import zlib

import protocol
from protocol import PARTS, digest, frame, pack, unpack

INPUT, TEXT, LLM, LAMBDA = range(4)
BAD_FLOW_OPEN, BAD_FLOW_SIZE, BUSY_DRAINING, BUSY_ROWS, GONE_CANCELLED = 33, 35, 5, 11, 50
GONE_SHUTDOWN, DEVICE_FAILED = 52, 65
PIECE = 7                       # tokens of a VALUE, bytes of an ASK: so that there are several


def said(prompt, max_tokens):
    return (b"%08x" % zlib.crc32(prompt) * 8)[:max_tokens]


def fnv(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001b3) & (2 ** 64 - 1)
    return value


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        self.at += count
        assert self.at <= len(self.data)
        return self.data[self.at - count:self.at]

    def number(self, form="I"):
        return struct.unpack("<" + form, self.take(struct.calcsize(form)))[0]


class Graph:
    """FLOW_OPEN, decoded; every rule of docs/protocol.md on its form is asserted."""

    def __init__(self, payload):
        self.head, rest = unpack(protocol.FLOW_OPEN, payload)
        reader = Reader(rest)
        self.nodes = [self._node(reader, i) for i in range(self.head["nodes"])]
        self.outputs = [reader.number() for _ in range(self.head["outputs"])]
        lengths = []
        self.texts, self.special = [], []
        for _ in range(self.head["texts"]):
            lengths.append(reader.number())
            self.texts.append(reader.take(lengths[-1] & 0x7fffffff))
            self.special.append(bool(lengths[-1] >> 31))
        assert reader.at == len(rest)
        assert sum(len(node["pieces"]) for node in self.nodes) == self.head["operands"]
        self.inputs = [i for i, node in enumerate(self.nodes) if node["kind"] == INPUT]

    @staticmethod
    def _node(reader, index):
        node = {name: reader.number(form) for name, form in PARTS["flow_node"].items()}
        node["stop"] = [reader.number() for _ in range(node["stop_ids"])]
        node["stop"] += [reader.take(reader.number("H")) for _ in range(node["stop_texts"])]
        node["name"] = reader.take(32).rstrip(b"\0") if node["kind"] == LAMBDA else b""
        node["pieces"] = [reader.number() for _ in range(node["operands"])]
        assert all(piece >> 31 or piece < index for piece in node["pieces"])
        if node["kind"] != LLM:
            assert not any(node[name] for name in ("temperature", "top_k", "top_p", "min_p", "seed",
                                                   "repeat_penalty", "stop_ids", "flags"))
        assert (node["max_tokens"] > 0) == (node["kind"] in (LLM, LAMBDA))
        return node


class Flow:
    """An open workflow, of the connection that opened it last."""

    def __init__(self, appliance, payload):
        self.appliance, self.payload, self.graph = appliance, payload, Graph(payload)
        self.id = self.graph.head["flow_id"]
        self.rows, self.ended, self.digest, self.is_closed = {}, 0, 0, False
        self.questions, self.writer = {}, None

    def send(self, kind, tail=b"", **values):
        if self.writer is not None and not self.writer.is_closing():
            self.writer.write(frame(kind, pack(kind, flow_id=self.id, **values) + tail))

    async def run_row(self, number, columns):
        values, status = {}, 0
        waiting = iter(columns)
        for i, node in enumerate(self.graph.nodes):
            text = b"".join(self.graph.texts[piece & 0x7fffffff] if piece >> 31 else values[piece]
                            for piece in node["pieces"])
            if node["kind"] == INPUT:
                values[i] = next(waiting)
            elif node["kind"] == TEXT:
                values[i] = text
            elif node["kind"] == LLM:
                values[i] = said(text, node["max_tokens"])
            else:
                values[i] = await self.ask(number, i, text)
                if values[i] is None:
                    status = DEVICE_FAILED
                    break
        self.answer(number, [values.get(output) for output in self.graph.outputs], status)

    async def ask(self, number, node, text):
        self.questions[number, node] = asyncio.get_running_loop().create_future()
        self.question(number, node, text)
        return await self.questions[number, node]

    def question(self, number, node, text):
        for at in range(0, max(1, len(text)), PIECE):
            part = text[at:at + PIECE]
            self.send(protocol.ASK, part, row=number, node=node, first_byte=at,
                      text_bytes=len(part), flags=int(at + PIECE >= len(text)))

    def answer(self, number, values, status):
        tokens = []
        for output, value in enumerate(values):
            if value is None:
                continue
            tokens += value
            for at in range(0, max(1, len(value)), PIECE):
                part = value[at:at + PIECE]
                self.send(protocol.VALUE, struct.pack("<%dI" % len(part), *part) + part,
                          row=number, output=output, first_index=at, tokens_count=len(part),
                          text_bytes=len(part), flags=int(at + PIECE >= len(value)))
        row_digest = digest(tokens)
        self.send(protocol.ROW_DONE, row=number, status=status, calls=1, shared=2, fetched=3,
                  digest=row_digest)
        self.rows.pop(number)
        self.digest += fnv(struct.pack("<IQ", number, row_digest))
        self.ended += 1
        self.maybe_end()

    def maybe_end(self, status=0):
        ends = self.ends()
        if (self.is_closed or ends) and not self.rows:
            self.send(protocol.FLOW_DONE, status=ends[1] if ends else status, rows=self.ended,
                      calls=self.ended, digest=self.digest & (2 ** 64 - 1))
            self.appliance.flows.pop(self.id, None)
        if ends and not self.rows:
            self.appliance.ends = None
            if ends[1] == GONE_SHUTDOWN:
                self.writer.close()

    def ends(self):
        """It has as many rows as the appliance is to take."""
        ends = self.appliance.ends
        return ends if ends and self.ended + len(self.rows) == ends[0] else None


class Appliance:
    """`rows_max` may be open at once; it says that more may be with `says_rows`. `break_at`: the
    numbers of the frames after which it breaks the connection. `ends`: a number of rows, and the
    status with which a workflow ends after them, once. `too_large`: a row that is refused as that,
    and the amount that it is said to have."""

    def __init__(self, rows_max=4, says_rows=None, break_at=(), ends=None, too_large=None):
        self.ends, self.too_large = ends, too_large
        self.rows_max, self.says_rows = rows_max, says_rows or rows_max
        self.break_at, self.frames = set(break_at), 0
        self.flows, self.graphs, self.seen, self.tasks = {}, [], [], set()

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.to = "127.0.0.1:%d" % self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.server.close()
        for task in self.tasks:
            task.cancel()

    async def serve(self, reader, writer):
        try:
            while True:
                head = await reader.readexactly(16)
                payload = await reader.readexactly(struct.unpack_from("<I", head, 8)[0])
                assert frame(head[4], payload) == head + payload
                self.take(writer, head[4], payload)
                self.frames += 1
                if self.frames in self.break_at:
                    writer.transport.abort()
        except (EOFError, OSError, asyncio.CancelledError):
            for flow in list(self.flows.values()):
                if flow.writer is writer and not flow.graph.head["flags"] & protocol.KEEP:
                    del self.flows[flow.id]
        finally:
            writer.close()

    def take(self, writer, kind, payload):
        self.seen.append(kind)
        if kind == protocol.HELLO:
            writer.write(frame(protocol.WELCOME, pack(
                protocol.WELCOME, version=1, frame_bytes_max=1 << 16, context_tokens_max=1024,
                vocab_tokens=256, calls_per_connection_max=8)))
        elif kind == protocol.CHAT_ASK:
            got, _ = unpack(kind, payload)
            writer.write(frame(protocol.CHAT, pack(
                protocol.CHAT, nonce=got["nonce"], verdict=1, format=b"chatml", system_bytes=3,
                system=b"Be."[got["first"]:])))
        elif kind == protocol.FLOW_OPEN:
            self.open(writer, payload)
        else:
            got, rest = unpack(kind, payload)
            if got["flow_id"] in self.flows:
                self.take_of_flow(self.flows[got["flow_id"]], kind, got, rest)

    def open(self, writer, payload):
        new = Flow(self, payload)
        known = self.flows.get(new.id)
        if known is not None and known.payload != payload:
            writer.write(frame(protocol.ERROR, pack(protocol.ERROR, status=BAD_FLOW_OPEN,
                                                    frame_type=protocol.FLOW_OPEN,
                                                    call_id=new.id)))
            return
        flow = self.flows.setdefault(new.id, known or new)
        flow.writer = writer
        self.graphs.append(flow.graph)
        flow.send(protocol.FLOW_OK, given=4, pruned=1, merged=1, left=2, rows=self.says_rows,
                  flags=int(known is not None))

    def take_of_flow(self, flow, kind, got, rest):
        if kind == protocol.ROW:
            self.take_row(flow, got, rest)
        elif kind == protocol.ANSWER:
            question = flow.questions.get((got["row"], got["node"]))
            if question is not None and not question.done():
                question.set_result(None if got["failed"] else rest)
        elif kind == protocol.FLOW_CLOSE:
            flow.is_closed = True
            flow.maybe_end()
        elif kind == protocol.FLOW_CANCEL:
            flow.is_closed = True
            for number, task in list(flow.rows.items()):
                task.cancel()
                flow.answer(number, [], GONE_CANCELLED)
            flow.maybe_end(GONE_CANCELLED)

    def take_row(self, flow, got, rest):
        reader = Reader(rest)
        columns = [reader.take(reader.number()) for _ in range(got["columns"])]
        assert len(columns) == len(flow.graph.inputs) and reader.at == len(rest)
        if self.too_large is not None and got["row"] == self.too_large[0]:
            flow.writer.write(frame(protocol.ERROR, pack(
                protocol.ERROR, status=BAD_FLOW_SIZE, frame_type=protocol.ROW, call_id=flow.id,
                found=self.too_large[1])))
            return
        if (len(flow.rows) >= self.rows_max or flow.ends()) and got["row"] not in flow.rows:
            flow.writer.write(frame(protocol.ERROR, pack(
                protocol.ERROR, status=BUSY_DRAINING if flow.ends() else BUSY_ROWS,
                frame_type=protocol.ROW, call_id=flow.id, found=got["row"], max=self.rows_max)))
            return
        task = asyncio.create_task(flow.run_row(got["row"], columns))
        self.tasks.add(task)
        flow.rows[got["row"]] = task
