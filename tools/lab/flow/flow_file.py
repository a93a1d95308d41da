# SPDX-License-Identifier: MIT
"""What: a flow file (agentix-flow 1), read and expanded into flat nodes: the reference's own.

It was written from the specification and shares no code with config/ or tools/agx. Where the
specification is open, the reading stands beside the code with the word "Reading".
"""
import itertools
import re
from dataclasses import dataclass, field

NAME = r"[A-Za-z_][A-Za-z0-9_.-]*"
REFERENCE = re.compile(rf"^({NAME})(?:\[(.*)\])?$")
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
INPUT_EST = 64


class FlowError(Exception):
    """A file that is none; the message begins with its line."""


@dataclass
class Node:
    """pieces: tuples of symbols, and numbers of nodes whose value comes there. A symbol of a
    literal is a byte, or (name, position) of a synthetic token."""
    kind: str                       # input, text, llm, lambda
    name: str
    base: str                       # without its indices
    pieces: list = field(default_factory=list)
    max: int = 0
    est: int = INPUT_EST
    sampling: tuple = ()            # sorted: all options but max, est and stop
    stops: tuple = ()


@dataclass
class Flow:
    nodes: list = field(default_factory=list)
    outputs: list = field(default_factory=list)


def lex(line, number):
    """Words, ("string", bytes), "{", "}" of a line. A word may hold blanks inside [ ], and a string
    at its end: stop="x"."""
    tokens, at = [], 0
    while at < len(line):
        c = line[at]
        if c.isspace():
            at += 1
        elif c in "{}":
            tokens.append(c)
            at += 1
        elif c == '"':
            text, at = lex_string(line, at, number)
            tokens.append(("string", text))
        else:
            end = at
            depth = 0
            while end < len(line) and line[end] not in '{}"' and (depth or not line[end].isspace()):
                depth += (line[end] == "[") - (line[end] == "]")
                end += 1
            tokens.append(re.sub(r"\s", "", line[at:end]))
            at = end
            if at < len(line) and line[at] == '"' and tokens[-1].endswith("=") and \
                    tokens[-1] != "=":
                text, at = lex_string(line, at, number)
                tokens[-1] = ("option", tokens[-1][:-1], text)
    return tokens


def lex_string(line, at, number):
    text, at = "", at + 1
    while True:
        if at >= len(line):
            raise FlowError(f"{number}: a string has no end")
        c = line[at]
        if c == '"':
            return text.encode(), at + 1
        if c == "\\":
            if at + 1 >= len(line) or line[at + 1] not in ESCAPES:
                raise FlowError(f"{number}: unknown escape")
            text += ESCAPES[line[at + 1]]
            at += 2
        else:
            text += c
            at += 1


def logical_lines(text):
    """(number, line); a line that begins with a blank continues the one before."""
    lines = []
    for number, line in enumerate(text.split("\n"), 1):
        bare = strip_comment(line)
        if not bare.strip():
            continue
        if bare[0].isspace() and lines:
            lines[-1][1] += " " + bare
        else:
            lines.append([number, bare])
    return lines


def strip_comment(line):
    quoted, at = False, 0
    while at < len(line):
        if quoted and line[at] == "\\":
            at += 1
        elif line[at] == '"':
            quoted = not quoted
        elif line[at] == "#" and not quoted:
            return line[:at]
        at += 1
    return line


