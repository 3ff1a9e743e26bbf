"""Drafts on chat answers of the real model: tokens of a pass, and time. For scripts/real_model_tables.py."""
import json
import random

from real_model_data import data_file, work_file
from tables import run, table

PASSAGES = "tasks/xquad.en.part1.json"
N_EACH = 3  # tasks of a kind
LONGEST = 700  # characters of a passage
N_ANSWER = 64  # most tokens of an answer
SETTINGS = ("lookup", "sam", "sam+reuse", "sam+calibrated", "sam+reuse+calibrated")
KINDS = {
    "summary": "a passage, to be summarized",
    "qa": "a question about a passage",
    "rewrite": "a passage, to be told in simpler words",
    "reply": "a second question about a passage, the first one answered",
    "open": "a question without any text",
}
OPEN = (
    "Why is the sky blue?",
    "Write a short story about a robot that learns to paint.",
    "How do I make a good cup of tea?",
    "What are the advantages and disadvantages of living in a big city?",
)


def chat_task(kind, *turns):
    """Turns of user and assistant, the first and the last of the user."""
    roles = ("user", "assistant")
    return {"kind": kind, "messages": [{"role": roles[i % 2], "content": turn} for i, turn in enumerate(turns)]}


def chat_tasks(passages, n, seed=7):
    """n tasks of each kind; every passage serves one of each kind that needs one."""
    chosen = random.Random(seed).sample([p for p in passages if len(p["qas"]) > 1 and len(p["context"]) < LONGEST], n)
    tasks = []
    for passage in chosen:
        text, (first, second) = passage["context"], passage["qas"][:2]
        tasks += [
            chat_task("summary", f"Summarize the following text in a few sentences.\n\n{text}"),
            chat_task("qa", f"{text}\n\n{first['question']} Answer in a full sentence and explain your answer."),
            chat_task("rewrite", f"Rewrite the following text in simpler words.\n\n{text}"),
            chat_task("reply", f"{text}\n\n{first['question']}", first["answers"][0]["text"],
                      f"{second['question']} Explain your answer."),
        ]
    tasks += [chat_task("open", question) for question in OPEN[:n]]
    return sorted(tasks, key=lambda task: list(KINDS).index(task["kind"]))


def measured(options, kind, tasks):
    """Scores of every setting on tasks of one kind."""
    mine = [json.dumps(task) + "\n" for task in tasks if task["kind"] == kind]
    path = work_file(f"drafts-{kind}.jsonl", "".join(mine))
    found = json.loads(run(options.program, "eval", options.model, "-t", options.threads, "-c", 2048, "--cag", path,
                           "--answer", N_ANSWER, "--drafts", ",".join(SETTINGS), "--json"))
    scores = {score["draft"]: score for score in found["scores"] if score["kind"] == kind}
    return {"width": found["width"], "different": found["different"], "head_share": found["head_share"], "scores": scores}


def tokens_a_pass(scores):
    """Of one setting over several kinds: tokens that its passes gave."""
    passes = sum(s["verifications"] for s in scores)
    return sum(s["tokens_per_verification"] * s["verifications"] for s in scores) / passes if passes else 1.0


def milliseconds(scores, name):
    """Of one setting over several kinds: time of all tokens, by the mean of a token."""
    return sum(s[name] * s["tokens"] for s in scores)


def accepted_from(scores):
    """Which sources the accepted guesses came from, in percent."""
    count = {}
    for score in scores:
        for source in score["sources"]:
            count[source["name"]] = count.get(source["name"], 0) + source["accepted"]
    n = sum(count.values())
    return ", ".join(f"{name} {100 * c / n:.0f} %" for name, c in count.items() if c) or "–"


def pass_rows(found):
    rows = []
    for setting in SETTINGS:
        of_kinds = [found[kind]["scores"][setting] for kind in KINDS]
        rows.append([f"`{setting}`", *(f"{tokens_a_pass([s]):.2f}" for s in of_kinds), f"{tokens_a_pass(of_kinds):.2f}",
                     accepted_from(of_kinds)])
    return rows


def time_rows(found):
    """Plain time over the drafted one, above 1 where drafts pay: of the answers alone, and with the prompts."""
    rows = []
    for setting in SETTINGS:
        drafted = [found[kind]["scores"][setting] for kind in KINDS]
        plain = [found[kind]["scores"]["none"] for kind in KINDS]
        by_kind = [p["ms_per_token"] / d["ms_per_token"] for p, d in zip(plain, drafted)]
        rows.append([f"`{setting}`", *(f"{ratio:.2f}" for ratio in by_kind),
                     f"{milliseconds(plain, 'ms_per_token') / milliseconds(drafted, 'ms_per_token'):.2f}",
                     f"{milliseconds(plain, 'total_ms_per_token') / milliseconds(drafted, 'total_ms_per_token'):.2f}"])
    return rows


def tables(options, kept):
    paragraphs = [p for document in json.loads(data_file(options, PASSAGES).read_text("utf-8"))["data"]
                  for p in document["paragraphs"]]
    tasks = chat_tasks(paragraphs, N_EACH)
    found = {kind: kept.get(f"drafts, {N_EACH} answers of {N_ANSWER}: {kind}", lambda k=kind: measured(options, k, tasks))
             for kind in KINDS}
    n_tokens = sum(found[kind]["scores"]["none"]["tokens"] for kind in KINDS)
    width = next(iter(found.values()))["width"]
    kinds = "; ".join(f"*{kind}*: {what}" for kind, what in KINDS.items())
    different = sum(f["different"] for f in found.values())
    conditions = (f"{N_EACH} tasks of each kind in the model's chat template, greedy answers of at most {N_ANSWER} tokens, "
                  f"{n_tokens} in all. Kinds are {kinds}. {different} answers with drafts differ from those without.")
    passes = table(["drafts", *KINDS, "all", "accepted from"], pass_rows(found))
    times = table(["drafts", *KINDS, "all", "all, with the prompts"], time_rows(found))
    return {
        "drafts passes": f"{conditions}\n\nTokens of a pass, with drafts of {width - 1} nodes:\n\n{passes}",
        "drafts times": f"Time without drafts over time with them, with as many nodes as pay; settings took turns on each task, "
                        f"while others used the machine, so that differences of a tenth are chance:\n\n{times}",
    }
