"""Data preparation: a folder of texts in, a folder of training tokens and held-out texts out.

    python3 prepare.py DATA OUT [--tasks 80000] [--vocab 4096] [--seed 1]
    python3 prepare.py DATA OUT --tokenizer ../troika-silu-q8_0.gguf

OUT gets tokenizer.json, train.npz, manifest.json and held_out/ (books, stories.json, tasks.jsonl).
"""

import argparse
import json
import random
import re
from collections import Counter
from pathlib import Path

import bpe
import chat
import numpy as np
import stories as told_stories
import tasks
import text
from bpe import BOS, EOS


def plain_task(tokenizer, kind, context, turns):
    """(tokens, weights) of a task as plain text. Every answer ends with the end token."""
    tokens, weights = [BOS], [0]
    for i, (question, answer, _) in enumerate(turns):
        prompt = tasks.prompt_of(kind, context, question)
        if i > 0:
            prompt = prompt[len(context) :]
        body = tokenizer.encode(prompt)
        reply = tokenizer.encode(answer if answer[0] == "\n" else " " + answer) + [EOS]
        tokens += body + reply
        weights += [0] * len(body) + [2] * len(reply)
    return tokens, weights


def task_documents(rng, tokenizer, n):
    for kind, context, turns, _ in tasks.generate(rng, n):
        if rng.random() < 0.3:
            yield chat.task_conversation(rng, tokenizer, context, turns)
        else:
            yield plain_task(tokenizer, kind, context, turns)


def told_documents(rng, tokenizer, told):
    """Each as the answer to a request for it; a third also as plain text."""
    for i, (story, about) in enumerate(told):
        yield chat.story_conversation(rng, tokenizer, story, about)
        if i % 3 == 0:
            tokens = [BOS, *tokenizer.encode(story), EOS]
            yield tokens, [0] + [1] * (len(tokens) - 1)


def flatten(documents):
    """Documents (tokens, weights) as flat arrays and the offsets of their starts."""
    lengths = [len(d[0]) for d in documents]
    return {
        "tokens": np.array([t for d in documents for t in d[0]], np.uint16),
        "weights": np.array([w for d in documents for w in d[1]], np.uint8),
        "offsets": np.cumsum([0, *lengths]).astype(np.int64),
    }


def word_runs(training_text, wanted):
    """Those of `wanted` (tuples of words) that occur in the text, whatever stands between the words."""
    longest = max(map(len, wanted), default=0)
    starts = {w[0] for w in wanted}
    found_words = re.findall(r"\w+", training_text)
    present = set()
    for i, word in enumerate(found_words):
        if word in starts:
            for n in range(1, longest + 1):
                run = tuple(found_words[i : i + n])
                if run in wanted:
                    present.add(run)
    return present


def held_out_tasks(seed, per_kind, training_text):
    """Tasks whose every drawn value is absent from the whole training text."""
    candidates = []
    for kind in tasks.KINDS:
        rng = random.Random(f"{seed} {kind}")
        candidates += [(*c[:3], [*c[3]]) for c in tasks.generate(rng, 8 * per_kind, True, [kind])]
    split = {v: tuple(re.findall(r"\w+", v)) for c in candidates for v in c[3]}
    present = word_runs(training_text, set(split.values()))
    count = Counter()
    for kind, context, turns, values in candidates:
        if count[kind] < per_kind and not any(split[v] in present for v in values):
            count[kind] += 1
            question, answer, _ = turns[0]
            prompt = tasks.prompt_of(kind, context, question)
            yield {"prompt": prompt, "answer": answer.strip(), "kind": kind, "values": values}


def write_held_out(folder, corpus, examples):
    (folder / "books").mkdir(parents=True, exist_ok=True)
    for name, book in corpus.held_out_books.items():
        (folder / "books" / name).write_text(book, "utf-8")
    (folder / "stories.json").write_text(json.dumps(corpus.held_out_stories, indent=0), "utf-8")
    with open(folder / "tasks.jsonl", "w", encoding="utf-8") as f:
        f.writelines(json.dumps(e) + "\n" for e in examples)


