#!/usr/bin/env python3
"""Measures handovers between lanes and writes their table into docs/heterollm.md.

Usage: scripts/handover_tables.py [--build BUILD] [--print]

BUILD (build/release) holds bench/troika_handover_bench (cmake --preset release -DTROIKA_BENCH=ON). TROIKA_OPENVINO names
the folder of OpenVINO's libraries; devices that are not there are left out. Nothing else should run meanwhile. --print
writes all to standard output only; the page has what is certain, which is between cores.
"""
import argparse
import json
import pathlib

from tables import ROOT, processor, replace, run, table

PAGE = ROOT / "docs" / "heterollm.md"
WAYS = ["fast", "ordinary", "futex"]
CORES = "core, core"


def handover_table(measured):
    """A row for each pair of lanes, phase and length of tasks; the first core's waking hours stand in brackets."""
    cells = {}
    for m in measured:
        awake = "" if m["awake"] is None else f" ({100 * m['awake']:.0f} %)"
        cells.setdefault((m["lanes"], m["phase"], m["task_us"]), {})[m["handover"]] = f"{m['us']:.1f} µs{awake}"
    rows = [[*key, *(found.get(way, "") for way in WAYS)] for key, found in cells.items()]
    return table(["lanes", "phase", "task, µs", *WAYS], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--print", action="store_true")
    arguments = parser.parse_args()
    measured = json.loads(run(arguments.build / "bench" / "troika_handover_bench"))
    if arguments.print:
        print(handover_table(measured))
        return
    # What devices take is a difference of times that vary more than a handover: it is for looking at.
    text = f"{processor()}:\n\n{handover_table([m for m in measured if m['lanes'] == CORES])}"
    PAGE.write_text(replace(PAGE.read_text("utf-8"), "handovers", text), "utf-8")


if __name__ == "__main__":
    main()
