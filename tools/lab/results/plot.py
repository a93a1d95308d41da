# SPDX-License-Identifier: MIT
"""Panels of lines over linear or logarithmic axes. Data: panel, line, x, y; without x a line is a
level right across its panel.

Colours are those of Okabe and Ito, which stay apart for most eyes; each line has a mark of its own
as well, which stays where there is no colour."""
from sheet import Axis, Box, WIDTH, document, draw_frame, draw_head, line, number, text

HEADS = ["panel", "line", "x", "y"]
LEVEL = ("#555555", "", "9 4")
STYLES = {                      # colour, mark, dash
    "vllm": ("#999999", "square", ""),
    "vllm-opt": ("#0072b2", "circle", ""),
    "fcfs": ("#0072b2", "circle", ""),
    "mlfq": ("#e69f00", "triangle", ""),
    "agentix": ("#d55e00", "diamond", ""),
    "agentix, snapshot": ("#009e73", "circle", "6 3"),
    "vllm-opt, cut": ("#0072b2", "square", "2 3"),
    "mlfq, cut": ("#e69f00", "triangle", "2 3"),
    "agentix, all active": ("#009e73", "square", "6 3"),
    "srpt": ("#000000", "square", "2 3"),
    "justitia": ("#d55e00", "diamond", ""),
    "justitia, class": ("#e69f00", "diamond", "6 3"),
    "justitia, capacity": ("#56b4e9", "circle", "6 3"),
    "vtc": ("#009e73", "triangle", ""),
    "plas": ("#0072b2", "circle", ""),
    "atlas": ("#999999", "square", ""),
    "foresight": ("#009e73", "triangle", ""),
    "srjf": ("#000000", "square", "2 3"),
    "sjf": ("#e69f00", "triangle", "6 3"),
    "fcfs-agent": ("#cc79a7", "square", ""),
    "own program": ("#0072b2", "circle", ""),
    "all programs": ("#d55e00", "diamond", ""),
    "other programs: first calls": ("#009e73", "triangle", "6 3"),
    "auto": ("#d55e00", "diamond", ""),
    "local": ("#e69f00", "triangle", ""),
    "program": ("#009e73", "circle", "6 3"),
    "preble": ("#56b4e9", "square", "2 3"),
    "least": ("#0072b2", "circle", ""),
    "rr": ("#999999", "square", ""),
}
HEIGHT = 216                                # of a panel's frame


def mark(kind, x, y, colour):
    if not kind:
        return ""
    if kind == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{colour}"/>'
    points = {"square": ((-3, -3), (3, -3), (3, 3), (-3, 3)),
              "triangle": ((0, -4), (3.8, 3), (-3.8, 3)),
              "diamond": ((0, -4.4), (4, 0), (0, 4.4), (-4, 0))}[kind]
    where = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in points)
    return f'<polygon points="{where}" fill="{colour}"/>'


def stroke(points, colour, dash, wide):
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{wide:.1f}"'
            f"{dashes}/>")


def draw_x(out, box, x, words):
    for tick in x.ticks:
        at = x.at(tick)
        out.append(line(at, box.floor, at, box.floor + 4, "#444"))
        out.append(text(at, box.floor + 16, number(tick)))
    out.append(text(box.middle, box.floor + 33, words))


def draw_line(out, points, style, wide, dots=1):
    colour, kind, dash = style
    out.append(stroke(points, colour, dash, wide))
    out.extend(mark(kind, x, y, colour) for x, y in points[dots // 2::dots])


def draw_panel(out, panel, lines, levels, box):
    """Lines: {name: [(x, y), ...]}; levels: {name: y}."""
    points = [p for points in lines.values() for p in points]
    x = Axis([p[0] for p in points], box.left, box.right, panel.get("log_x", False),
             panel.get("x_zero", False))
    x.ticks = panel.get("x_ticks", x.ticks)
    log_y = panel.get("log_y", False)
    y = Axis([p[1] for p in points] + panel.get("y_shows", []), box.floor, box.top, log_y)
    draw_frame(out, box, panel, y)
    draw_x(out, box, x, panel["x"])
    for name, at in levels.items():
        if y.low < at < y.high:
            draw_line(out, [(box.left, y.at(at)), (box.right, y.at(at))], LEVEL, 1.2)
    for order, (name, points) in enumerate(lines.items()):
        wide = max(4.2 - 0.6 * order, 1.4)      # what lies below looks out
        draw_line(out, [(x.at(a), y.at(b)) for a, b in points], STYLES[name], wide,
                  panel.get("dots", 1))


def key(name, x, y):
    colour, kind, dash = STYLES.get(name, LEVEL)
    return stroke([(x, y), (x + 28, y)], colour, dash, 1.8) + mark(kind, x + 14, y, colour)


def split(data, panel):
    """The lines and levels of one panel."""
    lines, levels = {}, {}
    for where, name, x, y in data.rows:
        if where == panel and x:
            lines.setdefault(name, []).append((float(x), float(y)))
        elif where == panel:
            levels[name] = float(y)
    return lines, levels


def lines(title, data, panels, columns):
    """Panels: {its name in the data: title, x, y (what, in which unit)}; log_x, log_y, x_zero,
    x_ticks, dots (one in so many points has a mark) and y_shows (values that the scale covers) are
    free."""
    names = list(dict.fromkeys(row[1] for row in data.rows))
    out = []
    top = draw_head(out, title, names, key, WIDTH)
    wide, high = WIDTH / columns, Box.TOP + HEIGHT + Box.BOTTOM
    for i, (name, panel) in enumerate(panels.items()):
        box = Box(i % columns * wide, top + i // columns * high, wide, HEIGHT)
        draw_panel(out, panel, *split(data, name), box)
    return document(WIDTH, top + -(-len(panels) // columns) * high, out)
