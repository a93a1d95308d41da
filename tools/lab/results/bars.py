# SPDX-License-Identifier: MIT
"""Stacked bars as SVG: panels of groups of bars, a colour for each part of a bar."""
from plot import Axis, BOTTOM, HEIGHT, LEFT, LEGEND, RIGHT, TOP, document, draw_frame, text

COLOURS = {"waiting": "#d55e00", "execution": "#0072b2", "prompts": "#e69f00",
           "decoding": "#0072b2", "copies": "#009e73"}
WIDTH = 480                                 # of a panel
SLOPE = 4.2                                 # of a bar's name, down for each letter


def draw_legend(out, names, width):
    room = [24 + 7 * len(name) + 18 for name in names]
    x = (width - sum(room)) / 2
    for name, wide in zip(names, room):
        out.append(f'<rect x="{x:.1f}" y="10" width="14" height="14" fill="{COLOURS[name]}"/>')
        out.append(text(x + 20, 21, name, "start", 12))
        x += wide


def draw_bar(out, parts, y, left, wide):
    total = 0
    for name, value in parts.items():
        low, high = y.at(total), y.at(total + value)
        out.append(f'<rect x="{left:.1f}" y="{high:.1f}" width="{wide:.1f}" '
                   f'height="{low - high:.1f}" fill="{COLOURS[name]}"/>')
        total += value


def foot(panels):
    """Room for the names of bars."""
    return 12 + SLOPE * max(len(name) for p in panels for _, bars in p["groups"]
                            for name, _ in bars)


def draw_panel(out, panel, left, top, names):
    start, end = left + LEFT, left + WIDTH - RIGHT
    highest = max(sum(parts.values()) for _, bars in panel["groups"] for _, parts in bars)
    y = Axis([0, highest], top + HEIGHT - BOTTOM, top + TOP, False, True)
    draw_frame(out, panel, y, start, end)
    room = (end - start) / len(panel["groups"])
    for i, (title, bars) in enumerate(panel["groups"]):
        first, wide = start + room * (i + 0.08), room * 0.84 / len(bars)
        out.append(text(start + room * (i + 0.5), y.start + names + 14, title))
        for j, (name, parts) in enumerate(bars):
            draw_bar(out, parts, y, first + wide * (j + 0.1), wide * 0.8)
            x, at = first + wide * (j + 0.5) + 4, y.start + 8
            out.append(text(x, at, name, "end", 10,
                            f' transform="rotate(-50 {x:.1f} {at:.1f})"'))


def stacked(panels, columns=2):
    """Panels: title, y, groups [(words, [(name of the bar, {part: value}), ...]), ...]."""
    names = [name for name in COLOURS
             if any(name in parts for p in panels for _, bars in p["groups"] for _, parts in bars)]
    columns = min(columns, len(panels))
    room = foot(panels)
    high = HEIGHT - BOTTOM + room + 28
    width, height = columns * WIDTH, round(-(-len(panels) // columns) * high + LEGEND)
    out = []
    draw_legend(out, names, width)
    for i, panel in enumerate(panels):
        draw_panel(out, panel, i % columns * WIDTH, LEGEND + i // columns * high, room)
    return document(width, height, out)
