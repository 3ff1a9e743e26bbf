#!/usr/bin/env python3
"""Sends broken requests to a server and cuts connections, and looks whether it stays as it was.

Usage: scripts/server_broken.py URL [--requests N] [--together N] [--seed N] [--pid PID]

URL is that of a server of this machine, such as http://127.0.0.1:8080; others are refused. The requests are good ones
that were changed: bytes exchanged, cut off, doubled or added, lengths that lie, bodies that are no JSON or have fields of
other kinds at any depth; and good ones whose client leaves at some moment, with or without a reset. Meanwhile /health
is asked. At the end there must be no answer with a status of 500, 502, 503 or 504, no answer left in work, and as many good answers as were asked
for. With --pid the memory of that process is printed before and after. The status is 1 where something is wrong.
"""
import argparse
import asyncio
import collections
import copy
import json
import random
import socket
import struct
import sys
import time
import urllib.parse

PATHS = ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/tokenize", "/detokenize",
         "/apply-template", "/v1/messages/count_tokens", "/v1/embeddings", "/health", "/metrics", "/slots"]
MESSAGES = [{"role": "user", "content": "Tell me of the river and the boat."}]
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"place\":\"Rome\"}"}}
LONG_CHAT = [{"role": "system", "content": "Be short."},
             {"role": "user", "content": [{"type": "text", "text": "Look at Rome."}]},
             {"role": "assistant", "content": None, "tool_calls": [CALL]},
             {"role": "tool", "tool_call_id": "c1", "content": "rain"}]
ITEMS = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look at Rome."}]},
         {"type": "reasoning", "id": "r1", "summary": []},
         {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{\"place\":\"Rome\"}"},
         {"type": "function_call_output", "call_id": "c1", "output": "rain"}]
BLOCKS = [{"role": "user", "content": "Look at Rome."},
          {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {"place": "Rome"}}]},
          {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "rain"}]}]
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {
    "type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}}}]
BODIES = {
    "/v1/chat/completions": {"messages": MESSAGES, "max_tokens": 4, "tools": TOOLS, "temperature": 0.5, "seed": 1},
    "/v1/completions": {"prompt": "Once upon a time", "max_tokens": 4, "logprobs": 2, "n": 2},
    "/v1/responses": {"input": "Once", "max_output_tokens": 4},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 4},
    "/tokenize": {"content": "words and words"}, "/detokenize": {"tokens": [1, 2, 3]},
    "/apply-template": {"messages": MESSAGES}, "/v1/messages/count_tokens": {"messages": MESSAGES},
    "/v1/embeddings": {"input": "a"},
}
# Bodies with more inside, one for each interface of conversations.
DEEP_BODIES = [
    ("/v1/chat/completions", {"messages": LONG_CHAT, "max_tokens": 4, "tools": TOOLS, "stop": ["zz"],
                              "tool_choice": {"type": "function", "function": {"name": "look"}},
                              "chat_template_kwargs": {"enable_thinking": False}, "stream_options": {"include_usage": True}}),
    ("/v1/responses", {"input": ITEMS, "max_output_tokens": 4, "text": {"format": {"type": "text"}},
                       "tools": [{"type": "function", **TOOLS[0]["function"]}],
                       "tool_choice": {"type": "function", "name": "look"}}),
    ("/v1/messages", {"messages": BLOCKS, "max_tokens": 4, "system": [{"type": "text", "text": "Be short."}],
                      "tools": [{"name": "look", "input_schema": TOOLS[0]["function"]["parameters"]}],
                      "tool_choice": {"type": "tool", "name": "look"}, "thinking": {"type": "disabled"}}),
]
VALUES = [None, True, -1, 0, 1.5, 1e308, -1e308, 2**63, "", "x" * 3000, [], [[]], {}, {"a": {"a": {"a": 1}}}, [None],
          "\ud83d", "\x00", [1, "a", {}], {"type": "json_schema", "json_schema": {"schema": {"type": 3}}}]
FIELDS = ["stream", "n", "stop", "seed", "logit_bias", "tools", "tool_choice", "response_format", "grammar", "top_p",
          "messages", "prompt", "max_tokens", "best_of", "echo", "stream_options", "regex", "json_schema", "input"]


