#!/usr/bin/env python3
"""What the scripts of measured tables do without a model: tables, marks, kept results, tasks, and the parsing of programs."""
import argparse
import contextlib
import io
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import attention_tables  # noqa: E402
import dense_tables  # noqa: E402
import draft_tables  # noqa: E402
import expert_tables  # noqa: E402
import int4_tables  # noqa: E402
import ladder_tables  # noqa: E402
import layout_tables  # noqa: E402
import limited_runs  # noqa: E402
import neuron_tables  # noqa: E402
import peer_tables  # noqa: E402
import performance_tables  # noqa: E402
import readme  # noqa: E402
import real_model_drafts as drafts  # noqa: E402
import real_model_peer as peer  # noqa: E402
import real_model_tables as real  # noqa: E402
import repeated_code  # noqa: E402
import replay_tables  # noqa: E402
import tables  # noqa: E402


class TablesTest(unittest.TestCase):
    def test_a_table_of_texts_and_numbers(self):
        self.assertEqual(tables.table(["a", "b"], [["x", 1]]), "| a | b |\n|---|---|\n| x | 1 |")

    def test_only_what_stands_between_the_marks_is_replaced(self):
        page = "one\n<!-- table x -->\nold\n<!-- end of table -->\ntwo\n<!-- table y -->\n\n<!-- end of table -->\n"
        replaced = tables.replace(tables.replace(page, "y", "new y"), "x", "new x")
        self.assertEqual(replaced, "one\n<!-- table x -->\nnew x\n<!-- end of table -->\ntwo\n<!-- table y -->\nnew y\n"
                                   "<!-- end of table -->\n")
        with self.assertRaisesRegex(SystemExit, "no marks"):
            tables.replace(page, "z", "")

    def test_parts_that_are_kept_are_added_to(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = tables.Kept(pathlib.Path(folder) / "peer.json")
            for part, key, result in (("peer", "a: x", 1), ("starts", "a", 2), ("peer", "b: x", 3), ("peer", "a: x", 4)):
                peer_tables.keep(kept, part, key, result)
            self.assertEqual(kept.found(), {"peer": {"a: x": 4, "b: x": 3}, "starts": {"a": 2}})

    def test_every_page_has_the_marks_that_its_script_writes_between(self):
        for script, names in ((performance_tables, ["products", "attention"]), (peer_tables, ["peer", "peer-avx2", "starts"]),
                              (layout_tables, ["layouts"]), (draft_tables, ["cag drafts"])):
            page = script.PAGE.read_text("utf-8")
            for name in names:
                self.assertNotEqual(tables.replace(page, name, "other"), page)

    def test_a_program_that_fails_ends_the_script_with_its_message(self):
        self.assertEqual(tables.run(sys.executable, "-c", "print(1)"), "1\n")
        with self.assertRaisesRegex(SystemExit, "it is broken"):
            tables.run(sys.executable, "-c", "import sys; sys.exit('it is broken')")

    def test_a_peer_may_lie_in_a_folder_with_a_space(self):
        options = argparse.Namespace(peer=pathlib.Path("/my llama"), pairs=1, program="troika", repetitions=1, kernels="")
        for call in (lambda: readme.bench("a.gguf", options), lambda: peer_tables.measure("a.gguf", options, "", [], " -fa 1")):
            with unittest.mock.patch("subprocess.run", side_effect=InterruptedError) as run:
                self.assertRaises(InterruptedError, call)
            words = run.call_args.args[0]
            self.assertEqual(shlex.split(words[words.index("--compare") + 1])[0], "/my llama/llama-bench")

    def test_memory_is_limited_by_either_version_of_cgroups(self):
        for mark, parent, limit in (("cgroup.controllers", "", "memory.max"), ("memory/x", "memory", "memory.limit_in_bytes")):
            with tempfile.TemporaryDirectory() as folder, unittest.mock.patch("limited_runs.GROUPS", pathlib.Path(folder)):
                (pathlib.Path(folder) / parent).mkdir(exist_ok=True)
                (pathlib.Path(folder) / mark).touch()
                for _ in range(2):  # one may be left of a run that was cut off
                    group, _peak = limited_runs.memory_group(300)
                self.assertEqual(group.parent, pathlib.Path(folder) / parent)
                self.assertEqual((group / limit).read_text(), "300000000")
        with unittest.mock.patch("limited_runs.GROUPS", pathlib.Path("/no/such")):
            self.assertRaisesRegex(SystemExit, "needs root", limited_runs.memory_group, 300)

    def test_disks_are_limited_by_either_version_of_cgroups(self):
        device = os.stat(__file__).st_dev
        disk = f"{os.major(device)}:{os.minor(device)}"
        for mark, parent, limit, value in (("cgroup.controllers", "", "io.max", f"{disk} rbps=1000000000"),
                                           ("blkio/x", "blkio", "blkio.throttle.read_bps_device", f"{disk} 1000000000")):
            with tempfile.TemporaryDirectory() as folder, unittest.mock.patch("limited_runs.GROUPS", pathlib.Path(folder)):
                (pathlib.Path(folder) / parent).mkdir(exist_ok=True)
                (pathlib.Path(folder) / mark).touch()
                self.assertEqual((limited_runs.disk_group(__file__, 1000) / limit).read_text(), value)

    def test_groups_that_cannot_be_used_are_removed(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch("limited_runs.GROUPS", pathlib.Path(folder)):
            (pathlib.Path(folder) / "cgroup.controllers").touch()
            refused = unittest.mock.patch("pathlib.Path.write_text", side_effect=[0, OSError(19, "No such device", "io.max")])
            with refused, self.assertRaisesRegex(SystemExit, "io.max: No such device"):
                limited_runs.disk_group(__file__, 1000)
            self.assertEqual(list(pathlib.Path(folder).glob("troika-*")), [])
            group = pathlib.Path(folder) / "troika-one"
            group.mkdir()
            with unittest.mock.patch.object(limited_runs, "memory_group", return_value=(group, group / "peak")), \
                    unittest.mock.patch.object(limited_runs, "disk_group", side_effect=SystemExit("no disk")):
                self.assertRaises(SystemExit, limited_runs.limited_process, ["true"], [__file__], 300, 5, 1000)
            self.assertFalse(group.exists())

    def test_bundles_lie_where_the_program_keeps_them(self):
        with tempfile.TemporaryDirectory() as folder:
            bundle = pathlib.Path(folder) / ".cache/troika/bundles-1"
            bundle.parent.mkdir(parents=True)
            bundle.touch()
            for home, cache in ((folder, ""), (folder, "relative"), ("/no/such", f"{folder}/.cache")):
                with unittest.mock.patch.dict(os.environ, HOME=home, XDG_CACHE_HOME=cache):
                    self.assertEqual(list(limited_runs.bundle_files()), [bundle])

    def test_a_file_that_stays_in_the_page_cache_is_told(self):
        limited_runs.cool([__file__])
        self.assertRaisesRegex(SystemExit, "/no/such", limited_runs.cool, ["/no/such/file"])

    def test_what_was_measured_is_not_measured_again(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
            path = pathlib.Path(folder) / "new/results.json"
            self.assertEqual(tables.Kept(path).get("a: 1", lambda: 5), 5)
            kept = tables.Kept(path)
            self.assertEqual(kept.get("a: 1", lambda: self.fail("measured again")), 5)
            kept.get("b: 1", lambda: 6)
            self.assertIsNone(tables.Kept(path, may_measure=False).get("c: 1", lambda: self.fail("measured")))
            results = {("d", 1): [], ("e", 2): []}
            kept.fill(results, 2, lambda name, number: f"{name}{number}")
            self.assertEqual(results, {("d", 1): ["d1", "d1"], ("e", 2): ["e2", "e2"]})
            self.assertEqual(kept.get("e 2 1", lambda: self.fail("measured again")), "e2")
            kept.forget("d")
            kept.forget("e")
            kept.forget("a")
            self.assertEqual(tables.Kept(path).found(), {"b: 1": 6})


class AgainTest(unittest.TestCase):
    """What --again forgets: files too, from which figures would come that are as old."""

    def left(self, names, kept_keys, module, forget):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(module, "WORK", pathlib.Path(folder)):
            for name in names:
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            kept = tables.Kept(pathlib.Path(folder) / "results.json")
            kept.change(lambda _: dict.fromkeys(kept_keys, 1))
            forget(kept)
            return [name for name in names if (pathlib.Path(folder) / name).exists()], list(kept.found())

    def test_attention_forgets_what_each_command_measured(self):
        full, planned = "attention-full", "attention-query-tuned-kept-mass-20-4096-24000-wikitext2.test.txt"
        sherlock = f"losses/{full}-2048-60000-the-adventures-of-sherlock-holmes.txt"
        baseline, other = f"losses/{full}-4096-60000-wikitext2.test.txt", "losses/attention-int8-4096-24000-wikitext2.test.txt"
        copied, plan = f"losses/attention-from-512-{full}-8192-copy-7500-4.txt", "tuned-kept-mass-20/troika/plan-1"
        names = [sherlock, baseline, other, copied, plan, f"losses/{planned}"]
        keys = ["ablation full", "estimate", "needles 2k full", "kept by weight 2048", "planted a 2048 int8"]
        for command, forgotten, has_losses in (("accuracy", {sherlock, baseline, other}, True), ("estimate", {"estimate"}, True),
                                               ("tasks", {copied, "needles 2k full"}, True),
                                               ("planted", {"kept by weight 2048", "planted a 2048 int8"}, True),
                                               ("ablation", {baseline, other, plan, f"losses/{planned}", "ablation full"}, True),
                                               ("ablation", {plan, f"losses/{planned}", "ablation full"}, False)):
            with self.subTest(command=command, has_losses=has_losses):
                options = argparse.Namespace(command=command, losses=has_losses)
                files, found = self.left(names, keys, attention_tables, lambda kept, o=options: attention_tables.forget(o, kept))
                self.assertEqual({*names, *keys} - {*files, *found}, forgotten)

    def test_files_that_were_made_for_a_table_are_forgotten(self):
        names = ["troika-silu-q4_0.gguf", "SmolLM2-135M-q4_0.gguf", "20000-book.txt"]
        self.assertEqual(self.left(names, ["a"], int4_tables, int4_tables.forget), (names[2:], []))
        names = ["model-F32.gguf", "model-Q8_0.gguf", "plan-2048.json"]
        for command, files, keys in (("peer", names[2:], ["judged, a"]), ("perplexity", names, ["peer, a"])):
            found = self.left(names, ["peer, a", "judged, a"], real.real_model_peer.real_model_data, lambda kept, c=command: real.forget(c, kept))
            self.assertEqual(found, (files, keys))


class KeysTest(unittest.TestCase):
    """What was measured with one model, budget or number of steps is not taken for what another call asks for."""

    def test_keys_of_runs_hold_what_calls_may_change(self):
        def options(model="a.gguf", **more):
            return argparse.Namespace(**{"model": pathlib.Path(model), "budget": 2390, "steps": 24, "few_steps": 6, "map_steps": 4,
                                         "sparse": False} | more)
        calls = [options(), options("b.gguf"), options(steps=25, few_steps=7, map_steps=5), options(budget=3080)]
        for n_keys, key in ((4, lambda o: ladder_tables.key_of(o, o.model, "0.9", "steps")),
                            (4, lambda o: ladder_tables.key_of(o, o.model, "0.9", "map")),
                            (3, lambda o: neuron_tables.key_of(o, o.model, "0.9", 2390, "pins")),
                            (3, lambda o: neuron_tables.key_of(o, o.model, "0.9", 2390, "mmap")),
                            (3, lambda o: expert_tables.key_of(o, 4000, "by-route")),
                            (3, lambda o: dense_tables.key_of(o, 2000, 0, "llama")),
                            (3, lambda o: dense_tables.key_of(o, 2000, 0, "blocks"))):
            self.assertEqual(len({key(call) for call in calls}), n_keys)
        for key in (lambda mb, way: neuron_tables.key_of(options(), "a", "0.9", mb, way),
                    lambda mb, way: expert_tables.key_of(options(sparse=True), mb, way)):
            self.assertNotEqual(key(4000, "predictor"), key(400, "predictor"))

    def test_the_speed_of_llama_is_that_of_its_steps(self):
        words = ("common_perf_print: prompt eval time =     100.00 ms /     1 tokens (  100.00 ms per token,    10.00 tokens per second)\n"
                 "common_perf_print:        eval time =    2000.00 ms /     4 runs   (  500.00 ms per token,     2.00 tokens per second)\n")
        self.assertEqual(dense_tables.speed_of_llama(words), 2.0)
        self.assertIsNone(dense_tables.speed_of_llama("error: no model"))

    def test_ways_of_both_tables_of_experts_with_one_name_are_one_way(self):
        for way in set(expert_tables.WAYS) & set(expert_tables.SPARSE_WAYS):
            self.assertEqual(expert_tables.WAYS[way][1:], expert_tables.SPARSE_WAYS[way][1:])

    def test_replays_of_two_models_stay_apart(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
            page = pathlib.Path(folder) / "page.md"
            page.write_text("<!-- table replays -->\n\n<!-- end of table -->\n")
            for model, speed in (("one.gguf", 1.0), ("other.gguf", 2.0), ("one.gguf", 3.0)):
                def measured(_options, _name, speed=speed):
                    draft = {"tokens_per_verification": 1.0}
                    return {"replay": {"tokens": 1, "prompt_tokens": 1, "plain_ms_per_token": speed, "drafted_ms_per_token": 1.0, "ratio": 1.0,
                                       "lowest": 1.0, "highest": 1.0, "draft": draft}}
                name = "code edit" if speed < 3 else "no repetition"
                with unittest.mock.patch.multiple(replay_tables, ROOT=pathlib.Path(folder), PAGE=page, measure=measured), \
                        unittest.mock.patch("sys.argv", ["replay_tables.py", model, "--only", name]):
                    replay_tables.main()
            rows = tables.rows_of(page.read_text(), "replays")
            self.assertEqual([rows[name][1] for name in ("code edit", "no repetition")], ["1.0", "3.0"])


def entry(weight, largest=8.0, limit=2.0, channels="3f803f80400041003f80", hot=(3,)):
    return {"weight": weight, "largest": largest, "limit": limit, "outliers_per_token": 0.5, "hot_channels": list(hot),
            "channel_largest": channels}


class RepeatedCodeTest(unittest.TestCase):
    SHARED = ["int a = 1;", "int b = a;", "return a + b;"]

    def count(self, n_lines, **files):
        with tempfile.TemporaryDirectory() as folder:
            for name, lines in files.items():
                path = pathlib.Path(folder) / "src" / name.replace("_cc", ".cc")
                path.parent.mkdir(exist_ok=True)
                path.write_text("\n".join(lines) + "\n", "utf-8")
            return repeated_code.count(pathlib.Path(folder), n_lines)

    def test_what_is_no_code_is_left_out(self):
        code = "#include <a>\n// A comment.\n\nnamespace a {\nint f()  {\n  return 1;  // one\n}\n}  // namespace a\n"
        self.assertEqual(list(repeated_code.normalised(code)), [(5, "int f() {"), (6, "return 1;")])

    def test_windows_in_the_same_places_are_one_repeat(self):
        one = ["int f() {", *self.SHARED, "}"]
        other = ["#include <a>", "int g() {", self.SHARED[0], "// Differs.", *self.SHARED[1:], "}"]
        found = self.count(2, one_cc=one, other_cc=other)
        self.assertEqual((found["windows"], found["repeats"], found["repeated_lines"]), (2, 1, 6))
        self.assertEqual(found["list"], [{"lines": 3, "places": ["src/one.cc:2", "src/other.cc:3"]}])
        self.assertEqual((found["lines"], found["percent"]), (8, 75.0))

    def test_windows_that_are_too_short_and_tests_do_not_count(self):
        self.assertEqual(self.count(4, one_cc=self.SHARED, other_cc=self.SHARED)["windows"], 0)
        self.assertEqual(self.count(3, one_cc=self.SHARED, one_test_cc=self.SHARED)["windows"], 0)


class RealModelTest(unittest.TestCase):
    def test_channels_are_read_as_bfloat16(self):
        self.assertEqual(real.channel_maxima("3f803f8040000000"), [1.0, 1.0, 2.0, 0.0])
        self.assertEqual(real.channel_maxima(""), [])
        self.assertEqual(real.channel_maxima("42ca"), [101.0])

    def test_outliers_are_gathered_by_kind_of_input(self):
        inputs = [entry("blk.0.attn_q.weight"), entry("blk.1.attn_q.weight", largest=64.0, hot=(3, 1)),
                  entry("blk.0.ffn_down.weight", hot=())]
        rows = real.kind_rows(inputs)
        self.assertEqual([row[0] for row in rows], ["query, key, value", "down"])
        self.assertEqual(rows[0][1:], ["18.0", "32 (layer 1)", "8.0", "8", "0.50 of 5", "1.5"])
        self.assertEqual(real.top_rows(inputs, 1), [[1, "query, key, value", "64", "2", "32.0", 3, "0.50", 2]])
        self.assertEqual(real.common_channels(inputs), ([(3, 2), (1, 1)], 2))

    def test_the_last_word_is_the_answer(self):
        self.assertEqual(real.last_word_task("to the old dock\n"), {"prompt": "to the old", "answer": "dock"})

    def test_a_row_says_how_much_perplexity_changed(self):
        def found(perplexity, accuracy):
            return {**{text: {"perplexity": perplexity} for text in real.TEXTS}, "last words": {"n": 50, "accuracy": accuracy}}
        reference = found(20.0, 0.5)
        self.assertEqual(real.judged_cells(reference, reference), ["20.000", "20.000", "25 of 50"])
        self.assertEqual(real.judged_cells(found(20.1, 0.28), reference), ["+0.50 %", "+0.50 %", "14 of 50"])
        nothing = {**dict.fromkeys(real.TEXTS), "last words": None}
        self.assertEqual(real.judged_cells(nothing, reference), ["", "", ""])

    def run_script(self, *arguments, **environment):
        clean = {key: value for key, value in os.environ.items() if key != "TROIKA_DATA"}
        done = subprocess.run([sys.executable, ROOT / "scripts/real_model_tables.py", *arguments], capture_output=True, text=True,
                              env={**clean, **environment})
        return done.returncode, done.stderr

    def test_what_is_missing_is_said_with_what_to_do(self):
        with tempfile.TemporaryDirectory() as folder:
            status, said = self.run_script("perplexity", XDG_CACHE_HOME=folder)
            self.assertEqual((status, "Run scripts/real_model.py" in said), (1, True), said)
            model = pathlib.Path(folder) / "troika/models" / real.real_model.NAME
            model.parent.mkdir(parents=True)
            model.touch()
            status, said = self.run_script("drafts", "--program", "nowhere", XDG_CACHE_HOME=folder)
            self.assertEqual((status, "Build it" in said), (1, True), said)
            status, said = self.run_script("drafts", "--program", sys.executable, XDG_CACHE_HOME=folder)
            self.assertEqual((status, "Set TROIKA_DATA" in said), (1, True), said)
            status, said = self.run_script("drafts", "--program", sys.executable, "--data", folder, XDG_CACHE_HOME=folder)
            self.assertEqual((status, drafts.PASSAGES in said), (1, True), said)


class PeerTest(unittest.TestCase):
    def test_the_final_estimate_is_found(self):
        self.assertEqual(peer.estimate("[1]20.1,[2]21.0,\nFinal estimate: PPL = 21.0345 +/- 0.4\n"), 21.0345)
        with self.assertRaisesRegex(SystemExit, "no final estimate"):
            peer.estimate("nan")

    def test_a_cell_says_how_far_the_programs_are_apart(self):
        self.assertEqual(peer.perplexity_cell({"perplexity": 20.02}, 20.0), "20.0200 (+0.100 %)")
        self.assertEqual((peer.perplexity_cell(None, 20.0), peer.perplexity_cell({"perplexity": 20.0}, None)), ("", ""))

    def test_texts_agree_up_to_the_first_difference(self):
        self.assertIsNone(peer.agreement("a b \n", "a b"))
        self.assertEqual(peer.agreement("a bee", "a bear"), "a be")

    def test_a_peer_that_is_absent_is_asked_for(self):
        class Options:
            peer = None
        with self.assertRaisesRegex(SystemExit, "--peer"):
            peer.peer_program(Options, "llama-perplexity")
        Options.peer = ROOT
        with self.assertRaisesRegex(SystemExit, "Build llama.cpp's targets"):
            peer.peer_program(Options, "llama-perplexity")


def score(passes, tokens, ms, accepted):
    return {"verifications": passes, "tokens_per_verification": tokens / passes if passes else 1.0, "tokens": tokens,
            "ms_per_token": ms, "total_ms_per_token": 2 * ms, "sources": [{"name": "sam", "accepted": accepted}]}


class DraftsTest(unittest.TestCase):
    def test_every_kind_has_its_tasks_and_a_user_speaks_last(self):
        qas = [{"question": "Who?", "answers": [{"text": "She."}]}, {"question": "When?", "answers": [{"text": "Now."}]}]
        found = drafts.chat_tasks([{"context": f"Text {i}.", "qas": qas} for i in range(5)], 3)
        self.assertEqual([task["kind"] for task in found], [kind for kind in drafts.KINDS for _ in range(3)])
        for task in found:
            self.assertEqual(task["messages"][-1]["role"], "user")
        self.assertEqual([m["role"] for m in found[9]["messages"]], ["user", "assistant", "user"])

    def test_sums_over_kinds_weigh_passes_and_tokens(self):
        self.assertAlmostEqual(drafts.tokens_a_pass([score(10, 20, 1, 5), score(30, 30, 1, 5)]), 1.25)
        self.assertEqual(drafts.tokens_a_pass([score(0, 10, 1, 0)]), 1.0)
        self.assertEqual(drafts.accepted_from([score(1, 1, 1, 0)]), "–")
        self.assertEqual(drafts.accepted_from([score(1, 1, 1, 3)]), "sam 100 %")

    def test_times_are_ratios_to_those_without_drafts(self):
        scores = {**{s: score(10, 20, 2.0, 1) for s in drafts.SETTINGS}, "none": score(0, 20, 3.0, 0)}
        rows = drafts.time_rows({kind: {"scores": scores} for kind in drafts.KINDS})
        self.assertEqual(rows[0], ["`lookup`", *["1.50"] * (len(drafts.KINDS) + 2)])


if __name__ == "__main__":
    unittest.main()
