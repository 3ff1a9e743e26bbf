#!/usr/bin/env python3
"""What `cmake --install` leaves behind can be used: the program runs, and the C example is built against
the installed library through pkg-config and through CMake, and says what the program says.

Usage: install_test.py BUILD_FOLDER C_COMPILER
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "examples" / "generate.c"
BUILD, COMPILER = sys.argv.pop(1), sys.argv.pop(1)
PROMPT, TOKENS = "Once", "6"


def output_of(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} failed with {done.returncode}: {done.stdout + done.stderr}")
    return done.stdout


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.prefix = cls.folder / "prefix"
        output_of("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.library = next(cls.prefix.rglob("libtroika.so")).parent
        cls.model = cls.folder / "tiny.gguf"
        cls.troika = cls.prefix / "bin" / "troika"
        output_of(cls.troika, "synth", "--like", "tiny-llama", "--type", "q8_0", cls.model)

    def assert_example_works(self, program):
        wanted = output_of(self.troika, "run", self.model, "-p", PROMPT, "-n", TOKENS, "--temp", "0")
        said = output_of(program, self.model, PROMPT, TOKENS, env={"LD_LIBRARY_PATH": str(self.library)})
        self.assertNotEqual(said.strip(), b"")
        self.assertIn(said.rstrip(b"\n"), wanted)

    def test_the_program_runs_from_where_it_was_installed(self):
        self.assertIn(b"troika", output_of(self.troika, "--version").lower())

    def test_the_models_of_the_project_are_there_and_run(self):
        models = sorted((ROOT / "models").glob("*-q8_0.gguf"))
        if not models:
            self.skipTest("models/ holds no model")
        installed = sorted((self.prefix / "share" / "troika" / "models").glob("*.gguf"))
        self.assertEqual([m.name for m in installed], [m.name for m in models])
        for model in installed:
            self.assertNotEqual(output_of(self.troika, "run", model, "-p", PROMPT, "-n", TOKENS).strip(), b"")

    def test_the_virtual_phones_are_there(self):
        phones = self.prefix / "share" / "troika" / "phones"
        timed = output_of(self.troika, "bench", "tiny-llama", "--machine", phones / "8gen3.json", "--stack", "llm.npu",
                          "-p", "32", "-n", "1")
        self.assertIn(b"tokens/s", timed)
        self.assertIn(b"llama.cpp", output_of(self.troika, "reproduce", "baselines", "--phones", phones))

    def test_the_virtual_phones_are_found_from_everywhere(self):
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        timed = output_of(self.troika, "bench", "tiny-llama", "--machine", "phones/8gen3.json", "--stack", "llm.npu",
                          "-p", "32", "-n", "1", cwd=elsewhere)
        self.assertIn(b"tokens/s", timed)
        self.assertIn(b"llama.cpp", output_of(self.troika, "reproduce", "baselines", cwd=elsewhere))
        # What lies in the working folder comes first, and what lies nowhere is a sentence.
        (elsewhere / "phones").mkdir()
        (elsewhere / "phones" / "8gen3.json").write_text("{}")
        for phone in ("phones/8gen3.json", "phones/none.json"):
            done = subprocess.run([self.troika, "bench", "tiny-llama", "--machine", phone, "--stack", "llm.npu"],
                                  capture_output=True, cwd=elsewhere)
            self.assertIn(done.returncode, (1, 2))
            self.assertIn(phone.encode() if "none" in phone else b"stack", done.stderr)

    def test_pkg_config_leads_to_the_library(self):
        environment = dict(os.environ, PKG_CONFIG_PATH=str(self.library / "pkgconfig"))
        flags = output_of("pkg-config", "--cflags", "--libs", "troika", env=environment).decode().split()
        program = self.folder / "with_pkg_config"
        output_of(COMPILER, "-std=c99", "-Wall", "-Wextra", "-Werror", EXAMPLE, "-o", program, *flags)
        self.assert_example_works(program)

    def test_cmake_finds_the_library(self):
        source = self.folder / "with_cmake"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(example C)\nfind_package(troika REQUIRED)\n"
            f"add_executable(generate {EXAMPLE})\ntarget_link_libraries(generate troika::troika)\n")
        output_of("cmake", "-S", source, "-B", source / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}",
                  f"-DCMAKE_C_COMPILER={COMPILER}")
        output_of("cmake", "--build", source / "build")
        self.assert_example_works(source / "build" / "generate")

    def test_attention_is_a_library_of_its_own(self):
        environment = dict(os.environ, PKG_CONFIG_PATH=str(self.library / "pkgconfig"))
        flags = output_of("pkg-config", "--cflags", "--libs", "troika_attention", env=environment).decode().split()
        program = self.folder / "attention"
        output_of(COMPILER, "-std=c99", "-Wall", "-Wextra", "-Werror", ROOT / "examples" / "attention.c", "-o",
                  program, *flags, "-lm")
        said = output_of(program, "1300", env={"LD_LIBRARY_PATH": str(self.library)})
        self.assertIn(b"1300 tokens", said)
        needed = output_of("readelf", "-d", program).decode()
        self.assertIn("libtroika_attention", needed)
        self.assertNotIn("libtroika.so", needed)
        names = output_of("nm", "-D", "--defined-only", "--format=just-symbols",
                          self.library / "libtroika_attention.so").decode().split()
        self.assertIn("troika_attention_run", names)
        self.assertEqual([name for name in names if not name.startswith("troika_attention")], [])

    def test_the_library_shows_the_c_api_alone(self):
        names = output_of("nm", "-D", "--defined-only", "--format=just-symbols",
                          self.library / "libtroika.so").decode().split()
        self.assertIn("troika_version", names)
        self.assertEqual([name for name in names if not name.startswith("troika_")], [])

    def test_the_loader_wants_the_version_that_fits(self):
        for name in ("libtroika", "libtroika_attention"):
            version = (self.library / f"{name}.so").resolve().name.removeprefix(f"{name}.so.").split(".")
            wanted = ".".join(version[:2] if version[0] == "0" else version[:1])
            shown = output_of("readelf", "-d", self.library / f"{name}.so").decode()
            self.assertIn(f"soname: [{name}.so.{wanted}]", shown)

    def test_a_missing_model_is_a_sentence(self):
        program = self.folder / "missing"
        environment = dict(os.environ, PKG_CONFIG_PATH=str(self.library / "pkgconfig"))
        flags = output_of("pkg-config", "--cflags", "--libs", "troika", env=environment).decode().split()
        output_of(COMPILER, EXAMPLE, "-o", program, *flags)
        done = subprocess.run([program, self.folder / "none.gguf", PROMPT], capture_output=True,
                              env={"LD_LIBRARY_PATH": str(self.library)})
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"none.gguf", done.stderr)


if __name__ == "__main__":
    unittest.main()
