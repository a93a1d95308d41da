# SPDX-License-Identifier: MIT
"""What: random flow files: small, valid, and unkind.

They have index sets, groups with wildcards, text and lambda nodes, nodes that nothing needs, nodes
that are equal, prompts that begin alike, end inside each other or are empty, seeds and stops.
"""
import random

WORDS = ["anna", "bert", "carl", "dora", "emil"]
LITERALS = ["You are ", "You are an expert", "You ", "\\nContext: ", "\\n", "\\\"so\\\" \\\\ it is",
            "Answer:", "A", "AB", "ABC", "", "h\u00e4?", "# no comment", "{not a group}", " = ",
            "The quick brown fox jumps over the lazy dog, again and again and again. "]


class Draw:
    """One file while it is written."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.sets, self.families, self.lines = {}, [], ["agentix-flow 1"]
        r = self.random
        for name in ["round", "agent", "part"][:r.randint(0, 3)]:
            if r.random() < 0.5:
                first = r.randint(0, 2)
                self.sets[name] = [str(i) for i in range(first, first + r.randint(1, 3))]
                self.lines.append(f"each {name} = {first}..{int(self.sets[name][-1])}")
            else:
                self.sets[name] = r.sample(WORDS, r.randint(1, 3))
                self.lines.append(f"each {name} = {' '.join(self.sets[name])}")
        for i in range(r.randint(0, 3)):
            self.input(f"in{i}")
        self.size = sum(self.count(f) for f in self.families)
        for i in range(r.randint(1, 16)):
            if self.size < 70:
                self.operator(f"op{i}")
        self.outputs()

    def count(self, family):
        product = 1
        for name in family[2]:
            product *= len(self.sets[name])
        return product

    def indices(self, most):
        r = self.random
        return r.sample(list(self.sets), r.randint(0, min(most, len(self.sets))))

    def input(self, name):
        sets = self.indices(1) if self.random.random() < 0.3 else []
        est = f"={self.random.randint(1, 90)}" if self.random.random() < 0.8 else ""
        self.lines.append(f"input {name}{brackets(sets)}{est}")
        self.families.append(("input", name, sets))

    def operator(self, name):
        r = self.random
        kind = r.choice(["llm"] * 6 + ["text", "lambda"])
        sets = self.indices(2)
        options = []
        if kind != "text":
            options.append(f"max={r.choice([1, 7, 16, 64, 64, 200])}")
            if r.random() < 0.5:
                options.append(f"est={r.choice([1, 5, 20, 64, 150])}")
        if kind == "llm" and r.random() < 0.3:
            options += r.choice([["temp=0.5", "seed=7"], ["temp=0.5"], ["seed=3"], ['stop="\\n"'],
                                 ['stop="a b"', 'stop="."'], ["temp=0.5", "seed=8"]])
        if kind == "llm" and r.random() < 0.25:
            self.twin(name, sets, options)
            return
        self.write(kind, name, sets, options, self.pieces(name, sets))

    def write(self, kind, name, sets, options, pieces):
        body = []
        for piece in pieces:
            body.append(("\n   " if self.random.random() < 0.15 else "") + piece)
        self.lines.append(" ".join([kind, name + brackets(sets)] + options + ["="] + body))
        self.families.append((kind, name, sets))
        self.size += self.count(self.families[-1])

    def twin(self, name, sets, options):
        """Two families whose members are equal, or nearly."""
        pieces = [p for p in self.pieces(name, sets) if name not in p]
        if self.random.random() < 0.3:
            self.write("text", name + "t", sets, [], pieces)
            own = f"{name}t{brackets(sets)}"
            self.write("llm", name + "a", sets, options, [own, '"ab"'])
            self.write("llm", name + "b", sets, options, [own, '"a"', '"b"'])
            return
        self.write("llm", name + "a", sets, options, pieces)
        self.write("llm", name + "b", sets, options,
                   pieces + (['"!"'] if self.random.random() < 0.3 else []))

    def pieces(self, name, sets):
        r = self.random
        pieces = ['"You are "', sets[0], "s:rules:20"] if sets and r.random() < 0.3 else []
        for _ in range(r.randint(0, 6)):
            kind = r.random()
            if kind < 0.35:
                pieces.append(f'"{r.choice(LITERALS)}"')
            elif kind < 0.45:
                pieces.append(f"s:{r.choice(['sys', 'role', 'doc'])}:{r.randint(1, 40)}")
            elif kind < 0.55 and sets:
                pieces.append(r.choice(sets))
            elif kind < 0.8:
                pieces += self.reference(sets, None)
            else:
                pieces += self.group(name, sets)
        return pieces

    def reference(self, sets, own):
        """A reference to an earlier family; own: to the family that is being written, the one
        before. A list: of one, or none."""
        r = self.random
        if own is not None:
            at = r.randrange(len(sets))
            marks = [f"{s}-1" if i == at else s for i, s in enumerate(sets)]
            return [f"{own}[{','.join(marks)}]"]
        if not self.families:
            return []
        _, name, its = r.choice(self.families)
        marks = []
        for s in its:
            choices = ["*", r.choice(self.sets[s])]
            if s in sets:
                choices += [s, s, s] + (["!" + s] if len(self.sets[s]) > 1 else [])
            marks.append(r.choice(choices))
        return [name + (f"[{','.join(marks)}]" if its else "")]

    def group(self, name, sets):
        """Often with a reference that has no element for some members."""
        r = self.random
        own = name if sets and r.random() < 0.4 else None
        body = [f'"{r.choice(LITERALS)}"'] if r.random() < 0.8 else []
        for _ in range(r.randint(1, 2)):
            body += self.reference(sets, own)
            if r.random() < 0.3:
                body.append('";"')
        if own and r.random() < 0.4:
            body = [b.replace(f"{s}]", f"!{s}]") if b.startswith(own) and f"-1" in b else b
                    for b in body for s in sets[-1:]]
        return ["{" + " ".join(body) + "}"]

    def outputs(self):
        r = self.random
        chosen = r.sample(self.families, r.randint(1, min(8, len(self.families)))) \
            if self.families else []
        llms = [f for f in self.families if f[0] == "llm"]
        if llms and r.random() < 0.8 and llms[-1] not in chosen:
            chosen.append(llms[-1])
        if not chosen:
            self.operator("last")
            chosen = [self.families[-1]]
        words = []
        for _, name, its in chosen:
            marks = [r.choice(["*", "*", r.choice(self.sets[s])]) for s in its]
            words.append(name + (f"[{','.join(marks)}]" if its else ""))
        if r.random() < 0.5:
            self.lines += [f"output {w}" for w in words]
        else:
            self.lines.append("output " + " ".join(words))

    def text(self):
        lines = list(self.lines)
        if self.random.random() < 0.3:
            lines.insert(1, "# a comment, with \"quotes\" {and} more")
        if self.random.random() < 0.2:
            lines[-1] += "   # the end"
        return "\n".join(lines) + "\n"


def brackets(sets):
    return f"[{','.join(sets)}]" if sets else ""


def random_flow(seed):
    return Draw(seed).text()
