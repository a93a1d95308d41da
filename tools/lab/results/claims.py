# SPDX-License-Identifier: MIT
"""The claims of a page, and whether its tables and figures agree with them.

Below a paragraph, a list or a table stands a comment that no reader sees:

    <!-- check
    "order, on mixed (1.7 to 2.2 times)": near(a, min(gains)) and near(b, max(gains))
    -->

The words must stand in the text above, so they cannot change while their check stays. a, b, c ...
are the numbers in the words, in their order. The expression is Python's, over the tables of the
page and the data of its figures (table.py; `-` in a name is `_`), `traces` and the functions below.
It runs without Python's builtins: a slip must not reach a file; the page is as trusted as code."""
import ast
import re

from page import BLOCK, FIGURE
from table import NUMBER

CHECK = re.compile(r"<!-- check\n(.*?)\n-->", re.S)
CLAIM = re.compile(r'^"([^"]+)": ?(.*(?:\n .*)*)$', re.M)
TRACES = ("sharegpt", "bfcl", "lats", "mixed")
SHOWN = 3                                   # of what a false claim saw, the last


class Said(float):
    """A number as the words say it: with so many decimals."""
    def __new__(cls, words):
        said = super().__new__(cls, words.replace(",", ""))
        said.decimals = len(words.partition(".")[2])
        return said


def near(said, value):
    """True when the words say the value, rounded to their decimals."""
    return round(value, getattr(said, "decimals", 0)) == said


def about(said, value):
    """True when the value is within a tenth of what the words say: a third, nearly twice."""
    return abs(value - said) <= 0.1 * said


def grows(values):
    return all(low < high for low, high in zip(values, values[1:]))


FUNCTIONS = {f.__name__: f for f in (near, about, grows, all, any, min, max, sum, abs, len, zip,
                                     round, sorted)}


def plain(text):
    """Each paragraph in one line, without comments, tables and emphasis; of a figure its title."""
    text = re.sub(r"<!--.*?-->", "", BLOCK.sub("", text), flags=re.S)
    text = re.sub(r"[*`]", "", FIGURE.sub(r"\1", text))
    return "\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip()))


class Claim:
    def __init__(self, line, words, expression, above):
        self.line, self.words, self.above = line, plain(words), above
        self.expression = " ".join(expression.split())

    def sentence(self):
        """The sentence of the words, for those who have to mend it."""
        sentences = re.split(r"\n|(?<=[.:]) (?=[A-Z\"(-])", self.above)
        return next((s for s in sentences if self.words in s), self.words)

    def fault(self, tables):
        """What is wrong with it, or None."""
        if self.words not in self.above:
            return f'the text above does not say "{self.words}"; check it anew'
        numbers = [Said(words) for words in re.findall(rf"(?<![\w.]){NUMBER}", self.words)]
        names = {**FUNCTIONS, **tables, **dict(zip("abcdefgh", numbers)), "traces": TRACES,
                 "__builtins__": {}}
        try:
            return self.false_part(names, tables)
        except Exception as error:      # whatever a slip in an expression may raise
            return f'"{self.sentence()}": {self.expression}: {type(error).__name__}: {error}'

    def false_part(self, names, tables):
        """The first part of an `and` that does not hold, with what it saw."""
        tree = ast.parse(self.expression, mode="eval").body
        parts = tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) \
            else [tree]
        for part in parts:
            seen = []
            for table in tables.values():
                table.seen = seen
            if not eval(compile(ast.Expression(part), "claim", "eval"), names):
                saw = "; ".join(dict.fromkeys(seen[-SHOWN:]))
                return f'"{self.sentence()}" is not so: {ast.unparse(part)} is false; {saw}'
        return None


def claims(text):
    """Those of a page. What stands above a check goes back to the check or heading before it."""
    found, start = [], 0
    for match in CHECK.finditer(text):
        above = plain(re.split(r"^#+ .*$", text[start:match.start()], flags=re.M)[-1])
        block, line = match.group(1), text.count("\n", 0, match.start()) + 2
        for claim in CLAIM.finditer(block):
            found.append(Claim(line + block.count("\n", 0, claim.start()), claim.group(1),
                               claim.group(2), above))
        rest = CLAIM.sub("", block).strip()
        if rest:
            found.append(Claim(line, rest, "", ""))
        start = match.end()
    return found


def faults(path, text, tables):
    names = {name.replace("-", "_"): table for name, table in tables.items()}
    for claim in claims(text):
        fault = claim.fault(names)
        if fault:
            yield f"{path}:{claim.line}: {fault}"
