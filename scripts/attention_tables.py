#!/usr/bin/env python3
"""Measures sparse attention and writes the tables of docs/shadowattn.md, one command for each.

Usage: scripts/attention_tables.py accuracy|tasks|ablation|estimate|planted|scales [--again] [--kept] [--threads N] [--prefill KIND] [--data FOLDER]
       [--program FILE]

The model is what scripts/real_model.py fetches; `planted` looks at what it keeps, and takes the shapes of larger ones, with
random weights whose attention is as concentrated; it wants a quiet machine and 4 GB of disk. `scales` takes a model that comes
along, as it is and with the scales of its heads spread, and needs no data. The data folder is $TROIKA_DATA or --data. Every result is kept in
build/attention (losses of single tokens in losses/) as soon as it is measured, so that an interrupted table goes on where it
stopped; --again forgets those of the command first, --kept writes the table with what is there and measures nothing,
--no-times leaves the times of `ablation` as they stand on the page, which want a quiet machine, and --no-losses its
perplexities, which take an hour. What the virtual phone says is computed anew each time.
"""
import argparse
import json
import math
import os
import pathlib
import shutil
import statistics
import sys

import real_model
from real_model_data import data_file
from tables import ROOT, Kept, replace, rows_of, run, table

PAGE = ROOT / "docs" / "shadowattn.md"
WORK = ROOT / "build" / "attention"
CALIBRATION = "text/wikitext2.valid.tokens.txt"
CALIBRATION_BYTES = 150000
TEXTS = {"WikiText-2": "text/wikitext2.test.txt",
         "Sherlock Holmes": "text/books/the-adventures-of-sherlock-holmes.txt"}
BYTES = 60000       # of each text
FEWER_BYTES = 24000  # for what is slow and so much worse or better that few tokens show it
WINDOWS = (8192, 4096, 2048)
STRETCH = 256       # tokens whose losses are taken together: neighbours' are alike


def part_of(name, n_bytes):
    """Where the beginning of a text is kept."""
    return WORK / f"{n_bytes}-{pathlib.Path(name).name}"


def beginning(options, name, n_bytes):
    text = data_file(options, name).read_bytes()[:n_bytes].decode("utf-8", "ignore")
    WORK.mkdir(parents=True, exist_ok=True)
    path = part_of(name, n_bytes)
    path.write_text(text, "utf-8")
    return path


def threads(options):
    return ["--threads", options.threads] if options.threads else []


def losses_file(text, window, words, folder=None):
    name = "-".join(str(word).lstrip("-") for word in words)
    return WORK / "losses" / f"{name}{'-' + folder.name if folder else ''}-{window}-{text.name}"


def losses_of(options, text, window, words, folder=None):
    """What each token of a text loses, under these options and with the tuned plan of that folder. Kept in a file."""
    path = losses_file(text, window, words, folder)
    if options.may_measure and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        print(f"measuring {path.name}", file=sys.stderr, flush=True)
        # Other threads than a tuned plan's would leave the plan out.
        plan = ["--no-plan", *threads(options)] if folder is None else []
        fresh = path.with_suffix(".new")
        run("env", f"XDG_CACHE_HOME={folder or WORK}", options.program, "eval", options.model, *plan, "-c", window,
            "--perplexity", text, "--losses", fresh, *words)
        os.replace(fresh, path)
    return [float(line) for line in path.read_text("utf-8").split()] if path.exists() else None


def tuned_folder(rule, percent):
    return WORK / f"tuned-{rule}-{percent}"


def tuned(options, rule, percent):
    """A folder of side files in which the model is tuned so."""
    folder = tuned_folder(rule, percent)
    if options.may_measure and not any(folder.glob("troika/plan-*")):
        run("env", f"XDG_CACHE_HOME={folder}", options.program, "tune", options.model, "--text",
            beginning(options, CALIBRATION, CALIBRATION_BYTES), "--prefill", "q8", *SHORT_CALIBRATION,
            "--attention-shares", rule, "--attention-share", percent)
    return folder


