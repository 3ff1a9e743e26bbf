#!/usr/bin/env python3
"""Measures the real model and writes the tables of docs/real-model.md, one command for each.

Usage: scripts/real_model_tables.py outliers|perplexity|pruning|drafts [--again] [--data FOLDER] [--program FILE] [--threads N]
       scripts/real_model_tables.py peer --peer FOLDER [--again] [--data FOLDER] [--program FILE]

The model is what scripts/real_model.py fetches. The data folder is $TROIKA_DATA or --data; `peer` wants a folder with
llama-perplexity and llama-completion. Every result is kept in build/real-model/results.json as soon as it is measured, so
that an interrupted table goes on where it stopped; --again forgets those of the command first. --kept measures nothing
and writes the tables of `perplexity`, `pruning` and `peer` with what is there.
"""
import argparse
import collections
import json
import os
import pathlib
import statistics
import sys

import real_model
import real_model_drafts
import real_model_peer
from real_model_data import WORK, beginning, data_file, work_file
from tables import ROOT, Kept, replace, run, table

PAGE = ROOT / "docs" / "real-model.md"
CALIBRATION = "text/books/the-wind-in-the-willows.txt"
CALIBRATION_TOKENS = 2048
TEXTS = {"WikiText": "text/wikitext2.test.txt", "book": "text/books/the-wonderful-wizard-of-oz.txt"}
CHARACTERS = 40000  # of each text
WINDOW = 1024
LAST_WORDS = "tasks/lambada.part1.jsonl"
N_LAST_WORDS = 200
FLOAT = ("--activations", "f32", "--kv", "f32", "-c", WINDOW)
# Ways to compute prompts without a calibration: what people call them, and the options.
PLAIN = {
    "float": (*FLOAT, "--prefill", "f32"),
    "`--prefill bf16`": (*FLOAT, "--prefill", "bf16"),
    "`--prefill q8`": ("--kv", "f32", "-c", WINDOW, "--prefill", "q8"),
    "`--prefill same`": ("--kv", "f32", "-c", WINDOW, "--prefill", "same"),
}
METHODS = ("group", "token", "llm.int8", "smooth", "static", "shadow", "token-shadow")
RATES = (0, 50, 70, 85)
PRUNED = ("shadow", "token-shadow")
COLUMNS = (*TEXTS, "last words right", "the calibration's own text")
# The weight that first reads each input of a block, and what the input is.
READERS = {"attn_q": "query, key, value", "attn_output": "attention output", "ffn_gate": "gate, up", "ffn_down": "down"}


def last_word_task(text):
    """A text whose last word is the answer."""
    prompt, answer = text.rstrip().rsplit(None, 1)
    return {"prompt": prompt, "answer": answer}


def last_words(options):
    lines = data_file(options, LAST_WORDS).read_text("utf-8").splitlines()[:N_LAST_WORDS]
    tasks = [last_word_task(json.loads(line)["text"]) for line in lines]
    return work_file("last-words.jsonl", "".join(json.dumps(task) + "\n" for task in tasks))


def calibrated_plan():
    return WORK / f"plan-{CALIBRATION_TOKENS}.json"


def calibrated(options):
    """The plan of the calibration with every method; made once."""
    plan = calibrated_plan()
    if not plan.exists():
        plan.parent.mkdir(parents=True, exist_ok=True)
        print("calibrating, the longest part", file=sys.stderr, flush=True)
        run(options.program, "plan", options.model, "-t", options.threads, *FLOAT, "--calibrate", data_file(options, CALIBRATION),
            "--calibrate-tokens", CALIBRATION_TOKENS, "--alternatives", "-o", plan)
    return plan


def judged(options, kept, ways):
    """Perplexity of the texts and the share of last words, by the name of each way to compute prompts. Texts come first for
    all ways: they say more than some words."""
    def text(how, name):
        return json.loads(run(options.program, "eval", options.model, "-t", options.threads, *how, "--perplexity",
                              beginning(options, TEXTS[name], CHARACTERS), "--json"))

    def words(how):
        return json.loads(run(options.program, "eval", options.model, "-t", options.threads, *how, "--tasks", last_words(options),
                              "--first-word", "--json"))

    found = {key: {} for key in ways}
    for name in TEXTS:
        for key, how in ways.items():
            found[key][name] = kept.get(f"judged, {key}: {CHARACTERS} of {name}", lambda h=how, n=name: text(h, n))
    for key, how in ways.items():
        found[key]["last words"] = kept.get(f"judged, {key}: {N_LAST_WORDS} last words", lambda h=how: words(h))
    return found


