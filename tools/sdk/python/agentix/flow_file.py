# SPDX-License-Identifier: MIT
"""A flow as a file of format `agentix-flow 1`, which `agx flow` runs and explains. The names of
nodes become words of that format; functions become lambdas of their name."""
from __future__ import annotations

import re
from typing import Dict, List, Optional, Sequence

from agentix import chat, flow as builder, submission
from agentix.errors import Error

ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
NAME_MAX = 31
DEFAULTS = {"temperature": 0, "top_k": 0, "top_p": 1, "min_p": 0, "repeat_penalty": 1}
OPTIONS = {"temperature": "temp", "top_k": "top-k", "top_p": "top-p", "min_p": "min-p",
           "repeat_penalty": "repeat"}


def quoted(text: str) -> str:
    if "\0" in text:
        raise Error("a text with a zero byte has no place in a flow file")
    return '"' + re.sub(r'[\n\t\r"\\]', lambda found: ESCAPES[found.group()], text) + '"'


def number(value: float) -> str:
    """Digits and at most one point."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def names_of(flow: builder.Flow) -> Dict[int, str]:
    """A word for each node; no two are the same."""
    names: Dict[int, str] = {}
    taken = set()
    for node in flow.nodes:
        word = re.sub(r"[^A-Za-z0-9]+", "_", node.name).strip("_")[:NAME_MAX - 4] or "node"
        name, count = word, 1
        while name in taken:
            count += 1
            name = f"{word}_{count}"
        taken.add(name)
        names[node.index] = name
    return names


def options(node: builder.Node, stop: Sequence[str]) -> List[str]:
    words = [f"max={node.max}"] if node.max else []
    words += [f"est={node.est}"] if node.est else []
    if node.kind != builder.LLM:
        return words
    sampling = node.sampling.with_stop(stop)
    words += [f"{word}={number(getattr(sampling, name))}" for name, word in OPTIONS.items()
              if getattr(sampling, name) != DEFAULTS[name]]
    seed = sampling.fields(seed=node.index + 1)["seed"]
    words += [f"seed={seed}"] if seed else []
    words += ["ignore-eos=1"] if sampling.ignore_eos else []
    return words + [f"stop={quoted(each) if isinstance(each, str) else each}"
                    for each in sampling.stop]


def statement(flow: builder.Flow, node: builder.Node, names: Dict[int, str],
              format: Optional[chat.Format]) -> str:
    if node.kind == builder.INPUT:
        return f"input {names[node.index]}" + (f"={node.est}" if node.est else "")
    pieces, stop = submission.resolve(flow, node, format)
    if any(isinstance(piece, chat.Markup) for piece in pieces):
        raise Error(f"{node.name}: special tokens have no place in a flow file")
    said = [names[piece.index] if isinstance(piece, builder.Node) else quoted(piece)
            for piece in pieces]
    return " ".join([builder.KINDS[node.kind], names[node.index], *options(node, stop), "=",
                     *(said or ['""'])])


def write(flow: builder.Flow, format: Optional[chat.Format] = None) -> str:
    """The text of the file."""
    names = names_of(flow)
    lines = ["agentix-flow 1", *(statement(flow, node, names, format) for node in flow.nodes),
             *(f"output {names[node.index]}" for node in flow.outputs.values())]
    return "\n".join(lines) + "\n"
