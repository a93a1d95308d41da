# SPDX-License-Identifier: MIT
"""The builder of workflows: a graph of operators, written as functions and templates.

    flow = agentix.Flow()
    note = flow.input("note")
    facts = [flow.llm(f"{note}\n{question}", max=64) for question in QUESTIONS]
    flow.output(flow.llm("Sum up:", flow.each(facts, "\n- {}"), max=128), "summary")

A node that is formatted becomes a marker (marker.py), so f-strings, join() and + work; the builder
finds the markers and puts the nodes in their place."""
from __future__ import annotations

from typing import (TYPE_CHECKING, Any, Callable, Coroutine, Dict, Iterable, Iterator, List,
                    Optional, Set, Tuple, Union, overload)

from agentix import arguments, chat, marker
from agentix.row import Row
from agentix.run import OPTIONS, Rows, Run
from agentix.sampling import Sampling, of_options

if TYPE_CHECKING:
    from agentix.chat import Format
    from agentix.client import Client
    from agentix.connection import Path
    from agentix.sync import SyncClient

# Of a template: a text, a node, a number, what a chat format has made, or a list of these.
Part = Any
Made = Union[str, "Node"]                # what becomes of parts: texts, Markup, nodes
Ests = Dict[str, int]                   # of a profile, by the names of operators
INPUT, TEXT, LLM, LAMBDA = range(4)
KINDS = ("input", "text", "llm", "lambda")
NAME_BYTES_MAX = 31             # of a lambda, on the wire


class Node:
    """An operator of a flow; its value is a text. Only `est` may be changed."""

    def __init__(self, flow: Flow, kind: int, name: Optional[str], pieces: Iterable[Made] = (),
                 **how: Any) -> None:
        self.flow, self.kind, self.index = flow, kind, len(flow.nodes)
        if name is not None:
            arguments.text("name", name)
        self.name = flow.unique_name(name or f"{KINDS[kind]}{self.index}")
        self.pieces = tuple(pieces)
        # Of a chat, whose format is known when it is sent.
        self.messages: Optional[List[Tuple[str, str]]] = how.get("messages")
        self.max = arguments.whole("max", how.get("max", 0))
        self.est = arguments.whole("est", how.get("est") or 0)
        self.sampling: Sampling = how.get("sampling") or Sampling()
        self.function: Optional[Callable[[str], Any]] = how.get("function")
        self.function_name: str = how.get("function_name", "")
        self.mark = marker.draw()
        flow.add(self)

    def __str__(self) -> str:
        return marker.of(self.mark)

    def __format__(self, spec: str) -> str:
        if spec:
            raise ValueError(f"{self.name}: a value that is not known yet has no format {spec!r}")
        return str(self)

    def __add__(self, other: object) -> str:
        return str(self) + str(other)

    def __radd__(self, other: object) -> str:
        return str(other) + str(self)

    def __repr__(self) -> str:
        """For a debugger. Its mark is found where this lands in a text of a flow."""
        return f"<{KINDS[self.kind]} {self.name} {self.mark}>"

    def __bool__(self) -> bool:
        raise TypeError(f"the value of {self.name} is not known while the workflow is written; "
                        "leave what depends on it to a function, flow.apply()")


def _sampling(function: Callable[..., Any], options: Dict[str, Any]) -> Sampling:
    sampling = of_options(function, options)
    if any(isinstance(each, str) and marker.has_trace(each) for each in sampling.stop):
        raise ValueError("stop: a node can be no stop, for its value is not known yet")
    if sampling.has_more or sampling.drafts:
        raise ValueError("a workflow knows no presence_penalty, frequency_penalty, logit_bias, "
                         "logprobs, drafts")
    return sampling