def compared(full, other):
    """The change of perplexity in percent over the tokens of `other`, with its 95 % interval."""
    differences = [b - a for a, b in zip(full, other)]
    n = len(differences) // STRETCH
    means = [statistics.fmean(differences[i * STRETCH:(i + 1) * STRETCH]) for i in range(n)]
    error = statistics.stdev(means) / math.sqrt(n)
    return 100 * (math.exp(statistics.fmean(differences)) - 1), 100 * 1.96 * error


def change(options, text, window, words, n_bytes, folder=None):
    """As a cell. A shorter text is the beginning of the longer one, and so are its losses, but for its last ones."""
    full = losses_of(options, beginning(options, TEXTS[text], BYTES), window, FULL)
    other = losses_of(options, beginning(options, TEXTS[text], n_bytes), window, words, folder)
    if full is None or other is None:
        return ""
    found, interval = compared(full, other[:-8] if n_bytes < BYTES else other)
    return f"{found:+.2f} ± {interval:.2f} %"


FULL = ["--attention", "full"]
FORMS = [
    ("sparse, above 5", ["--attention", "sparse", "--attention-above", 5], BYTES),
    ("sparse, above 2.5", ["--attention", "sparse", "--attention-above", 2.5], BYTES),
    ("sparse, 20 % of each head", ["--attention", "sparse", "--attention-share", 20], BYTES),
    ("each query, 20 %", ["--attention", "query", "--attention-share", 20], FEWER_BYTES),
    ("each query, 10 %", ["--attention", "query", "--attention-share", 10], FEWER_BYTES),
    ("each query, 30 %", ["--attention", "query", "--attention-share", 30], FEWER_BYTES),
    ("blocks of 64, 20 %", ["--attention", "block", "--attention-share", 20], FEWER_BYTES),
    ("all in int8", ["--attention", "int8"], FEWER_BYTES),
]


def accuracy(options, kept):
    del kept  # losses are
    columns = [(text, window) for window in WINDOWS for text in TEXTS]
    rows = [["full, perplexity"]]
    for text, window in columns:
        full = losses_of(options, beginning(options, TEXTS[text], BYTES), window, FULL)
        rows[0].append("" if full is None else f"{math.exp(statistics.fmean(full)):.3f}")
    for name, words, n_bytes in FORMS:
        rows.append([name] + [change(options, text, window, words, n_bytes) for text, window in columns])
    return table(["windows of"] + [f"{window:,}, {text}" for text, window in columns], rows)


# The paper's order of its ablation (figure 16): what chooses, and for whom; then how heads go over two lanes.
QUERY = ["--attention", "query", "--attention-share", 20]


def on_lanes(step, *more):
    return [*QUERY, "--lanes", "0;1", "--attention-lanes", "1,0,0", "--attention-heads", step, *more]


# What an option does not say, the phone's stack does: its heads go through the pipeline from the NPU to one middle core.
PHONE = ["--machine", ROOT / "phones" / "8gen3.json", "--stack", "shadowattn", "--lanes", "cpu,npu", "--phone-cores",
         "middle=1", "--ordinary-handover", "--chunk", 256]
ON_THE_CORE = ["--attention", "query", "--attention-lanes", "cpu,cpu,cpu"]


def heads(*words):
    return ["--attention", "query", *words]


