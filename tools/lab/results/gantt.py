# SPDX-License-Identifier: MIT
"""Gantt charts: a row for each slot of the batch, a box for each stretch of a call in it, a colour
for each program. Data: panel, program, call, slot, start, end."""
from sheet import BOLD, document, draw_head, line, text

HEADS = ["panel", "program", "call", "slot", "start", "end"]
WIDTH = 700                                 # of the sheet: what README.md shows
ROW, GAP = 28, 4                            # of a slot, in points
LEFT, NOTES, TOP, BOTTOM = 54, 170, 26, 26  # of a panel, around its slots


def box(x, y, wide, high, colours):
    return (f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" rx="3" '
            f'fill="{colours[0]}" stroke="#fff" stroke-width="1.5"/>')


def stretches(data, panel):
    """[(program, call, slot, start, end)]"""
    return [(row[1], *map(int, row[2:])) for row in data.rows if row[0] == panel]


def draw_scale(out, units, unit, top, floor):
    for i in range(units + 1):
        out.append(line(LEFT + i * unit, top, LEFT + i * unit, floor))
        if i % 2 == 0:
            out.append(text(LEFT + i * unit, floor + 13, i))


def draw_panel(out, panel, boxes, units, top):
    """panel: title, colours {program and call, or program: (box, letters)}, notes(boxes)."""
    slots = 1 + max(slot for _, _, slot, _, _ in boxes)
    first, unit = top + TOP, (WIDTH - LEFT - NOTES) / units
    floor = first + slots * (ROW + GAP)
    out.append(text(LEFT, top + 18, panel["title"], "start", 13, BOLD))
    draw_scale(out, units, unit, first, floor)
    for slot in range(slots):
        out.append(text(LEFT - 8, first + slot * (ROW + GAP) + 20, f"slot {slot}", "end"))
    for program, call, slot, start, end in boxes:
        name, y = f"{program}{call}", first + slot * (ROW + GAP) + GAP / 2
        colours = panel["colours"].get(name) or panel["colours"][program]
        out.append(box(LEFT + start * unit, y, (end - start) * unit, ROW, colours))
        out.append(text(LEFT + (start + end) / 2 * unit, y + 19, name, size=13,
                        extra=f' fill="{colours[1]}"'))
    for i, (words, extra) in enumerate(panel["notes"](boxes)):
        out.append(text(WIDTH - NOTES + 14, first + 14 + 19 * i, words, "start", 12, extra))
    return floor + BOTTOM


def chart(title, data, panels, legend):
    """Panels: {its name in the data: see draw_panel}; legend: {words: (box, letters)}."""
    units = max(int(row[5]) for row in data.rows)
    out = []
    top = draw_head(out, title, legend, lambda name, x, y: box(x + 14, y - 7, 14, 14, legend[name]),
                    WIDTH)
    for name, panel in panels.items():
        top = draw_panel(out, panel, stretches(data, name), units, top)
    unit = (WIDTH - LEFT - NOTES) / units
    out.append(text(LEFT + units * unit / 2, top + 6, "time, decoding rounds"))
    return document(WIDTH, top + 16, out)


def rows_of(panel, names, events):
    """Of the lab's events, the rows of one panel."""
    return [[panel, names[event["args"]["program"]], event["args"]["call"] + 1, event["tid"] - 1,
             round(event["ts"] / 1e6), round((event["ts"] + event["dur"]) / 1e6)]
            for event in events]
