"""The real model beside llama.cpp on the same files: perplexity, and greedy answers. For scripts/real_model_tables.py."""
import json
import os.path
import re
import sys

import real_model_data
from tables import run, table

TYPES = ("F32", "F16", "Q8_0", "Q4_1")  # the model comes in the last; the others are made from it
TEXT = "text/wikitext2.test.txt"
CHARACTERS = 13500
WINDOW = 1024
N_GREEDY = 200
# Keys and values of both in float, so that weights and activations make the difference.
OURS = ("--kv", "f32", "-c", WINDOW)
THEIRS = ("-c", WINDOW, "-ctk", "f32", "-ctv", "f32", "-fa", "off")
WAYS = {"float": ("--activations", "f32", "--prefill", "f32"), "as in generation": ("--prefill", "same"),
        "bf16": ("--prefill", "bf16"), "int8": ("--prefill", "int8")}
QUESTIONS = (
    "Write a long story about a lighthouse keeper and a storm.",
    "Explain in detail how a bicycle stays upright.",
    "Tell me the history of the printing press.",
    "Describe a day in the life of a bee, hour by hour.",
    "Give me ten tips for learning a new language and explain each of them.",
)


def made_file(type_name):
    return real_model_data.WORK / f"model-{type_name}.gguf"


def forget():
    """The files that were made of the model: another program makes others."""
    for type_name in TYPES[:-1]:
        made_file(type_name).unlink(missing_ok=True)


def file_of(options, type_name):
    """The model with its weights in this type, made by our own converter where it is not that of the file."""
    if type_name == TYPES[-1]:
        return options.model
    path = made_file(type_name)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        run(options.program, "quantize", options.model, path, "--type", type_name.lower())
    return path


def peer_program(options, name):
    if options.peer is None:
        sys.exit("error: --peer names no folder. It must hold llama-perplexity and llama-completion of llama.cpp.")
    program = options.peer / name
    if not program.exists():
        sys.exit(f"error: {program} is not there. Build llama.cpp's targets llama-perplexity and llama-completion.")
    return program


def estimate(output):
    """The perplexity that llama-perplexity printed."""
    match = re.search(r"Final estimate: PPL = ([0-9.]+)", output)
    if match is None:
        sys.exit(f"error: llama-perplexity printed no final estimate, but: {output[-500:]}")
    return float(match[1])


def their_perplexity(options, type_name, text):
    return estimate(run(peer_program(options, "llama-perplexity"), "-m", file_of(options, type_name), "-t", options.threads,
                        *THEIRS, "-f", text, both=True))


def our_perplexity(options, type_name, text, how):
    return json.loads(run(options.program, "eval", file_of(options, type_name), "-t", options.threads, *OURS, *how,
                          "--second-half", "--perplexity", text, "--json"))


def perplexity_cell(ours, theirs):
    """Nothing where one of them was not measured."""
    if not ours or not theirs:
        return ""
    return f"{ours['perplexity']:.4f} ({100 * (ours['perplexity'] / theirs - 1):+.3f} %)"


def perplexity_rows(options, kept):
    text = real_model_data.beginning(options, TEXT, CHARACTERS)
    rows, n_tokens = [], 0
    for type_name in TYPES:
        theirs = kept.get(f"peer, perplexity of {CHARACTERS}, {type_name}: llama.cpp",
                          lambda t=type_name: their_perplexity(options, t, text))
        row = [type_name, f"{theirs:.4f}" if theirs else ""]
        for name, how in WAYS.items():
            ours = kept.get(f"peer, perplexity of {CHARACTERS}, {type_name}: {name}",
                            lambda t=type_name, h=how: our_perplexity(options, t, text, h))
            row.append(perplexity_cell(ours, theirs))
            n_tokens = ours["tokens"] if ours else n_tokens
        rows.append(row)
    return n_tokens, rows


def chat_prompt(question):
    """In the model's own template, written out, because both programs shall read the same bytes."""
    system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
    return f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"


def our_answer(options, type_name, question):
    found = json.loads(run(options.program, "run", file_of(options, type_name), "-t", options.threads, *OURS, "--prefill", "same",
                           "--special", "--temp", "0", "-n", N_GREEDY, "-p", chat_prompt(question), "--json"))
    return {"text": found["text"], "tokens": len(found["tokens"])}


def their_answer(options, type_name, question):
    text = run(peer_program(options, "llama-completion"), "-m", file_of(options, type_name), "-t", options.threads, *THEIRS,
               "--temp", "0", "-n", N_GREEDY, "-no-cnv", "--no-display-prompt", "-p", chat_prompt(question))
    return text.removesuffix("\n").removesuffix(" [end of text]\n").removesuffix(" [end of text]")


def agreement(ours, theirs):
    """The beginning that both texts have in common; the white space at their ends does not count."""
    if ours.rstrip() == theirs.rstrip():
        return None
    return os.path.commonprefix([ours, theirs])


def tokens_in_common(options, ours, theirs):
    common = agreement(ours["text"], theirs)
    if common is None:
        return ours["tokens"]
    return json.loads(run(options.program, "tokenize", options.model, "-p", common, "--no-bos", "--json"))["n"] if common else 0


def answers(options, kept, type_name, question):
    """Ours and theirs; either is None where it was not measured."""
    key = f"peer, greedy, {type_name}, {question}"
    theirs = kept.get(f"{key}: llama.cpp", lambda: their_answer(options, type_name, question))
    return kept.get(f"{key}: here", lambda: our_answer(options, type_name, question)), theirs


def greedy_rows(options, kept):
    """Both programs beside each other, and the model's own file beside the same weights in float in each of them."""
    def cell(ours, theirs):
        return f"{tokens_in_common(options, ours, theirs)} of {ours['tokens']}" if ours and theirs else ""

    found = {(t, q): answers(options, kept, t, q) for t in TYPES for q in QUESTIONS}
    rows = [[t, *(cell(*found[t, q]) for q in QUESTIONS)] for t in TYPES]
    exact, own = ([found[t, q] for q in QUESTIONS] for t in (TYPES[0], TYPES[-1]))
    rows.append([f"{TYPES[-1]} beside {TYPES[0]}, here", *(cell(e[0], o[0] and o[0]["text"]) for e, o in zip(exact, own))])
    theirs = ({"text": o[1] or "", "tokens": N_GREEDY} for o in own)
    rows.append([f"{TYPES[-1]} beside {TYPES[0]}, llama.cpp", *(cell(o, e[1]) for o, e in zip(theirs, exact))])
    return rows


def tables(options, kept):
    n_tokens, rows = perplexity_rows(options, kept)
    perplexity = table(["weights", "llama.cpp", *(f"here, {name}" for name in WAYS)], rows)
    greedy = table(["weights", *(f"“{question.split('.')[0]}”" for question in QUESTIONS)], greedy_rows(options, kept))
    return {
        "peer perplexity": f"{n_tokens} tokens of `wikitext2.test.txt`: the second half of each window of {WINDOW}, as "
                           f"llama-perplexity judges. Keys and values in float; behind ours, the difference.\n\n{perplexity}",
        "peer greedy": f"How many tokens, from the first of at most {N_GREEDY} on, two answers have in common: those of both programs "
                       "on the same file, and those of each program on two files that hold the same weights.\n\n"
                       f"{greedy}",
    }
