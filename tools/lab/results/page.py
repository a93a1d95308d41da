# SPDX-License-Identifier: MIT
"""The page, docs/results.md: words that people write, tables and figures that the lab makes.

A table stands between `<!-- make lab: its name -->` and `<!-- end -->`. A figure is `![its
title](plots/its-name.svg)`; plots/ has its data, too. The lab replaces tables and data; no word is
its own."""
import os
import re

from table import Table, markdown

BLOCK = re.compile(r"(<!-- make lab: ([\w-]+) -->\n)(.*?)(\n?<!-- end -->)", re.S)
FIGURE = re.compile(r"!\[([^\]]*)\]\(plots/([\w-]+)\.svg\)")


def latency(seconds):
    return "-" if seconds is None else f"{seconds:.3g}"


def rate(value):
    return f"{value:.3g}"


def ratio(value, base):
    if base == 0:
        return "none" if value == 0 else "over all"
    return f"{value / base:.2f}" if value / base < 10 else f"{value / base:.0f}"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class Page:
    def __init__(self, path, folder):
        """The words of the file; tables and figures go to a folder, which may be the file's own."""
        self.path, self.text = path, read(path)
        self.out, self.plots = os.path.join(folder, os.path.basename(path)), \
            os.path.join(folder, "plots")
        self.made, self.drawn = {}, {}

    def table(self, name, heads, rows):
        self.made[name] = markdown(heads, rows)

    def figure(self, name, heads, rows):
        """The data of a figure: numbers to four digits, which no eye can tell from all."""
        cells = [[f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row]
                 for row in rows]
        self.drawn[name] = Table(name, heads, cells)

    def tables(self):
        """{name: Table} of those that stand in the text."""
        return {name: Table.of_markdown(name, table)
                for _, name, table, _ in BLOCK.findall(self.text) if table}

    def figures(self):
        """{name: title}"""
        return {name: " ".join(title.split()) for title, name in FIGURE.findall(self.text)}

    def csv(self, name):
        return os.path.join(self.plots, name + ".csv")

    def has_data(self, name):
        return os.path.exists(self.csv(name))

    def data(self, name):
        """Of a figure: a table."""
        return Table.of_csv(name, read(self.csv(name)))

    def svg(self, name):
        return os.path.join(self.plots, name + ".svg")

    def write(self):
        """Replaces what was made; the names that have no place in the text, sorted."""
        def block(match):
            before, name, _, _ = match.groups()
            return before + self.made[name] + "\n<!-- end -->" if name in self.made else \
                match.group(0)
        homeless = set(self.made) - {name for _, name, _, _ in BLOCK.findall(self.text)}
        homeless |= set(self.drawn) - set(self.figures())
        self.text = BLOCK.sub(block, self.text)
        write(self.out, self.text)
        for name, data in self.drawn.items():
            write(self.csv(name), data.csv())
        return sorted(homeless)
