"""Writes the table `house` of docs/shadowattn.md: what each form of attention costs a house model that attends over 4,096
positions, measured by `troika` on held-out books and values.

    python3 models/train/distant_table.py MODEL.gguf OUT/prepared [--texts 10] [--program build/release/troika]

OUT/prepared is what prepare.py made. Nothing of it is timed, so that other work may run beside it.
"""

import argparse
import math
import statistics
import sys
import tempfile
from pathlib import Path

import bpe
import distant

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))
import attention_tables
import tables

SIZES = (1024, 2048, 4096)  # tokens of a text with its questions
N_COPIES = 6  # texts that end as they begin, of each size
KINDS = {"needles": "sentences", "pairs": "pairs"}
MORE_FORMS = [("each query, 5 %", ["--attention", "query", "--attention-share", 5], 0),
              ("blocks of 64, 5 %", ["--attention", "block", "--attention-share", 5], 0)]  # fmt: skip
SURE = math.log(2)  # a token that loses less is likelier than all others together


class Measured:
    """One model and the texts that it is asked about."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.tokenizer = bpe.Tokenizer.of_file(options.model)
        v, books = distant.held_out_side(options.prepared, self.tokenizer, options.seed)
        self.asked = {
            (kind, size): [distant.answered(v, self.tokenizer, books, kind, size) for _ in range(options.texts)]
            for kind in KINDS
            for size in SIZES
        }
        made = distant.held_out(options.prepared, self.tokenizer, SIZES, N_COPIES, options.seed)
        self.copies = {size: [e for e in made if e["kind"] == "copies" and e["tokens"] == size] for size in SIZES}
        paths = sorted((options.prepared / "held_out/books").glob("*.txt"))
        self.text = "\n\n".join(p.read_text("utf-8")[: options.characters] for p in paths)

    def losses(self, text, words):
        given, out = self.folder / "text.txt", self.folder / "losses.txt"
        given.write_text(text, "utf-8")
        program, model = self.options.program, self.options.model
        tables.run(program, "eval", model, "--no-plan", "-c", SIZES[-1], "--perplexity", given, "--losses", out, *words)
        return [float(line) for line in out.read_text("utf-8").split()]

    def found(self, kind, size, words):
        """The share of the answers in percent whose every token the model holds for likelier than all others together."""
        right = []
        for text, answers in self.asked[kind, size]:
            losses = self.losses(text, words)
            right += [all(x < SURE for x in losses[len(losses) - begin :][:length]) for begin, length in answers]
        return 100 * sum(right) / len(right)

    def copied(self, size, words):
        """Nats per token of the ends of texts that end as they begin."""
        means = []
        for e in self.copies[size]:
            n = len(self.tokenizer.encode(e["answer"]))
            means.append(statistics.fmean(self.losses(e["prompt"] + e["answer"], words)[-n:]))
        return statistics.fmean(means)


def rows(measured):
    full = None
    for name, words, _ in [("full", attention_tables.FULL, 0), *attention_tables.FORMS, *MORE_FORMS]:
        print(f"measuring {name}", file=sys.stderr, flush=True)
        losses = measured.losses(measured.text, words)
        if full is None:
            full, text = losses, f"{math.exp(statistics.fmean(losses)):.2f}"
        else:
            change, interval = attention_tables.compared(full, losses)
            text = f"{change:+.2f} ± {interval:.2f} %"
        early = [*words, *attention_tables.EARLY]
        found = [f"{measured.found(kind, size, early):.0f} %" for kind in KINDS for size in SIZES]
        yield [name, text, *found, *(f"{measured.copied(size, early):.2f}" for size in SIZES)]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", type=Path)
    p.add_argument("prepared", type=Path)
    p.add_argument("--texts", type=int, default=10, help="of each kind and length, with ten questions each")
    p.add_argument("--characters", type=int, default=60000, help="of each held-out book, for the perplexity")
    p.add_argument("--program", type=Path, default=ROOT / "build/release/troika")
    p.add_argument("--page", type=Path, default=ROOT / "docs/shadowattn.md")
    p.add_argument("--seed", type=int, default=4)
    options = p.parse_args()
    kinds = [f"{title}, {size:,}" for title in KINDS.values() for size in SIZES]
    header = ["", "books, perplexity", *kinds, *(f"copying, nats, {size:,}" for size in SIZES)]
    with tempfile.TemporaryDirectory() as folder:
        text = tables.table(header, rows(Measured(options, Path(folder))))
    options.page.write_text(tables.replace(options.page.read_text("utf-8"), "house", text), "utf-8")
    print(text)


if __name__ == "__main__":
    main()
