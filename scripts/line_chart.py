"""A chart of lines as SVG: a title, what was measured where, axes with round numbers, and at the end of each line its name."""
import math

WIDTH, PLOT_HEIGHT, LEFT, BOTTOM = 800, 240, 60, 54
LETTER = 7.2  # the width of one, at a size of 13
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#8C5A9E", "#C98B1D", "#555555"]
NAME_HEIGHT = 18


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def round_ticks(most):
    """0 and up to six more, at 1, 2 or 5 times a power of ten; the last one is at least `most`."""
    step = 10 ** math.floor(math.log10(most / 5))
    step = next(step * factor for factor in (1, 2, 5, 10) if step * factor * 6 >= most)
    return [i * step for i in range(math.ceil(most / step - 1e-9) + 1)]


class Scale:
    """Values between two ends onto pixels between two others; by their logarithm where the least tick is above 0."""

    def __init__(self, ticks, first, last):
        self.ticks, self.first, self.last = ticks, first, last
        self.of = math.log2 if ticks[0] > 0 else float

    def __call__(self, value):
        low, high = self.of(self.ticks[0]), self.of(self.ticks[-1])
        value = min(max(value, self.ticks[0]), self.ticks[-1])
        return self.first + (self.of(value) - low) / (high - low) * (self.last - self.first)


def apart(heights):
    """The heights, moved so far that names of lines do not touch."""
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    moved = list(heights)
    for before, i in zip(order, order[1:]):
        moved[i] = max(moved[i], moved[before] + NAME_HEIGHT)
    return moved


def named(lines, x_unit):
    """The lines with what they are called: a line of one point, which looks like an error, says that it has no other."""
    longest = max(len(points) for points in lines.values())
    return {f"{name}: measured at {points[0][0]:g}{x_unit} only" if len(points) == 1 < longest else name: points
            for name, points in lines.items()}


def line_chart(title, remarks, x_name, y_name, lines, x_ticks=None, y_ticks=None, x_unit=""):
    """remarks: lines of text, which say on which machine and how it was measured. lines: {name: [(x, y), ...]}. Ticks that
    begin above 0 make an axis logarithmic; none: from 0 in round steps."""
    lines = named({name: sorted(points) for name, points in lines.items() if points}, x_unit)
    top = 64 + 19 * len(remarks)
    height, right = top + PLOT_HEIGHT + BOTTOM, WIDTH - 24 - LETTER * max(len(name) for name in lines)
    x = Scale(x_ticks or round_ticks(max(p[0] for points in lines.values() for p in points)), LEFT, right)
    y = Scale(y_ticks or round_ticks(max(p[1] for points in lines.values() for p in points)), height - BOTTOM, top)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
             'font-family="sans-serif" font-size="13">',
             '<rect width="100%" height="100%" fill="white"/>',
             f'<text x="12" y="25" font-size="17" font-weight="bold">{escape(title)}</text>',
             f'<text x="{LEFT - 40}" y="{top - 14}">{escape(y_name)}</text>',
             f'<text x="{(LEFT + right) / 2:.1f}" y="{height - 10}" text-anchor="middle">{escape(x_name)}</text>']
    parts.extend(f'<text x="12" y="{46 + 19 * i}" fill="#555">{escape(remark)}</text>' for i, remark in enumerate(remarks))
    for tick in y.ticks:
        parts.append(f'<path d="M{LEFT} {y(tick):.1f}H{right:.1f}" stroke="#ddd"/>'
                     f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for tick in x.ticks:
        parts.append(f'<text x="{x(tick):.1f}" y="{height - BOTTOM + 18}" text-anchor="middle">{tick:g}</text>')
    names = apart([y(points[-1][1]) for points in lines.values()])
    for i, (name, points) in enumerate(lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join(f"{x(px):.1f},{y(py):.1f}" for px, py in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        if len(points) <= 12:
            parts.extend(f'<circle cx="{x(px):.1f}" cy="{y(py):.1f}" r="3" fill="{colour}"/>' for px, py in points)
        parts.append(f'<text x="{x(points[-1][0]) + 8:.1f}" y="{names[i] + 4:.1f}" fill="{colour}">{escape(name)}</text>')
    return "\n".join(parts + ["</svg>\n"])
