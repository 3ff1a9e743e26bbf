#!/usr/bin/env python3
"""Measures what docs/performance.md shows, and writes it there.

Usage: scripts/performance_tables.py [--record FILE.json] [--pairs N] [--print] [--machine TEXT] [--redraw]

Runs `troika_record` (configure with -DTROIKA_BENCH=ON), which measures kernels. Replaces what stands between the marks, and writes docs/performance.svg.
--record takes an earlier record (troika_record --json) instead; --print writes to standard output only. --machine says
what the picture calls the machine, where that is not this one; --redraw draws the tables of the page again.
"""
import argparse
import json
import pathlib
import re
import sys

from line_chart import line_chart
from tables import ROOT, between, processor, replace, run, table

BUILD = ROOT / "build" / "release"
PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "performance.svg"
PICTURED = ["Q4_0", "Q5_0", "Q8_0", "Q4_K", "Q6_K"]  # more would hide each other
FORMATS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"]
TOKENS = [1, 4, 8, 32]


def ratio(row):
    return f"{row['median']:.2f} ({row['low']:.2f}–{row['high']:.2f})" if row else ""


def products(record, kernels):
    found = {row["what"]: row for row in record if row["kernels"] == kernels}
    rows = []
    for name in FORMATS:
        cells = [found.get(f"{name}, {n} token{'' if n == 1 else 's'}, from memory") for n in TOKENS]
        cells.append(found.get(f"{name}, 1 token, from the cache"))
        if any(cells):
            rows.append([name] + [ratio(cell) for cell in cells])
    return table(["weights"] + [f"{n} token{'' if n == 1 else 's'}" for n in TOKENS] + ["1 token, cached"], rows)


def attention(record, kernels):
    pattern = re.compile(r"attention, head size (\d+), (\d+) heads share (\w+), context (\d+)")
    cells, columns = {}, []
    for row in record:
        match = pattern.fullmatch(row["what"]) if row["kernels"] == kernels else None
        if match:
            size, heads, kind, context = match.groups()
            column = f"{kind}, {heads} head{'' if heads == '1' else 's'}, {context}"
            columns += [column] if column not in columns else []
            cells[int(size), column] = row
    sizes = sorted({size for size, _ in cells})
    return table(["head size"] + columns,
                 [[str(size)] + [ratio(cells.get((size, column))) for column in columns] for size in sizes])


def picture(record, kernels, machine):
    """Time over reading time against tokens: flat where memory is the limit, a slope where arithmetic is."""
    found = {row["what"]: row["median"] for row in record if row["kernels"] == kernels}
    values = {name: [(n, found.get(f"{name}, {n} token{'' if n == 1 else 's'}, from memory")) for n in TOKENS]
              for name in PICTURED}
    return line_chart("How long it takes to multiply weights with several tokens at once",
                      [f"{machine}, one thread, kernels for {kernels}; weights come from memory. Each line is a format of weights.",
                       "1 is the time in which a plain loop reads the same bytes. Both axes are logarithmic."],
                      "tokens together", "times as long as reading",
                      {name: [(n, value) for n, value in points if value] for name, points in values.items()},
                      x_ticks=TOKENS, y_ticks=[1, 2, 4, 8, 16])


def on_page(page):
    """The record of products that the tables of the page show, as far as the picture needs it."""
    record = []
    kernels = None
    begin, end = between(page, "products")
    for line in page[begin:end].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("`"):
            kernels = line.strip("`")
        elif cells[0] in FORMATS:
            record += [{"kernels": kernels, "what": f"{cells[0]}, {n} token{'' if n == 1 else 's'}, from memory",
                        "median": float(cell.split()[0])} for n, cell in zip(TOKENS, cells[1:])]
    return record


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record")
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--print", action="store_true")
    parser.add_argument("--machine", default=processor(), help="what the picture calls the machine")
    parser.add_argument("--redraw", action="store_true", help="measure nothing, draw the tables of the page")
    options = parser.parse_args()
    if options.redraw:
        record = on_page(PAGE.read_text())
        PICTURE.write_text(picture(record, record[0]["kernels"], options.machine))
        return 0
    if options.record:
        record = json.loads(pathlib.Path(options.record).read_text())
    else:
        record = json.loads(run(BUILD / "bench" / "troika_record", "--pairs", options.pairs, "--json"))
    # With dot products of bf16 only prompts are computed otherwise, which the record is not about.
    names = [name for name in dict.fromkeys(row["kernels"] for row in record) if not name.endswith("_bf16")]
    blocks = {"products": "\n\n".join(f"`{name}`\n\n{products(record, name)}" for name in names),
              "attention": "\n\n".join(f"`{name}`\n\n{attention(record, name)}" for name in names)}
    if options.print:
        print("\n\n".join(blocks.values()))
        return 0
    page = PAGE.read_text()
    for name, text in blocks.items():
        page = replace(page, name, f"\n{text}\n")
    PAGE.write_text(page)
    PICTURE.write_text(picture(record, names[0], options.machine))
    return 0


if __name__ == "__main__":
    sys.exit(main())
