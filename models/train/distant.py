"""Rows of up to 4,096 tokens that ask at their end for what stood far before: lists of pairs, sentences hidden in a
book, and spans that come again.

A row is (tokens, weights). Texts for measuring are made by the same functions, from held-out books and values.
"""

import random

import bpe
import numpy as np
import tasks
from bpe import BOS, EOS
from values import Values

NAMES = ("first", "person", "place", "title")
VALUES = ("code", "number", "phone", "word", "thing", "price", "time")
PAIR_QUESTIONS = ("What belongs to {n}?", "What stands beside {n}?", "Which entry has {n}?", "{n}?")
LEAST_COPIED, MOST_COPIED = 48, 512
N_COPIED = 256  # tokens at the end of a text that is measured, or a quarter of it
N_ANSWERED, N_BEHIND = 10, 96  # questions of a text that holds their answers too, and tokens behind them
ANSWER_WEIGHT = 8  # of each token of an answer, where a token of a text counts once


def pairs(v, encode, room):
    """A list of names with a value each, as text that fits into `room` tokens, and what may be asked of it."""
    name_kind, value_kind = v.rng.choice(NAMES), v.rng.choice(VALUES)
    form = v.pick("{n}: {x}", "{n} = {x}", "- {n}: {x}", "{n} has {x}.")
    text = v.pick("List:", "Directory:", "Register of values:", "Entries:")
    used, values = len(encode(text)), {}
    while True:
        name, value = getattr(v, name_kind)(), getattr(v, value_kind)()
        if name in values:
            continue
        line = "\n" + form.format(n=name, x=value)
        used += len(encode(line))
        if used > room:
            return text, [(v.rng.choice(PAIR_QUESTIONS).format(n=n), x) for n, x in values.items()]
        values[name] = value
        text += line


def facts(v, n):
    """Sentences about n persons of different names, with a question and an answer each."""
    found, seen = [], set()
    while len(found) < n:
        template, question, make = v.rng.choice(tasks.FACTS)
        name, other = v.person(), v.first()
        if name in seen:
            continue
        seen.add(name)
        x = getattr(v, make)()
        found.append((" " + template.format(P=name, B=other, x=x), question.format(P=name, B=other), x))
    return found


class Books:
    """Tokens of books, and where a sentence ends in them: behind such a place another sentence may stand."""

    def __init__(self, tokens, tokenizer):
        self.tokens = np.asarray(tokens, np.int32)
        text = np.array([t not in bpe.SPECIAL and t.endswith(".") for t in tokenizer.tokens])
        space = np.array([t.startswith("\u0120") for t in tokenizer.tokens])
        self.ends = np.flatnonzero(text[self.tokens[:-1]] & space[self.tokens[1:]]) + 1

    def span(self, rng, n):
        """n tokens from anywhere."""
        start = rng.randrange(max(1, len(self.tokens) - n))
        return self.tokens[start : start + n]

    def hiding(self, rng, sentences, room):
        """A span of `room` tokens in all, with the sentences (lists of tokens) behind ends of its own sentences, and how
        many of them it hides: half of the span is the book's."""
        while 2 * sum(map(len, sentences)) > room:
            sentences = sentences[:-1]
        n = room - sum(map(len, sentences))
        start = rng.randrange(max(1, len(self.tokens) - n))
        low, high = np.searchsorted(self.ends, (start + 1, start + n))
        places = sorted(rng.sample(range(low, high), min(len(sentences), high - low)))
        parts, at = [], start
        for place, sentence in zip(places, sentences):
            parts += [self.tokens[at : self.ends[place]], np.array(sentence, np.int32)]
            at = self.ends[place]
        return np.concatenate([*parts, self.tokens[at : start + n]]), len(places)


def question_tokens(encode, question, answer):
    """(tokens, weights) of a question behind a text; only the answer is learned."""
    body, reply = encode(f"\n\nQuestion: {question}\nAnswer:"), [*encode(" " + answer), EOS]
    return body + reply, [0] * len(body) + [ANSWER_WEIGHT] * len(reply)


