#!/usr/bin/env python3
"""The pictures of the documents: what charts say of their lines, and that pictures show what the tables and the program say."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "models/train")]
import neuron_tables  # noqa: E402
import performance_tables  # noqa: E402
import plot  # noqa: E402
from line_chart import line_chart, round_ticks  # noqa: E402


def lines_of(svg):
    """What a chart shows, without its words."""
    return re.findall(r"<(?:polyline|circle)[^>]*>", svg)


class ChartTest(unittest.TestCase):
    def chart(self, lines, **options):
        return line_chart("a < b", ["on a machine", "second & last"], "x", "y", lines, **options)

    def test_all_remarks_are_written(self):
        svg = self.chart({"a": [(1, 1), (2, 2)]})
        for text in (">a &lt; b<", ">on a machine<", ">second &amp; last<", ">a<"):
            self.assertIn(text, svg)

    def test_a_single_point_is_explained_where_other_lines_have_more(self):
        svg = self.chart({"long": [(1, 1), (50, 2)], "short": [(50, 3)]}, x_unit=" %")
        self.assertIn(">long<", svg)
        self.assertIn(">short: measured at 50 % only<", svg)
        self.assertNotIn("only", self.chart({"one": [(50, 3)], "two": [(50, 4)]}))

    def test_names_have_room(self):
        svg = self.chart({"a name of forty letters, which is not short": [(1, 1), (50, 2)]})
        end = float(re.search(r'<text x="([\d.]+)"[^>]*>a name of forty', svg).group(1))
        self.assertLess(end + 6.5 * 43, 800)


class TicksTest(unittest.TestCase):
    def test_ticks_are_round_and_reach_the_largest_value(self):
        self.assertEqual(round_ticks(6), [0, 1, 2, 3, 4, 5, 6])
        self.assertEqual(round_ticks(61), [0, 20, 40, 60, 80])
        for most in (0.02, 0.3, 1, 7, 12, 130, 999, 123456):
            ticks = round_ticks(most)
            self.assertLessEqual(len(ticks), 7)
            self.assertTrue(ticks[-2] < most <= ticks[-1] * (1 + 1e-9))

    def test_a_training_ends_at_its_last_token(self):
        drawn = plot.draw({"loss": ("#446", [(0, 5.0), (61, 2.0)])}, "Training")
        self.assertEqual(re.findall(r'y="328.0" text-anchor="middle">([\d.]+)<', drawn), ["0", "20", "40", "60"])


class PageTest(unittest.TestCase):
    def test_the_picture_of_products_shows_the_table(self):
        record = performance_tables.on_page(performance_tables.PAGE.read_text("utf-8"))
        drawn = performance_tables.picture(record, record[0]["kernels"], "")
        self.assertEqual(len(lines_of(drawn)), 5 + 5 * 4)
        self.assertEqual(lines_of(drawn), lines_of(performance_tables.PICTURE.read_text("utf-8")))

    def test_the_picture_of_budgets_shows_the_table(self):
        drawn = neuron_tables.picture(*neuron_tables.on_page(neuron_tables.PAGE.read_text("utf-8")), "")
        self.assertEqual(len(lines_of(drawn)), 4 + 3 + 1 + 1 + 3)
        self.assertEqual(lines_of(drawn), lines_of(neuron_tables.PICTURE.read_text("utf-8")))


class ProgramTest(unittest.TestCase):
    """A stand-in for the program writes what it is told where --timeline says."""

    def check(self, content):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program"
            program.write_text("#!/bin/sh\ncat > /dev/null\nwhile [ \"$1\" != --timeline ]; do shift; done\n"
                               f"cp {content} \"$2\"\n", "utf-8")
            program.chmod(0o755)
            return subprocess.run([sys.executable, ROOT / "scripts/pictures.py", "--check", "--program", program, "timeline.svg"],
                                  capture_output=True, text=True, check=False)

    def test_a_picture_that_is_drawn_otherwise_is_named(self):
        self.assertEqual(self.check(ROOT / "docs/timeline.svg").returncode, 0)
        other = self.check(ROOT / "docs/head-pipeline.svg")
        self.assertEqual(other.returncode, 1)
        self.assertIn("timeline.svg", other.stderr)

    def test_a_program_that_fails_is_said(self):
        done = self.check("/there/is/no/such/file")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the program failed", done.stderr)


if __name__ == "__main__":
    unittest.main()
