"""The course of a training as a small SVG file: training loss, and bits per character held out."""

import json


def loss_plot(log, out, width=640, height=320):
    with open(log, encoding="utf-8") as f:
        entries = [json.loads(x) for x in f]
    if not entries:
        return
    smooth, losses = None, []
    for e in entries:
        smooth = e["loss"] if smooth is None else 0.97 * smooth + 0.03 * e["loss"]
        losses.append((e["tokens"] / 1e6, smooth))
    thin = losses[:: max(1, len(losses) // 300)]
    curves = [("training loss (nats per token)", "#446", thin)]
    for key, color in (("books_bpc", "#b40"), ("stories_bpc", "#284")):
        points = [(e["tokens"] / 1e6, e[key]) for e in entries if key in e]
        if points:
            curves.append((f"held-out {key[:-4]} (bits per character)", color, points))
    right = max(x for _, _, ps in curves for x, _ in ps) or 1
    top = min(6.0, max(y for _, _, ps in curves for _, y in ps))

    def place(x, y):
        return f"{50 + x / right * (width - 70):.1f},{height - 40 - min(y, top) / top * (height - 60):.1f}"

    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11">',
             f'<rect width="{width}" height="{height}" fill="white"/>']  # fmt: skip
    for i in range(int(top) + 1):
        x0, y0 = place(0, i).split(",")
        lines.append(f'<line x1="{x0}" y1="{y0}" x2="{width - 20}" y2="{y0}" stroke="#ddd"/>')
        lines.append(f'<text x="30" y="{float(y0) + 4}">{i}</text>')
    for i in range(5):
        x0, y0 = place(right * i / 4, 0).split(",")
        lines.append(f'<text x="{x0}" y="{height - 22}">{right * i / 4:.1f}</text>')
    lines.append(f'<text x="{width // 2 - 60}" y="{height - 6}">million training tokens</text>')
    for i, (name, color, points) in enumerate(curves):
        path = " ".join(place(*p) for p in points)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        lines.append(f'<text x="{width - 250}" y="{30 + 15 * i}" fill="{color}">{name}</text>')
    with open(out, "w", encoding="utf-8") as f:
        f.write("\n".join([*lines, "</svg>"]) + "\n")
