"""Runs of the program in a cgroup of its own, with so much memory, and files that are not in the page cache. Needs root."""
import json
import os
import pathlib
import subprocess
import sys

GROUPS = pathlib.Path("/sys/fs/cgroup")


def cool(paths):
    """Drops the files from the page cache."""
    for path in paths:
        subprocess.run(["dd", f"if={path}", "iflag=nocache", "count=0"], check=False, stderr=subprocess.DEVNULL)


def make_group(megabytes):
    """A cgroup of version 2, or of 1 where that is mounted, with so much memory; its file that tells the most it held."""
    has_version_2 = (GROUPS / "cgroup.controllers").exists()
    parent = GROUPS if has_version_2 else GROUPS / "memory"
    group = parent / f"troika-limited-{os.getpid()}"
    try:
        if has_version_2:
            (parent / "cgroup.subtree_control").write_text("+memory", "utf-8")
        group.mkdir(exist_ok=True)  # one may be left of a run that was cut off
        limit = "memory.max" if has_version_2 else "memory.limit_in_bytes"
        (group / limit).write_text(str(megabytes * 1000000), "utf-8")
    except OSError as problem:
        sys.exit(f"error: {problem.filename}: {problem.strerror}. To limit memory needs root, and cgroups with the "
                 "controller memory.")
    return group, "memory.peak" if has_version_2 else "memory.max_usage_in_bytes"


def limited_run(command, files, megabytes, limit_s):
    """Tokens a second, the most that the group held, and what was read; where the program fails, its words."""
    group, peak_file = make_group(megabytes)
    cool(files)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=limit_s,
                              preexec_fn=lambda: (group / "cgroup.procs").write_text("0", "utf-8"))
    except subprocess.TimeoutExpired:
        return {"problem": f"did not end within {limit_s} s"}
    finally:
        peak = int((group / peak_file).read_text("utf-8"))
        group.rmdir()
    if done.returncode != 0:
        return {"problem": done.stderr.strip().splitlines()[-1][:300] if done.stderr.strip() else f"ended with {done.returncode}"}
    result = json.loads(done.stdout)
    return {"tokens_per_s": result["decode"]["tokens_per_s"], "peak_mb": peak / 1e6, "stream": result.get("stream")}