ABLATION = [  # a form, how it runs here, the rule of a tuned plan, how it runs on the phone
    ("full", FULL, None, ["--place", "attention=0"]),
    ("all in int8", ["--attention", "int8"], None, ["--place", "attention=1"]),
    ("blocks of 64, 20 %", ["--attention", "block", "--attention-share", 20], None, [*ON_THE_CORE, "--attention-block", 64]),
    ("each query, 20 % of each head", QUERY, None, [*ON_THE_CORE, "--attention-equal"]),
    ("each query, 20 %, by kept mass (S3)", ["--attention", "query"], "kept-mass", ON_THE_CORE),
    ("each query, 20 %, one fixed pair of scales", [*QUERY, "--attention-buckets", 1], "kept-mass",
     heads("--attention-buckets", 1)),
    ("each query, 20 %, 5 pairs", [*QUERY, "--attention-buckets", 5], "kept-mass", heads("--attention-buckets", 5)),
    ("each query, 20 %, 9 pairs (S4)", [*QUERY, "--attention-buckets", 9], "kept-mass", heads("--attention-buckets", 9)),
    ("tiles, 20 % of each head", ["--attention", "sparse", "--attention-share", 20], None, None),
    ("tiles, 20 %, by kept mass", ["--attention", "sparse"], "kept-mass", None),
    ("tiles, by weight", ["--attention", "sparse"], None, None),
]
PIPELINE = [  # the bits of one lane
    ("two lanes, one head after the other", "in-turn"),
    ("two lanes at once (S6)", "overlap"),
    ("and heads launched together (S5)", "fused"),
    ("and ordered (S7)", "ordered"),
]
PROMPT = 4096
SHORT_CALIBRATION = ["--seconds", "200", "--prompts", "512"]


def on_the_phone(options, words):
    """Seconds and joules of a prompt, as cells."""
    if words is None:
        return "", ""
    said = run(options.program, "bench", options.model, *PHONE, "-c", PROMPT + 16, "-n", 1, "-p", PROMPT, "--json", *words)
    prompt = json.loads(said)["prefill"][0]
    return f"{prompt['seconds']:.1f}", f"{prompt['joules']:.1f}"


def ablation(options, kept):
    """Perplexity, how long a prompt takes here, and time and energy on the phone, of every form (S8)."""
    def seconds(words, folder):
        plan = ["--no-plan"] if folder is None else []
        cores = [] if folder or "--lanes" in words else threads(options)
        said = run("env", f"XDG_CACHE_HOME={folder or WORK}", options.program, "bench", options.model, *plan,
                   *cores, "-c", 8192, "-n", 1, "-r", 1, "-p", PROMPT, "--json", *words)
        return PROMPT / json.loads(said)["prefill"][0]["tokens_per_s"]

    page = rows_of(PAGE.read_text("utf-8"), options.command)

    def row(name, words, folder, changed, phone):
        found = kept.get(f"ablation {name}", lambda: seconds(words, folder)) if options.times else None
        stood = page.get(name, ["", ""])
        return [name, changed if changed else stood[0], f"{found:.2f}" if found else stood[1], *on_the_phone(options, phone)]

    rows = []
    for name, words, rule, phone in ABLATION:
        folder = tuned(options, rule, 20) if rule is not None and (options.losses or options.times) else None
        changed = change(options, "WikiText-2", PROMPT, words, FEWER_BYTES, folder) if options.losses and words != FULL else ""
        rows.append(row(name, words, folder, changed, phone))
    for name, step in PIPELINE:
        rows.append(row(name, on_lanes(step), None, "the bits of one lane", heads("--attention-heads", step)))
    return table(["form", "perplexity", "here, s", "phone, s", "phone, J"], rows)


def estimate(options, kept):
    """Recall of the best float positions, and what is clipped, by where scales come from."""
    def measured():
        said = run("env", f"XDG_CACHE_HOME={tuned(options, 'kept-mass', 20)}", options.program, "eval", options.model,
                   *threads(options), "-c", PROMPT, "--estimate", "--json", "--attention", "full", "--perplexity",
                   beginning(options, TEXTS["WikiText-2"], FEWER_BYTES))
        return json.loads(said)

    found = kept.get("estimate", measured)
    if found is None:
        return "Not measured yet."
    shares = [f"{share} %" for share in (20, 30, 40, 50, 80)]
    rows = [[way["name"], *[f"{100 * recall:.2f} %" for recall in way["recall"]],
             f"{100 * way['clipped']['queries']:.3f} %", f"{100 * way['clipped']['keys']:.3f} %"] for way in found["ways"]]
    return table(["scales", *shares, "clipped of queries", "of keys"], rows)


