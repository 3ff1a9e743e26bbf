#!/usr/bin/env python3
"""Measures the layouts of weights for prompts in int8 (D1) and writes the tables into docs/sd-npu.md, between its marks.

    python3 scripts/layout_tables.py MODEL.gguf [--pairs 5] [--tokens 256,512,1024] [--program build/release/troika] [--print | --picture]

MODEL is one of real size, for instance of 'troika synth'. The three layouts run in turn, each time as a new process on a
file that is not in the page cache; what the process holds is read from /proc while it runs, and what of the file the page cache
holds when it has ended is asked of the system. Takes some minutes; times are those of a machine that does nothing else.
"""

import argparse
import ctypes
import json
import mmap
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tables import ROOT, replace, table

PAGE = ROOT / "docs/sd-npu.md"
PICTURE = ROOT / "docs/layout-switch-here.svg"
LAYOUTS = ("blocks", "both", "switch")
MB = 1e6


def drop_from_page_cache(path):
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def cached_bytes(path):
    """How much of a file the page cache holds, of all its pages."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    size = os.path.getsize(path)
    n_pages = -(-size // mmap.PAGESIZE)
    with open(path, "rb") as file:
        address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
    pages = (ctypes.c_ubyte * n_pages)()
    failed = libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), pages)
    libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size))
    if failed:
        raise SystemExit(f"{path}: mincore: {os.strerror(ctypes.get_errno())}")
    return sum(page & 1 for page in pages) * mmap.PAGESIZE


def anonymous_bytes(pid):
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Anonymous:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return 0


def run(command):
    """Runs a command; its JSON, and the most memory of its own that it was seen to hold."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdout=out, stderr=err)
        most = 0
        while process.poll() is None:
            most = max(most, anonymous_bytes(process.pid))
            time.sleep(0.02)
        out.seek(0)
        err.seek(0)
        if process.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: {err.read().decode().strip()}")
        return json.loads(out.read()), most


def prompt_of(program, model, n_tokens, folder):
    """A text of so many tokens, as a file; of the longest shorter one where none has exactly so many."""
    path = folder / f"{n_tokens}.txt"
    text = "The weights of a block lie in memory once, and change their layout while others compute. " * n_tokens
    low, high = 1, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        path.write_text(text[:middle])
        done = subprocess.run([program, "tokenize", str(model), "-f", str(path), "--json"], capture_output=True)
        low, high = (middle, high) if json.loads(done.stdout)["n"] <= n_tokens else (low, middle - 1)
    path.write_text(text[:low])
    return path


def first_prompts(program, model, options, lengths, n_pairs, folder):
    """Of each length and layout: what n_pairs new processes say."""
    results = {}
    for n_tokens in lengths:
        prompt = prompt_of(program, model, n_tokens, folder)
        for _ in range(n_pairs):
            for layouts in LAYOUTS:
                drop_from_page_cache(model)
                command = [program, "run", str(model), "-f", str(prompt), "-n", "16", "--ignore-end", "--temp", "0",
                           "--prefill", "int8", "--draft", "none", "--json", "--layouts", layouts, *options]  # fmt: skip
                result, held = run(command)
                result |= {"held": held, "cached": cached_bytes(model)}
                results.setdefault((n_tokens, layouts), []).append(result)
        texts = {tuple(r["tokens"]) for (n, _), rs in results.items() if n == n_tokens for r in rs}
        if len(texts) != 1:
            raise SystemExit(f"{n_tokens} tokens: the layouts give {len(texts)} different answers")
    return results


def later_prompts(program, model, options, lengths, n_pairs):
    """Of each layout: seconds of prompts behind others, by length, and the counters at the end."""
    results = {}
    for layouts in LAYOUTS:
        command = [program, "bench", str(model), "-p", ",".join(map(str, lengths)), "-n", "1", "-r", str(n_pairs),
                   "--prefill", "int8", "--json", "--layouts", layouts, *options]  # fmt: skip
        results[layouts], _ = run(command)
    return results


