#!/usr/bin/env python3
"""scripts/release.sh tags only what is clean, new and passed, tried on a small repository."""
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@unittest.skipUnless(shutil.which("git"), "git is not installed")
class ReleaseTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        (self.tree / "scripts").mkdir()
        for name in ("release.sh", "lib.sh"):
            shutil.copy(ROOT / "scripts" / name, self.tree / "scripts" / name)
        (self.tree / "CMakeLists.txt").write_text("project(troika VERSION 1.2.3 LANGUAGES C CXX)\n")
        (self.tree / ".gitignore").write_text("/build/\n")
        (self.tree / "build").mkdir()
        self.git("init", "-q")
        self.git("config", "user.name", "tester")
        self.git("config", "user.email", "tester@example.org")
        self.git("add", "-A")
        self.git("commit", "-qm", "All there is")

    def git(self, *arguments):
        return subprocess.run(["git", "-C", self.tree, *arguments], check=True, capture_output=True, text=True).stdout

    def passed(self):
        (self.tree / "build" / "full-passed").write_text(self.git("rev-parse", "HEAD"))

    def release(self):
        done = subprocess.run(["bash", self.tree / "scripts" / "release.sh"], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def full(self, run):
        """Runs .ci/full, in which the body `run` stands for every stage."""
        (self.tree / ".ci").mkdir()
        shutil.copy(ROOT / ".ci" / "full", self.tree / ".ci" / "full")
        (self.tree / ".ci" / "run").write_text(f"#!{shutil.which('bash')}\n{run}\n")
        (self.tree / ".ci" / "run").chmod(0o755)
        self.git("add", "-A")
        self.git("commit", "-qm", "Stages")
        done = subprocess.run(["bash", self.tree / ".ci" / "full"], capture_output=True, text=True)
        passed = self.tree / "build" / "full-passed"
        return done.returncode, done.stdout + done.stderr, passed.read_text().strip() if passed.exists() else ""

    def test_the_stages_vouch_for_the_commit_that_they_ran_on(self):
        status, output, passed = self.full('echo "$1 passed"')
        self.assertEqual(status, 0, output)
        self.assertIn("tsan passed", output)
        self.assertEqual(passed, self.git("rev-parse", "HEAD").strip())

    def test_the_stages_vouch_for_no_tree_that_changes_while_they_run(self):
        for change in ("git commit -q --allow-empty -m 'One more'", "echo more >> CMakeLists.txt", "touch new"):
            with self.subTest(change=change):
                shutil.rmtree(self.tree / ".ci", ignore_errors=True)
                status, output, passed = self.full(f'[[ $1 != release ]] || {change}')
                self.assertEqual(status, 1, output)
                self.assertIn("changed while release ran", output)
                self.assertEqual(passed, "")

    def assert_refuses(self, why):
        status, output = self.release()
        self.assertEqual(status, 1, output)
        self.assertIn(why, output)

    def test_tags_and_packs_what_passed(self):
        self.passed()
        status, output = self.release()
        self.assertEqual(status, 0, output)
        self.assertEqual(self.git("tag", "--list").split(), ["v1.2.3"])
        self.assertTrue((self.tree / "build" / "troika-1.2.3.tar.gz").exists())
        self.assert_refuses("v1.2.3 is there")

    def test_a_version_without_an_archive_gets_no_tag(self):
        self.passed()
        archive = self.tree / "build" / "troika-1.2.3.tar.gz"
        archive.mkdir()  # a file cannot be written there
        status, output = self.release()
        self.assertNotEqual(status, 0, output)
        self.assertEqual(self.git("tag", "--list"), "")
        archive.rmdir()
        status, output = self.release()
        self.assertEqual(status, 0, output)
        self.assertEqual(self.git("tag", "--list").split(), ["v1.2.3"])

    def test_refuses_a_commit_that_did_not_pass(self):
        self.assert_refuses("did not pass")
        self.passed()
        self.git("commit", "-q", "--allow-empty", "-m", "One more")
        self.assert_refuses("did not pass")

    def test_refuses_a_dirty_tree(self):
        self.passed()
        (self.tree / "new").touch()
        self.assert_refuses("not committed")


if __name__ == "__main__":
    unittest.main()