class DistantRows:
    """Rows of one seed, from values of one side (values.py) and the tokens of some books."""

    def __init__(self, v, tokenizer, books):
        self.v, self.encode, self.books, self.n_vocab = v, tokenizer.encode, books, len(tokenizer.tokens)

    def _asked(self, text, text_weight, questions, size):
        """Text and as many of the questions behind it as fit."""
        tokens, weights = [BOS, *text], [0] + [text_weight] * len(text)
        for question, answer in questions:
            t, w = question_tokens(self.encode, question, answer)
            if len(tokens) + len(t) > size:
                break
            tokens, weights = tokens + t, weights + w
        rest = size - len(tokens)  # a few tokens of a book, so that a row is full
        tokens += [*self.books.span(self.v.rng, rest)]
        return np.array(tokens, np.int32), np.array(weights + [0] * rest, np.uint8)

    def pairs(self, size):
        n_questions = self.v.rng.randint(4, max(5, size // 100))
        text, questions = pairs(self.v, self.encode, size - 1 - 32 * n_questions)
        asked = self.v.rng.sample(questions, min(n_questions, len(questions)))
        return self._asked(self.encode(text), 0, asked, size)

    def needles(self, size):
        found = facts(self.v, self.v.rng.randint(1, max(2, size // 320)))
        hidden = [self.encode(s) for s, *_ in found]
        text, n = self.books.hiding(self.v.rng, hidden, size - 1 - 36 * len(found))
        asked = [(q, x) for _, q, x in found[:n]]
        self.v.rng.shuffle(asked)
        return self._asked(text.tolist(), 1, asked, size)

    def copies(self, size):
        """Long spans, of books or of random tokens, that come again somewhere later. Of random ones only what came
        before is learned, and not where the repetition begins."""
        rng, spans = self.v.rng, []
        tokens, weights, at = np.zeros(size, np.int32), np.zeros(size, np.uint8), 1
        tokens[0] = BOS
        while at < size:
            again = bool(spans) and rng.random() < 0.5
            is_text = not again and rng.random() < 0.7
            if again:
                span = rng.choice(spans)
            else:
                n = rng.randint(LEAST_COPIED, max(LEAST_COPIED, min(MOST_COPIED, size // 4)))
                span = self.books.span(rng, n) if is_text else np.array([rng.randrange(6, self.n_vocab) for _ in range(n)])
                spans.append(span)
            part = span[: size - at]
            tokens[at : at + len(part)] = part
            if again:
                weights[at + 4 : at + len(part)] = 1
            elif is_text:
                weights[at : at + len(part)] = 1
            at += len(part)
        return tokens, weights

    def book(self, size):
        """A book, without a break."""
        tokens = np.concatenate([[BOS], self.books.span(self.v.rng, size - 1)]).astype(np.int32)
        weights = np.ones(size, np.uint8)
        weights[0] = 0
        return tokens, weights


def examples(v, tokenizer, books, size, n):
    """n questions of each kind about texts of `size` tokens with their question: lists of pairs, sentences hidden in a
    book of which one is asked for, and texts that end as they began."""
    encode = tokenizer.encode

    def needle():
        found = facts(v, 6)
        text, n_hidden = books.hiding(v.rng, [encode(s) for s, *_ in found], size - 50)
        return (tokenizer.decode(text.tolist()), found[v.rng.randrange(n_hidden)][1:]) if n_hidden else needle()

    def asked(kind, text, question, answer):
        return {"kind": kind, "tokens": size, "prompt": f"{text}\n\nQuestion: {question}\nAnswer:", "answer": answer}

    for _ in range(n):
        text, questions = pairs(v, encode, size - 50)
        yield asked("pairs", text, *v.rng.choice(questions))
        text, found = needle()
        yield asked("needles", text, *found)
        n_copied = min(N_COPIED, size // 4)
        text = tokenizer.decode(books.span(v.rng, size - 3 - n_copied).tolist())
        answer = tokenizer.decode(encode(text)[:n_copied])
        yield {"kind": "copies", "tokens": size, "prompt": text + "\n\n", "answer": answer}


def held_out_side(prepared, tokenizer, seed):
    """Values and books that no training sees. `prepared` is what prepare.py made."""
    texts = [p.read_text("utf-8") for p in sorted((prepared / "held_out/books").glob("*.txt"))]
    books = Books([t for text in texts for t in tokenizer.encode(text)], tokenizer)
    return Values(random.Random(seed), held_out=True), books


def held_out(prepared, tokenizer, sizes, n, seed):
    """Examples of each size, of the held-out side."""
    v, books = held_out_side(prepared, tokenizer, seed)
    return [e for size in sizes for e in examples(v, tokenizer, books, size, n)]


def answered(v, tokenizer, books, kind, size):
    """A text of up to `size` tokens, with N_ANSWERED questions and their answers behind it, and more of a book behind those:
    where tokens attend in tiles, those of the last one may attend to all. Returns the text, and of each answer where its
    tokens begin, counted from the end, and how many they are."""
    encode, rest = tokenizer.encode, tokenizer.decode(books.span(v.rng, N_BEHIND).tolist())
    room = size - 1 - N_BEHIND - 40 * N_ANSWERED
    if kind == "pairs":
        text, questions = pairs(v, encode, room)
        asked = v.rng.sample(questions, min(N_ANSWERED, len(questions)))
    else:
        found = facts(v, N_ANSWERED)
        tokens, n_hidden = books.hiding(v.rng, [encode(sentence) for sentence, *_ in found], room)
        text, asked = tokenizer.decode(tokens.tolist()), [f[1:] for f in found[:n_hidden]]
        v.rng.shuffle(asked)
    spans = []
    for question, answer in asked:
        text += f"\n\nQuestion: {question}\nAnswer:"
        begin = len(encode(text))
        text += " " + answer
        spans.append((begin, len(encode(text)) - begin))
    text += "\n\n" + rest
    n = len(encode(text))
    return text, [(n - begin, length) for begin, length in spans]