BOOK = "text/books/the-secret-garden.txt"
PLACES = ("London", "Paris", "Rome", "Madrid", "Vienna", "Dublin", "Oslo", "Prague", "Athens", "Lisbon")
N_NEEDLES, N_COPIES = 50, 5
LENGTHS = {"2k": 7500, "4k": 15000, "8k": 30000}  # characters of a task's text, about 1,900, 3,800 and 7,600 tokens
TASK_CONTEXT = 8192                  # each text is one window
COPIED_CHARACTERS, COPIED_TOKENS = 1300, 256
# Both begin to choose early, so that short texts show something.
EARLY = ["--attention-from", 512]


def needles(options, length):
    """Texts with a number in the middle of them that is asked for at the end."""
    book = data_file(options, BOOK).read_text("utf-8")
    tasks = []
    for i in range(N_NEEDLES):
        begin = 5000 + 6000 * i
        sentences = book[begin:begin + LENGTHS[length]].split(". ")
        number, place = 1000 + 7919 * (i + 1) % 9000, PLACES[i % len(PLACES)]
        at = 1 + (len(sentences) - 2) * (2 * i % 19) // 19
        sentences.insert(at, f"The magic number of {place} is {number}")
        tasks.append({"prompt": ". ".join(sentences[1:-1]) + f". The magic number of {place} is", "answer": str(number)})
    path = WORK / f"needles-{LENGTHS[length]}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(task) + "\n" for task in tasks), "utf-8")
    return path


def copy_file(length, i):
    return WORK / f"copy-{LENGTHS[length]}-{i}.txt"


def copies(options, length):
    """Texts that end as they begin."""
    book = data_file(options, BOOK).read_text("utf-8")
    paths = []
    WORK.mkdir(parents=True, exist_ok=True)
    for i in range(N_COPIES):
        begin = 4000 + 20000 * i
        passage = book[begin:begin + COPIED_CHARACTERS]
        path = copy_file(length, i)
        path.write_text(passage + "\n\n" + book[begin + COPIED_CHARACTERS:begin + LENGTHS[length]] + "\n\n" + passage, "utf-8")
        paths.append(path)
    return paths


TASKS = [("full", FULL)] + [(name, words) for name, words, _ in FORMS if name != "sparse, above 5"]


def tasks(options, kept):
    def copied(length, words):
        losses = [losses_of(options, path, TASK_CONTEXT, [*EARLY, *words]) for path in copies(options, length)]
        if not all(losses):
            return ""
        # The last tokens are of the passage.
        return f"{statistics.fmean(statistics.fmean(of_text[-COPIED_TOKENS:]) for of_text in losses):.3f}"

    def found(length, name, words):
        def measured():
            print(f"measuring needles at {length}, {name}", file=sys.stderr, flush=True)
            said = run("env", f"XDG_CACHE_HOME={WORK}", options.program, "eval", options.model, "--no-plan",
                       *threads(options), "-c", TASK_CONTEXT, "--tasks", needles(options, length), "--first-word", "--json",
                       *EARLY, *words)
            return json.loads(said)["accuracy"]
        share = kept.get(f"needles {length} {name}", measured)
        return "" if share is None else f"{N_NEEDLES * share:.0f}"

    columns = [[take(length, *form) for form in TASKS]
               for length in LENGTHS for take in (lambda length, name, words: copied(length, words), found)]
    header = [text for length in LENGTHS for text in (f"{length}: copying {COPIED_TOKENS} tokens, nats",
                                                      f"of {N_NEEDLES} needles")]
    return table(["", *header], [[name, *cells] for (name, _), *cells in zip(TASKS, *columns)])


SHAPES = {"qwen2.5-0.5b": "Qwen2.5-0.5B", "qwen2-1.5b": "Qwen2-1.5B"}
PROMPTS = (2048, 4096, 8192, 16384)
LONGEST_KNOWN = 8192  # the real model's context: for longer prompts what it keeps there is taken
ROUNDS = 3
FEWER_ROUNDS = 2      # of prompts that long


