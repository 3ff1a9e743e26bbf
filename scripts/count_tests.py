#!/usr/bin/env python3
"""Prints the counts of a test report that ctest wrote, which tests failed and why others were skipped. Fails where none has passed:
a stage whose tests were all skipped has tested nothing.

Usage: scripts/count_tests.py NAME REPORT.xml
"""
import collections
import re
import sys
import xml.etree.ElementTree

UNKNOWN = "without a reason"


def reason_of(case):
    """What a test said when it skipped itself: the line behind 'FILE:LINE: Skipped', or behind 'skipped: ' at its beginning."""
    output = case.findtext("system-out") or ""
    found = re.search(r":\d+: Skipped\n(.+)|\Askipped: (.+)", output)
    return found.group(found.lastindex).strip() if found else UNKNOWN


def main():
    name, path = sys.argv[1:]
    try:
        suite = xml.etree.ElementTree.parse(path).getroot()
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        print(f"{name}: ctest has left no report of its tests in {path} ({error}). It was cut off, or the disk is full.")
        return 1
    total, failed, skipped = (int(suite.get(key, 0)) for key in ("tests", "failures", "skipped"))
    # ctest counts tests that could not be started (a missing program) apart from the failed ones.
    failed += int(suite.get("errors", 0))
    for case in suite.iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            print(f"  failed: {case.get('name')}")
    reasons = collections.Counter(reason_of(case) for case in suite.iter("testcase") if case.find("skipped") is not None)
    for reason, n in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
        print(f"  {n:4} skipped: {reason}")
    n_passed = total - failed - skipped
    print(f"{name}: {n_passed} tests passed, {failed} failed, {skipped} skipped")
    return 0 if n_passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
