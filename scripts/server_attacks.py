#!/usr/bin/env python3
"""Attacks a server with slowhttptest and hey, and measures what healthy clients notice.

Usage: scripts/server_attacks.py URL [--connections N] [--seconds N] [--idle N] [--queued N] [--pairs N] [--answers N] [--no-attacks]

URL is that of a server of this machine, such as http://127.0.0.1:8080; others are refused. slowhttptest and hey are packages
of Debian. First two streams are measured alone (scripts/server_load.py), then during each attack: headers that come a bit at
a time (-H), bodies (-B), answers that are read slowly (-X), ranges (-R), and a flood of requests. For each, the tokens per
second of the healthy streams, the longest time between their events, and what /health takes are printed. How many cores were
busy before says what else ran.

With --idle and --queued one more: so many connections that say nothing, and so many streams that wait for their turn, and
the same without them, in turn, --pairs times. Then the tokens are those of the answers that are computed, as this server's
/slots counts them; their texts are the same each time. Its --queue must hold all that wait.
"""
import argparse
import asyncio
import json
import multiprocessing
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
FLOOD = ["-m", "POST", "-T", "application/json", "-d", '{"content": "words and words"}']


def attacks(url, connections, seconds):
    slow = ["slowhttptest", "-c", str(connections), "-r", "200", "-l", str(seconds), "-i", "5", "-p", "3"]
    chat = url + "/v1/chat/completions"
    return {"-H, slow headers": [*slow, "-H", "-u", url + "/health"],
            "-B, slow bodies": [*slow, "-B", "-s", "65536", "-t", "POST", "-f", "application/json", "-u", chat],
            "-R, ranges": [*slow, "-R", "-t", "GET", "-u", url + "/v1/models"],
            "-X, slow readers": [*slow, "-X", "-w", "10", "-y", "20", "-z", "32", "-k", "3", "-u", url + "/metrics"],
            "hey": ["hey", "-z", f"{seconds}s", "-c", "50", *FLOOD, url + "/tokenize"]}


def ask_for_health(host, port, is_over, to_parent):
    """Asks a few dozen times a second, and sends the sorted times: infinity where no good answer came."""
    to_parent.send("ready")
    times = []
    while not times or not is_over.is_set():
        if not multiprocessing.parent_process().is_alive():
            return
        start = time.perf_counter()
        answer = b""
        try:
            with socket.create_connection((host, port), 20) as connection:
                connection.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                while part := connection.recv(4096):
                    answer += part
        except OSError:
            pass
        times.append(time.perf_counter() - start if b" 200 " in answer[:20] else float("inf"))
        time.sleep(0.02)
    to_parent.send(sorted(times))


class HealthWatch:
    """What /health takes. A process of its own asks, as whoever watches a server is one: the client of the streams would
    wait for a core because it has just been busy with them."""

    def __init__(self, url):
        spawn = multiprocessing.get_context("spawn")
        self.is_over, (self.times, to_parent) = spawn.Event(), spawn.Pipe(duplex=False)
        self.process = spawn.Process(target=ask_for_health, args=(url.hostname, url.port, self.is_over, to_parent),
                                     daemon=True)
        self.process.start()
        self.times.recv()  # until then it starts, which must not fall into what is measured

    def end(self):
        self.is_over.set()
        times = self.times.recv()
        self.process.join()
        return times


def busy_cores(seconds=2):
    """How many cores are busy now, for whomever."""
    def ticks():
        fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        return sum(fields) - fields[3] - fields[4]
    before = ticks()
    time.sleep(seconds)
    return (ticks() - before) / os.sysconf("SC_CLK_TCK") / seconds


async def load(url, rounds):
    process = await asyncio.create_subprocess_exec(
        sys.executable, HERE / "server_load.py", url, "--streams", "2", "--tokens", "48", "--rounds", str(rounds), "--json",
        stdout=subprocess.PIPE)
    out, _ = await process.communicate()
    if process.returncode != 0:
        sys.exit("The streams were not answered: does the server still run?")
    return json.loads(out)


async def crowd(host, port, n_idle, n_queued):
    writers = []
    for i in range(n_idle + n_queued):
        _, writer = await asyncio.open_connection(host, port)
        if i >= n_idle:
            body = json.dumps({"prompt": "Once", "max_tokens": 1500, "ignore_eos": True, "stream": True, "seed": i - n_idle}).encode()
            writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                         b"Content-Length: %d\r\n\r\n" % len(body) + body)
        writers.append(writer)
    return writers


def told_tokens(url):
    """How many tokens each answer in work has, as /slots tells."""
    with urllib.request.urlopen(f"http://{url.netloc}/slots", timeout=20) as answer:
        return {slot["answer"]: slot["tokens"] for slot in json.load(answer) if slot["is_processing"]}


