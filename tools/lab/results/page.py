# SPDX-License-Identifier: MIT
"""The page: words from page.md, tables and plots where it says {{name}}."""
import json
import os
import re

PLACE = r"\{\{([\w.-]+)\}\}"


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

    def recall(self, path):
        """Results that earlier runs kept there, in place of those that do not run now."""
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                asked = self.asked()
                self.parts = {**{name: part for name, part in json.load(file).items()
                                 if name in asked}, **self.parts}

    def asked(self):
        with open(self.words, encoding="utf-8") as file:
            return set(re.findall(PLACE, file.read()))

    def keep(self, path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.parts, file, indent=1)

    def write(self):
        def part(match):
            if match.group(1) not in self.parts:
                missing.append(match.group(1))
            return self.parts.get(match.group(1), "(not run)")
        missing = []
        with open(self.words, encoding="utf-8") as file:
            text = re.sub(PLACE, part, file.read())
        with open(self.out, "w", encoding="utf-8") as file:
            file.write(text)
        return missing, sorted(set(self.parts) - self.asked())
