# SPDX-License-Identifier: MIT
"""Samples: a line of JSON for each program that has ended,

    {"class": "chat", "tokens": [1, 15043, ...], "cost": 123456}

with its class, the token ids of its first prompt, and what it has cost: the KV token-rounds of all
its calls. calls.py makes samples of a log of calls, and `agentix-lab --samples-out` of a trace.
"""
import json

COST_MAX = 2 ** 62
NAME_BYTES = 32
TOKEN_MAX = 2 ** 32 - 2


class BadSample(ValueError):
    pass


def cost_of_call(prompt, output):
    """The positions that the call's KV holds, added up over the rounds in which it decodes."""
    return prompt * output + output * (output + 1) // 2


def is_count(number, most):
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= most


def check_name(name):
    if not isinstance(name, str) or not 1 <= len(name) <= NAME_BYTES or \
            not all(" " < letter <= "~" for letter in name):
        raise BadSample("class: expected 1 to %d printable ASCII characters without blanks"
                        % NAME_BYTES)
    return name


def check_tokens(tokens):
    if not isinstance(tokens, list) or not tokens or \
            not all(is_count(token, TOKEN_MAX) for token in tokens):
        raise BadSample("tokens: expected a list of token ids, at least one")
    return tokens


def check(sample):
    """(class, tokens, cost) of what a line holds."""
    if not isinstance(sample, dict):
        raise BadSample("expected an object")
    name, tokens = check_name(sample.get("class")), check_tokens(sample.get("tokens"))
    cost = sample.get("cost")
    if not is_count(cost, COST_MAX) or cost < 1:
        raise BadSample("cost: expected an integer of 1 to 2^62")
    return name, tokens, cost


def read_lines(path, take):
    """take() of what each line holds; BadSample gets the line's number."""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                yield take(json.loads(line))
            except (BadSample, ValueError) as error:
                raise BadSample("%s:%d: %s" % (path, number, error)) from None


def read(path):
    """{class: [(tokens, cost), ...]}, or BadSample with the line."""
    classes = {}
    for name, tokens, cost in read_lines(path, check):
        classes.setdefault(name, []).append((tokens, cost))
    if not classes:
        raise BadSample("%s: no samples" % path)
    return classes


def write(path, rows):
    """`rows`: (class, tokens, cost)."""
    with open(path, "w", encoding="utf-8") as file:
        for name, tokens, cost in rows:
            file.write(json.dumps({"class": name, "tokens": tokens, "cost": cost},
                                  separators=(",", ":")) + "\n")
