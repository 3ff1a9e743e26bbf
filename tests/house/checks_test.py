#!/usr/bin/env python3
"""The checks of the house find what they look for: each is run on a small tree with one fault."""
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class ChecksTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        self.write("cmake/rooms.cmake", "set(TROIKA_ROOMS base lanes schedule cli)\n")
        self.write("CMakePresets.json", '{"configurePresets": [{"name": "release"}]}\n')

    def write(self, name, text):
        path = self.tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def check(self, script, *options):
        done = subprocess.run([sys.executable, ROOT / "scripts" / script, self.tree, *options],
                              capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def assert_accepts(self, script, *options):
        status, output = self.check(script, *options)
        self.assertEqual(status, 0, output)

    def assert_finds(self, script, what, *options):
        status, output = self.check(script, *options)
        self.assertEqual(status, 1, output)
        self.assertIn(what, output)

    def test_layers_accept_what_stands_above(self):
        self.write("src/cli/a.cc", '#include "base/error.h"\n#include "cli/a.h"\n')
        self.assert_accepts("check_layers.py")

    def test_layers_find_what_stands_below(self):
        self.write("src/base/a.cc", '#include "cli/a.h"\n')
        self.assert_finds("check_layers.py", "src/base/a.cc:1")

    def test_layers_find_a_scheduler_that_knows_a_lane(self):
        self.write("src/schedule/a.cc", '#include "lanes/lane.h"\n#include "lanes/host/team.h"\n')
        self.assert_finds("check_layers.py", "src/schedule/a.cc:2")

    def test_layers_find_test_support_outside_tests(self):
        self.write("src/base/a.cc", '#include "tests/support/a.h"\n')
        self.assert_finds("check_layers.py", "only tests")

    def test_layers_find_a_macro_without_its_header(self):
        self.write("src/base/error.h", "#define TROIKA_ASSERT(x) (x)\n")
        self.write("src/base/a.cc", '#include "base/error.h"\nTROIKA_ASSERT(1);\n')
        self.assert_accepts("check_layers.py")
        self.write("src/base/b.cc", "\nTROIKA_ASSERT(1);\n")
        self.assert_finds("check_layers.py", "src/base/b.cc:2: TROIKA_ASSERT is used without")

    def test_files_accept_800_lines(self):
        self.write("src/base/a.cc", "\n" * 800)
        self.assert_accepts("check_files.py")

    def test_files_find_801_lines(self):
        self.write("src/base/a.cc", "\n" * 801)
        self.assert_finds("check_files.py", "801 lines")

    def test_files_find_a_folder_that_grew_too_large(self):
        for i in range(4):
            self.write(f"src/base/a{i}.cc", "\n" * 750)
            self.write(f"src/base/a{i}_test.cc", "\n" * 750)
            self.write(f"src/base/deep/a{i}.cc", "\n" * 750)
        self.assert_accepts("check_files.py")
        self.write("src/base/a4.cc", "\n")
        self.assert_finds("check_files.py", "src/base: 3001 lines")

    def test_files_find_functions_that_grew_too_long(self):
        for head in ("int f(int a) {", "int f(int a,\n      int b) {", "A::A(int a)\n    : a_(a), b_{a} {",
                     "template <typename T>\nstatic int f(std::initializer_list<T> a = {1, 2}) {",
                     "extern \"C\" {\nint f() {"):
            n_lines = len(head.splitlines()) - head.count("C\" {") + 1
            end = "}\n}\n" if "extern" in head else "}\n"
            with self.subTest(head):
                self.write("src/base/a.cc", head + "\n" + "  g({1}, ';');\n" * (60 - n_lines) + end)
                self.assert_accepts("check_files.py")
                self.write("src/base/a.cc", head + "\n" + "  g({1}, '{');\n" * (61 - n_lines) + end)
                self.assert_finds("check_files.py", "a function of 61 lines")

    def test_files_find_comments_that_are_not_understood_alone(self):
        for text in ("// From here on the hardware plan.\nint a;", "  // By one worker, behind the\n  // other.\nint a;",
                     "// Likewise: returns rows.", "int b;\n// Its length is even.", "/// For a text."):
            with self.subTest(text):
                self.write("src/base/a.h", text + "\n")
                self.assert_finds("check_files.py", "without subject and verb")
        for text in ("// By the law,\n// bits do not depend on tiles.", "// For tests: plays a disk that fails.",
                     "int a;  // By weight", "// Format it.", "// Returns it.\n// For a text, too.",
                     "// By clusters a step never takes longer."):
            with self.subTest(text):
                self.write("src/base/a.h", text + "\n")
                self.assert_accepts("check_files.py")

    def test_files_find_marks(self):
        for text in ("// TO" "DO later", "throw Error(\"not imple" "mented\")", "see /ho" "me/me/notes",
                     "  // O" "f all rows."):
            with self.subTest(text):
                self.write("src/base/a.cc", text + "\n")
                self.assert_finds("check_files.py", "src/base/a.cc:1")

    def test_documents_accept_what_exists(self):
        script = self.write("scripts/try.sh", "#!/bin/sh\n")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        self.write("README.md", "[try](scripts/try.sh)\n```sh\nscripts/try.sh   # runs\ncmake --preset release\n```\n")
        self.assert_accepts("check_documents.py")

    def test_documents_find_a_broken_link(self):
        self.write("README.md", "text\n[a](docs/none.md)\n")
        self.assert_finds("check_documents.py", "README.md:2")

    def test_documents_find_a_missing_script_and_preset(self):
        self.write("README.md", "```sh\nscripts/none.sh\n```\n")
        self.assert_finds("check_documents.py", "scripts/none.sh")
        self.write("README.md", "```sh\ncmake --preset none\n```\n")
        self.assert_finds("check_documents.py", "no preset none")

    def test_documents_find_unknown_commands_and_options(self):
        program = self.write("troika", '#!/bin/sh\nif [ "$1" = run ]; then echo "  -n N  tokens"; exit; fi\n'
                                       'echo "Commands:"; echo "  run  generate"\n')
        program.chmod(0o755)
        known = ("--program", str(program))
        self.write("README.md", "```sh\nbuild/release/troika run m.gguf -n 3\n```\n")
        self.assert_accepts("check_documents.py", *known)
        self.write("README.md", "```sh\ntroika dance m.gguf\n```\n")
        self.assert_finds("check_documents.py", "no command dance", *known)
        self.write("README.md", "```sh\ntroika run m.gguf --fast\n```\n")
        self.assert_finds("check_documents.py", "no option --fast", *known)

    def test_documents_know_no_option_by_the_beginning_of_another(self):
        program = self.write("troika", '#!/bin/sh\nif [ "$1" = run ]; then echo "  --int8-weights KIND  how; --kv KIND"; exit; fi\n'
                                       'echo "Commands:"; echo "  run  generate"\n')
        program.chmod(0o755)
        known = ("--program", str(program))
        self.write("README.md", "```sh\ntroika run m.gguf --int8-weights row --kv=f32\n```\n")
        self.write("src/base/a.cc", 'f("Give ‹int8-weights› or ‹kv›.");\n')
        self.assert_accepts("check_documents.py", *known)
        self.write("README.md", "```sh\ntroika run m.gguf --int8 static\n```\n")
        self.assert_finds("check_documents.py", "troika run has no option --int8", *known)
        self.write("README.md", "")
        self.write("src/base/a.cc", 'f("Give ‹int8›.");\n')
        self.assert_finds("check_documents.py", "no command has an option --int8", *known)
        self.write("src/base/a.cc", 'f("Give ‹weights›.");\n')
        self.assert_finds("check_documents.py", "no command has an option --weights", *known)

    def test_documents_know_options_that_the_help_of_another_command_lists(self):
        program = self.write("troika", '#!/bin/sh\ncase $1 in\nrun) echo "Phones: \'troika bench\n--help\' lists them.";;\n'
                                       'bench) echo "  --stack TEXT  the software";;\neval) echo "  -n N  tokens";;\n'
                                       '*) printf "  run  generate\\n  bench  measure\\n  eval  judge\\n";;\nesac\n')
        program.chmod(0o755)
        known = ("--program", str(program))
        self.write("README.md", "```sh\ntroika run m.gguf --stack a\n```\n")
        self.assert_accepts("check_documents.py", *known)
        self.write("README.md", "```sh\ntroika eval m.gguf --stack a\n```\n")
        self.assert_finds("check_documents.py", "troika eval has no option --stack", *known)


if __name__ == "__main__":
    unittest.main()
