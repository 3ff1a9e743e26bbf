#!/usr/bin/env python3
"""Replays three answers with and without drafts on a model, and writes the table of docs/drafts.md.

Usage: scripts/replay_tables.py MODEL.gguf [--pairs N] [--only NAME]... [--data FOLDER] [--program FILE]

The answers are made by rule from a source file of this repository and two books of the data folder ($TROIKA_DATA or
--data), so that anybody replays the same ones: a code edit (a file with one name changed), a summary that quotes (every
third sentence of a passage behind a few words of its own), and a text that repeats nothing (a passage of another book).
What was measured is kept in build/replays.json, and the table has what is kept of this model.
"""
import argparse
import json
import os
import pathlib
import re

from tables import ROOT, Kept, replace, run, table

PAGE = ROOT / "docs" / "drafts.md"
WORK = ROOT / "build" / "replays"
SOURCE = ROOT / "src" / "draft" / "width_costs.cc"
NAMES = ("n_measured", "n_seen")
BOOK, OTHER = "text/books/the-wind-in-the-willows.txt", "text/books/black-beauty.txt"
LEADS = ("First", "At that point", "Soon after", "Meanwhile", "As told here", "Besides", "Later", "By then", "Next", "Still",
         "Here too", "In short", "Once more", "After all", "So", "Finally", "In between", "Then again", "Elsewhere", "On top")


def book(options, name):
    """The text behind the front matter, in lines without breaks inside paragraphs."""
    if not options.data:
        raise SystemExit("error: the data folder is not named. Set TROIKA_DATA to it, or give --data.")
    text = (pathlib.Path(options.data) / name).read_text("utf-8")[6000:]
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text)


def summary_of(passage):
    sentences = re.split(r"(?<=[.!?])\s+", passage)
    return " ".join(f"{LEADS[i // 3 % len(LEADS)]}: {sentence}" for i, sentence in enumerate(sentences) if i % 3 == 1)


def tasks(options):
    """Prompt and answer of each replay."""
    code = SOURCE.read_text("utf-8")
    edited = re.sub(rf"\b{NAMES[0]}\b", NAMES[1], code)
    if edited == code:
        raise SystemExit(f"error: {SOURCE} has no name {NAMES[0]}; the task would change nothing.")
    passage = book(options, BOOK)[:6000]
    return {
        "code edit": (f"Rename {NAMES[0]} to {NAMES[1]} in this file:\n\n{code}\n\nThe file with the new name:\n\n", edited),
        "summary that quotes": (f"{passage}\n\nSummary of this passage:\n\n", summary_of(passage)),
        "no repetition": (f"{passage}\n\n", book(options, OTHER)[:2000]),
    }


def measure(options, name):
    prompt, answer = tasks(options)[name]
    WORK.mkdir(parents=True, exist_ok=True)
    files = []
    for kind, text in (("prompt", prompt), ("answer", answer)):
        files.append(WORK / f"{name.replace(' ', '-')}-{kind}.txt")
        files[-1].write_text(text, "utf-8")
    return json.loads(run(options.program, "bench", options.model, "--no-plan", "-t", 2, "-c", 8192, "--replay", files[0],
                          "--force-text", files[1], "--pairs", options.pairs, "--json"))


def replay_table(kept):
    rows = []
    for name, found in kept.items():
        r = found["replay"]
        draft = r["draft"]
        rows.append([name, f"{r['tokens']} behind {r['prompt_tokens']}", f"{r['plain_ms_per_token']:.1f}",
                     f"{r['drafted_ms_per_token']:.1f}", f"{r['ratio']:.2f} ({r['lowest']:.2f} to {r['highest']:.2f})",
                     f"{draft['tokens_per_verification']:.1f}"])
    return table(["answer", "tokens", "plain, ms a token", "drafted", "times as fast", "tokens a pass"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--only", action="append")
    parser.add_argument("--data", default=os.environ.get("TROIKA_DATA"))
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "release" / "troika")
    options = parser.parse_args()
    kept = Kept(ROOT / "build" / "replays.json")
    model = f"{options.model.stem}: "
    for name in options.only or tasks(options):
        kept.forget(model + name)
        kept.get(model + name, lambda n=name: measure(options, n))
    found = {key.removeprefix(model): result for key, result in kept.found().items() if key.startswith(model)}
    PAGE.write_text(replace(PAGE.read_text("utf-8"), "replays", replay_table(found)), "utf-8")


if __name__ == "__main__":
    main()
