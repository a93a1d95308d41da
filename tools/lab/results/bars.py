# SPDX-License-Identifier: MIT
"""Panels of groups of stacked bars, a colour for each part of a bar. Data: panel, group, bar, part,
value.

A bar's parts alternate between light and dark, so that they stay apart without colour."""
from sheet import Axis, Box, WIDTH, document, draw_frame, draw_head, text

HEADS = ["panel", "group", "bar", "part", "value"]
COLOURS = {"execution": "#0072b2", "waiting": "#f0b040", "prompts": "#222222",
           "decoding": "#0072b2", "copies": "#a8d8f0"}
HEIGHT = 216                                # of a panel's frame
SLOPE = 4.4                                 # of a bar's name, down for each letter


def rect(x, y, wide, high, colour):
    return (f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" '
            f'fill="{colour}"/>')


def key(name, x, y):
    return rect(x + 14, y - 7, 14, 14, COLOURS[name])


def draw_bar(out, parts, y, left, wide):
    total = 0
    for name, value in parts.items():
        low, high = y.at(total), y.at(total + value)
        out.append(rect(left, high, wide, low - high, COLOURS[name]))
        total += value


def draw_group(out, bars, y, left, wide):
    wide /= len(bars)
    for i, (name, parts) in enumerate(bars.items()):
        draw_bar(out, parts, y, left + wide * (i + 0.08), wide * 0.84)
        x, at = left + wide * (i + 0.5) + 4, y.start + 9
        out.append(text(x, at, name, "end", 10, f' transform="rotate(-50 {x:.1f} {at:.1f})"'))


def draw_panel(out, panel, groups, box, room):
    """Groups: {words: {bar: {part: value}}}."""
    highest = max(sum(parts.values()) for bars in groups.values() for parts in bars.values())
    y = Axis([0, highest], box.floor, box.top)
    draw_frame(out, box, panel, y)
    wide = (box.right - box.left) / len(groups)
    for i, (words, bars) in enumerate(groups.items()):
        draw_group(out, bars, y, box.left + wide * (i + 0.08), wide * 0.84)
        out.append(text(box.left + wide * (i + 0.5), box.floor + room + 12, words))
    out.append(text(box.middle, box.floor + room + 28, panel.get("x", "")))


def split(data, panel):
    groups = {}
    for where, group, bar, part, value in data.rows:
        if where == panel:
            groups.setdefault(group, {}).setdefault(bar, {})[part] = float(value)
    return groups


def stacked(title, data, panels, columns):
    """Panels: {its name in the data: title, y (what, in which unit), x (of the groups, free)}."""
    names = list(dict.fromkeys(row[3] for row in data.rows))
    room = 12 + SLOPE * max(len(row[2]) for row in data.rows)
    high = Box.TOP + HEIGHT + room + (36 if any("x" in panel for panel in panels.values()) else 4)
    out = []
    top = draw_head(out, title, names, key, WIDTH)
    for i, (name, panel) in enumerate(panels.items()):
        box = Box(i % columns * WIDTH / columns, top + i // columns * high, WIDTH / columns, HEIGHT)
        draw_panel(out, panel, split(data, name), box, room)
    return document(WIDTH, top + -(-len(panels) // columns) * high, out)
