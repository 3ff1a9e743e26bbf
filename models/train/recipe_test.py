"""Tests of the recipe up to the training. They make their own little texts; with TROIKA_DATA set, real ones are checked too.

    python3 models/train/recipe_test.py

Without numpy nothing can be tested. What needs PyTorch is in training_test.py.
"""

import json
import os
import random
import re
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
try:
    import numpy as np
except ImportError:
    print("skipped: the recipe needs numpy")
    sys.exit(0)

import bpe
import data
import distant
import gguf
import stories
import tasks
import text
import values

JOBS = """baker teacher farmer doctor painter tailor sailor gardener carpenter singer driver nurse miller cook
writer clerk guard pilot plumber builder potter weaver librarian postman""".split()


def sentence(rng):
    vocabulary = values.NOUNS + values.ADJECTIVES + values.FOODS + values.ANIMALS + JOBS
    chosen = [rng.choice(vocabulary) for _ in range(rng.randint(5, 12))]
    return " ".join(chosen).capitalize() + "."


def story(rng):
    name = rng.choice(values.FIRST_NAMES)
    body = " ".join(sentence(rng) for _ in range(6))
    return f"Once upon a time, there was a child named {name}. {body}\n\n{name} said, \"{sentence(rng)}\" The end."


def make_data(folder, n_stories=260):
    """A data folder like the real one. Held-out text hides in it, lower-cased and without punctuation."""
    rng = random.Random(11)
    (folder / "text/books").mkdir(parents=True)
    held_books = []
    for name in text.HELD_OUT_BOOKS:
        paragraphs = [" ".join(sentence(rng) for _ in range(5)) for _ in range(30)]
        held_books += paragraphs
        (folder / "text/books" / name).write_text("\n\n".join(paragraphs), "utf-8")
    for i in range(3):
        paragraphs = [" ".join(sentence(rng) for _ in range(5)) for _ in range(60)]
        paragraphs[10] = "It was written: " + held_books[i].upper().replace(".", "!")
        half = held_books[i + 5].split()
        paragraphs[20:20] = [" ".join(half[: len(half) // 2]), " ".join(half[len(half) // 2 :])]
        (folder / f"text/books/book-{i}.txt").write_text("\n\n".join(paragraphs), "utf-8")
    stories = [story(rng) for _ in range(n_stories)]
    (folder / "text/tinystories_1000.json").write_text(json.dumps(stories), "utf-8")
    lower = [s.lower().replace("'", "\u2019") for s in stories[:40] + [story(rng) for _ in range(60)]]
    lower[3] = re.sub(r"[.,]", " ", lower[3])
    (folder / "text/tinystories.txt").write_text("\n".join(lower), "utf-8")
    return stories


def shared_runs(corpus):
    """Word runs that a training text has in common with a held-out text."""
    held = set()
    for t in [*corpus.held_out_stories, *corpus.held_out_books.values()]:
        held |= text.runs(t)
    found = set()
    for t in [*corpus.stories, *corpus.books.values()]:
        found |= text.runs(t) & held
    return found


class Texts(unittest.TestCase):
    def test_repairs_doubly_encoded_text(self):
        broken = "“Don’t,” she said – “it’s".encode().decode("cp1252", "ignore")
        self.assertEqual(text.to_ascii(broken), "\"Don't,\" she said - \"it's")
        self.assertEqual(text.to_ascii("a “plain” one…"), 'a "plain" one...')

    def test_restores_capitals(self):
        out = text.restore_capitals('once there was ann. "may i go?" she said. then tom came.', {"ann", "tom"})
        self.assertEqual(out, 'Once there was Ann. "May I go?" she said. Then Tom came.')

    def test_nothing_held_out_is_trained_on(self):
        with tempfile.TemporaryDirectory() as d:
            make_data(Path(d))
            corpus = text.Corpus(d)
            self.assertEqual(shared_runs(corpus), set())
            self.assertGreaterEqual(corpus.dropped["stories"], 40)
            self.assertGreaterEqual(corpus.dropped["paragraphs"], 6)
            self.assertGreater(len(corpus.stories), 100)

    @unittest.skipUnless(os.environ.get("TROIKA_DATA"), "TROIKA_DATA names no data folder")
    def test_nothing_held_out_is_trained_on_in_real_data(self):
        corpus = text.Corpus(os.environ["TROIKA_DATA"])
        self.assertEqual(len(corpus.held_out_stories), 200)
        self.assertEqual(shared_runs(corpus), set())
        self.assertGreater(len(corpus.stories), 4000)
        self.assertEqual(len(corpus.books), 35)


class Tokens(unittest.TestCase):
    def test_pieces(self):
        self.assertEqual(bpe.pieces("It's 12  days,\n\nno?"), ["It", "'s", " 12", " ", " days", ",", "\n", "\n", "no", "?"])
        self.assertEqual(bpe.pieces("é½ 中x\u3000\u3000y"), ["é", "½", " 中x", "\u3000", "\u3000", "y"])

    def test_any_text_comes_back(self):
        tokenizer = bpe.Tokenizer(bpe.train(["the cat and the hat and the bat"] * 3, 280))
        self.assertIn("\u0120the", tokenizer.tokens)
        for s in ("the cat", "größer\t中文 \U0001f600 \x00\x1c", "", " \n \n"):
            self.assertEqual(tokenizer.decode(tokenizer.encode(s)), s)

    def test_digits_stay_apart(self):
        tokenizer = bpe.Tokenizer(bpe.train(["room 1234 and room 1234"] * 9, 300))
        self.assertEqual(tokenizer.decode(tokenizer.encode("1234")[:1]), "1")


class Tasks(unittest.TestCase):
    def test_the_answer_stands_in_the_context(self):
        for kind, context, turns, _ in tasks.generate(random.Random(1), 400, kinds=["extract", "table", "qa", "repeat"]):
            for _, answer, _ in turns:
                self.assertIn(answer, context, kind)

    def test_the_same_seed_gives_the_same_tasks(self):
        a, b = (list(tasks.generate(random.Random(3), 50)) for _ in range(2))
        self.assertEqual(a, b)

    def test_the_two_sides_share_no_value(self):
        sides = []
        for held in (False, True):
            drawn = set()
            for *_, used in tasks.generate(random.Random(5), 1500, held):
                drawn |= {u.lower() for u in used}
            sides.append(drawn)
        self.assertEqual(sides[0] & sides[1], set())
        self.assertGreater(len(sides[1]), 1000)


class Rows(unittest.TestCase):
    """A task's tokens are 1000 and its number, between 2 and 3; books and stories are of other tokens."""

    LENGTHS = [5, 40, 17, 64, 33, 90, 12, 300]

    def rows(self, state=None):
        made = [[2, *[1000 + i] * (n - 2), 3] for i, n in enumerate(self.LENGTHS)]
        arrays = {"books": np.full(3 * data.BOOK_CHUNK, 500, np.uint16)}
        for name, documents in (("stories", [[600] * 50] * 4), ("tasks", made)):
            arrays[f"{name}_tokens"] = np.concatenate([np.array(d, np.uint16) for d in documents])
            arrays[f"{name}_weights"] = np.ones(len(arrays[f"{name}_tokens"]), np.uint8)
            arrays[f"{name}_offsets"] = np.cumsum([0, *map(len, documents)])
        return data.Rows(arrays, 1, 640, 4096, state)

    def found(self, rows, length):
        """The tasks of a round, each of which must be whole."""
        numbers = []
        for row in rows.rows(length)[0].tolist():
            line = " ".join(map(str, row))
            for i, n in re.findall(r"(?<!\d)2 (1\d{3})((?: \1)*) 3(?!\d)", line):
                self.assertEqual(len(n.split()) + 3, self.LENGTHS[int(i) - 1000])
                numbers.append(int(i) - 1000)
            self.assertNotIn("100", re.sub(r"(?<!\d)2 (1\d{3})(?: \1)* 3(?!\d)", "", line))
        return numbers

    def test_no_task_is_cut(self):
        rows = self.rows()
        short = {i for _ in range(20) for i in self.found(rows, 64)}
        self.assertEqual(short, {i for i, n in enumerate(self.LENGTHS) if n <= 65})
        self.assertIn(7, {i for _ in range(20) for i in self.found(rows, 320)})

    def test_no_task_is_thrown_away(self):
        rows = self.rows()
        n_rounds, found = 20, []
        for _ in range(n_rounds):
            found += self.found(rows, 320)
        counts = [found.count(i) for i in range(len(self.LENGTHS))]
        self.assertLessEqual(max(counts) - min(counts), 1)
        self.assertEqual(len(found), rows.state()["tasks"] - (rows.state()["pending"] is not None))

    def test_rows_that_no_task_fits_are_text(self):
        self.assertEqual(self.found(self.rows(), 3), [])

    def test_rounds_go_on_where_they_stood(self):
        rows = self.rows()
        states, rounds = [], []
        for length in (64, 320, 64, 64, 320, 64):
            states.append(rows.state())
            rounds.append(rows.rows(length))
        for i, length in enumerate((64, 320, 64, 64, 320, 64)):
            again = self.rows(json.loads(json.dumps(states[i]))).rows(length)
            for one, other in zip(again, rounds[i]):
                self.assertTrue(np.array_equal(one, other))
        self.assertTrue(any(state["pending"] is not None for state in states))


class DistantRows(unittest.TestCase):
    SIZE = 1600

    def rows(self, seed=4):
        rng = random.Random(seed)
        book = " ".join(sentence(rng) for _ in range(600))
        tokenizer = bpe.Tokenizer(bpe.train([book], 800))
        v = values.Values(rng, held_out=False)
        return distant.DistantRows(v, tokenizer, distant.Books(tokenizer.encode(book), tokenizer)), tokenizer

    def test_what_is_asked_stands_far_before(self):
        rows, tokenizer = self.rows()
        for kind in ("pairs", "needles"):
            n_answers = 0
            for _ in range(20):
                tokens, weights = getattr(rows, kind)(self.SIZE)
                self.assertEqual((len(tokens), len(weights), tokens[0]), (self.SIZE, self.SIZE, bpe.BOS))
                learned = weights == distant.ANSWER_WEIGHT
                starts = np.flatnonzero(learned & ~np.roll(learned, 1))
                for start in starts:
                    end = start + int(np.argmax(tokens[start:] == bpe.EOS))
                    answer = tokenizer.decode(tokens[start:end].tolist()).strip()
                    context = tokenizer.decode(tokens[: starts[0]].tolist()).rsplit("Question:", 1)[0]
                    self.assertIn(answer, context)
                n_answers += len(starts)
            self.assertGreater(n_answers, 20, kind)

    def test_copies_are_learned_where_they_come_again(self):
        rows, _ = self.rows()
        tokens, weights = rows.copies(3000)
        self.assertEqual((len(tokens), len(weights)), (3000, 3000))
        self.assertTrue(0 < weights.mean() < 1)

    def test_examples_fit_and_are_held_out(self):
        rows, tokenizer = self.rows()
        v = values.Values(random.Random(9), held_out=True)
        found = list(distant.examples(v, tokenizer, rows.books, self.SIZE, 8))
        self.assertEqual({e["kind"] for e in found}, {"pairs", "needles", "copies"})
        for e in found:
            self.assertLessEqual(len(tokenizer.encode(e["prompt"])), self.SIZE)
            if e["kind"] == "copies":
                self.assertTrue(e["prompt"].startswith(e["answer"]))
                continue
            self.assertIn(e["answer"], e["prompt"].rsplit("Question:", 1)[0])
            self.assertTrue(values.is_held_out(e["answer"]) or " " in e["answer"], e["answer"])

    def test_answers_stand_where_they_are_said_to(self):
        rows, tokenizer = self.rows()
        v = values.Values(random.Random(5), held_out=True)
        for kind in ("pairs", "needles"):
            text, spans = distant.answered(v, tokenizer, rows.books, kind, 3000)
            tokens = tokenizer.encode(text)
            self.assertGreaterEqual(len(spans), 5, kind)
            for from_end, length in spans:
                start = len(tokens) - from_end
                answer = tokenizer.decode(tokens[start : start + length])
                self.assertEqual(tokenizer.decode(tokens[:start])[-7:], "Answer:")
                self.assertIn(answer.strip(), text.split("\n\nQuestion:", 1)[0])
                self.assertGreaterEqual(from_end - length, distant.N_BEHIND)

    def test_the_same_seed_gives_the_same_rows(self):
        one, other = self.rows()[0], self.rows()[0]
        for kind in ("pairs", "needles", "copies", "book"):
            self.assertEqual(getattr(one, kind)(300)[0].tolist(), getattr(other, kind)(300)[0].tolist())


class ToldStories(unittest.TestCase):
    @staticmethod
    def told(seed):
        for story, about in stories.generate(random.Random(seed), 600):
            yield story, set(about), set(re.findall(r"\w+", story))

    def test_they_keep_to_their_cast(self):
        things = {*stories.TOYS, *stories.PETS, *stories.FOODS, *stories.WILD}
        # Words that plots use by themselves.
        own = {"ball", "dog"} & {w for _, steps in stories.PLOTS for s in steps for w in re.findall(r"\w+", s)}
        for story, about, words in self.told(1):
            self.assertNotRegex(story, r"[{}|]")
            self.assertLessEqual(len({*stories.GIRLS, *stories.BOYS} & words), 2, story)
            self.assertLessEqual(about, words, story)
            looked_at = set(stories.WILD) if "to look at a" in story else {"hat"} if "in his hat" in story or "in her hat" in story else set()
            self.assertEqual((things & words) - about - own - looked_at, set(), story)

    def test_pronouns_are_those_of_the_cast(self):
        people = [(set(stories.GIRLS) | {g for g, word in stories.GROWN_UPS if word == "she"}, {"she", "her", "She", "Her"}),
                  (set(stories.BOYS) | {g for g, word in stories.GROWN_UPS if word == "he"}, {"he", "him", "his", "He", "His"})]  # fmt: skip
        seen = [0, 0]
        for story, _, words in self.told(2):
            for i, (who, pronouns) in enumerate(people):
                if not who & words:
                    seen[i] += 1
                    self.assertEqual(words & pronouns, set(), story)
        self.assertGreater(min(seen), 20)

    def test_the_same_seed_tells_the_same(self):
        a, b = (list(stories.generate(random.Random(3), 50)) for _ in range(2))
        self.assertEqual(a, b)
        self.assertGreater(len({story for story, _ in a}), 45)


class Files(unittest.TestCase):
    def test_q8_0_is_near(self):
        x = np.random.default_rng(1).normal(size=(4, 256)).astype(np.float32)
        back = gguf.undo_q8_0(gguf.q8_0(x), x.size).reshape(x.shape)
        # Half a step of the largest value, and the rounding of the scale to F16.
        self.assertLess(np.abs(back - x).max(), np.abs(x).max() / 127 * 0.5 + np.abs(x).max() / 2048)

    def test_values_and_tensors_come_back(self):
        with tempfile.TemporaryDirectory() as d:
            path = Path(d) / "x.gguf"
            meta = {"a": 7, "b": 0.5, "c": "d\u00e9", "e": ["x", ""], "f": [1, -2], "g": True}
            x = np.arange(64, dtype=np.float32).reshape(2, 32)
            gguf.write(path, meta, {"t": (x, "F32"), "u": (x, "F16"), "v": (x, "Q8_0")})
            f = gguf.Reader(path)
            self.assertEqual(f.metadata, meta)
            for name in "tu":
                self.assertTrue(np.array_equal(f.tensors[name], x))
            self.assertLess(np.abs(f.tensors["v"] - x).max(), 0.3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
