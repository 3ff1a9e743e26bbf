"""Byte-level BPE: training and encoding, in the form that a GGUF file calls "gpt2" / "gpt-2".

Text is divided by GPT-2's expression, the bytes of each piece are written as printable characters, and
neighbours are merged in the order of the list. Two digits are never merged, so that numbers are spelled.
"""

import json
import re
import unicodedata
from collections import Counter, defaultdict

import gguf

SPECIAL = ("<s>", "</s>", "<|system|>", "<|user|>", "<|assistant|>", "<|unused|>")
BOS, EOS, SYSTEM, USER, ASSISTANT = range(5)

CHAT_TEMPLATE = (
    "{{ '<s>' }}{% for message in messages %}"
    "{% if message['role'] not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('This model knows the roles system, user and assistant only.') }}{% endif %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '</s>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)

# 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ , for text whose
# non-ASCII characters were replaced by a letter, a digit, a mark or a tab of the same class.
PIECE = re.compile(
    r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+", re.ASCII
)


def _class_of(c):
    if c < "\x80":
        return "!" if "\x1c" <= c <= "\x1f" else c
    kind = unicodedata.category(c)[0]
    if kind in "LN":
        return "x" if kind == "L" else "0"
    return "\t" if c.isspace() else "!"


def pieces(text):
    if text.isascii() and not re.search("[\x1c-\x1f]", text):
        return PIECE.findall(text)
    spans = PIECE.finditer("".join(map(_class_of, text)))
    return [text[m.start() : m.end()] for m in spans]


def byte_alphabet():
    """GPT-2's table: the 188 visible Latin-1 bytes stand for themselves, the others move above 255."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {b: chr(b) for b in visible}
    hidden = [b for b in range(256) if b not in table]
    table.update({b: chr(256 + i) for i, b in enumerate(hidden)})
    return [table[b] for b in range(256)]


ALPHABET = byte_alphabet()
UNBYTE = {c: b for b, c in enumerate(ALPHABET)}


def train(texts, n_vocab):
    """Returns the merges as pairs of strings, most frequent pair first, ties by spelling."""
    counts = Counter()
    for text in texts:
        counts.update(pieces(text))
    split = [[ALPHABET[b] for b in w.encode()] for w in counts]
    weight = list(counts.values())
    pairs, where = Counter(), defaultdict(set)
    for i, w in enumerate(split):
        for pair in zip(w, w[1:]):
            pairs[pair] += weight[i]
            where[pair].add(i)
    for pair in [p for p in pairs if p[0][-1:].isdigit() or p[1][:1].isdigit()]:
        del pairs[pair]
    merges = []
    while len(merges) < n_vocab - len(SPECIAL) - 256 and pairs:
        best = max(pairs, key=lambda p: (pairs[p], p))
        if pairs[best] < 2:
            break
        merges.append(best)
        for i in where.pop(best):
            old, new, j = split[i], [], 0
            while j < len(old):
                if j + 1 < len(old) and (old[j], old[j + 1]) == best:
                    new.append(old[j] + old[j + 1])
                    j += 2
                else:
                    new.append(old[j])
                    j += 1
            split[i] = new
            for pair in zip(old, old[1:]):
                if pair in pairs:
                    pairs[pair] -= weight[i]
            for pair in zip(new, new[1:]):
                if not (pair[0][-1].isdigit() or pair[1][0].isdigit()):
                    pairs[pair] += weight[i]
                    where[pair].add(i)
        del pairs[best]
    return merges


class Tokenizer:
    def __init__(self, merges):
        self.merges = [tuple(m) for m in merges]
        self.tokens = [*SPECIAL, *ALPHABET, *(a + b for a, b in self.merges)]
        self.ids = {}
        for i, t in enumerate(self.tokens):
            self.ids.setdefault(t, i)
        self.rank = {m: i for i, m in enumerate(self.merges)}
        self._cache = {}

    def _encode_piece(self, piece):
        parts = [ALPHABET[b] for b in piece.encode()]
        while len(parts) > 1:
            ranks = [self.rank.get(p, len(self.rank)) for p in zip(parts, parts[1:])]
            low = min(ranks)
            if low == len(self.rank):
                break
            a, b = self.merges[low]
            merged, j = [], 0
            while j < len(parts):
                if j + 1 < len(parts) and parts[j] == a and parts[j + 1] == b:
                    merged.append(a + b)
                    j += 2
                else:
                    merged.append(parts[j])
                    j += 1
            parts = merged
        return [self.ids[p] for p in parts]

    def encode(self, text):
        """Plain text: names of special tokens in it are not special."""
        out = []
        for piece in pieces(text):
            ids = self._cache.get(piece)
            if ids is None:
                ids = self._cache[piece] = self._encode_piece(piece)
            out += ids
        return out

    def decode(self, ids):
        """Special tokens are left out."""
        raw = bytes(UNBYTE[c] for i in ids if i >= len(SPECIAL) for c in self.tokens[i])
        return raw.decode("utf-8", "replace")

    def save(self, path):
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"merges": [" ".join(m) for m in self.merges]}, f, ensure_ascii=False, indent=0)

    @staticmethod
    def load(path):
        with open(path, encoding="utf-8") as f:
            return Tokenizer([m.split(" ") for m in json.load(f)["merges"]])

    @staticmethod
    def of_file(path):
        """The tokenizer of a GGUF file."""
        return Tokenizer([m.split(" ") for m in gguf.Reader(path).metadata["tokenizer.ggml.merges"]])
