#!/usr/bin/env python3
"""What the scripts that measure servers do without one: attacks that fail, servers that do not answer."""
import argparse
import asyncio
import contextlib
import io
import pathlib
import sys
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import server_attacks as attacks  # noqa: E402
import server_beside as beside  # noqa: E402

SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]


class AttackTest(unittest.TestCase):
    def problem(self, command):
        """What is found wrong with an attack that ends at once, or not at all, while streams are measured."""
        async def load(_url, _rounds):
            for process in started:
                if process is not sleeper:
                    await process.wait()
            return {}

        start, started, sleeper = asyncio.create_subprocess_exec, [], None

        async def note(*words, **options):
            nonlocal sleeper
            started.append(await start(*words, **options))
            sleeper = started[-1] if list(words) == SLEEPS else None
            return started[-1]

        options = argparse.Namespace(url="http://127.0.0.1:1", rounds=1)
        with unittest.mock.patch.object(attacks, "HealthWatch"), unittest.mock.patch.object(attacks, "load", load), \
                unittest.mock.patch("asyncio.create_subprocess_exec", note):
            problem = asyncio.run(attacks.measure(options, None, command))[2]
        self.assertTrue(all(process.returncode is not None for process in started))
        return problem

    def test_an_attack_that_failed_is_told(self):
        said = self.problem([sys.executable, "-c", "import sys; sys.exit('too many files')"])
        self.assertIn("ended with 1: too many files", said)
        self.assertIn("without a word", self.problem([sys.executable, "-c", "import sys; sys.exit(2)"]))

    def test_an_attack_may_end_or_last(self):
        self.assertIsNone(self.problem([sys.executable, "-c", ""]))
        self.assertIsNone(self.problem(SLEEPS))
        self.assertIsNone(self.problem(None))

    def run_main(self, *words):
        with unittest.mock.patch("sys.argv", ["server_attacks.py", "http://127.0.0.1:1", *words]), \
                unittest.mock.patch("shutil.which", return_value=None), unittest.mock.patch.object(attacks, "busy_cores", lambda: 0.0), \
                contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            return attacks.main(), said.getvalue()

    def test_attackers_are_wanted_for_attacks_alone(self):
        self.assertEqual(self.run_main("--no-attacks"), (0, ""))
        self.assertRaises(SystemExit, self.run_main)


class BesideTest(unittest.TestCase):
    def test_a_server_that_does_not_answer_is_ended(self):
        server = beside.Server("sleeper", SLEEPS)
        with unittest.mock.patch("time.sleep"), self.assertRaisesRegex(SystemExit, "sleeper does not answer"):
            server.__enter__()
        self.assertIsNotNone(server.process.returncode)

    def test_a_server_is_ended_where_its_start_is_interrupted(self):
        server = beside.Server("sleeper", SLEEPS)
        with unittest.mock.patch("urllib.request.urlopen", side_effect=KeyboardInterrupt):
            self.assertRaises(KeyboardInterrupt, server.__enter__)
        self.assertIsNotNone(server.process.returncode)


if __name__ == "__main__":
    unittest.main()
