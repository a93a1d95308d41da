# SPDX-License-Identifier: MIT
"""Frames of workflows, written by hand, and a client that takes them as they come."""
import struct

from protocol import (ANSWER, ASK, ERROR, FLOW_CLOSE, FLOW_DONE, FLOW_OK, FLOW_OPEN, PARTS, ROW,
                      ROW_DONE, VALUE, Client, frame, pack, unpack)

INPUT, TEXT, LLM, LAMBDA = range(4)
IS_TEXT = 1 << 31
KEEP = 1


def node(kind, operands=(), stop_ids=(), stop_texts=(), name=None, **fields):
    values = {"kind": kind, "operands": len(operands), "stop_ids": len(stop_ids),
              "stop_texts": len(stop_texts)}
    if kind == LLM:
        values |= {"max_tokens": 4, "top_p": 1.0, "repeat_penalty": 1.0}
    if kind == LAMBDA:
        values |= {"max_tokens": 8}
    values |= fields
    layout = PARTS["flow_node"]
    data = struct.pack("<" + "".join(layout.values()),
                       *(values.get(field, b"" if form.endswith("s") else 0)
                         for field, form in layout.items()))
    data += struct.pack("<%dI" % len(stop_ids), *stop_ids)
    for text in stop_texts:
        data += struct.pack("<H", len(text)) + text
    if kind == LAMBDA:
        data += struct.pack("32s", name or b"f")
    return data + struct.pack("<%dI" % len(operands), *operands)


def opening(nodes, outputs, texts=(b"Say: ",), flow_id=1, program=b"flow-hostile-001", **fields):
    operands = sum(struct.unpack_from("<I", data, 4)[0] for data in nodes)
    values = {"flow_id": flow_id, "program_id": program, "nodes": len(nodes), "operands": operands,
              "outputs": len(outputs), "texts": len(texts), **fields}
    body = b"".join(nodes) + struct.pack("<%dI" % len(outputs), *outputs)
    for text in texts:
        body += struct.pack("<I", len(text)) + text
    return frame(FLOW_OPEN, pack(FLOW_OPEN, **values) + body)


def row(number, *columns, flow_id=1, count=None):
    body = b"".join(struct.pack("<I", len(column)) + column for column in columns)
    return frame(ROW, pack(ROW, flow_id=flow_id, row=number,
                           columns=len(columns) if count is None else count) + body)


def answer(number, at, text=b"", flow_id=1, failed=0):
    return frame(ANSWER, pack(ANSWER, flow_id=flow_id, row=number, node=at, failed=failed) + text)


def end(kind, flow_id=1):
    return frame(kind, pack(kind, flow_id=flow_id))


SIMPLE = [node(INPUT), node(LLM, (IS_TEXT, 0))]


class Flows(Client):
    """A client that takes frames of workflows, too."""

    def until(self, *kinds):
        """The first frame of one of these kinds, unpacked, and what follows its fields."""
        while True:
            kind, payload = self.receive()
            assert kind in (FLOW_OK, VALUE, ASK, ROW_DONE, FLOW_DONE, ERROR), hex(kind)
            if kind in kinds:
                return kind, *unpack(kind, payload)

    def refused(self, data, status, field=None):
        self.send(data)
        _, got, _ = self.until(ERROR)
        assert got["status"] == status, (got, status)
        assert field is None or got["field"] == field, (got, field)
        return got

    def open(self, *arguments, **fields):
        self.send(opening(*arguments, **fields))
        return self.until(FLOW_OK)[1]


def served(a):
    """A workflow of a client that means well; its tokens."""
    with Flows(a.tcp) as c:
        c.open(SIMPLE, [1], flow_id=77, program=b"flow-friendly-01")
        c.send(row(5, b"hello", flow_id=77))
        tokens = b""
        while True:
            kind, got, rest = c.until(VALUE, ROW_DONE)
            if kind == ROW_DONE:
                assert got["status"] == 0
                break
            tokens += rest
        c.send(end(FLOW_CLOSE, 77))
        assert c.until(FLOW_DONE)[1]["rows"] == 1
        return tokens
