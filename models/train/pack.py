"""Checkpoints as small files: the running mean of the weights in F16, and where the training stands.

    python3 pack.py pack RUN DIRECTORY       # model.pt, stable.pt and the log of RUN -> NAME.RUN.part0 ...
    python3 pack.py unpack DIRECTORY RUN

The optimisers' state is left out: a training resumed from parts starts it anew, with a new rise of the
learning rate, and is not bit for bit the one that went on. Parts have at most 15 MiB.
"""

import io
import sys
from pathlib import Path

import torch

PART_BYTES = 15 << 20
NAMES = ("model", "stable")


def parts_of(name, run, directory):
    return sorted(directory.glob(f"{name}.{run.name}.part*"), key=lambda p: int(p.suffix[5:]))


def pack(run, directory):
    """Old parts are there until all new ones are: they may be the only copy."""
    if not (run / "model.pt").exists():
        raise SystemExit(f"error: {run} has no model.pt to pack. Name the folder of a training.")
    directory.mkdir(parents=True, exist_ok=True)
    fresh = {}  # the name that a new part will have: where it is until then
    try:
        write_parts(run, directory, fresh)
    except BaseException:
        for part in fresh.values():
            part.unlink(missing_ok=True)
        raise
    old = [part for name in NAMES for part in parts_of(name, run, directory)]
    for path, part in fresh.items():
        part.replace(path)
    for path in set(old) - set(fresh):
        path.unlink()


def write_parts(run, directory, fresh):
    for name in NAMES:
        path = run / f"{name}.pt"
        if not path.exists():
            continue
        state = torch.load(path, map_location="cpu", weights_only=False)
        weights = state.pop("mean", state["model"])
        state.pop("optimizers", None)
        state["model"] = {k: v.half() for k, v in weights.items()}
        state["log"] = (run / "log.jsonl").read_text("utf-8") if name == "model" else ""
        buffer = io.BytesIO()
        torch.save(state, buffer)
        raw = buffer.getvalue()
        for i in range(0, len(raw), PART_BYTES):
            part = directory / f"{name}.{run.name}.new{i // PART_BYTES}"
            fresh[directory / f"{name}.{run.name}.part{i // PART_BYTES}"] = part
            part.write_bytes(raw[i : i + PART_BYTES])


def unpack(directory, run):
    """Puts back what is there; returns the names found."""
    run.mkdir(parents=True, exist_ok=True)
    found = []
    for name in NAMES:
        parts = parts_of(name, run, directory)
        if not parts:
            continue
        state = torch.load(io.BytesIO(b"".join(p.read_bytes() for p in parts)), weights_only=False)
        state["model"] = {k: v.float() for k, v in state["model"].items()}
        log = state.pop("log")
        if log:
            (run / "log.jsonl").write_text(log, "utf-8")
        torch.save(state, run / f"{name}.pt")
        found.append(name)
    return found


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("pack", "unpack"):
        sys.exit(__doc__)
    (pack if sys.argv[1] == "pack" else unpack)(Path(sys.argv[2]), Path(sys.argv[3]))
