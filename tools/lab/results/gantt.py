# SPDX-License-Identifier: MIT
"""Gantt charts as SVG: a row for each slot of the batch, a box for each stretch of a call in it, a
colour for each program."""
from plot import Axis, HALO, document, text

COLOURS = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7")
UNIT, ROW, GAP = 30, 26, 5                  # of time and slots, in points
LEFT, RIGHT, TOP, BOTTOM, LEGEND = 62, 20, 28, 40, 30


def box(x, y, wide, high, colour):
    return (f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high}" rx="3" '
            f'fill="{colour}" stroke="#fff" stroke-width="1.5"/>')


def draw_panel(out, title, slots, units, names, top):
    rows = max(event["tid"] for event in slots)
    floor = top + TOP + rows * (ROW + GAP)
    x = Axis([0, units / 1.04], LEFT, LEFT + units * UNIT, False, True)
    out.append(text(LEFT, top + 18, title, "start", 13, ' font-weight="bold"'))
    for unit in range(units + 1):
        at = x.at(unit)
        out.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{top + TOP}" y2="{floor}" '
                   'stroke="#ddd"/>')
        if unit % 2 == 0:
            out.append(text(at, floor + 14, unit))
    for row in range(rows):
        out.append(text(LEFT - 8, top + TOP + row * (ROW + GAP) + 19, f"slot {row}", "end"))
    for event in slots:
        program, call = event["args"]["program"], event["args"]["call"]
        left, right = x.at(event["ts"] / 1e6), x.at((event["ts"] + event["dur"]) / 1e6)
        y = top + TOP + (event["tid"] - 1) * (ROW + GAP) + GAP / 2
        out.append(box(left, y, right - left, ROW, COLOURS[program % len(COLOURS)]))
        out.append(text((left + right) / 2, y + 17, names[program] + str(call + 1), size=12))
    return floor + BOTTOM


def chart(panels, names):
    """Panels: (title, stretches of the slots); names: of the programs, in order."""
    units = max(round((event["ts"] + event["dur"]) / 1e6)
                for _, slots in panels for event in slots)
    width = LEFT + units * UNIT + RIGHT
    out, top = [], LEGEND
    for i, name in enumerate(names):
        out.append(box(LEFT + 100 * i, 9, 14, 14, COLOURS[i]))
        out.append(text(LEFT + 100 * i + 20, 21, f"program {name}", "start", 12))
    for title, slots in panels:
        top = draw_panel(out, title, slots, units, names, top)
    out.append(text(LEFT + units * UNIT / 2, top - 8, "decoding rounds", extra=HALO))
    return document(width, top, out)