async def beside_crowd(options, url, n_idle, n_queued):
    """/health, and the tokens per second of answers in work, beside a crowd whose first streams are these answers."""
    writers = await crowd(url.hostname, url.port, n_idle, n_queued)
    await asyncio.sleep(2)
    watch = HealthWatch(url)
    before, start = await asyncio.to_thread(told_tokens, url), time.perf_counter()
    await asyncio.sleep(options.seconds)
    after = await asyncio.to_thread(told_tokens, url)
    rate = sum(after[answer] - n for answer, n in before.items() if answer in after) / (time.perf_counter() - start)
    if len(before) < options.answers or set(before) - set(after):
        print("Some answers did not last: give fewer --seconds, or --answers as the server's --parallel says", file=sys.stderr)
    times = watch.end()
    for writer in writers:
        writer.close()
    await asyncio.sleep(1)
    return rate, times


def problem_of(attack, told):
    """What an attack that failed said: a server beside it was not attacked."""
    if attack.returncode in (None, 0):
        return None
    lines = told.read_text("utf-8", "replace").strip().splitlines() or ["without a word"]
    return f"the attack ended with {attack.returncode}: {lines[-1]}"


async def measure(options, url, command):
    """Figures of the healthy streams, what /health took, and what was wrong with the attack."""
    watch, problem = HealthWatch(url), None
    with tempfile.TemporaryDirectory() as folder:
        attack, told = None, pathlib.Path(folder) / "told"
        if command:
            with told.open("wb") as file:
                attack = await asyncio.create_subprocess_exec(*command, cwd=folder, stdout=file, stderr=file)
            await asyncio.sleep(1)
        figures = await load(options.url, options.rounds)
        if attack:
            problem = problem_of(attack, told)
            if attack.returncode is None:
                attack.terminate()
            await attack.wait()
    return figures, watch.end(), problem


def show(name, rate, gap, times):
    print(f"{name:22} {rate:10.1f} {gap:>14} {times[len(times) // 2] * 1e3:14.2f} {times[int(len(times) * .99)] * 1e3:9.2f} "
          f"{times[-1] * 1e3:9.2f} {len(times):8}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", metavar="URL")
    parser.add_argument("--connections", type=int, default=500, metavar="N", help="of slowhttptest")
    parser.add_argument("--seconds", type=int, default=15, metavar="N", help="of an attack at most")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="of the healthy streams")
    parser.add_argument("--idle", type=int, default=0, metavar="N")
    parser.add_argument("--queued", type=int, default=0, metavar="N")
    parser.add_argument("--pairs", type=int, default=5, metavar="N", help="of times with and without a crowd")
    parser.add_argument("--no-attacks", action="store_true", help="measure the crowd alone")
    parser.add_argument("--answers", type=int, default=4, metavar="N", help="that are computed at once: the server's --parallel")
    options = parser.parse_args()
    url = urllib.parse.urlsplit(options.url)
    if url.hostname not in ("127.0.0.1", "::1", "localhost") or url.port is None:
        parser.error("URL must be of this machine, with a port: http://127.0.0.1:8080")
    missing = [name for name in ("slowhttptest", "hey") if not options.no_attacks and not shutil.which(name)]
    if missing:
        parser.error(f"{' and '.join(missing)} not found: apt-get install {' '.join(missing)}")
    print(f"Before all of this {busy_cores():.2f} cores are busy.")
    print(f"{'':22} {'tokens/s':>10} {'longest gap ms':>14} {'/health ms p50':>14} {'p99':>9} {'longest':>9} {'asked':>8}")
    failed = False
    attacked = {"alone": None, **attacks(options.url, options.connections, options.seconds), "alone again": None}
    for name, command in {} if options.no_attacks else attacked.items():
        figures, times, problem = asyncio.run(measure(options, url, command))
        failed = failed or times[-1] == float("inf") or problem is not None
        if problem:
            print(f"{name}: {problem}", file=sys.stderr)
            continue
        show(name, figures["tokens_per_s"], f"{figures['between_events_ms']['longest']:.0f}", times)
    rates = {}
    for _ in range(options.pairs if options.idle or options.queued else 0):
        for name, n_idle, n_queued in (("without a crowd", 0, 0), (f"{options.idle} idle, {options.queued} wait", options.idle,
                                                                   options.queued)):
            rate, times = asyncio.run(beside_crowd(options, url, n_idle, options.answers + n_queued))
            failed = failed or times[-1] == float("inf")
            show(name, rate, "", times)
            rates.setdefault(name, []).append(rate)
    if rates:
        alone, beside = rates.values()
        medians = statistics.median(beside) / statistics.median(alone)
        pairs = [b / a for a, b in zip(alone, beside)]
        error = f", give or take {100 * statistics.stdev(pairs) / len(pairs) ** 0.5:.1f} %" if len(pairs) > 1 else ""
        print(f"Beside the crowd the answers have {100 * statistics.fmean(pairs):.1f} % of their speed{error} (the mean of the pairs; "
              f"{100 * medians:.1f} % by medians).")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
