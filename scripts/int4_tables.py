#!/usr/bin/env python3
"""Measures what weights of four bits lose (P11), on the real model and on the trained small ones, and writes the table of docs/powerinfer-2.md.

Usage: scripts/int4_tables.py [--again] [--kept] [--threads N] [--data FOLDER] [--program FILE]

The real model is what scripts/real_model.py fetches. The data folder is $TROIKA_DATA or --data. Every result is kept in build/int4 as soon
as it is measured; --again forgets them first, --kept writes the table with what is there and measures nothing.
"""
import argparse
import json
import os
import sys

import real_model
from real_model_data import beginning, data_file, work_file
from real_model_tables import last_word_task
from tables import ROOT, Kept, replace, run, table

PAGE = ROOT / "docs" / "powerinfer-2.md"
WORK = ROOT / "build" / "int4"
BOOK, WIKITEXT = "text/books/the-wonderful-wizard-of-oz.txt", "text/wikitext2.test.txt"
WORDS, N_WORDS = "tasks/lambada.part1.jsonl", 100
CHARACTERS = 20000
WINDOW = {"SmolLM2-135M": 1024, "troika-silu": 512, "troika-relu": 512}
FLOAT = ["--activations", "f32", "--kv", "f32", "--prefill", "f32"]
# Channels that are far larger than the others stay in float, so that what is lost is lost by weights.
INT8 = ["--prefill", "int8", "--int8", "llm.int8"]


def int4(outliers):
    return [*INT8, "--int8-weights", "int4", "--weight-outliers", outliers]


# The name, whether the file is one with groups, and how prompts are computed.
FORMS = [
    ("as the file has them, in float", False, FLOAT),
    ("8 bits, a scale for each row", False, INT8),
    ("4 bits, a scale for each group of 32 (Q4_0)", True, []),
    ("4 bits, a scale for each row", False, int4(0)),
    *[(f"4 bits, a scale for each row, {share} % in 8 bits", False, int4(share)) for share in (0.2, 0.5, 1, 2, 5)],
]


def texts(options):
    lines = data_file(options, WORDS).read_text("utf-8").splitlines()[:N_WORDS]
    tasks = "".join(json.dumps(last_word_task(json.loads(line)["text"])) + "\n" for line in lines)
    return (beginning(options, BOOK, CHARACTERS), beginning(options, WIKITEXT, CHARACTERS),
            work_file(f"{N_WORDS}-last-words.jsonl", tasks))


def file_of(model):
    """Where the model is with a scale for each group of 32 weights."""
    return WORK / f"{model}-q4_0.gguf"


def forget(kept):
    """What was measured, and the files that were made for it: another program or model makes others."""
    kept.forget("")
    for model in WINDOW:
        file_of(model).unlink(missing_ok=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--kept", action="store_true")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--data", default=os.environ.get("TROIKA_DATA", ""))
    parser.add_argument("--program", default=str(ROOT / "build" / "release" / "troika"))
    options = parser.parse_args()
    kept = Kept(WORK / "results.json", may_measure=not options.kept)
    if options.again:
        forget(kept)
    real = run(sys.executable, ROOT / "scripts" / "real_model.py").strip()
    files = {"SmolLM2-135M": real, **{name: ROOT / "models" / f"{name}-q8_0.gguf" for name in ("troika-silu", "troika-relu")}}
    book, wikitext, words = texts(options)

    def measured(model, is_grouped, how, *what):
        path = files[model]
        if is_grouped:
            path = file_of(model)
            if not path.exists():
                run(options.program, "quantize", files[model], path, "--type", "q4_0")
        threads = ["--threads", options.threads] if options.threads else []
        said = run(options.program, "eval", path, "--no-plan", *threads, "-c", WINDOW[model], "--json", *how, *what)
        return json.loads(said)

    def perplexity(model, text, name, is_grouped, how):
        return kept.get(f"{model}, {text.name}, {name}",
                        lambda: measured(model, is_grouped, how, "--perplexity", text)["perplexity"])

    def change(model, text, form):
        exact, found = perplexity(model, text, *FORMS[0]), perplexity(model, text, *form)
        if exact is None or found is None:
            return ""
        return f"{found:.2f}" if form is FORMS[0] else f"{100 * (found / exact - 1):+.1f} %"

    def last_words(form):
        name, is_grouped, how = form
        share = kept.get(f"words, {name}", lambda: measured("SmolLM2-135M", is_grouped, how, "--tasks", words,
                                                            "--first-word")["accuracy"])
        return "" if share is None else f"{100 * share:.0f} %"

    columns = [("SmolLM2-135M", wikitext), ("SmolLM2-135M", book), ("troika-silu", book), ("troika-relu", book)]
    header = ["weights of prompts", "SmolLM2, WikiText-2", "SmolLM2, book", f"SmolLM2, {N_WORDS} last words", "troika-silu, book",
              "troika-relu, book"]
    rows = []
    for form in FORMS:
        cells = [change(*column, form) for column in columns]
        rows.append([form[0], *cells[:2], last_words(form), *cells[2:]])
    text = table(header, rows)
    PAGE.write_text(replace(PAGE.read_text("utf-8"), "int4", text), "utf-8")
    print(text)


if __name__ == "__main__":
    main()