def prepare(data, out, n_tasks=80000, n_vocab=4096, seed=1, per_kind=100, limit=None, tokenizer=None):
    """limit: keeps only so many characters of books and of stories (for tests). tokenizer: that of a model which is
    to be trained on; without one it is trained too."""
    out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    corpus = text.Corpus(data)
    books, stories = list(corpus.books.values()), corpus.stories
    if limit:
        books, stories = [b[: limit // len(books)] for b in books], stories[: limit // 800]
    if tokenizer is None:
        samples = [tasks.prompt_of(k, c, t[0][0]) for k, c, t, _ in tasks.generate(random.Random(seed), 1500)]
        tokenizer = bpe.Tokenizer(bpe.train([*books, *stories, *samples], n_vocab))
    tokenizer.save(out / "tokenizer.json")
    print(f"tokenizer: {len(tokenizer.tokens)} tokens", flush=True)

    book_tokens = [t for b in books for t in [BOS, *tokenizer.encode(b), EOS]]
    story_documents = []
    for story in stories:
        tokens = [BOS, *tokenizer.encode(story), EOS]
        story_documents.append((tokens, [0] + [1] * (len(tokens) - 1)))
        story_documents.append(chat.story_conversation(rng, tokenizer, story))
    told = list(told_stories.generate(random.Random(seed), n_tasks // 8))
    story_documents += told_documents(random.Random(seed), tokenizer, told)
    task_docs = list(task_documents(rng, tokenizer, n_tasks))
    task_docs += [chat.small_talk(rng, tokenizer) for _ in range(n_tasks // 25)]
    rng.shuffle(story_documents)
    rng.shuffle(task_docs)
    arrays = {"books": np.array(book_tokens, np.uint16)}
    for name, documents in (("stories", story_documents), ("tasks", task_docs)):
        arrays.update({f"{name}_{k}": a for k, a in flatten(documents).items()})
    np.savez_compressed(out / "train.npz", **arrays)

    line_break = tokenizer.ids[bpe.ALPHABET[10]]  # in the place of special tokens, lest words join
    task_text = tokenizer.decode(np.where(arrays["tasks_tokens"] < len(bpe.SPECIAL), line_break, arrays["tasks_tokens"]).tolist())
    training_text = "\n\n".join([*books, *stories, *(story for story, _ in told), task_text])
    examples = list(held_out_tasks(seed + 1000, per_kind, training_text))
    write_held_out(out / "held_out", corpus, examples)
    manifest = {
        "seed": seed,
        "vocab": len(tokenizer.tokens),
        "books": {"files": len(books), "tokens": len(book_tokens)},
        "stories": {"texts": len(stories), "told": len(told), "documents": len(story_documents), "tokens": arrays["stories_tokens"].size},
        "tasks": {"documents": len(task_docs), "tokens": arrays["tasks_tokens"].size},
        "dropped_as_held_out_or_repeated": dict(corpus.dropped),
        "held_out": {
            "books": sorted(corpus.held_out_books),
            "stories": len(corpus.held_out_stories),
            "tasks": dict(Counter(e["kind"] for e in examples)),
        },
    }
    (out / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    print(json.dumps(manifest), flush=True)
    return training_text


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("data", type=Path)
    p.add_argument("out", type=Path)
    p.add_argument("--tasks", type=int, default=80000, help="generated training tasks")
    p.add_argument("--vocab", type=int, default=4096)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--limit", type=int, help="characters of books and of stories, for a quick trial")
    p.add_argument("--tokenizer", type=Path, help="a GGUF file whose tokenizer to take")
    a = p.parse_args()
    tokenizer = bpe.Tokenizer.of_file(a.tokenizer) if a.tokenizer else None
    prepare(a.data, a.out, a.tasks, a.vocab, a.seed, limit=a.limit, tokenizer=tokenizer)


if __name__ == "__main__":
    main()
