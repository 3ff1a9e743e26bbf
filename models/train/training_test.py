"""Tests of the training, and of the whole recipe in smoke size, which takes well under two minutes on two cores.

    python3 models/train/training_test.py

They need numpy and PyTorch.
"""

import contextlib
import io
import json
import re
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
try:
    import numpy as np
    import torch
except ImportError:
    print("skipped: the training needs numpy and PyTorch")
    sys.exit(0)

import bpe
import recipe_test
import tasks


class Models(unittest.TestCase):
    def setUp(self):
        import model

        torch.manual_seed(1)
        self.model = model.Model(model.Config(vocab=300, width=64, layers=2, heads=4, kv_heads=2, ffn=96, context=64))
        for p in self.model.parameters():
            if p.ndim == 2:
                torch.nn.init.normal_(p, std=0.1)

    def test_a_token_at_a_time_is_the_same(self):
        torch.set_grad_enabled(False)
        self.addCleanup(torch.set_grad_enabled, True)
        tokens = torch.randint(0, 300, (1, 20))
        whole = self.model(tokens)
        caches = [{} for _ in self.model.blocks]
        parts = [self.model(tokens[:, :7], caches)]
        parts += [self.model(tokens[:, i : i + 1], caches, i) for i in range(7, 20)]
        self.assertLess(float((torch.cat(parts, 1) - whole).abs().max()), 1e-4)

    def test_positions_turn_by_their_distance(self):
        import model

        cos, sin = model.rope_tables(self.model.config, 10)
        q, k = torch.randn(2, 16)
        products = []
        for i in (0, 5):
            at = [model.rotate(x[None, None, None], cos[p : p + 1], sin[p : p + 1]) for x, p in ((q, i + 3), (k, i))]
            products.append(float((at[0] * at[1]).sum()))
        self.assertAlmostEqual(products[0], products[1], places=4)

    def test_exact_match_agrees_with_generation(self):
        import measure

        tokenizer = bpe.Tokenizer([])
        example = {"prompt": "ab:", "kind": "x"}
        prompt = [bpe.BOS, *tokenizer.encode("ab:")]
        with torch.no_grad():
            self.model.embedding.weight[262:].zero_()
        answer = tokenizer.decode(measure.generate(self.model, prompt, 4))
        example["answer"] = answer.strip() or "q"
        match = measure.exact_match(self.model, tokenizer, [example])["x"]
        tokens = measure.generate(self.model, prompt, 40)
        self.assertEqual(match == 1.0, tokens == tokenizer.encode(" " + example["answer"]))


    def test_outliers_are_counted_in_the_worst_channels(self):
        import outliers

        x = torch.ones(100, 200)
        self.assertEqual(outliers.figures(x), {"ratio": 1.0, "share": 0.0, "in_few": None})
        x[:, 7] = 64.0  # one channel of 200: beyond the scale that 99 % stay below
        x[0, 20:27] = -8.0  # seven more outliers, each in a channel of its own
        figures = outliers.figures(x)
        self.assertEqual(figures["ratio"], 64.0)
        self.assertAlmostEqual(figures["share"], 107 / 20000)
        self.assertAlmostEqual(figures["in_few"], 105 / 107)  # 6 channels of 200 are 3 %

    def test_one_scale_per_tensor_suffers_from_outliers(self):
        import measure
        import outliers

        windows = [[bpe.BOS, *range(20, 50)]]
        tokens = torch.tensor(windows)
        with torch.no_grad():
            for p in self.model.parameters():
                if p.ndim == 2:
                    torch.nn.init.normal_(p, std=0.3)
        exact = measure.text_loss(self.model, windows)[0]
        before = outliers.per_tensor_loss(self.model, tokens, windows)[0]
        logits = self.model(tokens)
        with torch.no_grad():
            for block in self.model.blocks:
                block.attn_norm.weight[3] *= 4096
                for reader in (block.attn.q, block.attn.k, block.attn.v):
                    reader.weight[:, 3] /= 4096
        self.assertTrue(torch.allclose(self.model(tokens), logits, atol=1e-4))
        after = outliers.per_tensor_loss(self.model, tokens, windows)[0]
        self.assertLess(abs(before - exact), abs(after - exact))


