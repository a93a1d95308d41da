# SPDX-License-Identifier: MIT
"""Plots as SVG, by hand: panels of lines over linear or logarithmic axes, and a legend above.

Colours are those of Okabe and Ito, which stay apart for most eyes; each line has a mark of its own
as well. The text is in points of the page's own sans-serif font; nothing is fetched."""
import math
from html import escape

STYLES = {                      # colour, mark, dash
    "vllm": ("#999999", "square", ""),
    "vllm-opt": ("#0072b2", "circle", ""),
    "mlfq": ("#e69f00", "triangle", ""),
    "agentix": ("#d55e00", "diamond", ""),
    "plas": ("#009e73", "circle", "6 3"),
    "agentix, free": ("#cc79a7", "diamond", "7 3"),
    "mlfq, free": ("#b8860b", "triangle", "7 3"),
    "vllm-opt, cut": ("#0072b2", "square", "2 3"),
    "mlfq, cut": ("#e69f00", "triangle", "2 3"),
    "srpt": ("#000000", "square", "2 3"),
}
SPARE = [("#0072b2", "circle", ""), ("#d55e00", "diamond", ""), ("#009e73", "triangle", ""),
         ("#e69f00", "square", ""), ("#cc79a7", "circle", "6 3"), ("#000000", "square", "2 3")]
WIDTH, HEIGHT = 400, 290                    # of a panel
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 30, 46   # of a panel, around its axes
HALO = ' stroke="#fff" stroke-width="3" paint-order="stroke"'
LEGEND = 30
NAMESPACE = "http:/" "/www.w3.org/2000/svg"    # a name; nothing is fetched


def number(value):
    text = f"{value:.3g}"
    return f"{float(text):,.0f}" if "e" in text and abs(value) >= 1 else text


def mark(kind, x, y, colour):
    if kind == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{colour}"/>'
    points = {"square": ((-3, -3), (3, -3), (3, 3), (-3, 3)),
              "triangle": ((0, -4), (3.8, 3), (-3.8, 3)),
              "diamond": ((0, -4.4), (4, 0), (0, 4.4), (-4, 0))}[kind]
    where = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in points)
    return f'<polygon points="{where}" fill="{colour}"/>'


def text(x, y, words, anchor="middle", size=11, extra=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{extra}>'
            f"{escape(str(words))}</text>")


def linear_ticks(low, high):
    step = 10 ** math.floor(math.log10((high - low) / 3 or 1))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 6)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low, high):
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 3), (1, 2, 5)):
        ticks = [f * 10.0 ** d for d in decades for f in factors]
        ticks = [t for t in ticks if low * 0.999 <= t <= high * 1.001]
        if len(ticks) >= 4:
            break
    return ticks


class Axis:
    def __init__(self, values, start, end, log, from_zero):
        low, high = min(values), max(values)
        self.log = log
        if log:
            low, high = low / 1.15, high * 1.15
        else:
            low = 0 if from_zero else low
            high = high + (high - low or 1) * 0.04
        self.low, self.high, self.start, self.end = low, high, start, end
        self.ticks = log_ticks(low, high) if log else linear_ticks(low, high)

    def at(self, value):
        scale = math.log if self.log else float
        share = (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))
        return self.start + share * (self.end - self.start)


def draw_frame(out, panel, y, left, right):
    """A panel's box, title and scale on the left."""
    out.append(f'<rect x="{left:.1f}" y="{y.end:.1f}" width="{right - left:.1f}" '
               f'height="{y.start - y.end:.1f}" fill="none" stroke="#444"/>')
    for tick in y.ticks:
        at = y.at(tick)
        out.append(f'<line x1="{left:.1f}" x2="{right:.1f}" y1="{at:.1f}" y2="{at:.1f}" '
                   'stroke="#ddd"/>')
        out.append(text(left - 6, at + 4, number(tick), "end"))
    middle, at = (y.start + y.end) / 2, left - LEFT + 13
    out.append(text((left + right) / 2, y.end - 9, panel["title"], size=13,
                    extra=' font-weight="bold"'))
    out.append(text(at, middle, panel["y"],
                    extra=f' transform="rotate(-90 {at:.1f} {middle:.1f})"'))


def draw_axes(out, x, y, panel):
    draw_frame(out, panel, y, x.start, x.end)
    for tick in x.ticks:
        at = x.at(tick)
        out.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{y.start:.1f}" y2="{y.start + 4:.1f}" '
                   'stroke="#444"/>')
        out.append(text(at, y.start + 16, number(tick)))
    out.append(text((x.start + x.end) / 2, y.start + 34, panel["x"]))


def draw_panel(out, panel, styles, left, top):
    points = [p for line in panel["lines"].values() for p in line]
    x = Axis([p[0] for p in points], left + LEFT, left + WIDTH - RIGHT, panel.get("log_x", False),
             panel.get("x_zero", False))
    y = Axis([p[1] for p in points], top + HEIGHT - BOTTOM, top + TOP, panel.get("log_y", False),
             True)
    draw_axes(out, x, y, panel)
    bound = None
    if "bound" in panel and y.low < panel["bound"][0] < y.high:
        at = y.at(panel["bound"][0])
        out.append(f'<line x1="{x.start:.1f}" x2="{x.end:.1f}" y1="{at:.1f}" y2="{at:.1f}" '
                   'stroke="#555" stroke-width="1.2" stroke-dasharray="8 3"/>')
        bound = (x.start + 5, at - 5, panel["bound"][1])
    for order, (name, line) in enumerate(panel["lines"].items()):
        colour, kind, dash = styles[name]
        wide = max(4.2 - 0.6 * order, 1.4)      # what lies below looks out
        where = [(x.at(a), y.at(b)) for a, b in line]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in where)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" '
                   f'stroke-width="{wide:.1f}"{dashes}/>')
        if panel.get("dots", True):
            out.extend(mark(kind, a, b, colour) for a, b in where)
    if bound:
        out.append(text(*bound, "start", 10, HALO))


def draw_legend(out, names, styles, width):
    room = [34 + 7 * len(name) + 18 for name in names]
    x = (width - sum(room)) / 2
    for name, wide in zip(names, room):
        colour, kind, dash = styles[name]
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        out.append(f'<line x1="{x:.1f}" x2="{x + 26:.1f}" y1="17" y2="17" stroke="{colour}" '
                   f'stroke-width="1.8"{dashes}/>')
        out.append(mark(kind, x + 13, 17, colour))
        out.append(text(x + 32, 21, name, "start", 12))
        x += wide


def document(width, height, out):
    return "\n".join([
        f'<svg xmlns="{NAMESPACE}" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" fill="#222">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>', *out, "</svg>\n"])


def lines(panels, columns=2):
    """Panels: title, x, y (what and in which unit), lines {name: [(x, y), ...]}; log_x, log_y,
    x_zero, dots (of each point) and bound (value, words) are free."""
    names = list(dict.fromkeys(name for panel in panels for name in panel["lines"]))
    styles = dict(STYLES)
    styles.update((name, SPARE[i % len(SPARE)]) for i, name in
                  enumerate(name for name in names if name not in STYLES))
    columns = min(columns, len(panels))
    width, height = columns * WIDTH, -(-len(panels) // columns) * HEIGHT + LEGEND
    out = []
    draw_legend(out, names, styles, width)
    for i, panel in enumerate(panels):
        draw_panel(out, panel, styles, i % columns * WIDTH, LEGEND + i // columns * HEIGHT)
    return document(width, height, out)
