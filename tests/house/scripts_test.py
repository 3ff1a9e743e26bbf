#!/usr/bin/env python3
"""The scripts that install and build, run with stand-ins for apt, dpkg and sudo that note their calls."""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOLS = ["bash", "env", "dirname", "nproc", "awk", "xargs", "sort", "cat", "sed", "rm", "mkdir", "python3", "find", "wc", "grep"]
NOBODY = 65534
# What CMake looks for and the packages of the group `build` have not.
ONLY_FOR_TESTS = ["GTest", "benchmark"]
PASSED = '<testcase name="p" status="run"/>'


def report_of(*cases):
    """A report as ctest writes it."""
    n_skipped = sum("skipped" in case for case in cases)
    return f'<testsuite tests="{len(cases)}" failures="0" skipped="{n_skipped}">' + "\n".join(cases) + "</testsuite>"


def tests_on_devices(text):
    """Names of tests that open an OpenCL device: those that call find_device() themselves, and fixtures that do, with what derives
    from them. Where a function beside the tests calls it, a parameter's name says which tests do: all that hold the word."""
    names = set()
    for call in re.finditer(r"\bfind_device\(\)", text):
        head = [found for found in re.finditer(r"^(?!namespace|using|public:|private:|protected:)[A-Za-z]", text, re.MULTILINE)
                if found.start() <= call.start()][-1].start()
        opened = re.match(r"TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)|(?:class|struct) (\w+)", text[head:])
        if opened is None:
            names.update(re.findall(r'\{"(Opencl\w*)"', text) or ["(no parameter)"])
        elif opened[3] is None:
            names.add(f"{opened[1]}.{opened[2]}")
        else:
            names.add(opened[3])
    fixtures = set(re.findall(r"^class (\w+)", text, re.MULTILINE)) & names
    while fixtures:
        derived = {name for base in fixtures for name in re.findall(rf"^class (\w+) : public {base}\b", text, re.MULTILINE)}
        fixtures = derived - names
        names |= derived
    return names


class ScriptsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        self.tree.chmod(0o777)
        shutil.copytree(ROOT / "scripts", self.tree / "scripts")
        self.bin = self.tree / "bin"
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.calls = self.tree / "calls"
        self.calls.touch()
        self.calls.chmod(0o666)
        # `installed` holds the names of the packages that dpkg-query reports.
        (self.tree / "installed").write_text("")
        self.stand_in("dpkg-query", f'while read -r p; do if [ "$p" = "$3" ]; then echo "install ok installed"; '
                                    f'exit 0; fi; done < {self.tree}/installed; exit 1')
        self.stand_in("apt-get", f'echo "apt-get $*" >> {self.calls}')

    def stand_in(self, name, body):
        path = self.bin / name
        path.unlink(missing_ok=True)  # it may be a link to the tool itself
        path.write_text(f"#!{shutil.which('bash')}\n{body}\n")
        path.chmod(0o755)

    def with_sudo(self):
        self.stand_in("sudo", f'echo "sudo" >> {self.calls}; "$@"')

    def installed(self, *packages):
        (self.tree / "installed").write_text("".join(package + "\n" for package in packages))

    def run_script(self, name, *arguments, as_root=False):
        if as_root and os.geteuid() != 0:
            self.skipTest("only root can see what root would see")
        user = None if as_root or os.geteuid() != 0 else NOBODY
        elsewhere = self.tree / "else where"  # scripts are called from anywhere, and some shells export CDPATH
        elsewhere.mkdir(exist_ok=True)
        done = subprocess.run(["bash", self.tree / "scripts" / name, *arguments], capture_output=True, text=True,
                              env={"PATH": str(self.bin), "CDPATH": "."}, user=user, cwd=elsewhere)
        return done.returncode, done.stdout + done.stderr

    def test_nothing_is_installed_where_all_is_there(self):
        status, listed = self.run_script("packages.sh", "--list", "build", "test")
        self.assertEqual(status, 0, listed)
        self.installed(*listed.split())
        status, output = self.run_script("packages.sh", "build", "test")
        self.assertEqual(status, 0, output)
        self.assertIn("are installed", output)
        self.assertEqual(self.calls.read_text(), "")

    def test_a_user_installs_what_is_missing_with_sudo(self):
        self.with_sudo()
        self.installed("clang-14")
        status, output = self.run_script("packages.sh", "fuzz")
        self.assertEqual(status, 0, output)
        calls = self.calls.read_text()
        self.assertIn("sudo", calls)
        self.assertRegex(calls, r"apt-get .* update\n")
        self.assertRegex(calls, r"install --no-install-recommends libclang-rt-14-dev\n")

    def test_root_needs_no_sudo(self):
        self.with_sudo()
        self.installed("shellcheck")
        status, output = self.run_script("packages.sh", "format", as_root=True)
        self.assertEqual(status, 0, output)
        self.assertNotIn("sudo", self.calls.read_text())
        self.assertIn("install --no-install-recommends clang-format-14", self.calls.read_text())

    def test_a_user_without_sudo_is_told_what_is_missing(self):
        status, output = self.run_script("packages.sh", "format")
        self.assertEqual(status, 1, output)
        self.assertIn("clang-format-14", output)
        self.assertEqual(self.calls.read_text(), "")

    def test_a_source_that_does_not_answer_is_a_warning(self):
        self.with_sudo()
        self.stand_in("apt-get", f'echo "$*" >> {self.calls}; case "$*" in *update*) exit 100; esac')
        status, output = self.run_script("packages.sh", "format")
        self.assertEqual(status, 0, output)
        self.assertIn("warning", output)

    def test_a_failed_installation_is_an_error(self):
        self.with_sudo()
        self.installed("shellcheck")
        self.stand_in("apt-get", 'case "$*" in *install*) exit 100; esac')
        status, output = self.run_script("packages.sh", "format")
        self.assertEqual(status, 1, output)
        self.assertIn("error: apt-get could not install clang-format-14", output)

    def with_ctest_that_reports(self, report, more=""):
        """ctest notes its call, does what `more` says, and writes this report."""
        (self.tree / "report.xml").write_text(report)
        self.stand_in("ctest", f"""echo "ctest $*" >> {self.calls}
{more}
while [ "$1" != --output-junit ]; do shift; done
cat {self.tree}/report.xml > "$2"
""")

    def with_cmake_that_lacks(self, *packages):
        """CMake configures as ever, but finds none of these packages. In place of building it makes a program that
        notes its call."""
        hidden = " ".join(f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}={'ON' if name in packages else 'OFF'}"
                          for name in ONLY_FOR_TESTS)
        program = self.tree / "build/release/troika"
        self.stand_in("cmake", f"""if [ "$1" = --preset ]; then
  PATH={shlex.quote(os.environ["PATH"])} exec {shutil.which("cmake")} "$@" {hidden}
fi
echo "cmake $*" >> {self.calls}
echo '#!{shutil.which("bash")}
echo "troika $* in $PWD" >> {self.calls}' > {program}
{shutil.which("chmod")} 755 {program}""")

    def test_trying_needs_the_packages_of_the_build_alone_and_leaves_tests_to_come(self):
        for name in ("CMakeLists.txt", "CMakePresets.json", "cmake", "src", "include", "tests", "examples"):
            (self.tree / name).symlink_to(ROOT / name)
        (self.tree / "models").mkdir()
        (self.tree / "models/troika-silu-q8_0.gguf").touch()
        is_root = os.geteuid() == 0
        self.installed(*self.run_script("packages.sh", "--list", "build")[1].split())
        cache = self.tree / "build/release/CMakeCache.txt"
        self.with_cmake_that_lacks(*ONLY_FOR_TESTS)
        status, output = self.run_script("try.sh", "-n", "3", as_root=is_root)
        self.assertEqual(status, 0, output)
        self.assertRegex(self.calls.read_text(), r"cmake --build build/release .*--target troika\n")
        self.assertRegex(self.calls.read_text(), r"troika run \S+/models/\S+ --chat -p .* -n 3 in .*/else where\n")
        self.assertIn("TROIKA_TESTS:BOOL=OFF", cache.read_text())
        # What was tried can be tested later in the same folder, and trying again keeps the tests.
        self.with_cmake_that_lacks()
        self.with_ctest_that_reports(report_of(PASSED))
        self.installed(*self.run_script("packages.sh", "--list", "build", "test")[1].split())
        status, output = self.run_script("test.sh", "release", as_root=is_root)
        self.assertEqual(status, 0, output)
        self.assertIn("ctest --preset release", self.calls.read_text())
        self.assertIn("TROIKA_TESTS:BOOL=ON", cache.read_text())
        status, output = self.run_script("try.sh", "-n", "3", as_root=is_root)
        self.assertEqual(status, 0, output)
        self.assertIn("TROIKA_TESTS:BOOL=ON", cache.read_text())

    def test_trying_a_real_model_installs_what_downloads_it(self):
        self.with_sudo()
        self.installed(*self.run_script("packages.sh", "--list", "build")[1].split())
        self.run_script("try.sh", "--real")
        self.assertIn("install --no-install-recommends python3-pip", self.calls.read_text())

    def test_an_environment_of_python_that_was_cut_off_is_made_again(self):
        self.stand_in("python3", f'echo "python3 $*" >> {self.calls}')
        self.installed(*self.run_script("packages.sh", "--list", "build", "test", "openvino")[1].split())
        half = self.tree / "build/openvino/bin/python"
        half.parent.mkdir(parents=True)
        half.write_text(f"#!{shutil.which('bash')}\necho No module named pip\nexit 1\n")
        half.chmod(0o755)
        self.run_script("test.sh", "openvino", as_root=os.geteuid() == 0)
        self.assertIn("python3 -m venv build/openvino", self.calls.read_text())

    def test_unknown_groups_and_stages_are_errors(self):
        for script, argument in (("packages.sh", "none"), ("test.sh", "none"), ("test.sh", "fuzz=0"),
                                 ("test.sh", "fuzz"), ("format.sh", "--none"), ("fuzz.sh", "fuzz_gguf_file"),
                                 ("fuzz.sh", "0")):
            with self.subTest(script=script, argument=argument):
                status, output = self.run_script(script, argument)
                self.assertEqual(status, 1, output)
                self.assertIn("error: ", output)

    def test_counts_of_a_report_say_why_tests_were_skipped(self):
        case = ('<testcase name="{}" status="notrun"><skipped message="x"/><system-out>[ RUN ] {}\n'
                '/a_test.cc:7: Skipped\n{}\n[  SKIPPED ]</system-out></testcase>')
        report = self.tree / "report.xml"
        house = '<testcase name="h" status="notrun"><skipped message="x"/><system-out>skipped: no numpy\n</system-out></testcase>'
        report.write_text('<testsuite tests="6" failures="1" skipped="4">' + house + case.format("a", "a", "no disk")
                          + case.format("b", "b", "no disk") + case.format("c", "c", "no data")
                          + '<testcase name="d" status="run"/><testcase name="e" status="fail"/></testsuite>')
        printed = subprocess.run([sys.executable, ROOT / "scripts/count_tests.py", "release", report], check=True,
                                 capture_output=True, text=True).stdout
        self.assertEqual(printed.splitlines(), ["     2 skipped: no disk", "     1 skipped: no data", "     1 skipped: no numpy",
                                                "release: 1 tests passed, 1 failed, 4 skipped"])

    def test_a_stage_in_which_no_test_has_passed_fails(self):
        self.stand_in("cmake", "exit 0")
        self.installed(*self.run_script("packages.sh", "--list", "build", "test")[1].split())
        is_root = os.geteuid() == 0
        skipped = '<testcase name="a" status="notrun"><skipped message="x"/></testcase>'
        for report, problem in (("", "no report"), (report_of(), "no test of the preset release has passed"),
                              (report_of(skipped), "no test of the preset release has passed")):
            with self.subTest(problem=problem, report=report):
                self.with_ctest_that_reports(report)
                status, output = self.run_script("test.sh", "release", as_root=is_root)
                self.assertEqual(status, 1, output)
                self.assertIn(problem, output)
                self.assertRegex(output, r"release +FAILED")
        self.with_ctest_that_reports(report_of(PASSED, skipped))
        status, output = self.run_script("test.sh", "release", as_root=is_root)
        self.assertEqual(status, 0, output)
        self.assertIn("release: 1 tests passed, 0 failed, 1 skipped", output)

    def test_what_any_process_of_oclgrind_says_is_a_fault(self):
        self.stand_in("cmake", "exit 0")
        self.installed(*self.run_script("packages.sh", "--list", "build", "test", "oclgrind")[1].split())
        for first, second, problem in (("a race", "", "oclgrind has found faults: a race"), ("", "a race", "faults: a race"),
                                       ("", None, "2 tests have left 1 logs"), ("", "", None)):
            with self.subTest(first=first, second=second):
                logs = [f'printf %s "{text}" > build/oclgrind/{pid}' for pid, text in ((7, first), (8, second)) if text is not None]
                self.with_ctest_that_reports(report_of(PASSED, PASSED), "\n".join(logs))
                status, output = self.run_script("test.sh", "oclgrind", as_root=os.geteuid() == 0)
                self.assertEqual(status, 1 if problem else 0, output)
                self.assertIn(problem or "oclgrind: 2 tests passed", output)

    def test_every_room_of_untrusted_bytes_is_in_the_subset_or_said_to_be_left_out(self):
        tree = (ROOT / "CONTRIBUTING.md").read_text()
        entries = re.findall(r"^  (\w+)/ +(.*\n(?: {8,}.*\n)*)", tree, re.MULTILINE)
        untrusted = {room for room, text in entries if "Untrusted bytes end here" in " ".join(text.split())}
        self.assertIn("gguf", untrusted)
        script = (ROOT / "scripts/test.sh").read_text()
        left_out = set(re.search(r"but for ([\w, ]+):", script)[1].split(", "))
        built = set(re.search(r"configure_and_build asan troika_test_\{([\w,]+)\}", script)[1].split(","))
        presets = {preset["name"]: preset for preset in json.loads((ROOT / "CMakePresets.json").read_text())["testPresets"]}
        tested = set(re.search(r"\(([\w|]+)\)", presets["asan-subset"]["filter"]["include"]["name"])[1].split("|"))
        self.assertEqual(built, tested)
        self.assertEqual(untrusted - tested, left_out)

    def test_the_stage_of_opencl_runs_every_test_that_opens_a_device(self):
        fixture = "class Lost : public testing::Test {\n  void SetUp() override {\n    found_ = find_device();\n  }\n};\n"
        self.assertEqual(tests_on_devices("TEST_F(Hot,\n       Dense) {\n  const auto found = opencl::find_device();\n}\n"), {"Hot.Dense"})
        self.assertEqual(tests_on_devices(fixture + "class Late : public Lost {};\nTEST_F(Late, A) {}\n"), {"Lost", "Late"})
        self.assertEqual(tests_on_devices("Made make() {\n  find_device();\n}\nTEST(All, A) {}\n"), {"(no parameter)"})
        presets = {preset["name"]: preset for preset in json.loads((ROOT / "CMakePresets.json").read_text())["testPresets"]}
        taken = re.compile(presets["opencl"]["filter"]["include"]["name"])
        n_found = 0
        for path in [*(ROOT / "src").rglob("*_test.cc"), *(ROOT / "tests").rglob("*_test.cc")]:
            for name in tests_on_devices(path.read_text()):
                n_found += 1
                self.assertRegex(name, taken, f"{path.name} opens a device, and scripts/test.sh opencl leaves this test out")
        self.assertGreater(n_found, 10)

    def test_a_failed_stage_fails_the_whole_and_the_others_still_run(self):
        self.stand_in("clang-format-14", "exit 1")
        self.stand_in("find", r'printf "src/a.cc\0"')
        (self.tree / "src").mkdir()
        self.installed("clang-format-14", "shellcheck", "clang-14", "libclang-rt-14-dev")
        status, output = self.run_script("test.sh", "format", "fuzz=1")
        self.assertEqual(status, 1, output)
        self.assertRegex(output, r"format +FAILED")
        self.assertRegex(output, r"fuzz=1 +FAILED")


if __name__ == "__main__":
    unittest.main()
