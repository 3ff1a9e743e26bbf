#!/usr/bin/env python3
"""Writes what `troika reproduce` prints into docs/virtual-phone.md, docs/sd-npu.md, docs/heterollm.md, docs/shadowattn.md,
docs/powerinfer-2.md and docs/techniques.md, and looks whether phones/record.json ends with today's figures.

Usage: scripts/phone_tables.py [--program PROGRAM] [--check]

Replaces what stands between the marks of its tables. --check changes nothing and exits with 1 where a page
is not what the command prints. Either way it exits with 1 where a figure moved and phones/record.json does not
say what moved it.
"""
import argparse
import functools
import json
import pathlib
import re
import sys

from tables import ROOT, replace, run, table

PAGES = {"virtual-phone.md": ["residuals", "baselines", "llm.npu", "sensitivities", "record micro", "record baselines",
                              "record llm.npu"],
         "sd-npu.md": ["sd.npu", "table 3", "record sd.npu"],
         "heterollm.md": ["heterollm", "heterollm rows", "heterollm lengths", "record heterollm"],
         "shadowattn.md": ["shadowattn", "shadowattn rows", "shadowattn kernels", "shadowattn ablation",
                           "shadowattn sensitivities", "record shadowattn"],
         "techniques.md": ["papers"],
         "powerinfer-2.md": ["powerinfer-2", "powerinfer-2 rows", "overlaps", "record powerinfer-2"]}


PAGE_OF = {"llm.npu": "virtual-phone.md", "sd.npu": "sd-npu.md", "heterollm": "heterollm.md", "shadowattn": "shadowattn.md",
           "powerinfer-2": "powerinfer-2.md"}
REPORTS = ("micro", "baselines", "llm.npu", "sd.npu", "heterollm", "shadowattn", "powerinfer-2")
# The record holds figures with one digit behind the point.
ROUNDING = 0.051


def reproduce(program, *arguments):
    return run(program, "reproduce", *arguments, "--phones", ROOT / "phones")


@functools.lru_cache(maxsize=None)
def all_reports(program):
    """What the commands simulate takes a minute: it is done once."""
    return json.loads(reproduce(program, "all", "--json"))


def report_of(program, name):
    return all_reports(program)[name]


def percent(share):
    """The share of a median; there is none where no row is of its kind."""
    return "–" if share is None else f"{100 * share:.1f} %"


def signed(share):
    return f"{100 * share:+.0f} %".replace("-", "−")


def median(values):
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def residuals(program):
    """The groups of `reproduce micro` without rows that are constants themselves, and its summary."""
    text = reproduce(program, "micro")
    groups = re.split(r"\n(?=\S)", text.strip("\n"))
    kept = [group.rstrip() for group in groups if "\n" in group and not group.startswith(("taken as", "not simulated"))]
    summary = [group for group in groups if group.startswith(("fitted:", "held out:", "taken:", "not simulated:"))
               and "\n" not in group.strip()]
    return "```\n" + "\n\n".join(kept) + "\n```\n\n```\n" + "\n".join(line.strip() for line in summary) + "\n```"


def baselines(report):
    groups = {}
    for row in report["rows"]:
        if row["error"] is None:
            continue
        part = row["name"].split(", ")[-1] if row["where"] == "Table 5" else ""
        groups.setdefault((row["group"], part), []).append(row["error"])
    rows = [[f"{group}{': ' + part if part else ''}", len(errors), signed(median(errors)), signed(min(errors)),
             signed(max(errors))] for (group, part), errors in groups.items()]
    return table(["rows", "values", "error, median", "from", "to"], rows)


def medians(report):
    rows = [[name, report["counts"][name], percent(report["median_error"][name])]
            for name in ("values", "ratios", "ranges", "all")]
    rows += [[f"of these: {name}", part["count"], percent(part["median_error"])]
             for name, part in report["parts"].items() if part["count"]]
    text = table(["rows", "figures", "median error"], rows)
    counts = {"clear": [0, 0], "close": [0, 0], "bare": [0, 0]}
    for ordering in report["orderings"]:
        kind = "bare" if not ordering["has_figures"] else "close" if ordering["is_close"] else "clear"
        counts[kind][0] += ordering["is_kept"]
        counts[kind][1] += 1
    words = {"clear": "where figures differ by twice or more", "close": "where figures differ by less",
             "bare": "that are held as sentences without figures"}
    kept = "; ".join(f"{kept} of {n} {words[kind]}" for kind, (kept, n) in counts.items() if n)
    return f"{text}\n\nOrderings kept: {kept}."


