#!/usr/bin/env python3
"""Measures sparse attention on the real model and writes the tables of docs/shadowattn.md, one command for each.

Usage: scripts/attention_tables.py accuracy|tasks|ablation [--again] [--kept] [--data FOLDER] [--program FILE]

The model is what scripts/real_model.py fetches. The data folder is $TROIKA_DATA or --data. Every result is kept in
build/attention/results.json as soon as it is measured, so that an interrupted table goes on where it stopped; --again
forgets those of the command first, --kept writes the table with what is there and measures nothing.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import sys

import real_model
from real_model_data import data_file
from tables import ROOT, Kept, replace, run, table

PAGE = ROOT / "docs" / "shadowattn.md"
WORK = ROOT / "build" / "attention"
CALIBRATION = "text/wikitext2.valid.tokens.txt"
CALIBRATION_BYTES = 150000
TEXTS = {"WikiText-2": "text/wikitext2.test.txt",
         "Sherlock Holmes": "text/books/the-adventures-of-sherlock-holmes.txt"}
BYTES = 200000  # of each text
STRETCH = 256   # tokens whose losses are taken together: neighbours' are alike
FIRST = 1024    # tokens before this position attend to all


def beginning(options, name, n_bytes):
    text = data_file(options, name).read_bytes()[:n_bytes].decode("utf-8", "ignore")
    WORK.mkdir(parents=True, exist_ok=True)
    path = WORK / f"{n_bytes}-{pathlib.Path(name).name}"
    path.write_text(text, "utf-8")
    return path


def losses_of(options, text, window, words, folder=None):
    """What each token of a text loses, under these options and with the tuned plan of that folder."""
    path = WORK / "losses.txt"
    plan = ["--no-plan"] if folder is None else []
    run("env", f"XDG_CACHE_HOME={folder or WORK}", options.program, "eval", options.model, *plan, "-c", window,
        "--perplexity", text, "--losses", path, *words)
    return [float(line) for line in path.read_text("utf-8").split()]


def full_losses(options, text, window):
    """Those of attention to all positions, measured once for a text and a window."""
    path = WORK / f"full-{window}-{text.name}.json"
    if options.again or not path.exists():
        path.write_text(json.dumps(losses_of(options, text, window, ["--attention", "full"])), "utf-8")
    return json.loads(path.read_text("utf-8"))


def tuned(options, rule, percent):
    """A folder of side files in which the model is tuned so."""
    folder = WORK / f"tuned-{rule}-{percent}"
    if not any(folder.glob("troika/plan-*")):
        run("env", f"XDG_CACHE_HOME={folder}", options.program, "tune", options.model, "--text",
            beginning(options, CALIBRATION, CALIBRATION_BYTES), "--prefill", "q8", "--seconds", "600", "--prompts", "128,512",
            "--attention-shares", rule, "--attention-share", percent)
    return folder


def compared(full, other):
    """The change of perplexity in percent, its 95 % interval, and the same behind the first positions alone."""
    differences = [b - a for a, b in zip(full, other, strict=True)]
    n = len(differences) // STRETCH
    means = [statistics.fmean(differences[i * STRETCH:(i + 1) * STRETCH]) for i in range(n)]
    error = statistics.stdev(means) / math.sqrt(n)
    return 100 * (math.exp(statistics.fmean(differences)) - 1), 100 * 1.96 * error


def measured(options, kept, text, window, words, rule=None, percent=20):
    name = f"{text} {window} {' '.join(map(str, words))} {rule or ''}{percent if rule else ''}".strip()

    def measure():
        folder = None if rule is None else tuned(options, rule, percent)
        file = beginning(options, TEXTS[text], BYTES)
        full = full_losses(options, file, window)
        if words == ["--attention", "full"]:
            return {"perplexity": math.exp(statistics.fmean(full)), "tokens": len(full)}
        other = losses_of(options, file, window, words, folder)
        change, interval = compared(full, other)
        return {"perplexity": math.exp(statistics.fmean(other)), "change": change, "interval": interval}

    return kept.get(name, measure)


def cell(result):
    return "" if result is None else f"{result['change']:+.2f} ± {result['interval']:.2f} %"


VARIANTS = [
    ("sparse, 20 % of each head", ["--attention", "sparse", "--attention-share", 20], None, 20),
    ("sparse, 20 %, by kept mass", ["--attention", "sparse"], "kept-mass", 20),
    ("sparse, 20 %, by importance (eq. 1–3)", ["--attention", "sparse"], "importance", 20),
    ("sparse, 10 % of each head", ["--attention", "sparse", "--attention-share", 10], None, 10),
    ("sparse, 10 %, by kept mass", ["--attention", "sparse"], "kept-mass", 10),
    ("blocks of 64, 20 %", ["--attention", "block", "--attention-share", 20], None, 20),
    ("all in int8", ["--attention", "int8"], None, 20),
]


def accuracy(options, kept):
    rows = []
    full = {text: measured(options, kept, text, 4096, ["--attention", "full"]) for text in TEXTS}
    rows.append(["full, perplexity"] + [f"{full[text]['perplexity']:.3f}" if full[text] else "" for text in TEXTS])
    for name, words, rule, percent in VARIANTS:
        rows.append([name] + [cell(measured(options, kept, text, 4096, words, rule, percent)) for text in TEXTS])
    return table(["windows of 4,096", *TEXTS], rows)


# The paper's order of its ablation (figure 16), as far as values change: pipeline and buckets change none on cores.
ABLATION = [
    ("full", ["--attention", "full"], None),
    ("all in int8", ["--attention", "int8"], None),
    ("blocks of 64", ["--attention", "block"], None),
    ("each query, 20 % of each head", ["--attention", "query", "--attention-share", 20], None),
    ("each query, 20 %, by kept mass", ["--attention", "query"], "kept-mass"),
    ("tiles, 20 % of each head", ["--attention", "sparse", "--attention-share", 20], None),
    ("tiles, 20 %, by kept mass", ["--attention", "sparse"], "kept-mass"),
]
ABLATION_BYTES = 40000
PROMPT = 4096


def ablation(options, kept):
    """Perplexity, and how long a prompt takes, of every form."""
    def seconds(words, folder):
        plan = ["--no-plan"] if folder is None else []
        said = run("env", f"XDG_CACHE_HOME={folder or WORK}", options.program, "bench", options.model, *plan, "-c", 8192, "-n",
                   1, "-r", 3, "-p", PROMPT, "--json", *words)
        return PROMPT / json.loads(said)["prefill"][0]["tokens_per_s"]

    file = beginning(options, TEXTS["WikiText-2"], ABLATION_BYTES)
    rows = []
    for name, words, rule in ABLATION:
        def measure(words=words, rule=rule):
            folder = None if rule is None else tuned(options, rule, 20)
            other = losses_of(options, file, 4096, words, folder)
            change, interval = compared(full_losses(options, file, 4096), other)
            return {"perplexity": math.exp(statistics.fmean(other)), "change": change, "interval": interval,
                    "seconds": seconds(words, folder)}
        found = kept.get(f"ablation {name}", measure)
        rows.append([name, *([f"{found['perplexity']:.3f}", cell(found), f"{found['seconds']:.2f}"] if found else ["", "", ""])])
    return table(["form", "perplexity", "change", f"s for {PROMPT:,} tokens"], rows)


BOOK = "text/books/the-secret-garden.txt"
PLACES = ("London", "Paris", "Rome", "Madrid", "Vienna", "Dublin", "Oslo", "Prague", "Athens", "Lisbon")
N_NEEDLES, N_COPIES = 50, 12


def needles(options, n_characters):
    """Texts with a number in the middle of them that is asked for at the end."""
    book = data_file(options, BOOK).read_text("utf-8")
    tasks = []
    for i in range(N_NEEDLES):
        begin = 5000 + 6000 * i
        sentences = book[begin:begin + n_characters].split(". ")
        number, place = 1000 + 7919 * (i + 1) % 9000, PLACES[i % len(PLACES)]
        at = 1 + (len(sentences) - 2) * (2 * i % 19) // 19
        sentences.insert(at, f"The magic number of {place} is {number}")
        tasks.append({"prompt": ". ".join(sentences[1:-1]) + f". The magic number of {place} is", "answer": str(number)})
    path = WORK / f"needles-{n_characters}.jsonl"
    path.write_text("".join(json.dumps(task) + "\n" for task in tasks), "utf-8")
    return path


def copies(options):
    """Texts that end as they begin."""
    book = data_file(options, BOOK).read_text("utf-8")
    paths = []
    for i in range(N_COPIES):
        begin = 4000 + 20000 * i
        passage = book[begin:begin + 1300]
        path = WORK / f"copy-{i}.txt"
        path.write_text(passage + "\n\n" + book[begin + 1300:begin + 8500] + "\n\n" + passage, "utf-8")
        paths.append(path)
    return paths


TASKS = [
    ("full", ["--attention", "full"], None),
    ("sparse, 20 % of each head", ["--attention", "sparse", "--attention-share", 20], None),
    ("sparse, 20 %, by kept mass", ["--attention", "sparse"], "kept-mass"),
    ("sparse, 10 % of each head", ["--attention", "sparse", "--attention-share", 10], None),
    ("blocks of 64, 20 %", ["--attention", "block", "--attention-share", 20], None),
    ("all in int8", ["--attention", "int8"], None),
]


def tasks(options, kept):
    rows = []
    for name, words, rule in TASKS:
        def measure(words=words, rule=rule):
            folder = None if rule is None else tuned(options, rule, 20)
            plan = ["--no-plan"] if folder is None else []
            result = {}
            for n_characters in (7500, 15500):
                said = run("env", f"XDG_CACHE_HOME={folder or WORK}", options.program, "eval", options.model, *plan, "-c", 4608,
                           "--tasks", needles(options, n_characters), "--first-word", "--json", "--attention-from", 512, *words)
                result[str(n_characters)] = json.loads(said)["accuracy"]
            # The last 256 tokens are of the passage.
            copied = [statistics.fmean(losses_of(options, path, 4096, ["--attention-from", 512, *words], folder)[-256:])
                      for path in copies(options)]
            return {**result, "copying": statistics.fmean(copied)}
        found = kept.get(f"tasks {name}", measure)
        rows.append([name, *([f"{found['copying']:.3f}", f"{N_NEEDLES * found['7500']:.0f}", f"{N_NEEDLES * found['15500']:.0f}"]
                             if found else ["", "", ""])])
    return table(["", "copying 256 tokens, nats", f"of {N_NEEDLES} needles in 1.8k", "in 3.6k"], rows)


COMMANDS = {"accuracy": accuracy, "ablation": ablation, "tasks": tasks}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--kept", action="store_true")
    parser.add_argument("--data", default=os.environ.get("TROIKA_DATA", ""))
    parser.add_argument("--program", default=str(ROOT / "build" / "release" / "troika"))
    options = parser.parse_args()
    options.model = run(sys.executable, ROOT / "scripts" / "real_model.py").strip()
    kept = Kept(WORK / "results.json", may_measure=not options.kept)
    if options.again:
        kept.forget("" if options.command == "accuracy" else options.command)
    text = COMMANDS[options.command](options, kept)
    PAGE.write_text(replace(PAGE.read_text("utf-8"), options.command, text), "utf-8")
    print(text)


if __name__ == "__main__":
    main()