def int8_options(options, method, prune=0):
    return ("--plan", calibrated(options), "--prefill", "int8", "--int8", method, "--outlier-prune", prune)


def calibration_loss(options, method, prune):
    """What the calibration itself measured over its own text, or nothing."""
    for loss in json.loads(calibrated(options).read_text("utf-8"))["int8"]["losses"]:
        if (loss["method"], loss["outlier_prune"]) == (method, prune):
            return f"{100 * loss['loss']:+.2f} %"
    return ""


def judged_cells(found, reference):
    """Of the reference its own figures, of another way what it changes; nothing where nothing was measured."""
    cells = []
    for name in TEXTS:
        if not found[name]:
            cells.append("")
        elif found is reference:
            cells.append(f"{found[name]['perplexity']:.3f}")
        else:
            cells.append(f"{100 * (found[name]['perplexity'] / reference[name]['perplexity'] - 1):+.2f} %")
    words = found["last words"]
    return [*cells, f"{round(words['accuracy'] * words['n'])} of {words['n']}" if words else ""]


def conditions(reference):
    """What the figures were measured on, in a sentence."""
    texts = [f"{reference[name]['tokens']} tokens of `{pathlib.Path(file).name}`" for name, file in TEXTS.items()]
    return (f"{' and '.join(texts)} in windows of {WINDOW} tokens, and the last words of {N_LAST_WORDS} passages of "
            f"`{pathlib.Path(LAST_WORDS).name}`; scales from some {CALIBRATION_TOKENS} tokens of "
            f"`{pathlib.Path(CALIBRATION).name}`. Of float the perplexity, of the others its change.")


def judged_table(options, kept, ways):
    """Float, and each of the ways beside it: shown as → (key of what is kept, options, what the calibration measured)."""
    found = judged(options, kept, {"float": PLAIN["float"], **{key: how for key, how, _ in ways.values()}})
    reference = found["float"]
    own = json.loads(calibrated(options).read_text("utf-8"))["int8"]["perplexity"]
    rows = [["float", *judged_cells(reference, reference), f"{own:.3f}"]]
    rows += [[shown, *judged_cells(found[key], reference), loss] for shown, (key, _, loss) in ways.items()]
    return f"{conditions(reference)}\n\n{table(['prompts', *COLUMNS], rows)}"


def perplexity(options, kept):
    ways = {name: (name.strip("`"), how, "") for name, how in PLAIN.items() if name != "float"}
    for method in METHODS:
        # Methods without outliers beside have nothing to ignore, and the calibration calls that all of them.
        loss = calibration_loss(options, method, 0 if method in PRUNED else 100)
        ways[f"`{method}`"] = (f"{method} 0 %", int8_options(options, method), loss)
    return {"perplexity": judged_table(options, kept, ways)}


def pruning(options, kept):
    ways = {}
    for rate in RATES:
        for method in PRUNED:
            loss = calibration_loss(options, method, rate)
            ways[f"`{method}`, {rate} % ignored"] = (f"{method} {rate} %", int8_options(options, method, rate), loss)
    return {"pruning": judged_table(options, kept, ways)}


def layer_and_kind(weight):
    _, layer, reader, _ = weight.split(".")
    return int(layer), READERS[reader]


def channel_maxima(hexadecimal):
    """The largest magnitude of each channel, from the bfloat16 digits of a plan: sign and exponent of a float, 7 bits of
    its fraction."""
    def value(digits):
        bits = int(digits, 16)
        exponent, fraction = bits >> 7 & 0xFF, bits & 0x7F
        return (fraction / 128 + (exponent > 0)) * 2.0 ** (max(exponent, 1) - 127)

    return [value(hexadecimal[i:i + 4]) for i in range(0, len(hexadecimal), 4)]


def peak(entry):
    """The largest channel over the median one."""
    maxima = channel_maxima(entry["channel_largest"])
    median = statistics.median(maxima)
    return max(maxima) / median if median else 0.0


