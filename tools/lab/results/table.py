# SPDX-License-Identifier: MIT
"""Tables of cells: those of the page (markdown) and those of the figures (CSV).

A claim of the page reads them by what stands in a row and above it: rates_10["mixed", "agentix"].
A table notes what was asked of it, so that a claim that fails can say what it saw."""
import csv
import io
import re

NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"


def markdown(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def value(cell):
    """The number that a cell begins with ("58 %", "2.2 x", "1,765"), or else its text."""
    match = re.match(rf"-?{NUMBER}(?=$| )", cell)
    return float(match.group(0).replace(",", "")) if match else cell


def is_same(cell, key):
    return cell == key or (not isinstance(key, str) and value(cell) == key)


class Table:
    def __init__(self, name, heads, rows):
        self.name, self.heads, self.rows, self.seen = name, heads, rows, []

    @classmethod
    def of_markdown(cls, name, text):
        lines = [[cell.strip() for cell in line.strip().strip("|").split("|")]
                 for line in text.strip().split("\n")]
        return cls(name, lines[0], lines[2:])

    @classmethod
    def of_csv(cls, name, text):
        heads, *rows = csv.reader(io.StringIO(text))
        return cls(name, heads, rows)

    def csv(self):
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([self.heads, *self.rows])
        return out.getvalue()

    def matching(self, keys):
        return [row for row in self.rows
                if all(is_same(cell, key) for cell, key in zip(row, keys))]

    def place(self, head):
        if self.heads.count(head) != 1:
            raise KeyError(f"{self.name} has {self.heads.count(head)} columns {head!r}")
        return self.heads.index(head)

    def __getitem__(self, keys):
        """One cell: the row begins with all keys but the last, which is the column's head."""
        *keys, head = keys
        rows = self.matching(keys)
        if len(rows) != 1:
            raise KeyError(f"{self.name} has {len(rows)} rows that begin with {keys}")
        cell = rows[0][self.place(head)]
        if cell.startswith("as ") and cell[3:] in self.heads:      # "as agentix"
            return self[(*keys, cell[3:])]
        self.seen.append(f"{self.name}[{', '.join(map(str, (*keys, head)))}] is {cell}")
        return value(cell)

    def column(self, head, *keys):
        """All cells below a head, of the rows that begin with the keys."""
        at, rows = self.place(head), self.matching(keys)
        if not rows:
            raise KeyError(f"{self.name} has no row that begins with {keys}")
        cells = [row[at] for row in rows]
        self.seen.append(f"{self.name}: {head} of {', '.join(map(str, keys)) or 'all'} is "
                         f"{', '.join(cells)}")
        return [value(cell) for cell in cells]

    def keys(self, count=1):
        """What its rows begin with, each once."""
        firsts = dict.fromkeys(tuple(map(value, row[:count])) for row in self.rows)
        return [first[0] if count == 1 else first for first in firsts]