def planted(options, kept):
    """Tokens a second of whole prompts with real shapes, where tiles keep by weight as much as the real model's do."""
    def share_of(length):
        def measured():
            said = run("env", f"XDG_CACHE_HOME={WORK}", options.program, "eval", options.model, "--no-plan", *threads(options),
                       "--prefill", "q8", "-c", length, "--estimate", "--json", "--attention", "full", "--perplexity",
                       beginning(options, CALIBRATION, BYTES))
            return round(100 * json.loads(said)["seen_by_weight"][-1]["share"])
        return kept.get(f"kept by weight {length}", measured)

    def measured(name, length, share):
        path = WORK / f"planted-{name}-{length}.gguf"
        path.parent.mkdir(parents=True, exist_ok=True)
        run(options.program, "synth", "--like", name, "--type", "q8_0", "--plant-attention", f"{share}%",
            "--plant-length", length, path)
        rounds = []
        for _ in range(ROUNDS if length <= LONGEST_KNOWN else FEWER_ROUNDS):
            rates = []
            for words in (FULL, ["--attention", "sparse"]):
                said = run(options.program, "bench", path, "--no-plan", *threads(options), "-c", length + 256, "-n", 1, "-r", 1,
                           "-p", length, "--prefill", options.prefill, "--json", *words)
                rates.append(json.loads(said)["prefill"][0]["tokens_per_s"])
            rounds.append(rates)
        path.unlink()
        return rounds

    rows = []
    for name, title in SHAPES.items():
        for length in PROMPTS:
            share = share_of(min(length, LONGEST_KNOWN))
            if share is None:
                continue
            rounds = kept.get(f"planted {name} {length} {options.prefill}",
                              lambda name=name, length=length, share=share: measured(name, length, share))
            if rounds is None:
                continue
            full, sparse = (statistics.median(rates[i] for rates in rounds) for i in (0, 1))
            ratio = statistics.median(rates[1] / rates[0] for rates in rounds)
            known = "" if length <= LONGEST_KNOWN else " (extrapolated)"
            rows.append([title, f"{length:,}", f"{share} %{known}", f"{full:.0f}", f"{sparse:.0f}", f"{ratio:.2f}"])
    if not rows:
        return "Not measured yet."
    return table([f"shapes, prompts in {options.prefill}", "prompt of", "kept by weight", "full, tokens a second", "sparse", "gain"], rows)


HOUSE = ROOT / "models" / "troika-silu-4k-q8_0.gguf"
HOUSE_TEXT = ROOT / "texts" / "the-river-bank.txt"  # no training saw it; its first half is what is calibrated on
HEAD_SCALES = 4


