#!/usr/bin/env python3
"""Prints one line with the counts of a test report that ctest wrote.

Usage: scripts/count_tests.py NAME REPORT.xml
"""
import sys
import xml.etree.ElementTree


def main():
    name, path = sys.argv[1:]
    suite = xml.etree.ElementTree.parse(path).getroot()
    total, failed, skipped = (int(suite.get(key, 0)) for key in ("tests", "failures", "skipped"))
    # ctest counts tests that could not be started (a missing program) apart from the failed ones.
    failed += int(suite.get("errors", 0))
    print(f"{name}: {total - failed - skipped} tests passed, {failed} failed, {skipped} skipped")


if __name__ == "__main__":
    main()
