#!/usr/bin/env python3
"""Builds everything in a folder of its own, without a compiler cache, and prints what it cost.

Usage: scripts/build_costs.py [cmake option...]      for example: -DTROIKA_GROUPS=OFF

For each target the processor time of its compilers, then the dearest units, then both builds as
wholes: the program (what scripts/try.sh waits for) and the rest (what scripts/test.sh adds).
"""
import collections
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "costs"
LOG = FOLDER / "units.log"


def children_s():
    """Processor time of all processes that this one started and waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def launch(command):
    """In the place of a compiler: runs it and writes down its time."""
    status = subprocess.run(command, check=False).returncode
    with open(LOG, "a", encoding="utf-8") as log:  # short lines, appended whole
        log.write(f"{children_s():.2f} {command[command.index('-o') + 1] if '-o' in command else '?'}\n")
    return status


def build(name, *targets):
    start_s, before_s = time.monotonic(), children_s()
    subprocess.run(["cmake", "--build", FOLDER, "--parallel", str(os.cpu_count()), *targets],
                   check=True, stdout=subprocess.DEVNULL)
    return (f"{name}: {children_s() - before_s:.0f} s of processor time, "
            f"{time.monotonic() - start_s:.0f} s by the clock")


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--launch":
        return launch(sys.argv[2:])
    shutil.rmtree(FOLDER, ignore_errors=True)
    launcher = f"{sys.executable};{__file__};--launch"
    subprocess.run(["cmake", "--preset", "release", "-B", FOLDER, f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}",
                    f"-DCMAKE_C_COMPILER_LAUNCHER={launcher}", *sys.argv[1:]],
                   cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    wholes = [build("program", "--target", "troika"), build("rest")]

    units = []
    for line in LOG.read_text(encoding="utf-8").splitlines():
        seconds, path = line.split(maxsplit=1)
        units.append((float(seconds), path))
    of_target = collections.defaultdict(list)
    for seconds, path in units:
        of_target[path.split("CMakeFiles/")[-1].split(".dir/")[0]].append(seconds)
    for target, times in sorted(of_target.items(), key=lambda item: -sum(item[1])):
        print(f"{sum(times):8.1f} s  {len(times):4} units  {target}")
    for seconds, path in sorted(units, reverse=True)[:20]:
        print(f"{seconds:8.1f} s  {path.split('.dir/')[-1]}")
    print(*wholes, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
