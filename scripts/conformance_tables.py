#!/usr/bin/env python3
"""Computes the tables of docs/conformance.md and writes them there.

Usage: scripts/conformance_tables.py [--build BUILD] [--llama FOLDER [--exact FOLDER]] [--print]

BUILD (build/release) holds tests/troika_test_whole: its tests print the figures of the engine beside the reference.
With --llama, a folder of llama.cpp with its build/, the tables beside llama.cpp are made too; BUILD must be configured
with -DTROIKA_LLAMA_CPP=FOLDER. --exact names a folder with a libggml-cpu.so.0 that computes GELU instead of looking
it up; without it one is built below BUILD. --print writes to standard output only.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from tables import ROOT, replace, table

PAGE = ROOT / "docs" / "conformance.md"
TYPES = ["F32", "F16", "BF16", "Q8_0", "Q5_0", "Q4_0", "Q6_K", "Q4_K", "Q4_1", "Q5_1", "Q2_K", "Q3_K", "Q5_K",
         "IQ4_NL", "IQ4_XS", "MXFP4"]
N_GREEDY = 64
LARGE_TYPES = ["F16", "Q8_0", "Q4_K"]
TESTS = ":".join(["Every/Variant.*", "Every/Format.Agrees*", "Every/Format.Rounds*", "Every/KvType.*", "Mixture.*",
                  "All/OpenclModels.InFloatsAgree*", "All/OpenclModels.InFloatsSay*", "The/OpenclTrained.SayInFloats*"])
ON_DEVICE = "on an OpenCL device"


def by_type(found, models, cell):
    """A row for each model, a column for each type; `found` maps (model, type) to what `cell` turns into text."""
    types = [t for t in TYPES if any((m, t) in found for m in models)]
    rows = [[m] + [cell(found[m, t]) if (m, t) in found else "" for t in types] for m in models]
    return table(["model"] + types, rows)


def number(value):
    return f"{value:.1e}"


# What the tests print: "NAME[, how]: error X".
LINE = re.compile(r"^(?P<name>[a-z0-9.-]+(?:-[A-Z0-9_]+)?)(?P<how>(?:, [^:]*)?): error (?P<error>[0-9.e+-]+)$")


def figures(output):
    """Maps (name, what) to the largest error; the names of kernels are left out of `what`."""
    worst = collections.defaultdict(float)
    for line in output.splitlines():
        match = LINE.match(line)
        if not match:
            continue
        how = match["how"].removeprefix(", ")
        what = re.sub(r"^(avx\w+|amx\w*|neon|i8mm|reference)(, |$)", "", how)
        key = (match["name"], what)
        worst[key] = max(worst[key], float(match["error"]))
    return worst


# What tests of devices print: "NAME, greedy tokens on an OpenCL device as on cores: N of N".
GREEDY = re.compile(r"^(?P<name>[a-z0-9.-]+), greedy tokens " + ON_DEVICE + r" as on cores: (?P<found>\d+ of \d+)$", re.MULTILINE)


def run_tests(build):
    program = build / "tests" / "troika_test_whole"
    done = subprocess.run([program, f"--gtest_filter={TESTS}"], env={**os.environ, "TROIKA_EVERY_FORMAT": "1"},
                          capture_output=True, text=True)
    if done.returncode != 0:
        failed = [line for line in done.stdout.splitlines() if "FAILED" in line]
        sys.exit("\n".join(failed[-30:]) + "\nerror: tests fail, so there are no figures")
    greedy = {match["name"]: match["found"] for match in GREEDY.finditer(done.stdout)}
    return figures(done.stdout), greedy


def device_tables(worst, greedy):
    """No table where this machine has no OpenCL device, so that the page keeps the one it has."""
    rows = [[name, number(worst[name, ON_DEVICE]), found] for name, found in greedy.items()]
    return {"devices": table(["model", "difference", "greedy tokens as on cores"], rows)} if rows else {}


def engine_tables(worst, greedy):
    float_rows, names = [], list(dict.fromkeys(name for name, what in worst if what == "plain kernels"))
    for name in names:
        float_rows.append([name] + [number(worst[name, what]) for what in
                                    ("", "plain kernels", "as it runs by default")])
    ways = {}
    for (name, what), error in worst.items():
        model, _, type_name = name.rpartition("-")
        if type_name in TYPES:
            ways.setdefault(what, {})[model, type_name] = error
    models = list(dict.fromkeys(model for model, _ in ways[""]))
    prompts = [[m] + [number(max(error for (model, _), error in ways[f"prompts in {p}"].items() if model == m))
                      for p in ("f32", "bf16", "int8")] for m in models]
    kv = [[m] + [number(worst[m, f"keys and values in {kv}"]) for kv in ("f32", "f16", "q8_0")] for m in models]
    return {
        "engine variants": table(["model", "difference", "plain kernels", "as it runs by default"], float_rows),
        "engine float": by_type(ways[""], models, number),
        "engine int8 both": by_type(ways["both round to 8 bits"], models, number),
        "engine int8": by_type(ways["8-bit activations"], models, number),
        "engine prompts": table(["model", "f32", "bf16", "int8"], prompts),
        "engine kv": table(["model", "F32", "F16", "Q8_0"], kv),
        **device_tables(worst, greedy),
    }


def build_exact(llama, folder):
    """llama.cpp's kernels with GELU computed instead of looked up."""
    if not (folder / "libggml-cpu.so.0").exists():
        shutil.copytree(llama / "ggml", folder / "ggml", dirs_exist_ok=True)
        header = folder / "ggml" / "src" / "ggml-cpu" / "vec.h"
        text = header.read_text()
        assert "#define GGML_GELU_FP16\n" in text, "another version of llama.cpp"
        header.write_text(text.replace("#define GGML_GELU_FP16\n", ""))
        made = folder / "build"
        subprocess.run(["cmake", "-G", "Ninja", "-S", folder / "ggml", "-B", made, "-DCMAKE_BUILD_TYPE=Release"],
                       check=True, stdout=sys.stderr)
        subprocess.run(["cmake", "--build", made, "--target", "ggml-cpu"], check=True, stdout=sys.stderr)
        shutil.copy(next(made.rglob("libggml-cpu.so.0")), folder / "libggml-cpu.so.0")
    return folder


