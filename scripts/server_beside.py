#!/usr/bin/env python3
"""Measures this server and llama-server with the same file, in turn, as their clients see them.

Usage: scripts/server_beside.py MODEL.gguf --troika PATH --llama PATH [--rounds N] [--streams N,N,...] [--long] [--json]

For each number of streams each server is started in turn, `--rounds` times; every stream continues a text of its own
(scripts/server_load.py). Printed are medians. With --long, this server alone: what a prompt of 4,000 tokens that arrives
does to three streams and to a prompt of 64 tokens behind it, and what a second turn of a chat costs.
"""
import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

import server_load

CONTEXT = 8192


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server that runs while this is open."""

    def __init__(self, name, command):
        self.name, self.port = name, free_port()
        self.process = subprocess.Popen([*command, "--port", str(self.port)], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)

    def __enter__(self):
        try:
            self.wait()
        except BaseException:
            self.__exit__()  # nobody else will
            raise
        return self

    def wait(self):
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=2):
                    return
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        raise SystemExit(f"{self.name} does not answer: does it start by hand?")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def commands(options, n_parallel):
    return {"troika": [options.troika, "serve", options.model, "--context", str(CONTEXT), "--parallel", str(n_parallel),
                       *options.troika_flags.split()],
            "llama": [options.llama, "-m", options.model, "-c", str(CONTEXT), "-np", str(n_parallel), "-kvu",
                      "-t", str(os.cpu_count()), *options.llama_flags.split()]}


def measure_load(server, n_streams, options, first):
    load = argparse.Namespace(streams=n_streams, words=48, tokens=options.tokens, rate=0)
    asyncio.run(server_load.run_round("127.0.0.1", server.port, load, first + 500))  # nothing is cold any more
    rounds = []
    for i in range(3):
        streams, seconds = asyncio.run(server_load.run_round("127.0.0.1", server.port, load, first + i * n_streams))
        rounds.append(server_load.figures_of(streams, seconds))
    return sorted(rounds, key=lambda figures: figures["tokens_per_s"])[1]


def median_of(rounds):
    return {"first_ms": statistics.median(f["first_token_ms"]["median"] for f in rounds),
            "between_ms": statistics.median(f["between_events_ms"]["median"] for f in rounds),
            "between_p99_ms": statistics.median(f["between_events_ms"]["p99"] for f in rounds),
            "tokens_per_s": statistics.median(f["tokens_per_s"] for f in rounds),
            "jain": min(f["jain"] for f in rounds)}


def beside(options):
    table = {}
    for n in map(int, options.streams.split(",")):
        rounds = {"troika": [], "llama": []}
        for i in range(options.rounds):
            for name, command in commands(options, n).items():
                with Server(name, command) as server:
                    rounds[name].append(measure_load(server, n, options, 1000 * i))
        table[n] = {name: median_of(of_name) for name, of_name in rounds.items()}
    return table


async def stream(port, path, body, on_event=None):
    """The time to the first text, or to the end where there is none, and how many tokens the prompt had."""
    start = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    body = json.dumps({**body, "stream": True, "stream_options": {"include_usage": True}, "temperature": 0,
                       "ignore_eos": True}).encode()
    writer.write(b"POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
                 b"Content-Length: %d\r\n\r\n" % (path.encode(), len(body)) + body)
    first, n_prompt, text = None, 0, ""
    status = await reader.readline()
    if b" 200 " not in status:
        raise SystemExit(f"The server answered {status.decode().strip()}: {(await reader.read()).decode()[-500:]}")
    while line := await reader.readline():
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        if "error" in event:
            raise SystemExit(event["error"])
        n_prompt = (event.get("usage") or {}).get("prompt_tokens", n_prompt)
        for choice in event["choices"]:
            piece = choice.get("text") or (choice.get("delta") or {}).get("content")
            if piece:
                text += piece
                first = first or time.perf_counter() - start
                if on_event:
                    on_event(time.perf_counter())
    writer.close()
    # A single token may be a part of a character, whose text never comes.
    return {"first_s": first or time.perf_counter() - start, "n_prompt": n_prompt, "text": text}


def words(number, n):
    return f"Story {number}: " + " ".join(server_load.WORDS[(number * 7 + i) % len(server_load.WORDS)] for i in range(n))


def control_tokens(port):
    """Tokens that have no text: behind one of them no event comes, which would look like a pause."""
    tokens = []
    for name in ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "</s>"):
        body = json.dumps({"content": name, "add_special": False, "parse_special": True}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{port}/tokenize", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            found = json.load(answer)["tokens"]
        tokens += found if len(found) == 1 else []
    return tokens


def ask(port, number, n_words, n_tokens, on_event=None, never=()):
    body = {"prompt": words(number, n_words), "max_tokens": n_tokens, "logit_bias": {str(token): -100 for token in never}}
    return stream(port, "/v1/completions", body, on_event)


async def company(port, number, until, gaps, never):
    """A client that asks again and again, and notes when an event came and how long after the one before."""
    while not until.is_set():
        last = []

        def note(now):
            if last:
                gaps.append((now, now - last[-1]))
            last.append(now)
        await ask(port, number, 40, 250, note, never)
        number += 100


async def long_prompt(server, number):
    port = server.port
    await ask(port, number, 40, 8)
    alone = await ask(port, number + 1, 3950, 1)
    short_alone = await ask(port, number + 2, 60, 1)
    until, gaps = asyncio.Event(), []
    never = control_tokens(port)
    others = [asyncio.create_task(company(port, number + 10 + i, until, gaps, never)) for i in range(3)]
    await asyncio.sleep(1.5)
    begin = time.perf_counter()
    task = asyncio.create_task(ask(port, number + 3, 3950, 1))
    await asyncio.sleep(0.3)
    short = await ask(port, number + 4, 60, 1)
    long = await task
    end = time.perf_counter()
    until.set()
    await asyncio.gather(*others)
    during = [gap for at, gap in gaps if begin <= at <= end]
    before = [gap for at, gap in gaps if at < begin]
    return {"prompt_tokens": long["n_prompt"], "alone_s": alone["first_s"], "in_company_s": long["first_s"],
            "longest_gap_ms": max(during) * 1e3, "step_ms": statistics.median(before) * 1e3,
            "short_alone_ms": short_alone["first_s"] * 1e3, "short_behind_ms": short["first_s"] * 1e3}


async def second_turn(server, number):
    async def turn(messages):
        return await stream(server.port, "/v1/chat/completions", {"messages": messages, "max_tokens": 16})
    messages = [{"role": "user", "content": words(number, 3950)}]
    cold = await turn(messages)
    messages += [{"role": "assistant", "content": cold["text"]}, {"role": "user", "content": "And what came of it?"}]
    warm = await turn(messages)
    return {"cold_s": cold["first_s"], "warm_s": warm["first_s"]}


def long_figures(options):
    rounds, turns = [], []
    for i in range(options.rounds):
        with Server("troika", commands(options, 8)["troika"]) as server:
            rounds.append(asyncio.run(long_prompt(server, 1000 * (i + 1))))
            turns.append(asyncio.run(second_turn(server, 1000 * (i + 1) + 500)))
    result = {key: statistics.median(r[key] for r in rounds) for key in rounds[0]}
    result["longest_gap_ms"] = max(r["longest_gap_ms"] for r in rounds)
    result["times_alone"] = statistics.median(r["in_company_s"] / r["alone_s"] for r in rounds)
    result["second_turn_share"] = statistics.median(t["warm_s"] / t["cold_s"] for t in turns)
    return result


def show(table, long):
    for n, row in table.items():
        ours, theirs = row["troika"], row["llama"]
        for key, unit in (("first_ms", "ms"), ("between_ms", "ms"), ("between_p99_ms", "ms"), ("tokens_per_s", "/s")):
            print(f"{n} streams  {key:15} troika {ours[key]:9.1f}  llama {theirs[key]:9.1f} {unit}  "
                  f"ratio {ours[key] / theirs[key]:.2f}")
        print(f"{n} streams  least evenness  troika {ours['jain']:.3f}  llama {theirs['jain']:.3f}")
    for key, value in (long or {}).items():
        print(f"long prompt  {key:18} {value:10.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL.gguf")
    parser.add_argument("--troika", default="build/release/troika", metavar="PATH")
    parser.add_argument("--llama", default="llama-server", metavar="PATH")
    parser.add_argument("--troika-flags", default="", metavar="FLAGS")
    parser.add_argument("--llama-flags", default="", metavar="FLAGS")
    parser.add_argument("--streams", default="1,4,8", metavar="N,N,...")
    parser.add_argument("--tokens", type=int, default=64, metavar="N", help="of each answer")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    table = beside(options) if options.streams != "0" else {}
    long = long_figures(options) if options.long else None
    print(json.dumps({"streams": table, "long": long})) if options.json else show(table, long)
    return 0


if __name__ == "__main__":
    sys.exit(main())
