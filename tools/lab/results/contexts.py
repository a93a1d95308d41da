# SPDX-License-Identifier: MIT
"""The contexts of a trace's programs: how many of them a KV holds, and the trace without those that
no KV of that size may hold.

A program's context is its longest: the prompt and the output of one of its calls. Threads of a
program that run at once count once. What programs begin with alike, shared texts, is counted once
for all where KV is shared among programs."""
import functools
import os
import statistics


class Call:
    """Tokens of prompt and output, and the shared texts that the prompt begins with."""
    def __init__(self, line, before):
        words = line.split()
        parts = next(word[3:] for word in words if word.startswith("in=")).split("+")
        self.prompt, self.begin, self.output = 0, (), int(words[-1].removeprefix("out="))
        begins = True
        for kind, *rest in (part.split(":") for part in parts):
            tokens = tokens_of(kind, rest, before)
            if begins and kind == "s":
                self.begin += ((rest[0], tokens),)
            elif kind == "p" and self.prompt == 0:
                self.begin = cut(before[int(rest[0])].begin, tokens)
            begins = begins and kind == "s"
            self.prompt += tokens

    def tokens(self):
        return self.prompt + self.output


def tokens_of(kind, rest, before):
    """s:name:n, u:n, p:call[:n], o:call[:n]"""
    if kind in ("s", "u") or len(rest) > 1:
        return int(rest[-1])
    return before[int(rest[0])].prompt if kind == "p" else before[int(rest[0])].output


class Program:
    """Its lines; the tokens of its longest context, the shared texts that begin it; the tokens of
    all its calls."""
    def __init__(self, lines):
        self.lines, calls = lines, []
        for line in lines[1:]:
            calls.append(Call(line, calls))
        longest = max(calls, key=Call.tokens)
        self.tokens, self.begin = longest.tokens(), longest.begin
        self.tokens_of_calls = sum(call.tokens() for call in calls)

    def own(self):
        return self.tokens - sum(tokens for _, tokens in self.begin)


def cut(begin, tokens):
    """The texts among the first so many tokens."""
    found = []
    for name, count in begin:
        found += [(name, min(count, tokens))] * (tokens > 0)
        tokens -= count
    return tuple(found)


@functools.cache
def read(path):
    """Of each program a Program."""
    found = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("program"):
                found.append([])
            if line.startswith(("program", "call")):
                found[-1].append(line)
    return [Program(lines) for lines in found]


def shared(programs):
    """Tokens of all that programs begin with, each text once after the same texts."""
    texts = {}
    for program in programs:
        for at, (name, tokens) in enumerate(program.begin):
            key = tuple(name for name, _ in program.begin[:at]), name
            texts[key] = max(texts.get(key, 0), tokens)
    return sum(texts.values())


def fit(programs, sharing, kv_tokens):
    """How many programs the KV holds, if each has its longest context. Few programs do not use all
    shared texts: then each counts with its own copy."""
    apart = kv_tokens / statistics.mean(program.tokens for program in programs)
    if sharing == "program":
        return apart
    own = statistics.mean(program.own() for program in programs)
    return max(apart, (kv_tokens - shared(programs)) / own)


def whole(path, context, folder):
    """The trace without programs that this context would cut: the path of one that has only the
    others."""
    programs = [program for program in read(path) if program.tokens <= context]
    if len(programs) == len(read(path)):
        return path
    name = f"{os.path.basename(path).removesuffix('.trace')}-{context}.trace"
    kept = os.path.join(os.path.abspath(folder), name)
    with open(kept, "w", encoding="utf-8") as file:
        file.write("agentix-trace 1\n")
        file.writelines(line for program in programs for line in program.lines)
    return kept