class Flow:
    """Nodes in the order in which they are made, so that an operand is an earlier one."""

    def __init__(self) -> None:
        self.nodes: List[Node] = []
        self.outputs: Dict[str, Node] = {}      # by name
        self._names: Set[str] = set()
        self._functions: Dict[object, str] = {}
        self._by_mark: Dict[str, Node] = {}

    # ---- operators -------------------------------------------------------------------------------

    def input(self, name: str, *, est: int = 0) -> Node:
        """A column of the rows. `est`: about how many tokens it has."""
        return Node(self, INPUT, name, est=est)

    def inputs(self, name: str, count: int, *, est: int = 0) -> List[Node]:
        """A column that is a list of so many texts."""
        return [self.input(f"{name}[{i}]", est=est) for i in range(count)]

    def text(self, *pieces: Part, name: Optional[str] = None) -> Node:
        """Pieces as one: texts, nodes, or lists of these."""
        return Node(self, TEXT, name, self.pieces(pieces))

    def llm(self, *pieces: Part, max: Optional[int] = None, max_tokens: Optional[int] = None,
            name: Optional[str] = None, est: int = 0, **sampling: Any) -> Node:
        """What the model says to the pieces, `max` tokens at most (`max_tokens` is another name of
        it), 128 if neither is given. sampling: temperature, top_k, top_p, min_p,
        repeat_penalty, seed, stop, ignore_eos. A node that samples and names no seed has one of
        its own; nodes that are equal, seed and all, are called once."""
        return Node(self, LLM, name, self.pieces(pieces), est=est,
                    max=arguments.most_tokens(max, max_tokens),
                    sampling=_sampling(Flow.llm, sampling))

    def chat(self, messages: Iterable[chat.Message], *, max: Optional[int] = None,
             max_tokens: Optional[int] = None, name: Optional[str] = None, est: int = 0,
             **sampling: Any) -> Node:
        """What the model says to a conversation, in its own chat format: pairs of a role and a
        text, or the dicts that other libraries take."""
        said = [(role, str(content)) for role, content in
                chat.as_messages(messages, (str, Node, int, float))]
        self.pieces(content for _, content in said)         # checks them
        return Node(self, LLM, name, messages=said, est=est,
                    max=arguments.most_tokens(max, max_tokens),
                    sampling=_sampling(Flow.chat, sampling))

    def apply(self, function: Callable[[str], Any], *pieces: Part, max: Optional[int] = None,
              max_tokens: Optional[int] = None, name: Optional[str] = None, est: int = 0,
              pure: bool = True) -> Node:
        """What a function of yours makes of the pieces, joined as one text: a plain function, which
        runs in a thread, or a coroutine. Equal questions are asked once if it is `pure`."""
        named = self._function_name(function, pure)
        return Node(self, LAMBDA, name or named, self.pieces(pieces), est=est,
                    max=arguments.most_tokens(max, max_tokens),
                    function=function, function_name=named)

    def map(self, make: Union[str, Callable[..., Node]], items: Iterable[Part],
            **options: Any) -> List[Node]:
        """A node for each item: make(item), or flow.llm() of a template in which {} is the item."""
        if callable(make):
            return [make(item, **options) for item in items]
        return [self.llm(fill(make, item), **options) for item in items]

    def each(self, items: Iterable[Part], template: str = "{}") -> str:
        """The template for each item, one after the other; an item may be a tuple."""
        return "".join(fill(template, item) for item in items)

    def output(self, node: Node, name: Optional[str] = None) -> Node:
        """Its value comes back for each row."""
        if not isinstance(node, Node):
            raise TypeError(f"output: a node of the flow is needed, not {node!r}")
        self._check_own(node)
        name = name or node.name
        if name in self.outputs:
            raise ValueError(f"there is an output {name}")
        self.outputs[name] = node
        return node

    # ---- use -------------------------------------------------------------------------------------

    @overload
    def run(self, client: Client, rows: Rows, **options: Any) -> Run: ...
    @overload
    def run(self, client: SyncClient, rows: Rows, **options: Any) -> List[Row]: ...

    def run(self, client: Union[Client, SyncClient], rows: Rows,
            **options: Any) -> Union[Run, List[Row]]:
        """Sends the flow and its rows. With a client without asyncio it waits, and returns them in
        their order. With one of asyncio: await it for all of them, or take each when it is done:
        `async for row in flow.run(...)`. A row is a dict by the names of inputs, the texts in their
        order, or, for one input, the text. Rows may come from an async iterator.

        keep       the appliance goes on while we are away (`workflow.linger`); a name: another
                   process that runs the same flow with this name goes on with it
        progress   True: a bar on stderr; or a function that is called with the Run
        on_value   is called with row number, output and text as soon as a value is known
        program    a name or 16 bytes
        format     a chat.Format, instead of the model's own"""
        if not self.outputs:
            raise ValueError("a flow needs an output")
        arguments.known(Flow.run, options, OPTIONS)
        arguments.rows(rows)
        from agentix.sync import SyncClient     # which knows flows
        if isinstance(client, SyncClient):
            return client.run(self, rows, **options)
        return Run(_of_asyncio(client), self, rows, self.outputs, options)

    @overload
    def profile(self, client: Client, rows: Rows,
                **options: Any) -> Coroutine[Any, Any, Ests]: ...
    @overload
    def profile(self, client: SyncClient, rows: Rows, **options: Any) -> Ests: ...

    def profile(self, client: Union[Client, SyncClient], rows: Rows,
                **options: Any) -> Union[Ests, Coroutine[Any, Any, Ests]]:
        """Runs the flow with every operator as an output and sets `est` of each to the mean length
        of its values, by which the appliance orders calls. Gives {name: est}, awaited as run()."""
        arguments.known(Flow.profile, options, OPTIONS)
        arguments.rows(rows)
        from agentix.sync import SyncClient
        if isinstance(client, SyncClient):
            return client.profile(self, rows, **options)
        return self._profile(_of_asyncio(client), rows, options)

    async def _profile(self, client: Client, rows: Rows, options: Dict[str, Any]) -> Ests:
        watched = {node.name: node for node in self.nodes if node.kind in (LLM, LAMBDA)}
        done = [row for row in await Run(client, self, rows, watched, options) if not row.error]
        for name, node in watched.items():
            lengths = [len(row.tokens[name]) for row in done]
            if lengths:
                node.est = max(1, round(sum(lengths) / len(lengths)))
        return {name: node.est for name, node in watched.items()}

    def save(self, path: Path, format: Optional[Format] = None) -> None:
        """Writes the flow as a file that `agx flow` runs. Functions are not in it."""
        from agentix.flow_file import write
        arguments.path("path", path)
        if format is not None and not isinstance(format, chat.Format):
            raise TypeError("format: an agentix.Format is needed (await client.chat_format()), "
                            f"not {format!r}")
        said = write(self, format)              # before the file is emptied
        with open(path, "w", encoding="utf-8") as file:
            file.write(said)

    # ---- pieces ----------------------------------------------------------------------------------

    def add(self, node: Node) -> None:
        self.nodes.append(node)
        self._by_mark[node.mark] = node

    def pieces(self, parts: Iterable[Part]) -> List[Made]:
        """Texts, Markup and nodes, in order: markers become nodes, lists are flattened."""
        found: List[Made] = []
        for part in parts:
            if isinstance(part, Node):
                found.append(self._check_own(part))
            elif isinstance(part, str):
                found += self._split(part)
            elif isinstance(part, chat.Prompt):
                found += self.pieces(part.pieces)
            elif isinstance(part, (list, tuple)):
                found += self.pieces(part)
            elif isinstance(part, (int, float)):
                found.append(str(part))
            else:
                raise TypeError(f"{part!r} is neither a text nor a node")
        return found

    def _split(self, text: str) -> Iterator[Made]:
        like = type(text) if isinstance(text, chat.Markup) else str
        for is_node, part in marker.split(text):
            if is_node and part not in self._by_mark:
                raise ValueError("a node of another flow is in the text, or the text of a node was "
                                 "altered")
            if is_node:
                yield self._by_mark[part]
            elif part:
                yield like(part)

    def _check_own(self, node: Node) -> Node:
        if node.flow is not self:
            raise ValueError(f"{node!r} is of another flow")
        return node

    def unique_name(self, name: str) -> str:
        unique, count = name, 1
        while unique in self._names:
            count += 1
            unique = f"{name}#{count}"
        self._names.add(unique)
        return unique

    def _function_name(self, function: Callable[[str], Any], pure: bool) -> str:
        """Lambdas of one name are one function to the appliance."""
        if pure and function in self._functions:
            return self._functions[function]
        base: str = getattr(function, "__name__", type(function).__name__).strip("<>")
        number = f"~{len(self._functions)}" if self._functions else ""
        name = base.encode()[:NAME_BYTES_MAX - len(number)].decode(errors="ignore") + number
        self._functions[function if pure else object()] = name
        return name


def _of_asyncio(client: Any) -> Client:
    from agentix.client import Client
    if not isinstance(client, Client):
        raise TypeError("a workflow runs with a client, `async with agentix.connect() as client:` "
                        f"or `with agentix.connect() as client:`, not with {client!r}")
    return client


def fill(template: str, item: Part) -> str:
    return template.format(*item) if isinstance(item, tuple) else template.format(item)