def head_of(path, length, more=""):
    method = "POST" if path in BODIES else "GET"
    return (f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n{more}"
            f"Content-Length: {length}\r\n\r\n").encode()


def good_request(dice, stream=None):
    path = dice.choice(list(BODIES)[:4])
    body = dict(BODIES[path])
    body["stream"] = dice.random() < 0.5 if stream is None else stream
    text = json.dumps(body).encode()
    return head_of(path, len(text), "Connection: close\r\n") + text


def spoil_bytes(dice, data):
    data = bytearray(data)
    for _ in range(dice.randint(1, 6)):
        at = dice.randrange(len(data))
        kind = dice.randrange(5)
        if kind == 0:
            data[at] = dice.randrange(256)
        elif kind == 1:
            del data[at:at + dice.randint(1, 20)]
        elif kind == 2:
            data[at:at] = data[at:at + dice.randint(1, 60)]
        elif kind == 3:
            data[at:at] = bytes(dice.randrange(256) for _ in range(dice.randint(1, 30)))
        else:
            data[at:at] = dice.choice([b"\r\n", b"\n", b":", b"\0", b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n"])
        if not data:
            return b"\r\n"
    return bytes(data)


def spoil_place(dice, body):
    """Exchanges, drops or doubles what stands at some place of the body, however deep."""
    at, key = body, dice.choice(list(body))
    while isinstance(at[key], (dict, list)) and at[key] and dice.random() < 0.8:
        at = at[key]
        key = dice.choice(list(at)) if isinstance(at, dict) else dice.randrange(len(at))
    kind = dice.randrange(3)
    if kind == 0:
        del at[key]
    elif kind == 1 and isinstance(at, list):
        at.insert(key, copy.deepcopy(at[key]))
    else:
        at[key] = copy.deepcopy(dice.choice(VALUES))


def broken_request(dice):
    path = dice.choice(PATHS)
    body = dict(BODIES.get(path, {}))
    kind = dice.randrange(8)
    if kind >= 6:
        path, body = copy.deepcopy(dice.choice(DEEP_BODIES))
        for _ in range(dice.randint(1, 3)):
            if body:
                spoil_place(dice, body)
        text = json.dumps(body).encode()
        return head_of(path, len(text), "Connection: close\r\n") + text
    if kind == 0:
        return bytes(dice.randrange(256) for _ in range(dice.randint(1, 400)))
    if kind in (1, 2):  # fields of other kinds
        for _ in range(dice.randint(1, 3)):
            body[dice.choice(FIELDS)] = dice.choice(VALUES)
        text = json.dumps(body).encode()
        return head_of(path, len(text), "Connection: close\r\n") + text
    text = json.dumps(body).encode()
    if kind == 3:  # no JSON any more
        text = spoil_bytes(dice, text)
        return head_of(path, len(text), "Connection: close\r\n") + text
    if kind == 4:  # a length that lies
        length = dice.choice([0, 1, len(text) - 1, len(text) + 50, 10**12, -5])
        return head_of(path, length, "Connection: close\r\n") + text
    return spoil_bytes(dice, head_of(path, len(text)) + text)


def is_fault(status):
    """The server's own: 501 and 505 tell of methods and versions that nobody knows."""
    return status >= 500 and status not in (501, 505)


def leave(writer, hard):
    sock = writer.get_extra_info("socket")
    if hard and sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort() if hard else writer.close()


async def ask(host, port, data, seconds, says_end=False):
    """The status and the whole answer, or what came until the time was over. With `says_end` nothing more is sent, which
    the server takes for a client that has left."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(data)
        if says_end:
            writer.write_eof()
        answer = await asyncio.wait_for(reader.read(), seconds)
    except (ConnectionError, asyncio.TimeoutError, OSError):
        answer = b""
    finally:
        leave(writer, hard=False)
    words = answer.split(b" ", 2)
    return (int(words[1]) if len(words) > 1 and words[1][:3].isdigit() else 0), answer


async def one(host, port, dice, counts):
    kind = dice.random()
    if kind < 0.1:
        status, answer = await ask(host, port, good_request(dice), 120)
        counts["good asked"] += 1
        counts["good answered" if status == 200 and b'"error":{' not in answer else f"good refused with {status}"] += 1
        return
    if kind < 0.6:
        status, answer = await ask(host, port, broken_request(dice), 5, says_end=dice.random() < 0.5)
        counts[f"broken: {status or 'no answer'}"] += 1
        if is_fault(status):
            print(f"status {status}: {answer[:300]!r}", file=sys.stderr)
        return
    # Somebody leaves.
    reader, writer = await asyncio.open_connection(host, port)
    data = good_request(dice)
    try:
        if kind < 0.75:
            writer.write(data[:dice.randrange(len(data))])
            await asyncio.sleep(dice.random() * 0.05)
        else:
            writer.write(data)
            await writer.drain()
            if kind < 0.9:
                await asyncio.sleep(dice.random() * 0.3)
            else:
                await asyncio.wait_for(reader.read(dice.randint(1, 2000)), 60)
    except (ConnectionError, asyncio.TimeoutError, OSError):
        pass
    leave(writer, hard=dice.random() < 0.5)
    counts["cut"] += 1


async def watch_health(host, port, times, is_over):
    while not is_over.is_set():
        start = time.perf_counter()
        status, _ = await ask(host, port, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", 30)
        times.append(time.perf_counter() - start if status == 200 else float("inf"))
        await asyncio.sleep(0.05)


def resident(pid):
    if not pid:
        return None
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) / 1e3 for line in file if line.startswith("VmRSS"))


async def run(options, url):
    counts, times, is_over = collections.Counter(), [], asyncio.Event()
    host, port = url.hostname, url.port
    dice = random.Random(options.seed)
    # What is taken once, such as buffers and prefixes, is there before the first look.
    for _ in range(20):
        await ask(host, port, good_request(dice), 120)
    before = resident(options.pid)
    health = asyncio.create_task(watch_health(host, port, times, is_over))
    gate = asyncio.Semaphore(options.together)

    async def within(number):
        async with gate:
            try:
                await one(host, port, random.Random(options.seed * 1_000_003 + number), counts)
            except OSError:
                counts["no connection"] += 1
    await asyncio.gather(*(within(i) for i in range(options.requests)))
    is_over.set()
    await health
    left = -1
    for _ in range(100):
        _, answer = await ask(host, port, b"GET /slots HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", 10)
        slots = json.loads(answer.split(b"\r\n\r\n", 1)[1] or b"[]")
        left = sum(slot["is_processing"] for slot in slots) if slots else -1
        if left == 0:
            break
        await asyncio.sleep(0.1)
    return counts, sorted(times), left, before, resident(options.pid)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", metavar="URL")
    parser.add_argument("--requests", type=int, default=10_000, metavar="N")
    parser.add_argument("--together", type=int, default=24, metavar="N", help="connections at a time")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--pid", type=int, metavar="PID", help="of the server")
    options = parser.parse_args()
    url = urllib.parse.urlsplit(options.url)
    if url.hostname not in ("127.0.0.1", "::1", "localhost") or url.port is None:
        parser.error("URL must be of this machine, with a port: http://127.0.0.1:8080")
    start = time.perf_counter()
    counts, times, left, before, after = asyncio.run(run(options, url))
    for name, n in sorted(counts.items()):
        print(f"{name:28} {n}")
    print(f"{'seconds':28} {time.perf_counter() - start:.0f}")
    print(f"{'/health, ms':28} median {times[len(times) // 2] * 1e3:.1f}, "
          f"p99 {times[int(len(times) * 0.99)] * 1e3:.1f}, longest {times[-1] * 1e3:.1f}")
    if before is not None:
        print(f"{'memory, MB':28} {before:.1f} before, {after:.1f} after")
    print(f"{'answers left in work':28} {left}")
    broken = [name for name in counts if name == "no connection" or
              (name.startswith("broken: ") and name[8:].isdigit() and is_fault(int(name[8:])))]
    wrong = broken or left != 0 or counts["good answered"] != counts["good asked"] or times[-1] == float("inf")
    print("something is wrong" if wrong else "all is well")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