class Checkpoints(unittest.TestCase):
    def test_a_training_goes_on_from_a_stable_state_that_is_there(self):
        import train

        with tempfile.TemporaryDirectory() as d, contextlib.redirect_stderr(io.StringIO()) as said:
            (Path(d) / "model.pt").write_bytes(b"trained")
            options = ["prepared", d, "--steps", "9", "--from-stable"]
            self.assertRaises(SystemExit, train.parse, options)
            self.assertIn("stable.pt, which is not there", said.getvalue())
            (Path(d) / "stable.pt").write_bytes(b"stable")
            self.assertTrue(train.parse(options).from_stable)


    def test_parts_are_replaced_when_the_new_ones_are_there(self):
        import pack

        with tempfile.TemporaryDirectory() as d:
            d, run, parts = Path(d), Path(d) / "silu", Path(d) / "parts"
            run.mkdir()
            (run / "log.jsonl").write_text("{}\n")
            for name, step in (("model", 9), ("stable", 7)):
                torch.save({"model": {"w": torch.tensor([0.5])}, "step": step}, run / f"{name}.pt")
            parts.mkdir()
            for name in ("model.silu.part0", "model.silu.part1", "model.wide.silu.part0"):
                (parts / name).write_bytes(b"old")
            self.assertRaisesRegex(SystemExit, "has no model.pt", pack.pack, d / "elsewhere/silu", parts)
            (run / "stable.pt").rename(d / "kept")
            (run / "stable.pt").write_bytes(b"no checkpoint")
            self.assertRaises(Exception, pack.pack, run, parts)
            self.assertEqual({p.read_bytes() for p in parts.iterdir()}, {b"old"})
            self.assertEqual(len(list(parts.iterdir())), 3)
            (d / "kept").rename(run / "stable.pt")
            pack.pack(run, parts)
            names = {p.name for p in parts.iterdir()}
            self.assertEqual(names, {"model.silu.part0", "stable.silu.part0", "model.wide.silu.part0"})
            self.assertEqual(pack.unpack(parts, d / "back/silu"), ["model", "stable"])
            back = torch.load(d / "back/silu/model.pt", weights_only=False)
            self.assertEqual((back["step"], back["model"]["w"].tolist()), (9, [0.5]))


