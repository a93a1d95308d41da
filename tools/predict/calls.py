#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes samples of what a client has logged of its calls.

usage: calls.py CALLS.jsonl SAMPLES.jsonl

The log has a line of JSON for each call that was answered, in any order. The line of a program's
first call has its class and its prompt:

    {"program": "7f3a", "class": "chat", "tokens": [1, 15043, ...], "output": 96}
    {"program": "7f3a", "prompt": 930, "output": 41}

`prompt` and `output` are numbers of tokens: both are in the DONE of a call. A program that still
runs is a sample, too: log it when it has ended.
"""
import sys

import samples


def check(call):
    """(program, class, tokens, prompt, output); class and tokens are None but in a first call."""
    if not isinstance(call, dict) or not isinstance(call.get("program"), str):
        raise samples.BadSample("program: expected a text")
    name, tokens, prompt = call.get("class"), call.get("tokens"), call.get("prompt")
    if tokens is not None:
        name, tokens, prompt = samples.check_name(name), samples.check_tokens(tokens), len(tokens)
    for number in (prompt, call.get("output")):
        if not samples.is_count(number, 2 ** 31):
            raise samples.BadSample("prompt, output: expected numbers of tokens")
    return call["program"], name, tokens, prompt, call["output"]


def add_up(path):
    """(class, tokens, cost) of each program."""
    programs = {}
    for program, name, tokens, prompt, output in samples.read_lines(path, check):
        known = programs.setdefault(program, [None, None, 0])
        known[2] += samples.cost_of_call(prompt, output)
        if tokens is not None:
            known[:2] = name, tokens
    for program, known in programs.items():
        if known[1] is None:
            raise samples.BadSample("%s: program %s: no call has class and tokens"
                                    % (path, program))
    return [tuple(known) for known in programs.values() if known[2] > 0]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        samples.write(sys.argv[2], add_up(sys.argv[1]))
    except (OSError, samples.BadSample) as problem:
        sys.exit("calls.py: %s" % problem)
