# SPDX-License-Identifier: MIT
"""A flow as FLOW_OPEN, a row as ROW: docs/protocol.md."""
from __future__ import annotations

import struct
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from agentix import chat, flow as builder, frames, wire

# By the names of inputs, in their order, or, for one input, the text.
Inputs = Union[str, Mapping[str, Any], Sequence[Any]]
OF_TEXT = 1 << 31               # of an operand: it is a text; of a text's length: it is Markup
COUNT_MAX = 0xffff
_NODE = struct.Struct("<" + "".join(frames.PARTS["flow_node"].values()))


class Texts:
    """Each literal once."""

    def __init__(self) -> None:
        self.indices: Dict[Tuple[bool, str], int] = {}
        self.bytes = b""

    def add(self, text: str) -> int:
        key = (isinstance(text, chat.Markup), str(text))
        if key not in self.indices:
            data = text.encode()
            self.indices[key] = len(self.indices)
            self.bytes += struct.pack("<I", len(data) | (OF_TEXT if key[0] else 0)) + data
        return self.indices[key]


def resolve(flow: builder.Flow, node: builder.Node, format: Optional[chat.Format]
            ) -> Tuple[Sequence[builder.Made], Tuple[str, ...]]:
    """Pieces, and the stops that the chat format adds."""
    if node.messages is None:
        return node.pieces, ()
    if format is None:                  # of one that is saved; Run asks for it (needs_format())
        raise ValueError(f"{node.name}: flow.chat() is written in the model's chat format, and "
                         "which one that is only the appliance says: "
                         "flow.save(path, await client.chat_format())")
    prompt = format.prompt(node.messages, bos=False)    # the appliance puts BOS before prompts
    return flow.pieces(prompt.pieces), prompt.stop


def needs_format(flow: builder.Flow) -> bool:
    return any(node.messages is not None for node in flow.nodes)


def _node(flow: builder.Flow, node: builder.Node, texts: Texts,
          format: Optional[chat.Format]) -> Tuple[bytes, int]:
    """Bytes of a node, and how many operands it has."""
    pieces, stop = resolve(flow, node, format)
    values: wire.Fields = {"kind": node.kind, "max_tokens": node.max, "est": node.est,
                           "operands": len(pieces)}
    stops = b""
    if node.kind == builder.LLM:
        sampling = node.sampling.with_stop(stop)
        values |= sampling.fields(seed=node.index + 1)
        values["flags"] = frames.FLOW_NODE_IGNORE_EOS if sampling.ignore_eos else 0
        stops = sampling.stops()
    fixed = _NODE.pack(*(values.get(name, 0) for name in frames.PARTS["flow_node"]))
    name = struct.pack("32s", node.function_name.encode()) if node.kind == builder.LAMBDA else b""
    operands = [piece.index if isinstance(piece, builder.Node) else OF_TEXT | texts.add(piece)
                for piece in pieces]
    return fixed + stops + name + wire.ids(operands), len(operands)


def flow_open(flow: builder.Flow, outputs: Sequence[builder.Node], head: wire.Fields,
              format: Optional[chat.Format] = None) -> bytes:
    """The payload. `head`: flow_id, program_id and flags."""
    texts = Texts()
    nodes = [_node(flow, node, texts, format) for node in flow.nodes]
    counts = {"nodes": len(nodes), "operands": sum(count for _, count in nodes),
              "outputs": len(outputs), "texts": len(texts.indices)}
    for name, count in counts.items():
        if count > COUNT_MAX:
            raise ValueError(f"{count} {name}, at most {COUNT_MAX}")
    return wire.pack(frames.FLOW_OPEN, **head, **counts) + b"".join(data for data, _ in nodes) + \
        wire.ids([node.index for node in outputs]) + texts.bytes


def _named(names: List[str], row: Mapping[str, Any]) -> List[Any]:
    """The columns of these names. A row may have others; of a list that the flow has, no more."""
    lists = {f"{name}[{i}]": each for name, value in row.items()
             if isinstance(value, (list, tuple)) for i, each in enumerate(value)}
    given, wanted = {**row, **lists}, set(names)
    for name in names:
        if name not in given:
            raise ValueError(f"the row has no column {name}")
    for name in lists:
        if name not in wanted and name[:name.rindex("[")] + "[0]" in wanted:
            raise ValueError(f"the row has a column {name}, and the flow has no such input")
    return [given[name] for name in names]


def columns(flow: builder.Flow, row: Inputs) -> Dict[str, str]:
    """The texts of a row, in the order of the inputs."""
    names = [node.name for node in flow.nodes if node.kind == builder.INPUT]
    if isinstance(row, str):
        row = [row]
    if isinstance(row, Mapping):
        row = _named(names, row)
    texts = [str(each) for each in row]
    if len(texts) != len(names):
        raise ValueError(f"a row has {len(names)} columns, and this one {len(texts)}")
    return dict(zip(names, texts))


def flow_row(flow_id: int, number: int, texts: Iterable[str]) -> bytes:
    data = [text.encode() for text in texts]
    return wire.pack(frames.ROW, flow_id=flow_id, row=number, columns=len(data)) + \
        b"".join(struct.pack("<I", len(each)) + each for each in data)
