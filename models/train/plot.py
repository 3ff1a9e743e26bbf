"""The course of a training as a small SVG file: training loss, and bits per character held out."""

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))
from line_chart import round_ticks

LEFT, RIGHT, TOP, BOTTOM = 50, 30, 100, 50


def course(entries):
    """{name: (colour, points)} against millions of tokens; the loss is smoothed."""
    smooth, losses = None, []
    for e in entries:
        smooth = e["loss"] if smooth is None else 0.97 * smooth + 0.03 * e["loss"]
        losses.append((e["tokens"] / 1e6, smooth))
    curves = {"training loss, nats per token": ("#446", losses[:: max(1, len(losses) // 300)])}
    for key, colour in (("books_bpc", "#b40"), ("stories_bpc", "#284")):
        points = [(e["tokens"] / 1e6, e[key]) for e in entries if key in e]
        if points:
            curves[f"held-out {key[:-4]}, bits per character"] = (colour, points)
    return curves


def draw(curves, title, width=640, height=360):
    right = max(x for _, points in curves.values() for x, _ in points) or 1
    top = min(6.0, max(y for _, points in curves.values() for _, y in points))

    def place(x, y):
        return (LEFT + x / right * (width - LEFT - RIGHT),
                height - BOTTOM - min(y, top) / top * (height - BOTTOM - TOP))

    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="white"/>',
             f'<text x="12" y="24" font-size="16" font-weight="bold">{title}</text>']  # fmt: skip
    for i in range(int(top) + 1):
        x, y = place(0, i)
        lines.append(f'<path d="M{x:.1f} {y:.1f}H{width - RIGHT}" stroke="#ddd"/>'
                     f'<text x="{x - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">{i}</text>')
    for tick in (t for t in round_ticks(right) if t <= right):
        x, y = place(tick, 0)
        lines.append(f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{tick:g}</text>')
    lines.append(f'<text x="{(LEFT + width - RIGHT) / 2}" y="{height - 10}" text-anchor="middle">million training tokens</text>')
    for i, (name, (colour, points)) in enumerate(curves.items()):
        path = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in points)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        lines.append(f'<rect x="12" y="{36 + 18 * i}" width="12" height="12" fill="{colour}"/>'
                     f'<text x="30" y="{47 + 18 * i}">{name}</text>')  # fmt: skip
    return "\n".join([*lines, "</svg>"]) + "\n"


def loss_plot(log, out, title="Training"):
    with open(log, encoding="utf-8") as f:
        entries = [json.loads(x) for x in f]
    if not entries:
        return
    with open(out, "w", encoding="utf-8") as f:
        f.write(draw(course(entries), title))