def kind_rows(inputs):
    """For each kind of input: how far its outliers reach, how many there are, and in how few channels they lie."""
    rows = []
    for kind in READERS.values():
        found = [entry for entry in inputs if layer_and_kind(entry["weight"])[1] == kind]
        if not found:
            continue
        ratios = [entry["largest"] / entry["limit"] for entry in found]
        worst = found[ratios.index(max(ratios))]
        width = len(channel_maxima(found[0]["channel_largest"]))
        hot = statistics.mean(len(entry["hot_channels"]) for entry in found)
        rows.append([kind, f"{statistics.median(ratios):.1f}", f"{max(ratios):.0f} (layer {layer_and_kind(worst['weight'])[0]})",
                     f"{statistics.median(map(peak, found)):.1f}", f"{max(map(peak, found)):.0f}",
                     f"{statistics.mean(entry['outliers_per_token'] for entry in found):.2f} of {width}",
                     f"{hot:.1f}"])
    return rows


def top_rows(inputs, n=10):
    order = sorted(inputs, key=lambda entry: entry["limit"] / entry["largest"] if entry["largest"] else 1.0)
    rows = []
    for entry in order[:n]:
        layer, kind = layer_and_kind(entry["weight"])
        maxima = channel_maxima(entry["channel_largest"])
        rows.append([layer, kind, f"{entry['largest']:.4g}", f"{entry['limit']:.3g}", f"{entry['largest'] / entry['limit']:.1f}",
                     maxima.index(max(maxima)), f"{entry['outliers_per_token']:.2f}", len(entry["hot_channels"])])
    return rows


def common_channels(inputs, n=6):
    """Channels of the residual stream that are hot in most blocks: (channel, in how many inputs)."""
    residual = [entry for entry in inputs if layer_and_kind(entry["weight"])[1] in ("query, key, value", "gate, up")]
    count = collections.Counter(channel for entry in residual for channel in entry["hot_channels"])
    return count.most_common(n), len(residual)


def outliers(options, kept):
    del kept  # the plan itself is kept
    int8 = json.loads(calibrated(options).read_text("utf-8"))["int8"]
    inputs = int8["inputs"]
    common, n = common_channels(inputs)
    shown = ", ".join(f"{channel} ({times})" for channel, times in common)
    by_kind = table(["input of", "largest / limit: median", "most", "largest channel / median channel: median", "most",
                     "outliers a token", "hot channels"], kind_rows(inputs))
    top = table(["layer", "input of", "largest", "limit", "largest / limit", "its channel", "outliers a token", "hot channels"],
                top_rows(inputs))
    text = (f"{int8['tokens']} tokens of `{pathlib.Path(CALIBRATION).name}`; within the limits lie "
            f"{100 * int8['quantile']:g} % of the magnitudes, and no limit is below a 4,096th of the largest."
            f"\n\n{by_kind}\n\nThe inputs that reach farthest:\n\n{top}\n\nChannels that are hot in most of the {n} inputs that read the residual stream: {shown}.")
    return {"outliers": text}


COMMANDS = {"outliers": outliers, "perplexity": perplexity, "pruning": pruning,
            "peer": real_model_peer.tables, "drafts": real_model_drafts.tables}


def forget(command, kept):
    """What the command measured; whoever calibrates again judges again too."""
    if command == "outliers":
        calibrated_plan().unlink(missing_ok=True)
    if command == "peer":
        real_model_peer.forget()
    kept.forget(command if command in ("peer", "drafts") else "judged")


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--data", default=os.environ.get("TROIKA_DATA"))
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "release" / "troika")
    parser.add_argument("--peer", type=pathlib.Path, help="folder of llama-perplexity and llama-completion")
    parser.add_argument("--threads", type=int, default=2, help="changes no figure but times")
    parser.add_argument("--kept", action="store_true", help="measure nothing: write what is kept; missing cells stay empty")
    parser.add_argument("--again", action="store_true", help="forget what is kept of this command")
    return parser.parse_args(arguments)


def main():
    options = options_of(sys.argv[1:])
    options.model = real_model.cache_folder() / real_model.NAME
    if not options.model.exists():
        sys.exit(f"error: {options.model} is not there. Run scripts/real_model.py once to fetch it.")
    if not options.program.exists():
        sys.exit(f"error: {options.program} is not there. Build it, or name another with --program.")
    kept = Kept(WORK / "results.json", may_measure=not options.kept)
    if options.again:
        forget(options.command, kept)
    written = COMMANDS[options.command](options, kept)
    page = PAGE.read_text("utf-8")  # only now: another table may have been written meanwhile
    for name, text in written.items():
        page = replace(page, name, text)
    PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
