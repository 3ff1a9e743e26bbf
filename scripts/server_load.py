#!/usr/bin/env python3
"""Measures a server as its clients see it: several streams at once, each event with its time.

Usage: scripts/server_load.py URL [--streams N] [--words N] [--tokens N] [--rounds N] [--rate PER_S] [--first N] [--json]

URL is that of a server with OpenAI's interface, such as http://127.0.0.1:8080. Every stream continues a text of its own
of N words with N tokens. Without --rate all streams of a round begin together; with it they begin at this rate, whether
the ones before have ended or not (an open loop). Printed are the time to the first token, the time between events, the
tokens of all streams per second, how evenly they were served (Jain's index: 1 is even), and the share of a core that this
program took itself, which the server on the same machine does not have.
"""
import argparse
import asyncio
import json
import resource
import statistics
import sys
import time
import urllib.parse

WORDS = "the old man walked along the river and saw a boat with a red sail that the wind moved slowly towards the town".split()


def body_of(stream, words, tokens):
    text = f"Story {stream}: " + " ".join(WORDS[(stream * 7 + i) % len(WORDS)] for i in range(words))
    return json.dumps({"prompt": text, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True,
                       "seed": 1, "stream_options": {"include_usage": True}}).encode()


async def run_stream(host, port, body, begin):
    """The times of the events, and how many tokens there were."""
    await asyncio.sleep(max(0.0, begin - time.perf_counter()))
    start = time.perf_counter()
    reader, writer = await asyncio.open_connection(host, port, limit=1 << 22)
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
                 b"Content-Length: %d\r\n\r\n" % len(body) + body)
    times, tokens, status = [], 0, None
    while line := await reader.readline():
        now = time.perf_counter()
        if status is None:
            status = int(line.split()[1])
            if status != 200:
                raise SystemExit(f"The server answered {status}: {(await reader.read()).decode(errors='replace')}")
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        if event.get("usage"):
            tokens = event["usage"]["completion_tokens"]
        if event["choices"] and event["choices"][0]["text"]:
            times.append(now - start)
    writer.close()
    return {"times": times, "tokens": tokens, "end": time.perf_counter()}


async def run_round(host, port, options, first):
    begin = time.perf_counter()
    gap = 1 / options.rate if options.rate else 0.0
    tasks = [run_stream(host, port, body_of(first + i, options.words, options.tokens), begin + i * gap)
             for i in range(options.streams)]
    streams = await asyncio.gather(*tasks)
    return streams, max(stream["end"] for stream in streams) - begin


def percentile(values, percent):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else 0.0


def figures_of(streams, seconds):
    gaps = [b - a for stream in streams for a, b in zip(stream["times"], stream["times"][1:])]
    rates = [stream["tokens"] / stream["times"][-1] for stream in streams if stream["times"]]
    first = [stream["times"][0] for stream in streams if stream["times"]]
    return {"first_token_ms": {"median": statistics.median(first) * 1e3, "longest": max(first) * 1e3},
            "between_events_ms": {"median": percentile(gaps, 50) * 1e3, "p99": percentile(gaps, 99) * 1e3,
                                  "longest": max(gaps, default=0) * 1e3},
            "tokens_per_s": sum(stream["tokens"] for stream in streams) / seconds,
            "jain": sum(rates) ** 2 / (len(rates) * sum(rate * rate for rate in rates))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", metavar="URL")
    parser.add_argument("--streams", type=int, default=4, metavar="N")
    parser.add_argument("--words", type=int, default=32, metavar="N", help="of each text")
    parser.add_argument("--tokens", type=int, default=64, metavar="N", help="of each answer")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="the one with the median rate is printed")
    parser.add_argument("--rate", type=float, default=0, metavar="PER_S", help="streams that begin in a second")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first text: others begin unlike")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    url = urllib.parse.urlsplit(options.url)
    rounds = []
    start, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    for i in range(options.rounds):
        streams, seconds = asyncio.run(run_round(url.hostname, url.port, options, options.first + i * options.streams))
        rounds.append(figures_of(streams, seconds))
    after = resource.getrusage(resource.RUSAGE_SELF)
    figures = sorted(rounds, key=lambda figures: figures["tokens_per_s"])[len(rounds) // 2]
    figures["own_share_of_a_core"] = ((after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime)
                                      / (time.perf_counter() - start))
    if options.json:
        print(json.dumps(figures))
        return 0
    first, between = figures["first_token_ms"], figures["between_events_ms"]
    print(f"{options.streams} streams, texts of {options.words} words, answers of {options.tokens} tokens, "
          f"the median of {options.rounds} rounds")
    print(f"first token     {first['median']:9.1f} ms   longest {first['longest']:.1f}")
    print(f"between events  {between['median']:9.1f} ms   p99 {between['p99']:.1f}, longest {between['longest']:.1f}")
    print(f"all tokens      {figures['tokens_per_s']:9.1f} /s   evenness {figures['jain']:.3f}")
    print(f"this program    {figures['own_share_of_a_core'] * 100:9.1f} % of a core")
    return 0


if __name__ == "__main__":
    sys.exit(main())
