# SPDX-License-Identifier: MIT
"""Figures drawn from their data and titles, and whether those beside a page are these; its claims.

It needs no trace, no run of the lab and nothing outside Python's standard library."""
import os

import claims
from page import read, write
from parts import FIGURES, draw as drawing

ALSO = ("README.md", "docs/policies.md")    # pages with claims about the page's tables


def draw(page, names):
    titles = page.figures()
    for name in names:
        write(page.svg(name), drawing(name, titles[name], page.data(name)))


def figure_faults(page):
    titles = page.figures()
    # A figure without data has not been run yet, and need not be shown.
    run = {name for name in FIGURES if page.has_data(name)}
    for name in sorted((run - set(titles)) | (set(titles) - set(FIGURES))):
        yield f"{page.path}: {name} is not both in the page and in a part of tools/lab/results"
    for name in sorted(set(FIGURES) & set(titles)):
        path = page.svg(name)
        if not page.has_data(name):
            yield f"{path}: its data, {name}.csv, is not there: make lab"
        elif not os.path.exists(path) or read(path) != drawing(name, titles[name], page.data(name)):
            yield f"{path}: not what its data and its title in {page.path} give: make lab-draw"


def report(page):
    """Prints each fault; the exit status."""
    tables = {**page.tables(), **{name: page.data(name) for name in page.figures()
                                  if page.has_data(name)}}
    texts = {page.path: page.text, **{path: read(path) for path in ALSO if os.path.exists(path)}}
    found = list(figure_faults(page))
    for path, text in texts.items():
        found += claims.faults(path, text, tables)
    for fault in found:
        print(fault)
    count = sum(len(claims.claims(text)) for text in texts.values())
    print(f"lab-check: {count} claims of {', '.join(texts)}; {len(page.figures())} figures; "
          f"{len(found)} faults")
    return 1 if found else 0
