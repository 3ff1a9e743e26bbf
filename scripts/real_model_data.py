"""The texts that the tables of the real model are measured on: the data folder, and parts of its files."""
import pathlib
import sys

from tables import ROOT

WORK = ROOT / "build" / "real-model"


def data_file(options, name):
    if not options.data:
        sys.exit("error: the data folder is not named. Set TROIKA_DATA to it, or give --data.")
    path = pathlib.Path(options.data) / name
    if not path.exists():
        sys.exit(f"error: {path} is not there. TROIKA_DATA or --data must name a folder that holds {name}.")
    return path


def work_file(name, text):
    """A text in a file of its own."""
    WORK.mkdir(parents=True, exist_ok=True)
    (WORK / name).write_text(text, "utf-8")
    return WORK / name


def beginning(options, name, n_characters):
    """A file with the first characters of a text."""
    text = data_file(options, name).read_text("utf-8")[:n_characters]
    return work_file(f"{n_characters}-{pathlib.Path(name).name}", text)
