"""Reads the source texts: repairs them, makes them plain ASCII, and keeps held-out text out of training."""

import json
import re
from collections import Counter
from pathlib import Path

HELD_OUT_BOOKS = ("the-wind-in-the-willows.txt", "the-wonderful-wizard-of-oz.txt")
N_HELD_OUT_STORIES = 200
RUN_WORDS = 16  # no training text shares so many words in a row with a held-out text

ASCII = {
    "\u2018": "'", "\u2019": "'", "\u201a": "'", "\u201b": "'", "\u201c": '"', "\u201d": '"',
    "\u201e": '"', "\u2013": "-", "\u2014": "--", "\u2026": "...", "\u00a0": " ", "\u00e9": "e",
    "\u00ea": "e", "\u00e8": "e", "\u00e0": "a", "\u0153": "oe", "\u00f1": "n", "\u00fc": "u",
}  # fmt: skip


def undo_double_encoding(text):
    """Text that was read as Windows-1252 and written as UTF-8 once too often: puts it back."""

    def fix(match):
        raw = bytearray()
        for c in match.group():
            try:
                raw += c.encode("cp1252")
            except UnicodeEncodeError:
                if ord(c) > 255:  # cp1252 leaves five bytes undefined: those came through as they were
                    return match.group()
                raw.append(ord(c))
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            return match.group()

    return re.sub("[\u0080-\uffff]+", fix, text)


def to_ascii(text):
    """Plain ASCII with plain quotes; what has no plain form is dropped. Spaces at line ends go too."""
    text = undo_double_encoding(text)
    text = text.replace("\u00e2\u20ac", '"')  # a doubly encoded closing quote that lost its last byte
    text = "".join(c if c < "\x7f" else ASCII.get(c, "") for c in text)
    text = re.sub(r"[^\n\x20-\x7e]+", " ", text)
    return re.sub(r"\n{3,}", "\n\n", re.sub(r" +\n", "\n", text)).strip()


def words(text):
    """Lower case, no punctuation: the form in which texts are compared."""
    return re.sub(r"[^a-z0-9\s]+", "", to_ascii(text).lower()).split()


def runs(text, n=RUN_WORDS):
    w = words(text)
    return {" ".join(w[i : i + n]) for i in range(len(w) - n + 1)}


def read_stories_json(folder):
    return [to_ascii(s) for s in json.loads((folder / "text/tinystories_1000.json").read_text("utf-8"))]


def learn_names(texts):
    """Words that carry a capital in the middle of a sentence nearly always: names."""
    upper, lower = Counter(), Counter()
    for text in texts:
        for word in re.findall(r"(?<=[a-z,] )[A-Za-z]+", text):
            (upper if word[0].isupper() else lower)[word.lower()] += 1
    return {w for w, n in upper.items() if n >= 2 and n > 4 * lower[w] and len(w) > 1}


def restore_capitals(text, names):
    """For lower-cased text: sentence starts, quotations, "I", and known names."""
    text = re.sub(r"\bi\b", "I", text)
    names = names | set(re.findall(r"\b(?:named|called) ([a-z]{2,})\b(?! the | a )", text))
    text = re.sub(r"[a-z]+", lambda m: m.group().capitalize() if m.group() in names else m.group(), text)
    text = re.sub(r'(^|[.!?]"? |\n|(?:^|\s)")([a-z])', lambda m: m.group(1) + m.group(2).upper(), text)
    # A quotation that goes on after ("..., " he said, "...") is taken for a start: close enough.
    return re.sub(r'([!?]" )(Asked|Said|He said|She said|They said)\b', lambda m: m.group().lower(), text)


def read_lower_case_stories(folder, names):
    """One story ends at a single line break; a blank line only divides paragraphs."""
    path = folder / "text/tinystories.txt"
    if not path.exists():
        return []
    text = to_ascii(path.read_text("utf-8", "replace"))
    stories = []
    for piece in re.split(r"(?<!\n)\n(?!\n)", text):
        if len(piece) < 250 and stories:
            stories[-1] += "\n\n" + piece.strip()
        else:
            stories.append(piece.strip())
    return [restore_capitals(s, names) for s in stories if len(s) > 150]


def read_books(folder, wanted=None):
    books = {}
    for path in sorted((folder / "text/books").glob("*.txt")):
        if wanted is None or wanted(path.name):
            books[path.name] = to_ascii(path.read_text("utf-8", "replace"))
    return books


class Corpus:
    """Training texts and held-out texts of one data folder, with nothing in common."""

    def __init__(self, folder):
        folder = Path(folder)
        stories = read_stories_json(folder)
        self.held_out_stories = stories[:N_HELD_OUT_STORIES]
        books = read_books(folder)
        if not set(HELD_OUT_BOOKS) < set(books):
            raise SystemExit(f"{folder}/text/books lacks the books to hold out: {HELD_OUT_BOOKS}")
        self.held_out_books = {n: books.pop(n) for n in HELD_OUT_BOOKS}
        held = set()
        for text in [*self.held_out_stories, *self.held_out_books.values()]:
            held |= runs(text)
        self.dropped = Counter()
        self.books = {name: self._clean_book(text, held) for name, text in books.items()}
        cased = stories[N_HELD_OUT_STORIES:]
        self.stories = []
        seen = set(held)
        more = read_lower_case_stories(folder, learn_names(cased))
        for story in cased + more:
            found = runs(story)
            if found & seen:
                self.dropped["stories"] += 1
                continue
            seen |= found
            self.stories.append(story)

    def _clean_book(self, text, held):
        """Drops paragraphs that share a run with held-out text, also where the run crosses a break."""
        paragraphs = text.split("\n\n")
        while True:
            owner, flat = [], []
            for i, p in enumerate(paragraphs):
                w = words(p)
                flat += w
                owner += [i] * len(w)
            bad = set()
            for i in range(len(flat) - RUN_WORDS + 1):
                if " ".join(flat[i : i + RUN_WORDS]) in held:
                    bad |= set(owner[i : i + RUN_WORDS])
            if not bad:
                return "\n\n".join(paragraphs)
            self.dropped["paragraphs"] += len(bad)
            paragraphs = [p for i, p in enumerate(paragraphs) if i not in bad]
