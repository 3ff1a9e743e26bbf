#!/usr/bin/env python3
"""A hub on this machine for tests of downloads: it behaves as Hugging Face documents its own, or badly.

usage: hub_server.py FOLDER LOG

Prints the port of the hub, then serves the files of FOLDER as those of every repository, until standard input
ends. Files come by a redirection to a second port, as from another host. What goes wrong follows from the name of
the organisation: see the functions below. LOG gets a line for each request: hub or cdn, path, whether a token
came, and the range that was asked for.
"""
import hashlib
import http.server
import json
import pathlib
import re
import sys
import threading
import time
import urllib.parse

FOLDER = pathlib.Path(sys.argv[1])
LOG = pathlib.Path(sys.argv[2])
PIECE = 10_000
n_answers = {}  # counts answers to requests for bytes, by organisation


def entries(org):
    found = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": "sub"},
             {"type": "file", "oid": "0" * 40, "size": 12, "path": "README.md"}]
    for path in sorted(FOLDER.rglob("*.gguf")):
        data = path.read_bytes()
        entry = {"type": "file", "oid": "0" * 40, "size": len(data), "path": str(path.relative_to(FOLDER))}
        if org == "nohash":
            del entry["oid"]
        elif org == "git":
            entry["oid"] = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        else:
            entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
        found.append(entry)
    if org == "evil":
        found.append({"type": "file", "size": 3, "path": "../../evil.gguf"})
    return found


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    # Says nothing of clients that go away, which some tests are about.
    def handle_error(self, *_):
        pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        role = "hub" if self.server is hub else "cdn"
        token = self.headers.get("Authorization", "no token")
        with LOG.open("a") as log:
            log.write(f"{role} {self.path} [{token}] {self.headers.get('Range', 'whole')}\n")
        url = urllib.parse.urlsplit(self.path)
        parts = [urllib.parse.unquote(part) for part in url.path.strip("/").split("/")]
        try:
            if role == "cdn":
                self.send_file(parts[0], (FOLDER / "/".join(parts[1:])).read_bytes())
            elif parts[:2] == ["api", "models"]:
                self.send_list(parts[2], url.query)
            else:
                self.send_elsewhere(parts[0], "/".join(parts[4:]))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def answer(self, status, body=b"", **fields):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    # Sends the list of files in pages of two entries. "list429" refuses it, "garbage" sends no JSON, and so on.
    def send_list(self, org, query):
        if status := re.fullmatch(r"list(\d+)", org):
            return self.answer(int(status[1]), b"{}", Retry_After="7")
        if org == "garbage":
            return self.answer(200, b"<html>Sign in to this network</html>")
        if org == "bighead":
            return self.answer(200, b"[]", **{f"X-{i}": "x" * 8000 for i in range(35)})
        if org == "bigpage":
            return self.send_endless(b"[" * 65536)
        cursor = int(urllib.parse.parse_qs(query).get("cursor", ["0"])[0])
        found = entries(org)
        fields = {}
        if cursor + 2 < len(found) or org == "endlesspages":
            address = f"http://127.0.0.1:{hub.server_port}{self.path.split('?')[0]}?recursive=true&cursor="
            if org == "elsewhere":
                address = "http://elsewhere.invalid/?cursor="
            fields["Link"] = f'<{address}{cursor + 2}>; rel="next"'
        return self.answer(200, json.dumps(found[cursor:cursor + 2]).encode(), **fields)

    def send_elsewhere(self, org, path):
        if status := re.fullmatch(r"file(\d+)", org):
            return self.answer(int(status[1]))
        target = f"http://127.0.0.1:{cdn.server_port}/{org}/{urllib.parse.quote(path)}"
        if org == "loop":
            target = self.path
        return self.answer(302, b"Found. Redirecting", Location={"filescheme": "file:///etc/passwd"}.get(org, target))

    # Sends the bytes of a file. The first two answers of "cut2" break off, "stall1" falls silent once, "slow1" pauses, "norange"
    # always begins at the beginning, "wrong" changes a byte, and "longer", "shorter" and "endless" lie about the length.
    def send_file(self, org, data):
        n_before = n_answers.get(org, 0)
        n_answers[org] = n_before + 1
        if org == "wrong":
            data = bytes([data[0], data[1] ^ 1]) + data[2:]
        if org in ("longer", "shorter"):
            data = data + b"more" if org == "longer" else data[:-100]
        if org == "endless":
            return self.send_endless(data)
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        begin = int(asked[1]) if asked and not org.startswith("norange") else 0
        if begin >= len(data):
            return self.answer(416, Content_Range=f"bytes */{len(data)}")
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(data) - begin))
        self.send_header("ETag", '"0123"')
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        bad = re.fullmatch(r"(?:norange)?(cut|stall|slow)(\d+)", org)
        if not bad or n_before >= int(bad[2]):
            self.wfile.write(data[begin:])
            return None
        self.wfile.write(data[begin:begin + PIECE])
        self.wfile.flush()
        if bad[1] != "cut":
            time.sleep(60 if bad[1] == "stall" else 0.5)
        if bad[1] == "slow":
            self.wfile.write(data[begin + PIECE:])
            return None
        self.close_connection = True
        return None

    def send_endless(self, data):
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        while True:
            self.wfile.write(data)


def serve():
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


hub, cdn = serve(), serve()
print(hub.server_port, flush=True)
sys.stdin.read()
