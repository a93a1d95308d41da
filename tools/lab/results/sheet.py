# SPDX-License-Identifier: MIT
"""The sheet of a figure as SVG, by hand: its title, its legend, and panels side by side.

Text is in the page's own sans-serif font; nothing is fetched. Where text must fit, it is taken to
be as wide as in DejaVu Sans, which is wider than most."""
import math
from html import escape

WIDTH = 860                                 # of the sheet: what a page shows without shrinking it
BOLD = ' font-weight="bold"'
NAMESPACE = "http:/" "/www.w3.org/2000/svg"    # a name; nothing is fetched
EM, EM_BOLD = 0.62, 0.7                     # of a letter, on average, in points of its size
TITLE, NAME = 15, 12                        # sizes of text


def number(value):
    shown = f"{value:.3g}"
    return f"{float(shown):,.0f}" if abs(value) >= 1000 else shown


def text(x, y, words, anchor="middle", size=11, extra=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{extra}>'
            f"{escape(str(words))}</text>")


def line(x1, y1, x2, y2, stroke="#ddd"):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}"/>'


def wrap(words, width):
    """Lines of at most so many letters."""
    lines = [""]
    for word in words.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return lines


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
        if len(ticks) >= 3:
            break
    return ticks


class Axis:
    def __init__(self, values, start, end, log=False, from_zero=True):
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


class Box:
    """Where a panel draws: between these, with room around for its scales and names."""
    LEFT, RIGHT, TOP, BOTTOM = 62, 14, 30, 42

    def __init__(self, left, top, width, height):
        self.edge = left
        self.left, self.right = left + self.LEFT, left + width - self.RIGHT
        self.top, self.floor = top + self.TOP, top + self.TOP + height
        self.middle = (self.left + self.right) / 2


def draw_frame(out, box, panel, y):
    """A panel's frame, title and scale on the left."""
    out.append(f'<rect x="{box.left:.1f}" y="{box.top:.1f}" width="{box.right - box.left:.1f}" '
               f'height="{box.floor - box.top:.1f}" fill="none" stroke="#444"/>')
    for tick in y.ticks:
        out.append(line(box.left, y.at(tick), box.right, y.at(tick)))
        out.append(text(box.left - 6, y.at(tick) + 4, number(tick), "end"))
    x, middle = box.edge + 13, (box.top + box.floor) / 2
    out.append(text(box.middle, box.top - 9, panel["title"], size=13, extra=BOLD))
    out.append(text(x, middle, panel["y"],
                    extra=f' transform="rotate(-90 {x:.1f} {middle:.1f})"'))


def draw_head(out, title, names, key, width):
    """The title and below it the legend: key(name, x, y) draws what stands before a name, 30 wide.
    What is left of the sheet begins where this returns."""
    y = 8
    for words in wrap(title, int((width - 20) / (TITLE * EM_BOLD))):
        y += TITLE + 4
        out.append(text(10, y, words, "start", TITLE, BOLD))
    x, y = 10, y + 22
    for name in names:
        room = 34 + NAME * EM * len(name) + 14
        if x + room > width and x > 10:
            x, y = 10, y + 20
        out.append(key(name, x, y - 4))
        out.append(text(x + 34, y, name, "start", NAME))
        x += room
    return y + 8


def document(width, height, out):
    return "\n".join([
        f'<svg xmlns="{NAMESPACE}" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="sans-serif" fill="#222">',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#fff"/>', *out, "</svg>\n"])