def papers(report):
    """The papers side by side."""
    rows = []
    for name, page in PAGE_OF.items():
        now = report(name)
        kept = sum(ordering["is_kept"] for ordering in now["orderings"])
        rows.append([f"[{name}]({page})", now["counts"]["all"], percent(now["median_error"]["values"]),
                     percent(now["median_error"]["ratios"]), percent(now["median_error"]["all"]), f"{kept} of {len(now['orderings'])}"])
    return table(["paper", "figures", "median error of values", "of ratios", "of all", "orderings kept"], rows)


def figures(of):
    if "held-out" in of:
        return f"fit {of['fit']:.1f} %, held out {of['held-out']:.1f} %"
    text = ", ".join(f"{name} {of[name]:.1f} %" for name in ("values", "all") if name in of)
    return text + (f", {of['kept']:.0f} of {of['orderings']:.0f}" if "kept" in of else "")


def record(report):
    """Every change that moved a report, with its figures before and after."""
    rows, before = [], "–"
    for change in json.loads((ROOT / "phones" / "record.json").read_text())["changes"]:
        if report not in change["figures"]:
            continue
        after = figures(change["figures"][report])
        reason = f": {change['reason']}" if change["reason"] else ""
        rows.append([change["date"], change["kind"], change["what"] + reason, before, after])
        before = after
    return table(["date", "kind", "what, and why", "before", "after"], rows)


def figures_now(report):
    """A report's figures as the record holds them."""
    medians_now = {name: 100 * error for name, error in report["median_error"].items() if error is not None}
    if "orderings" not in report:
        return {"all": medians_now["test"]} if "test" in medians_now else medians_now
    return {**medians_now, "kept": sum(ordering["is_kept"] for ordering in report["orderings"]),
            "orderings": len(report["orderings"])}


def unrecorded(program):
    """Figures that are not those of the last entry for their report: whoever moves one writes down why."""
    last = {}
    for change in json.loads((ROOT / "phones" / "record.json").read_text())["changes"]:
        last.update(change["figures"])
    lines = [f"{name} has reports that nobody makes" for name in sorted(set(last) - set(REPORTS))]
    for name in REPORTS:
        now, then = figures_now(report_of(program, name)), last.get(name, {})
        for figure in sorted(set(now) | set(then)):
            a, b = now.get(figure), then.get(figure)
            if a is None or b is None or abs(a - b) > ROUNDING:
                lines.append(f"{name}, {figure}: {a} now, {b} in the record")
    return lines


def sensitivities(report):
    found = report["sensitivities"]
    rows = [[f"`{s['constant']}`", percent(s["values"]), percent(s["prompts"]), percent(s["all"]),
             f"{s['kept']} of {s['orderings']}"] for s in found]
    return table(["constant", "values", "prompts", "all", "orderings"], rows)


def overlaps(report):
    found = report["overlaps"]
    rows = [[f"{o['overlap']:g}", percent(o["miss_rate"]), f"{o['tokens_per_s']:.2f}", f"{o['by_matrix']:.2f}",
             f"{o['llmflash']:.2f}"] for o in found]
    return table(["overlap", "read", "tokens/s", "by matrices", "as LLMFlash"], rows)


def table3(report):
    cells = {}
    for row in report["rows"]:
        match = re.match(r"per-token latency, (NPU vanilla|\+SD|sd\.npu)", row["name"])
        if row["where"] == "Table 3" and match:
            model = row["inputs"].split(",")[0]
            steps = re.search(r"steps ([\d.]+) ms", row["inputs"]).group(1)
            behind = re.search(r"behind the prompt ([\d.]+) ms", row["inputs"])
            cells.setdefault(model, []).extend([f"{row['published']:g}", f"{row['simulated']:.1f}", steps])
            if behind:
                cells[model].append(behind.group(1))
    head = ["", "NPU", "", "", "+SD", "", "", "sd.npu", "", "", ""]
    names = [""] + ["published", "simulated", "steps"] * 3 + ["calibrated behind the prompt"]
    return table(head, [names] + [[model] + row for model, row in cells.items()])


