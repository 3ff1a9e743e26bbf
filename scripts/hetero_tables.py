#!/usr/bin/env python3
"""Writes into docs/heterollm.md how HeteroLLM's alternatives compare on this machine.

    TROIKA_OPENVINO=FOLDER python3 scripts/hetero_tables.py MODEL... [--program build/release/troika]
        [--device openvino:CPU] [--prompts 256,300,525,600,1024] [--rounds 3] [--kept build/hetero.json]

Each MODEL is a GGUF file; `troika synth --like NAME` makes some with the shapes of a known model. `troika reproduce
heterollm --measure` runs every system in turn with one core, on an otherwise idle machine. It is asked for one length of
prompts at a time, and what was measured is kept in a file: so models and lengths can be added one by one. Where
TROIKA_OPENVINO_BLOBS names a folder, graphs are compiled once.
"""
import argparse
import json
import pathlib

from tables import ROOT, Kept, replace, run, table

PAGE = ROOT / "docs" / "heterollm.md"


def measured(options, model, prompt):
    command = [options.program, "reproduce", "heterollm", "--phones", ROOT / "phones", "--measure", model, "--device", options.device,
               "--prompts", prompt, "--rounds", options.rounds, "--json"]
    return json.loads(run(*command))["this_machine"]


def joined(results):
    """Results for one length each, as one for all of them. Generation, which no length changes, is that of the first."""
    whole = dict(results[0])
    whole["prompts"] = [n for result in results for n in result["prompts"]]
    whole["gain_over_one_lane"] = [gain for result in results for gain in result["gain_over_one_lane"]]
    whole["cuts"] = "\n".join(f"- for {result['prompts'][0]} tokens: `{result['cuts']}`" for result in results)
    whole["systems"] = []
    for i, system in enumerate(results[0]["systems"]):
        columns = {key: [value for result in results for value in result["systems"][i][key]] for key in ("ms", "of_one_core")}
        whole["systems"].append({**system, **columns})
    return whole


def prompts_table(model, result):
    prompts = result["prompts"]
    rows = []
    for system in result["systems"]:
        cells = [f"{ms:.0f} ms ({ratio:.2f})" for ms, ratio in zip(system["ms"], system["of_one_core"])]
        rows.append([system["name"], *cells, system["how"]])
    gains = [f"{gain:.2f} ×" for gain in result["gain_over_one_lane"]]
    rows.append(["**tensor-level over the better lane alone**", *gains, ""])
    text = table([f"{model}, tokens", *map(str, prompts), "how"], rows)
    return f"{text}\n\nWhat the solver found, as far as parts of a prompt take it:\n\n{result['cuts']}"


def step_text(step):
    text = f"{step['tokens_per_s']:.2f} tokens/s ({step['of_one_core']:.2f} ×)"
    return text + (f", {step['share_of_read_gain']:.2f} of what the cores read ({step['read_gain']:.2f} ×)" if "read_gain" in step else "")


def steps_table(results):
    names = [step["name"] for step in next(iter(results.values()))["steps"]]
    rows = []
    for i, name in enumerate(names):
        steps = [result["steps"][i] for result in results.values()]
        rows.append([name, *map(step_text, steps)])
    return table(["generation", *results], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--program", default=ROOT / "build" / "release" / "troika")
    parser.add_argument("--device", default="openvino:CPU")
    parser.add_argument("--prompts", default="256,300,525,600,1024")
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--kept", default=ROOT / "build" / "hetero.json", type=pathlib.Path)
    options = parser.parse_args()
    kept = Kept(options.kept)
    results = {}
    for model in options.models:
        name = pathlib.Path(model).stem
        results[name] = joined([kept.get(f"{name} {options.device} {prompt}",
                                         lambda model=model, prompt=prompt: measured(options, model, prompt))
                                for prompt in options.prompts.split(",")])
    parts = [prompts_table(name, result) for name, result in results.items()]
    page = PAGE.read_text("utf-8")
    page = replace(page, "hetero here", "\n\n".join([*parts, steps_table(results)]))
    PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