def scales(options, kept):
    """Recall, clipping and loss by where scales come from, as a house model has them and as they are planted in it."""
    text = HOUSE_TEXT.read_text("utf-8")
    halves = [WORK / "scales-calibration.txt", WORK / "scales-held-out.txt"]
    WORK.mkdir(parents=True, exist_ok=True)
    for path, part in zip(halves, (text[:len(text) // 2], text[len(text) // 2:])):
        path.write_text(part, "utf-8")
    spread = WORK / "scales.gguf"

    def measured(model, name):
        folder = WORK / f"scales-{name}"
        if model == spread:
            run(options.program, "synth", "--plant-outliers", HOUSE, "--scale", 1, "--head-scales", HEAD_SCALES, spread)
        shutil.rmtree(folder, ignore_errors=True)
        use = ["env", f"XDG_CACHE_HOME={folder}", options.program]
        run(*use, "tune", model, "--text", halves[0], "--prefill", "q8", "--seconds", 60, "--prompts", 512, *threads(options))
        read = ["-c", PROMPT, "--perplexity", halves[1], *threads(options)]
        found = json.loads(run(*use, "eval", model, *read, "--estimate", "--json", "--attention", "full"))

        def losses(*words):
            path = folder / "losses.txt"
            run(*use, "eval", model, *read, "--losses", path, *words)
            return [float(line) for line in path.read_text("utf-8").split()]

        full = losses(*FULL)
        found["lost"] = {str(buckets): compared(full, losses(*QUERY, *(["--attention-buckets", buckets] if buckets else [])))
                         for buckets in (0, 1, 5, 9)}
        return found

    rows = {}
    for model, name in ((HOUSE, "as it is"), (spread, "spread")):
        found = kept.get(f"scales {name}", lambda model=model, name=name: measured(model, name.replace(" ", "-")))
        if found is None:
            return "Not measured yet."
        for way in found["ways"]:
            buckets = int(way["name"].split()[0]) if "fixed" in way["name"] else 0
            lost = found["lost"][str(buckets)] if buckets or way["name"].startswith("a scale") else None
            rows.setdefault(way["name"], []).extend([
                f"{100 * way['recall'][0]:.2f} %", f"{100 * way['clipped']['queries']:.2f} %, {100 * way['clipped']['keys']:.2f} %",
                f"{lost[0]:+.2f} ± {lost[1]:.2f} %" if lost else ""])
    header = [f"{what}, {name}" for name in ("as it is", "spread")
              for what in ("recall of the best fifth", "clipped of queries, of keys", "perplexity, 20 %")]
    return table(["scales", *header], [[name, *cells] for name, cells in rows.items()])


def kept_losses(command):
    """The files of losses that a command wants, but for those with a tuned plan."""
    if command == "accuracy":
        forms = [(FULL, BYTES), *((words, n_bytes) for _, words, n_bytes in FORMS)]
        return [losses_file(part_of(name, n_bytes), window, words) for name in TEXTS.values() for window in WINDOWS for words, n_bytes in forms]
    if command == "ablation":
        text = TEXTS["WikiText-2"]
        return [losses_file(part_of(text, BYTES if words == FULL else FEWER_BYTES), PROMPT, words) for _, words, rule, _ in ABLATION if not rule]
    if command == "tasks":
        return [losses_file(copy_file(length, i), TASK_CONTEXT, [*EARLY, *words])
                for length in LENGTHS for i in range(N_COPIES) for _, words in TASKS]
    return []


def forget(options, kept):
    """What the command measured. The tuned plans are those of `ablation`: whoever tunes again judges them again too."""
    for beginning_of_key in {"tasks": ["needles"], "planted": ["planted", "kept by weight"]}.get(options.command, [options.command]):
        kept.forget(beginning_of_key)
    paths = kept_losses(options.command) if options.losses else []
    if options.command == "ablation":
        for folder in {tuned_folder(rule, 20) for _, _, rule, _ in ABLATION if rule}:
            shutil.rmtree(folder, ignore_errors=True)
            paths.extend((WORK / "losses").glob(f"*-{folder.name}-*"))
    for path in paths:
        path.unlink(missing_ok=True)


COMMANDS = {"accuracy": accuracy, "ablation": ablation, "tasks": tasks, "estimate": estimate, "planted": planted,
            "scales": scales}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--kept", action="store_true")
    parser.add_argument("--no-times", dest="times", action="store_false")
    parser.add_argument("--no-losses", dest="losses", action="store_false")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--prefill", default="int8", help="how `planted` computes prompts")
    parser.add_argument("--data", default=os.environ.get("TROIKA_DATA", ""))
    parser.add_argument("--program", default=str(ROOT / "build" / "release" / "troika"))
    options = parser.parse_args()
    options.may_measure = not options.kept
    if options.command != "scales":  # takes a model that comes along
        options.model = run(sys.executable, ROOT / "scripts" / "real_model.py").strip()
    kept = Kept(WORK / "results.json", may_measure=not options.kept)
    if options.again:
        forget(options, kept)
    text = COMMANDS[options.command](options, kept)
    PAGE.write_text(replace(PAGE.read_text("utf-8"), options.command, text), "utf-8")
    print(text)


if __name__ == "__main__":
    main()
