"""Runs of the program in a cgroup (version 1) of its own, with so much memory, and files that are not in the page cache. Needs root."""
import json
import os
import pathlib
import subprocess

GROUPS = pathlib.Path("/sys/fs/cgroup/memory")


def cool(paths):
    """Drops the files from the page cache."""
    for path in paths:
        subprocess.run(["dd", f"if={path}", "iflag=nocache", "count=0"], check=False, stderr=subprocess.DEVNULL)


def limited_run(command, files, megabytes, limit_s):
    """Tokens a second, the most that the group held, and what was read; where the program fails, its words."""
    group = GROUPS / f"troika-limited-{os.getpid()}"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(megabytes * 1000000), "utf-8")
    cool(files)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=limit_s,
                              preexec_fn=lambda: (group / "cgroup.procs").write_text("0", "utf-8"))
    except subprocess.TimeoutExpired:
        return {"problem": f"did not end within {limit_s} s"}
    finally:
        peak = int((group / "memory.max_usage_in_bytes").read_text("utf-8"))
        group.rmdir()
    if done.returncode != 0:
        return {"problem": done.stderr.strip().splitlines()[-1][:300] if done.stderr.strip() else f"ended with {done.returncode}"}
    result = json.loads(done.stdout)
    return {"tokens_per_s": result["decode"]["tokens_per_s"], "peak_mb": peak / 1e6, "stream": result.get("stream")}