class Reader:
    """State of one file while it is read; an operand is a node that stands earlier."""

    def __init__(self, text):
        self.flow, self.sets, self.families, self.number = Flow(), {}, {}, 0
        lines = logical_lines(text)
        if not lines or lines[0][1].split() != ["agentix-flow", "1"]:
            raise FlowError("1: not an agentix-flow 1")
        for self.number, line in lines[1:]:
            self.statement(lex(line, self.number))
        if not self.flow.outputs:
            raise FlowError(f"{self.number}: no output")

    def fail(self, text):
        raise FlowError(f"{self.number}: {text}")

    def statement(self, tokens):
        word = tokens[0]
        if word == "each":
            self.each(tokens[1:])
        elif word == "input":
            for item in tokens[1:]:
                self.input(item)
        elif word in ("llm", "text", "lambda"):
            self.operator(word, tokens[1:])
        elif word == "output":
            for item in tokens[1:]:
                self.flow.outputs += self.references(item, {})
        else:
            self.fail(f"unknown word {word!r}")

    def each(self, tokens):
        if len(tokens) < 3 or tokens[1] != "=" or tokens[0] in self.sets:
            self.fail("each NAME = ...")
        span = re.match(r"^(\d+)\.\.(\d+)$", tokens[2])
        if span and len(tokens) == 3:
            elements = [str(i) for i in range(int(span[1]), int(span[2]) + 1)]
        else:
            elements = tokens[2:]
        if not elements or len(set(elements)) < len(elements):
            self.fail("empty set, or an element twice")
        self.sets[tokens[0]] = elements

    def family(self, word):
        """Name and index sets of what a statement defines."""
        match = REFERENCE.match(word)
        if not match or match[1] in self.families or match[1] in self.sets:
            self.fail(f"bad name {word!r}, or one that is taken")
        sets = match[2].split(",") if match[2] is not None else []
        if any(s not in self.sets for s in sets) or len(set(sets)) < len(sets):
            self.fail(f"unknown index in {word!r}")
        return match[1], sets

    def define(self, base, sets, make):
        """Leftmost slowest."""
        members = self.families[base] = (sets, {})
        for elements in itertools.product(*(self.sets[s] for s in sets)):
            node = make(dict(zip(sets, elements)))
            node.name = base + (f"[{','.join(elements)}]" if sets else "")
            members[1][elements] = len(self.flow.nodes)
            self.flow.nodes.append(node)

    def input(self, item):
        word, _, est = item.partition("=")
        base, sets = self.family(word)
        est = int(est) if est else INPUT_EST
        self.define(base, sets, lambda bound: Node("input", "", base, est=est))

    def operator(self, kind, tokens):
        if "=" not in tokens:
            self.fail("no =")
        at = tokens.index("=")
        base, sets = self.family(tokens[0])
        options, stops = {}, []
        for token in tokens[1:at]:
            key, value = token[1:] if isinstance(token, tuple) else token.split("=", 1)
            if key == "stop":
                stops.append(value if isinstance(value, bytes) else value.encode())
            else:
                options[key] = float(value)
        body = tokens[at + 1:]

        def make(bound):
            node = Node(kind, "", base, self.pieces(body, bound), stops=tuple(stops))
            if kind != "text":
                node.max = int(options["max"])
                node.est = int(options.get("est", node.max))
            node.sampling = tuple(sorted((k, v) for k, v in options.items()
                                         if k not in ("max", "est") and v != 0))
            return node
        # Reading: the family exists for itself, too, as far as it is expanded (say[round-1]).
        self.define(base, sets, make)

    def pieces(self, body, bound):
        """The pieces of one operator; neighbouring literals are one."""
        out, at = [], 0
        while at < len(body):
            if body[at] == "{":
                end = body.index("}", at)
                for piece in self.group(body[at + 1:end], bound):
                    out.append(piece)
                at = end + 1
            else:
                out += self.atom(body[at], bound)
                at += 1
        return join(out)

    def atom(self, token, bound):
        """Pieces of a string, an index, synthetic tokens or a reference outside a group."""
        literal = self.literal(token, bound)
        if literal is not None:
            return [literal]
        nodes = self.references(token, bound)
        return [piece for node in nodes for piece in self.value(node)]

    def literal(self, token, bound):
        if isinstance(token, tuple):
            return tuple(token[-1])
        synthetic = re.match(r"^s:([^:]+):(\d+)$", token)
        if synthetic:
            return tuple((synthetic[1], i) for i in range(int(synthetic[2])))
        if token in self.sets:
            if token not in bound:
                self.fail(f"index {token!r} has no element here")
            return tuple(bound[token].encode())
        return None

    def value(self, node):
        of = self.flow.nodes[node]
        return of.pieces if of.kind == "text" else [node]

    def group(self, body, bound):
        """Wildcards over one set are bound together; different sets: leftmost slowest."""
        over = {}                   # set -> elements, in the order of appearance
        for token in body:
            if self.literal_kind(token):
                continue
            for name, elements in self.wildcards(token, bound):
                if name in over:
                    over[name] = [e for e in over[name] if e in elements]
                else:
                    over[name] = elements
        out = []
        for chosen in itertools.product(*over.values()):
            out += self.repetition(body, bound, dict(zip(over, chosen)))
        return out

    def repetition(self, body, bound, chosen):
        out = []
        for token in body:
            # Reading: in a group, an index that the operator does not bind is the wildcard's.
            literal = self.literal(token, {**chosen, **bound})
            if literal is not None:
                out.append(literal)
                continue
            family, elements = self.resolve(token, bound, chosen)
            if elements is None or tuple(elements) not in family:
                return []           # a reference has no element: the group vanishes
            out += self.value(family[tuple(elements)])
        return out

    def literal_kind(self, token):
        return isinstance(token, tuple) or token.startswith("s:") or token in self.sets

    def subscripts(self, token):
        match = REFERENCE.match(token)
        if not match or match[1] not in self.families:
            self.fail(f"unknown name {token!r}")
        sets, members = self.families[match[1]]
        marks = match[2].split(",") if match[2] is not None else []
        if len(marks) != len(sets):
            self.fail(f"{token!r} has {len(marks)} of {len(sets)} indices")
        return sets, members, marks

    def wildcards(self, token, bound):
        """(set, elements) of each * and ! of a reference."""
        sets, _, marks = self.subscripts(token)
        for name, mark in zip(sets, marks):
            if mark == "*":
                yield name, self.sets[name]
            elif mark.startswith("!"):
                if mark[1:] not in bound:
                    self.fail(f"{mark!r} has no element here")
                yield name, [e for e in self.sets[name] if e != bound[mark[1:]]]

    def resolve(self, token, bound, chosen):
        """(members, elements or None) of a reference whose wildcards are chosen."""
        sets, members, marks = self.subscripts(token)
        elements = []
        for name, mark in zip(sets, marks):
            before = re.match(rf"^({NAME}?)-(\d+)$", mark)
            if mark == "*" or mark.startswith("!"):
                elements.append(chosen[name])
            elif before and before[1] in bound:
                of = self.sets[before[1]]
                at = of.index(bound[before[1]]) - int(before[2])
                if at < 0:
                    return members, None
                elements.append(of[at])
            elif mark in bound or mark in chosen:
                elements.append({**chosen, **bound}[mark])
            elif mark in self.sets[name]:
                elements.append(mark)
            else:
                self.fail(f"{token!r}: no element {mark!r}")
        return members, elements

    def references(self, token, bound):
        """Nodes of a reference outside a group: one, or as many as its wildcards have."""
        sets, members, _ = self.subscripts(token)
        over = list(self.wildcards(token, bound))
        nodes = []
        for chosen in itertools.product(*(e for _, e in over)):
            _, elements = self.resolve(token, bound, dict(zip((n for n, _ in over), chosen)))
            if elements is None or tuple(elements) not in members:
                self.fail(f"{token!r} has no element")
            nodes.append(members[tuple(elements)])
        if not nodes:
            self.fail(f"{token!r} has no element")
        return nodes


def join(pieces):
    """Neighbouring literals are one; empty ones are none."""
    out = []
    for piece in pieces:
        if isinstance(piece, tuple):
            if not piece:
                continue
            if out and isinstance(out[-1], tuple):
                out[-1] += piece
                continue
        out.append(piece)
    return out


def read_flow(text):
    return Reader(text).flow