def median_of(results, value):
    return statistics.median(value(result) for result in results)


def section(first, later, model):
    lengths = list(dict.fromkeys(n for n, _ in first))
    times, memory = [], []
    for n in lengths:
        row = [n]
        for layouts in LAYOUTS:
            seconds = [r["prefill"]["seconds"] for r in first[n, layouts]]
            row.append(f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})")
        switched = first[n, "switch"]
        hidden = median_of(switched, lambda r: max(0.0, r["layouts"]["load_s"] - r["layouts"]["wait_s"]))
        waited = median_of(switched, lambda r: r["layouts"]["wait_s"])
        row += [f"{hidden:.2f} s", f"{1000 * waited:.0f} ms"]
        row += [" / ".join(f"{next(p for p in later[k]['prefill'] if p['tokens'] == n)['tokens_per_s']:.0f}"
                           for k in LAYOUTS)]  # fmt: skip
        times.append(row)
    for layouts in LAYOUTS:
        every = [r for n in lengths for r in first[n, layouts]]
        row = [layouts, f"{max(r['held'] for r in every) / MB:.0f} MB", f"{max(r['cached'] for r in every) / MB:.0f} MB"]
        row.append(f"{median_of(every, lambda r: r['load_s']):.2f} s")
        row.append(f"{median_of(every, lambda r: r['decode']['tokens_per_s']):.1f}")
        memory.append(row)
    counted = [r["layouts"] for n in lengths for r in first[n, "switch"]]
    peak, copy, block = (max(c[k] for c in counted) / MB for k in ("bytes_peak", "bytes_of_a_copy", "bytes_of_a_block"))
    loads = later["switch"]["layouts"]
    return "\n".join([
        f"`{Path(model).name}`, {later['blocks']['threads']} threads, {len(first[lengths[0], 'blocks'])} new processes each, medians (least to most):\n",
        table(["tokens", *(f"prompt, {k}" for k in LAYOUTS), "loads hidden", "waited for",
               "later prompts, tokens/s: " + " / ".join(LAYOUTS)], times) + "\n",
        table(["", "memory of its own, at most", "of the file in the page cache, at most", "load", "tokens/s of the answer"], memory) + "\n",
        f"By its own count the blocks take {peak:.1f} MB at the peak: one copy is {copy:.1f} MB and one block {block:.1f} MB. "
        f"During the later prompts {loads['loads']} blocks changed for steps and {loads['loads_back']} went back.",
    ])  # fmt: skip


def picture(program, model, options, n_tokens, folder):
    """Blocks and loads of a prompt and the steps behind it, as the program draws them."""
    prompt = prompt_of(program, model, n_tokens, folder)
    drop_from_page_cache(model)
    run([program, "run", str(model), "-f", str(prompt), "-n", "3", "--ignore-end", "--temp", "0", "--prefill", "int8", "--draft",
         "none", "--json", "--layouts", "switch", "--timeline", str(PICTURE), *options])  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--tokens", default="256,512,1024")
    parser.add_argument("--program", default=str(ROOT / "build/release/troika"))
    parser.add_argument("--print", action="store_true", help="only print the tables")
    parser.add_argument("--picture", action="store_true", help=f"only draw {PICTURE.relative_to(ROOT)}, of the longest prompt")
    parser.add_argument("options", nargs="*", help="more options of troika, behind --")
    flags = parser.parse_args()
    lengths = [int(n) for n in flags.tokens.split(",")]
    options = ["-c", str(max(lengths) + 64), *flags.options]
    with tempfile.TemporaryDirectory() as folder:
        if flags.picture:
            return picture(flags.program, flags.model, options, max(lengths), Path(folder))
        first = first_prompts(flags.program, flags.model, options, lengths, flags.pairs, Path(folder))
    text = section(first, later_prompts(flags.program, flags.model, options, lengths, flags.pairs), flags.model)
    print(text)
    if flags.print:
        return
    PAGE.write_text(replace(PAGE.read_text("utf-8"), "layouts", text), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