def rows_of(report):
    """Every simulated row beside what is published."""
    rows = []
    for row in report["rows"]:
        if row.get("simulated") is None:
            continue
        published = row.get("published")
        if published is None:
            published = "{:g} to {:g}".format(*row["published_range"])
        simulated = f"{row['simulated']:.4g}"
        if row.get("simulated_range"):
            simulated = "{:.4g} to {:.4g}".format(*row["simulated_range"])
        error = signed(row["error"]) + (", not counted" if row["reason"] else "")
        rows.append([row["id"], row["name"], published, simulated, row["unit"], error])
    return table(["row", "what", "published", "simulated", "unit", "error"], rows)


def kernels(report):
    """Time and energy of attention over 1,024 tokens, the energy over that of full attention on the CPU and as published."""
    systems = list(dict.fromkeys(kernel["system"] for kernel in report["kernels"]))
    rows = {}
    for kernel in report["kernels"]:
        first = rows.setdefault(kernel["model"], [kernel])[0]
        if kernel is not first:
            rows[kernel["model"]].append(kernel)
    text = [[model] + [f"{1e3 * k['seconds']:.0f} ms · {k['joules'] / of[0]['joules']:.2f} ({k['published_energy']:.2f})" for k in of]
            for model, of in rows.items()]
    return table(["time · energy over C/G-Full (published)"] + systems, text)


def odd_prompts(report):
    """Milliseconds of prompts whose length has no graph; behind a +, the time to make graphs."""
    lengths = list(dict.fromkeys(prompt["tokens"] for prompt in report["odd_prompts"]))
    rows = {}
    for prompt in report["odd_prompts"]:
        graphs = f" + {1e3 * prompt['graphs_s']:.0f}" if prompt["graphs_s"] else ""
        rows.setdefault(prompt["system"], []).append(f"{1e3 * (prompt['seconds'] - prompt['graphs_s']):.0f}{graphs}")
    return table(["tokens"] + [str(n) for n in lengths], [[system] + cells for system, cells in rows.items()])


def ablation(report):
    return table(["", "request, s", "prompt, J"],
                 [[row["what"], f"{row['seconds']:.2f}", f"{row['joules']:.2f}"] for row in report["ablation"]])


def shadow_sensitivities(report):
    rows = [[f"`{s['constant']}`", percent(s["all"]), f"{s['kept']} of {s['orderings']}", f"{s['kernels']:.2f}",
             f"{s['requests']:.2f}"] for s in report["sensitivities"]]
    return table(["constant", "median error", "orderings", "mean gain of kernels", "of requests"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build" / "release" / "troika"))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    program = pathlib.Path(options.program).resolve()
    report = functools.partial(report_of, program)
    texts = {"residuals": lambda: residuals(program), "baselines": lambda: baselines(report("baselines")),
             "llm.npu": lambda: medians(report("llm.npu")), "sd.npu": lambda: medians(report("sd.npu")),
             "powerinfer-2": lambda: medians(report("powerinfer-2")), "overlaps": lambda: overlaps(report("powerinfer-2")),
             "powerinfer-2 rows": lambda: rows_of(report("powerinfer-2")),
             "heterollm": lambda: medians(report("heterollm")), "heterollm rows": lambda: rows_of(report("heterollm")),
             "heterollm lengths": lambda: odd_prompts(report("heterollm")),
             "shadowattn": lambda: medians(report("shadowattn")), "shadowattn rows": lambda: rows_of(report("shadowattn")),
             "shadowattn kernels": lambda: kernels(report("shadowattn")),
             "shadowattn ablation": lambda: ablation(report("shadowattn")),
             "shadowattn sensitivities": lambda: shadow_sensitivities(report("shadowattn")),
             "papers": lambda: papers(report), "table 3": lambda: table3(report("sd.npu")), "sensitivities": lambda: sensitivities(report("llm.npu"))}
    texts.update({f"record {name}": lambda name=name: record(name) for name in REPORTS})
    stale = []
    for name, tables in PAGES.items():
        page = ROOT / "docs" / name
        text = new = page.read_text()
        for key in tables:
            new = replace(new, key, texts[key]())
        if new != text:
            stale.append(name)
            if not options.check:
                page.write_text(new)
    moved = unrecorded(program)
    if moved:
        print("Add what changed to phones/record.json:", *moved, sep="\n  ")
        return 1
    if options.check and stale:
        print(f"Not what 'troika reproduce' prints: {', '.join(stale)}. Run scripts/phone_tables.py.")
        return 1
    print(f"Written: {', '.join(stale)}." if stale else "The pages say what 'troika reproduce' prints.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
