# SPDX-License-Identifier: MIT
"""The page: words from page.md, tables and plots where it says {{name}}."""
import os
import re


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def latency(seconds):
    return "-" if seconds is None else f"{seconds:.3g}"


def rate(value):
    return f"{value:.3g}"


def ratio(value, base):
    if base == 0:
        return "none" if value == 0 else "over all"
    return f"{value / base:.2f}" if value / base < 10 else f"{value / base:.0f}"


class Page:
    def __init__(self, words, out, plots):
        self.words, self.out, self.plots = words, out, plots
        self.parts = {}
        os.makedirs(plots, exist_ok=True)

    def __setitem__(self, name, text):
        self.parts[name] = str(text)

    def plot(self, name, svg):
        path = os.path.join(self.plots, name + ".svg")
        with open(path, "w", encoding="utf-8") as file:
            file.write(svg)
        link = os.path.relpath(path, os.path.dirname(self.out))
        self.parts["plot." + name] = f"![{name}]({link})"

    def write(self):
        def part(match):
            if match.group(1) not in self.parts:
                missing.append(match.group(1))
            return self.parts.get(match.group(1), "(not run)")
        missing = []
        with open(self.words, encoding="utf-8") as file:
            text = re.sub(r"\{\{([\w.-]+)\}\}", part, file.read())
        with open(self.out, "w", encoding="utf-8") as file:
            file.write(text)
        unused = [name for name in self.parts if "{{" + name + "}}" not in open(self.words).read()]
        return missing, unused
