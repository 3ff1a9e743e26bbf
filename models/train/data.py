"""Rows of training tokens from the three streams of train.npz, in a seeded order that can be resumed."""

import numpy as np

BOOK_CHUNK = 2048
SHARES = {"books": 0.38, "stories": 0.17, "tasks": 0.45}  # of the tokens of a round


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
    books. A story goes on in the next row."""

    def __init__(self, arrays, seed, round_tokens, state=None):
        self.a = arrays
        self.seed, self.round_tokens = seed, round_tokens
        counts = {n: len(arrays[f"{n}_offsets"]) - 1 for n in ("stories", "tasks")}
        counts["books"] = max(1, len(arrays["books"]) // BOOK_CHUNK)
        self.streams = {n: Stream(n, c, seed, (state or {}).get(n, 0)) for n, c in sorted(counts.items())}
        self.round = (state or {}).get("round", 0)

    def state(self):
        """Where the next round begins."""
        return {"round": self.round, **{n: s.position for n, s in self.streams.items()}}

    def _document(self, name):
        i = self.streams[name].next()
        if name == "books":
            tokens = self.a["books"][i * BOOK_CHUNK : (i + 1) * BOOK_CHUNK]
            return tokens, np.ones(len(tokens), np.uint8)
        start, end = self.a[f"{name}_offsets"][i : i + 2]
        return self.a[f"{name}_tokens"][start:end], self.a[f"{name}_weights"][start:end]

    def rows(self, length):
        """The rows of one round, `length` tokens and one more for the last target."""
        size = length + 1
        n_rows = max(1, self.round_tokens // size)
        n_text = round(n_rows * (1 - SHARES["tasks"] * 1.1))
        tokens = np.zeros((n_rows, size), np.int32)
        weights = np.zeros((n_rows, size), np.uint8)
        text_t, text_w = self._text(n_rows * size)
        used = 0

        def fill(row, at):
            nonlocal used
            n = size - at
            tokens[row, at:], weights[row, at:] = text_t[used : used + n], text_w[used : used + n]
            used += n

        pending = self._document("tasks")
        for row in range(n_rows):
            at = 0
            while row >= n_text:
                t, w = pending
                if len(t) > size - at and at > 0:
                    break
                n = min(len(t), size)
                tokens[row, at : at + n], weights[row, at : at + n] = t[:n], w[:n]
                at += n
                pending = self._document("tasks")
                if at == size:
                    break
            if at < size:
                fill(row, at)
        self.round += 1
        order = np.random.default_rng([self.seed, self.round, 7]).permutation(n_rows)
        return tokens[order], weights[order]

    def _text(self, n):
        """Books and stories by their shares, document after document."""
        share = SHARES["stories"] / (SHARES["stories"] + SHARES["books"])
        rng = np.random.default_rng([self.seed, self.round, 5])
        parts, total, stories = [], 0, 0
        while total < n:
            name = "stories" if stories <= share * total and rng.random() < 0.9 else "books"
            part = self._document(name)
            parts.append(part)
            total += len(part[0])
            stories += len(part[0]) if name == "stories" else 0
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
