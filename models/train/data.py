"""Rows of training tokens from the three streams of train.npz, in a seeded order that can be resumed."""

import numpy as np

from bpe import SPECIAL

BOOK_CHUNK = 2048


def shares(progress):
    """Shares of the tokens of a round that are no echo, by the share of the training that is done.

    Books first, for their words; once the model copies and answers, more stories, for what people ask it for.
    """
    late = progress >= 0.56
    return {"books": 0.20, "stories": 0.40, "tasks": 0.40} if late else {"books": 0.30, "stories": 0.20, "tasks": 0.50}


def echoes(progress):
    """Share of the rows of a round that are echoes, by the share of the training that is done.

    First the language: with echoes from the start copying began later than with echoes that came to a model
    that knew some words. Then many, until it copies; some to the end, or it would forget.
    """
    return 0.0 if progress < 0.22 else 0.4 if progress < 0.36 else 0.1


def echo_row(rng, size, vocab, text):
    """Spans of tokens, more than half of which stood earlier in the row: pieces of the books, or random tokens.
    Only what stood there before is learned, and not where a repetition begins.

    Copying from the context is what the tasks need first. Rows like these teach it with every other token, where
    a task has a few: without them four million tokens taught it nothing.
    """
    tokens, weights = np.zeros(size, np.int32), np.zeros(size, np.uint8)
    spans, at = [], 0
    while at < size:
        again = bool(spans) and rng.random() < 0.6
        if again:
            span = spans[rng.integers(len(spans))]
            span = span[rng.integers(max(1, len(span) - 6)) :]  # also from its middle
        else:
            n = int(rng.integers(4, 32))
            if rng.random() < 0.6:
                span = rng.integers(len(SPECIAL), vocab, n).astype(np.int32)
            else:
                start = int(rng.integers(max(1, len(text) - n)))
                span = text[start : start + n]
            spans.append(span)
        part = span[: size - at]
        tokens[at : at + len(part)] = part
        if again:
            weights[at + 1 : at + len(part)] = 1
        at += len(part)
    return tokens, weights


class Stream:
    """Documents in a new seeded order on each pass. `position` counts documents since the start."""

    def __init__(self, name, count, seed, position=0):
        self.name, self.count, self.seed, self.position = name, count, seed, position
        self._pass, self._order = None, None

    def next(self):
        which, i = divmod(self.position, self.count)
        if which != self._pass:
            salt = sum(self.name.encode())
            self._pass, self._order = which, np.random.default_rng([self.seed, salt, which]).permutation(self.count)
        self.position += 1
        return int(self._order[i])


class Rows:
    """Batches (tokens, targets, weights). A task is never cut: what is left of its row is filled from the
    books, and one that is longer than the rows of its round is left out, for its end has the answers. A story goes
    on in the next row."""

    def __init__(self, arrays, seed, round_tokens, n_vocab, state=None):
        self.a = arrays
        self.seed, self.round_tokens, self.n_vocab = seed, round_tokens, n_vocab
        counts = {n: len(arrays[f"{n}_offsets"]) - 1 for n in ("stories", "tasks")}
        counts["books"] = max(1, len(arrays["books"]) // BOOK_CHUNK)
        self.streams = {n: Stream(n, c, seed, (state or {}).get(n, 0)) for n, c in sorted(counts.items())}
        self.round = (state or {}).get("round", 0)
        self.pending = (state or {}).get("pending")  # the task that had no room in the round before

    def state(self):
        """Where the next round begins."""
        return {"round": self.round, "pending": self.pending, **{n: s.position for n, s in self.streams.items()}}

    def _document(self, name):
        return self._read(name, self.streams[name].next())

    def _read(self, name, i):
        if name == "books":
            tokens = self.a["books"][i * BOOK_CHUNK : (i + 1) * BOOK_CHUNK]
            return tokens, np.ones(len(tokens), np.uint8)
        start, end = self.a[f"{name}_offsets"][i : i + 2]
        return self.a[f"{name}_tokens"][start:end], self.a[f"{name}_weights"][start:end]

    def _task(self, size):
        """The task that waits, or the next one, that is no longer than a row; nothing where all are longer."""
        for _ in range(self.streams["tasks"].count + 1):
            i = self.streams["tasks"].next() if self.pending is None else self.pending
            self.pending = None
            tokens, weights = self._read("tasks", i)
            if len(tokens) <= size:
                self.pending = i
                return tokens, weights
        return None

    def rows(self, length, echo_share=0.0, progress=0.0):
        """The rows of one round, `length` tokens and one more for the last target."""
        share = shares(progress)
        size = length + 1
        n_rows = max(1, self.round_tokens // size)
        n_echo = round(n_rows * echo_share)
        n_text = n_echo + round((n_rows - n_echo) * (1 - share["tasks"] * 1.1))
        tokens = np.zeros((n_rows, size), np.int32)
        weights = np.zeros((n_rows, size), np.uint8)
        text_t, text_w = self._text(n_rows * size, share)
        used = 0

        def fill(row, at):
            nonlocal used
            n = size - at
            tokens[row, at:], weights[row, at:] = text_t[used : used + n], text_w[used : used + n]
            used += n

        rng = np.random.default_rng([self.seed, self.round, 9])
        for row in range(n_echo):
            tokens[row], weights[row] = echo_row(rng, size, self.n_vocab, self.a["books"])
        for row in range(n_echo, n_rows):
            at = 0
            while row >= n_text and at < size and (task := self._task(size)):
                t, w = task
                if len(t) > size - at:
                    break
                tokens[row, at : at + len(t)], weights[row, at : at + len(t)] = t, w
                at += len(t)
                self.pending = None
            if at < size:
                fill(row, at)
        self.round += 1
        order = np.random.default_rng([self.seed, self.round, 7]).permutation(n_rows)
        return tokens[order], weights[order]

    def _text(self, n, shares_now):
        """Books and stories by their shares, document after document."""
        share = shares_now["stories"] / (shares_now["stories"] + shares_now["books"])
        rng = np.random.default_rng([self.seed, self.round, 5])
        parts, total, stories = [], 0, 0
        while total < n:
            name = "stories" if stories <= share * total and rng.random() < 0.9 else "books"
            part = self._document(name)
            parts.append(part)
            total += len(part[0])
            stories += len(part[0]) if name == "stories" else 0
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