def beside_llama(build, libraries, *words):
    paths = ":".join(str(folder) for folder in libraries)
    done = subprocess.run([build / "tests" / "troika_beside_llama", *words], stdout=subprocess.PIPE, text=True,
                          check=True, env={**os.environ, "LD_LIBRARY_PATH": paths})
    return [json.loads(line) for line in done.stdout.splitlines()]


def difference(row):
    agreed = "" if row["greedy"] == N_GREEDY else f" ({row['greedy']})"
    return number(row["difference"]) + agreed


def large_table(exact, plain):
    def cell(pair):
        return number(pair[0]) if pair[0] < 1e-4 else f"{number(pair[1])}, {number(pair[0])}"
    rows = [[computed["type"], str(computed["fewest"]), cell(computed["llama"]), str(computed["greedy"]),
             cell(as_it_is["llama"]), *(cell(computed[prefill]) for prefill in ("same", "f32", "bf16", "int8"))]
            for computed, as_it_is in zip(exact, plain)]
    return table(["type", "fewest tokens of an expert", "llama.cpp, same arithmetic", "greedy tokens that agree",
                  "llama.cpp, file as it is", "engine, as single tokens", "prompts in f32", "bf16", "int8"], rows)


def run_beside_llama(build, llama, exact_folder):
    stock = [llama / "build" / "bin"]
    exact = [exact_folder, *stock]
    return (beside_llama(build, exact, "decoded"), beside_llama(build, stock, "plain"),
            beside_llama(build, exact, "decoded", "--large", *LARGE_TYPES),
            beside_llama(build, stock, "plain", "--large", *LARGE_TYPES))


def llama_tables(same, plain, large_same, large_plain):
    models = list(dict.fromkeys(row["model"] for row in same if row["type"] != "F32"))
    found_same, found_plain = ({(row["model"], row["type"]): row for row in rows} for rows in (same, plain))
    variants = [[name, difference(row), difference(found_plain[name, "F32"])]
                for (name, _), row in found_same.items() if name not in models]
    return {
        "llama same": by_type(found_same, models, difference),
        "llama plain": by_type(found_plain, models, difference),
        "llama variants": table(["model", "same arithmetic", "file as it is"], variants),
        "large": large_table(large_same, large_plain),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--llama", type=pathlib.Path)
    parser.add_argument("--exact", type=pathlib.Path)
    parser.add_argument("--print", action="store_true")
    arguments = parser.parse_args()
    makers = [lambda: engine_tables(*run_tests(arguments.build))]
    if arguments.llama:
        exact = arguments.exact or build_exact(arguments.llama, arguments.build / "llama-exact")
        makers.append(lambda: llama_tables(*run_beside_llama(arguments.build, arguments.llama.resolve(),
                                                             exact.resolve())))
    for maker in makers:
        tables = maker()
        if arguments.print:
            print("\n\n".join(f"{name}\n\n{text}" for name, text in tables.items()) + "\n")
            continue
        page = PAGE.read_text()
        for name, text in tables.items():
            page = replace(page, name, text)
        PAGE.write_text(page)


if __name__ == "__main__":
    main()
