#!/usr/bin/env python3
"""Writes the context-augmented tasks for `troika eval --cag`, as JSONL on standard output.

    python3 scripts/cag_tasks.py [--each 40] [--seed 7] [--data FOLDER] > tasks.jsonl

Four kinds: `summary` (an event retold, a form filled in again), `qa` (a question about a passage), `ui` (the next
action on a screen, earlier ones in sight), `reply` (the next answer of a conversation, in the style of the ones
before). All come from the generator of the house models' tasks, with names and values that no training has seen.
With --data, a folder that holds tasks/xquad.en.part1.json and tasks/baseline_data_update.json (AutoDroid), as many
again of `qa` and `ui` have real passages and screens.
"""
import argparse
import html
import json
import random
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "models/train"))
import tasks  # noqa: E402


def plain(kind, context, turns, n_before):
    """A prompt of text: the last question asked, the ones before it answered."""
    prompt = ""
    for i, (question, answer, _) in enumerate(turns[: n_before + 1]):
        part = tasks.prompt_of(kind, context, question)
        prompt += part if i == 0 else part[len(context):]
        if i < n_before:
            prompt += answer if answer[0] == "\n" else f" {answer}"
    return {"prompt": prompt, "answer": turns[n_before][1].strip()}


def conversation(context, turns):
    messages = []
    for i, (question, _, sentence) in enumerate(turns):
        messages.append({"role": "user", "content": f"{context}\n\n{question}" if i == 0 else question})
        if i + 1 < len(turns):
            messages.append({"role": "assistant", "content": sentence})
    return {"messages": messages, "answer": turns[-1][2]}


def generated(rng, kind, source):
    while True:
        _, context, turns, _ = next(tasks.generate(rng, 1, True, [source]))
        if kind == "reply":
            if len(turns) >= 3:
                return conversation(context, turns)
        elif kind == "ui":
            if len(turns) >= 2:
                return plain(source, context, turns, rng.randrange(1, len(turns)))
        else:
            return plain(source, context, turns, 0)


SOURCES = {"summary": ("summary", "form"), "qa": ("qa", "extract"), "ui": ("ui",), "reply": ("qa", "extract")}


def passages(rng, path, n):
    pairs = []
    for document in json.loads(path.read_text("utf-8"))["data"]:
        for paragraph in document["paragraphs"]:
            pairs += [(paragraph["context"], qa) for qa in paragraph["qas"]]
    for context, qa in rng.sample(pairs, min(n, len(pairs))):
        prompt = tasks.prompt_of("qa", f"Passage: {context}", qa["question"])
        yield {"kind": "qa", "source": "xquad", "prompt": prompt, "answer": qa["answers"][0]["text"]}


ELEMENT = re.compile(r"<(\w+) [^>]*>([^<]+)</")


def screens(rng, path, n):
    apps = json.loads(path.read_text("utf-8"))
    found = []
    for app, screens_of_app in apps.items():
        for elements in screens_of_app.values():
            rows = [(m[1], html.unescape(m[2]).strip()) for e in elements if (m := ELEMENT.match(e))]
            rows = [(k, x) for k, x in dict.fromkeys(rows) if x and "\n" not in x][:24]
            buttons = [x for k, x in rows if k == "button"]
            if len(buttons) >= 3:
                found.append((app, rows, buttons))
    for app, rows, buttons in rng.sample(found, min(n, len(found))):
        context = f"Screen: {app}\n" + "\n".join(f"<{k}>{x}</{k}>" for k, x in rows)
        turns = [(f"open {x}", f'tap "{x}"', "") for x in rng.sample(buttons, 3)]
        yield {"kind": "ui", "source": "autodroid", **plain("ui", context, turns, 2)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--each", type=int, default=40, help="tasks of each kind")
    p.add_argument("--seed", type=int, default=7)
    p.add_argument("--data", type=Path, help="real passages and screens")
    a = p.parse_args()
    rng = random.Random(a.seed)
    for kind, sources in SOURCES.items():
        for i in range(a.each):
            source = sources[i % len(sources)]
            print(json.dumps({"kind": kind, "source": source, **generated(rng, kind, source)}))
    if a.data:
        real = [*passages(rng, a.data / "tasks/xquad.en.part1.json", a.each)]
        real += screens(rng, a.data / "tasks/baseline_data_update.json", a.each)
        for task in real:
            print(json.dumps(task))


if __name__ == "__main__":
    main()
