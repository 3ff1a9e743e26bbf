"""Runs of programs in a cgroup of their own, with so much memory and so fast a disk, and files that are not in the page cache.
Needs root."""
import contextlib
import json
import os
import pathlib
import subprocess
import sys

import real_model
from tables import run

GROUPS = pathlib.Path("/sys/fs/cgroup")


def bundle_files():
    """The side files with bundles of neurons, which the program reads beside models."""
    return real_model.cache_folder().parent.glob("bundles-*")


def cool(paths):
    """Drops the files from the page cache; where that fails, rates of the disk would be those of memory, and the script ends."""
    for path in paths:
        run("dd", f"if={path}", "iflag=nocache", "count=0")


def remove(groups):
    for group in groups:
        with contextlib.suppress(OSError):
            group.rmdir()


def make_group(controller, limit, value):
    """A cgroup of version 2, or of 1 where that is mounted, with a limit, whose files have names in both versions."""
    has_version_2 = (GROUPS / "cgroup.controllers").exists()
    parent = GROUPS if has_version_2 else GROUPS / controller[1]
    group = parent / f"troika-limited-{os.getpid()}"
    try:
        if has_version_2:
            (parent / "cgroup.subtree_control").write_text(f"+{controller[0]}", "utf-8")
        group.mkdir(exist_ok=True)  # one may be left of a run that was cut off
        (group / limit[0 if has_version_2 else 1]).write_text(value[0 if has_version_2 else 1], "utf-8")
    except OSError as problem:
        remove([group])
        sys.exit(f"error: {problem.filename}: {problem.strerror}. To limit memory and disks needs root, and cgroups with the "
                 f"controller {controller[0]}.")
    return group


def memory_group(megabytes):
    """A cgroup with so much memory, and its file that tells the most it held."""
    n_bytes = str(megabytes * 1000000)
    group = make_group(("memory", "memory"), ("memory.max", "memory.limit_in_bytes"), (n_bytes, n_bytes))
    peak = group / "memory.peak"
    return group, peak if peak.exists() else group / "memory.max_usage_in_bytes"


def disk_group(file, megabytes_per_s):
    """A cgroup that reads so much a second, at most, from the disk on which the file lies."""
    device = os.stat(file).st_dev
    disk = f"{os.major(device)}:{os.minor(device)}"
    n_bytes = megabytes_per_s * 1000000
    return make_group(("io", "blkio"), ("io.max", "blkio.throttle.read_bps_device"), (f"{disk} rbps={n_bytes}", f"{disk} {n_bytes}"))


def limited_process(command, files, megabytes, limit_s, disk_mb_per_s=None):
    """What a program wrote, and the most megabytes that its group held; where it fails, its words."""
    group, peak_file = memory_group(megabytes)
    groups = {group}

    def enter():
        for one in groups:
            (one / "cgroup.procs").write_text("0", "utf-8")

    try:
        if disk_mb_per_s:
            groups.add(disk_group(files[0], disk_mb_per_s))
        cool(files)
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=limit_s, preexec_fn=enter)
        peak = int(peak_file.read_text("utf-8"))
    except subprocess.TimeoutExpired:
        return {"problem": f"did not end within {limit_s} s"}
    finally:
        remove(groups)
    if done.returncode != 0:
        return {"problem": done.stderr.strip().splitlines()[-1][:300] if done.stderr.strip() else f"ended with {done.returncode}"}
    return {"out": done.stdout, "err": done.stderr, "peak_mb": peak / 1e6}


def limited_run(command, files, megabytes, limit_s, disk_mb_per_s=None):
    """Tokens a second and what else 'run --json' tells of an answer, the most that the group held, and what was read; where the
    program fails, its words."""
    done = limited_process(command, files, megabytes, limit_s, disk_mb_per_s)
    if "problem" in done:
        return done
    result = json.loads(done["out"])
    return {"tokens_per_s": result["decode"]["tokens_per_s"], "peak_mb": done["peak_mb"], "stream": result.get("stream"),
            "decode": result["decode"], "prefill": result["prefill"]}