class WholeRecipe(unittest.TestCase):
    def test_from_an_empty_directory_to_two_files(self):
        import make_models

        torch.set_num_threads(1)  # the models are too small to share
        with tempfile.TemporaryDirectory() as d:
            d = Path(d)
            recipe_test.make_data(d / "data")
            command = [str(d / "data"), str(d / "out"), "--preset", "smoke", "--parts", str(d / "parts")]
            self.assertEqual(make_models.Recipe(make_models.parse([*command, "--minutes", "0"])).run(), 3)
            self.check_held_out(d / "out/prepared")
            self.assertEqual(make_models.Recipe(make_models.parse(command)).run(), 0)
            for kind in ("silu", "relu"):
                self.check_model(d / "out", kind)
            log = [json.loads(x) for x in (d / "out/relu/log.jsonl").read_text().splitlines()]
            self.assertLess(sum(e["active"] for e in log[-10:]) / 10, 0.2)
            self.check_parts(make_models, d, command)
            self.check_resume(d)
            self.check_lengthening(d)

    def check_held_out(self, prepared):
        """No value of a held-out task stands in what is trained on."""
        tokenizer = bpe.Tokenizer.load(prepared / "tokenizer.json")
        arrays = np.load(prepared / "train.npz")
        pieces = []
        for name in ("books", "stories_tokens", "tasks_tokens"):
            pieces.append("".join("\n" if t < len(bpe.SPECIAL) else tokenizer.tokens[t] for t in arrays[name].tolist()))
        trained = "\n".join(pieces).replace("\u0120", " ").replace("\u010a", "\n")
        examples = [json.loads(x) for x in (prepared / "held_out/tasks.jsonl").read_text().splitlines()]
        self.assertEqual({e["kind"] for e in examples}, set(tasks.KINDS))
        for value in {v for e in examples for v in e["values"]}:
            self.assertIsNone(re.search(rf"(?<!\w){re.escape(value)}(?!\w)", trained), value)

    def check_model(self, out, kind):
        import export

        model, _ = export.load_checkpoint(out / kind / "model.pt")
        tokenizer = bpe.Tokenizer.load(out / "prepared/tokenizer.json")
        export.export(model, tokenizer, out / "exact.gguf", "exact", "F32")
        back, back_tokenizer = export.load_gguf(out / "exact.gguf")
        self.assertEqual(back.config, model.config)
        self.assertEqual(back_tokenizer.tokens, tokenizer.tokens)
        x = torch.randint(0, 500, (1, 30))
        self.assertTrue(torch.equal(back(x), model(x)))
        figures = json.loads((out / f"troika-{kind}.json").read_text())
        # Even a few steps learn something: uniform guessing over 512 tokens costs 6.2 nats.
        self.assertLess(figures["stories"]["nats_per_token"], 6.1)
        for ending in ("-q8_0.gguf", "-f16.gguf", ".md"):
            self.assertTrue((out / f"models/troika-{kind}{ending}").exists())
        self.assertTrue((out / f"models/troika-{kind}-loss.svg").read_text().startswith("<svg"))

    def check_parts(self, make_models, d, command):
        """A machine that has only the prepared data and the parts goes on from them."""
        (d / "fresh").mkdir()
        (d / "out/prepared").rename(d / "fresh/prepared")
        command = ["nowhere", str(d / "fresh"), *command[2:]]
        recipe = make_models.Recipe(make_models.parse(command))
        self.assertTrue(recipe.train("silu"))
        old, new = (torch.load(p / "silu/model.pt", weights_only=False) for p in (d / "out", d / "fresh"))
        self.assertEqual(new["step"], 16)
        for key, x in old["mean"].items():
            self.assertLess(float((x - new["model"][key]).abs().max()), 1e-3, key)
        recipe.a.train_options = ["--steps", "18"]
        self.assertTrue(recipe.train("silu"))
        self.assertEqual(recipe.state("silu")["step"], 18)

    def check_resume(self, d):
        """Stopped in the middle and resumed, the training ends in the very same weights."""
        import make_models
        import train

        preset = make_models.PRESETS["smoke"]
        for stop in (["--stop-at", "9"], []):
            options = [*preset["shape"], *preset["silu"], *stop]
            train.main(train.parse([str(d / "fresh/prepared"), str(d / "halves"), *options]))
        states = [torch.load(d / n / "model.pt", weights_only=False) for n in ("out/silu", "halves")]
        for key, x in states[0]["mean"].items():
            self.assertTrue(torch.equal(x, states[1]["mean"][key]), key)
        steps = [json.loads(x)["step"] for x in (d / "halves/log.jsonl").read_text().splitlines()]
        self.assertEqual(steps, list(range(1, 17)))

    def check_lengthening(self, d):
        """A file is trained on for twice as many positions, and is a file again."""
        import export
        import lengthen

        given = d / "out/models/troika-silu-q8_0.gguf"
        options = [str(given), str(d / "fresh/prepared"), str(d / "far"), "--context", "2048", "--steps", "3"]
        options += ["--batch", "2048", "--makers", "2", "--examples", "1"]
        lengthen.Lengthening(lengthen.parse(options)).run()
        first = json.loads((d / "far/held_out.json").read_text())["before"]
        with self.assertRaises(SystemExit):  # in the middle of a training nothing of the model changes
            lengthen.Lengthening(lengthen.parse([*options, "--rope-base", "50000"]))
        # A longer training goes on from before the rate fell, and knows what was measured first.
        options[options.index("3")] = "5"
        longer = lengthen.Lengthening(lengthen.parse(options))
        self.assertEqual((longer.step, longer.first), (3, first))
        longer.run()
        model, state = export.load_checkpoint(d / "far/model.pt")
        self.assertEqual((model.config.context, state["step"], state["tokens"]), (2048, 5, longer.tokens))
        before = export.load_gguf(given)[0].state_dict()
        self.assertTrue(any(not torch.equal(x, before[k]) for k, x in model.state_dict().items()))
        seen = json.loads((d / "far/held_out.json").read_text())
        for key in ("match_512", "match_2048", "copy_nats_2048"):
            self.assertIn(key, seen["before"])
            self.assertIn(key, seen["after"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
