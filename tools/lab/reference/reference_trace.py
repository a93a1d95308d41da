# SPDX-License-Identifier: MIT
"""What: programs of a trace for reference.py: when they arrive, when their calls are due, and which
tokens a prompt has. A token is a number; equal parts of prompts are equal ranges of numbers."""
from array import array

CONTEXT = 16384


def read_trace(path):
    """A list of (arrival in seconds, calls); a call is (after, gap, parts, out)."""
    programs = []
    with open(path, encoding="ascii") as lines:
        for words in (line.split() for line in lines):
            if words and words[0] == "program":
                programs.append((int(words[2]) / 1e6, []))
            elif words and words[0] == "call":
                after, gap, parts, out = (word.split("=", 1)[1] for word in words[2:6])
                programs[-1][1].append(([int(n) for n in after.split(",") if n != "-"],
                                        int(gap) / 1e6, parts.split("+"), int(out)))
    return programs


def arrivals(trace, count, rate, offline):
    """(time, calls) of each program: the trace stretched to the rate, and repeated."""
    count = count or len(trace)
    cycle = min(count, len(trace))
    times = [at - trace[0][0] for at, _ in trace[:cycle]]
    natural = (cycle - 1) / times[-1] if times[-1] else rate
    rate = rate or natural
    for i in range(count):
        again, at = divmod(i, cycle)
        due = 0 if offline or not rate else times[at] * natural / rate + again * cycle / rate
        yield int(due * 1e6) / 1e6, trace[at][1]


class Tokens:
    """Token ids: a part is a range of ids, equal ranges are equal tokens."""
    def __init__(self):
        self.next, self.shared = 0, {}

    def fresh(self, count):
        self.next += count
        return (self.next - count, count)

    def parts(self, program, texts):
        ranges = []
        for text in texts:
            kind, *words = text.split(":")
            if kind in "sr":
                name = words[0] if kind == "s" else (program.index, words[0])
                start = self.shared.setdefault(name, -(len(self.shared) + 1) << 32)
                ranges.append((start, int(words[1])))
            elif kind == "u":
                ranges.append(self.fresh(int(words[0])))
            else:
                source = program.calls[int(words[0])]
                ranges += first(source.prompt if kind == "p" else [source.output],
                                int(words[1]) if len(words) > 1 else None)
        return ranges


def first(ranges, count):
    """The first count tokens of ranges; all of them if count is None."""
    taken = []
    for start, n in ranges:
        n = n if count is None else min(n, count)
        count = None if count is None else count - n
        taken += [(start, n)] if n else []
    return taken


class Program:
    def __init__(self, index, calls):
        self.index, self.texts, self.calls, self.job = index, calls, {}, None
        self.service = self.wait = 0.0          # of ended calls; live: service of all calls
        self.ended, self.chain = {}, {}         # by call: time of its end, longest response to it

    def due_after(self, number):
        """(call, time) of each call that waited for this one last."""
        for n, (after, gap, _, _) in enumerate(self.texts):
            if number in after and all(a in self.ended for a in after):
                yield n, max(self.ended[a] for a in after) + gap

    def figures(self):
        return max(self.chain.values()) / sum(call.out for call in self.calls.values())


class Call:
    def __init__(self, program, number, due, tokens):
        _, _, texts, out = program.texts[number]
        self.program, self.number, self.due = program, number, due
        self.prompt, self.out = tokens.parts(program, texts), min(out, CONTEXT // 2)
        self.output = tokens.fresh(self.out)
        self.made = 0                           # tokens put out
        self.computed = self.high = 0           # positions with KV now; at most so far
        self.named = self.private = 0           # blocks that it owns: full and shareable; own
        self.resident = self.begun = False
        self.need = []
        self.wait = self.service = 0.0
        self.since, self.job, self.order = due, None, 0

    def name_blocks(self, block):
        """The name of a full block says all tokens up to its end."""
        self.block, ids = block, array("q")
        for start, n in self.prompt + [self.output]:
            ids.extend(range(start, start + n))
        ids = ids[max(0, len(ids) - self.out - (CONTEXT - self.out)):]
        self.prompt_tokens = len(ids) - self.out
        self.ids, self.names, name = ids.tobytes(), [], 0
        for i in range(len(ids) // block):
            name = hash((name, self.tokens(i, len(ids))))
            self.names.append(name)
        self.need = self.names[:self.prompt_tokens // block]

    def known(self):
        return self.prompt_tokens + self.made

    def parent(self, index):
        return self.names[index - 1] if index else 0

    def tokens(self, index, end):
        """The ids in a block, as bytes, of positions before end."""
        return self.ids[index * self.block * 8:min((index + 1) * self.block, end) * 8]
