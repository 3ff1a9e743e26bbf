"""What the scripts that write measured tables into documents share: tables, marks, results that are kept."""
import fcntl
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def zen_of(family, model):
    """Which generation of AMD's cores a family and model belong to; None: another maker's, or an older one."""
    if family == 25:
        return "Zen 4" if 0x10 <= model < 0x20 or model >= 0x60 else "Zen 3"
    return {23: "Zen 2" if model >= 0x30 else "Zen", 26: "Zen 5"}.get(family)


def processor_name():
    """What this machine calls its processor, and its generation where a hypervisor tells only the maker."""
    text = pathlib.Path("/proc/cpuinfo").read_text("utf-8")
    fields = dict(re.findall(r"^(\S[^\t:]*)\s*: (.*)$", text, re.MULTILINE))
    name = fields.get("model name", os.uname().machine)
    zen = zen_of(int(fields["cpu family"]), int(fields["model"])) if fields.get("vendor_id") == "AuthenticAMD" else None
    return f"{name}, {zen}" if zen else name


def processor():
    """The processor, and how many cores of it one may use."""
    n_cores = len(os.sched_getaffinity(0))
    return f"{processor_name()}, {n_cores} core{'' if n_cores == 1 else 's'}"


def table(header, rows):
    """A table of Markdown; cells are texts or numbers."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def between(page, name):
    """Where on the page the text between the marks of that name begins and ends."""
    start, end = f"<!-- table {name} -->\n", "\n<!-- end of table -->"
    if start not in page or end not in page[page.index(start):]:
        sys.exit(f"error: the page has no marks '{start.strip()}' and '{end.strip()}' to write between. Restore them.")
    begin = page.index(start) + len(start)
    return begin, page.index(end, begin - 1)  # - 1: nothing may stand there yet


def replace(page, name, text):
    """The page with this text between the marks of that name."""
    begin, end = between(page, name)
    return page[:begin] + text + page[end:]


def rows_of(page, name):
    """What stands in the table between the marks of that name: the cells behind the first, by the first."""
    begin, end = between(page, name)
    lines = page[begin:end].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return {first: rest for first, *rest in cells}


def run(*command, both=False):
    """The standard output of a program, with `both` its standard error too. Where it fails, its message ends the script."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        last = "\n".join(done.stderr.strip().splitlines()[-5:])
        sys.exit(f"error: {' '.join(map(str, command))} failed:\n{last}")
    return done.stdout + (done.stderr if both else "")


class Kept:
    """Results in a JSON file, written one by one, so that an interrupted table goes on where it stopped. Several scripts
    may measure at once: each adds to what the others wrote. Where nothing may be measured, what is missing is None."""

    def __init__(self, path, may_measure=True):
        self.path = pathlib.Path(path)
        self.may_measure = may_measure

    def found(self):
        return json.loads(self.path.read_text("utf-8")) if self.path.exists() else {}

    def get(self, key, measure):
        found = self.found()
        if key not in found and not self.may_measure:
            return None
        if key not in found:
            print(f"measuring {key}", file=sys.stderr, flush=True)
            result = measure()
            found = self.change(lambda others: {**others, key: result})
        return found[key]

    def fill(self, results, n_rounds, measure, name=lambda key: " ".join(map(str, key))):
        """Appends to each list of results what `measure` finds for its key, round after round, so that all alternate."""
        for i in range(n_rounds):
            for key, rounds in results.items():
                found = self.get(f"{name(key)} {i}", lambda key=key: measure(*key))
                if found:
                    rounds.append(found)

    def forget(self, beginning):
        self.change(lambda found: {key: value for key, value in found.items() if not key.startswith(beginning)})

    def change(self, changed):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path.with_suffix(".lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = changed(self.found())
            whole = self.path.with_suffix(".new")
            whole.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
            os.replace(whole, self.path)  # whole or not at all
        return found
