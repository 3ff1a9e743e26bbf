#!/usr/bin/env python3
"""Makes random models of every family with PyPI's transformers, converts them, compares the logits.

usage: compare_conversions.py BUILD [FOLDER]

BUILD is a build folder with `troika` and `tests/troika_logits`. Needs torch, transformers, tokenizers and
sentencepiece, which nothing else of the project needs. Prints the table of docs/conformance.md; exits
with 1 where a difference is not below 1e-3, or a text is tokenized otherwise.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import sentencepiece
import tokenizers
import torch
import transformers

LIMIT = 1e-3
N_TOKENS = 48
TEXT = ["Once upon a time there was a fox who lived in the wood, and 12 little rabbits.",
        "It's a test: numbers 3456, words, don't, and some\n\nlines with  spaces.",
        "What is the capital of France? The capital is Paris, they're told."]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")

SIZES = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 512, "max_position_embeddings": 256,
         "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}
GEMMA = {"head_dim": 64, "query_pre_attn_scalar": 64, "num_key_value_heads": 1, "tie_word_embeddings": True}

# name: class of the configuration, of the model, numbers beside SIZES, tokenizer
MODELS = {
    "llama": ("LlamaConfig", "LlamaForCausalLM", {}, "sentencepiece"),
    "llama, biases, tied": ("LlamaConfig", "LlamaForCausalLM",
                            {"attention_bias": True, "tie_word_embeddings": True}, LLAMA3),
    "llama 3 rope": ("LlamaConfig", "LlamaForCausalLM", {"rope_parameters": {
        "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 32}}, LLAMA3),
    "llama, linear rope": ("LlamaConfig", "LlamaForCausalLM", {"rope_parameters": {
        "rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}}, "sentencepiece"),
    "mistral": ("MistralConfig", "MistralForCausalLM", {"head_dim": 64, "sliding_window": None}, "bpe json"),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", {}, QWEN2),
    "qwen2, yarn": ("Qwen2Config", "Qwen2ForCausalLM", {"rope_parameters": {
        "rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 64}}, QWEN2),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {"head_dim": 64}, QWEN2),
    "gemma": ("GemmaConfig", "GemmaForCausalLM", GEMMA, "sentencepiece"),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", {**GEMMA, "sliding_window": 16}, "sentencepiece"),
    "gemma2, no caps": ("Gemma2Config", "Gemma2ForCausalLM",
                        {**GEMMA, "sliding_window": 16, "attn_logit_softcapping": None,
                         "final_logit_softcapping": None}, "sentencepiece"),
    "gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM",
               {**GEMMA, "sliding_window": 16, "num_hidden_layers": 7}, "sentencepiece"),
    "gemma3, capped logits": ("Gemma3TextConfig", "Gemma3ForCausalLM",
                              {**GEMMA, "sliding_window": 16, "num_hidden_layers": 7,
                               "final_logit_softcapping": 2.0}, "sentencepiece"),
    "phi": ("PhiConfig", "PhiForCausalLM", {"num_key_value_heads": 4}, "gpt-2"),
    "phi3": ("Phi3Config", "Phi3ForCausalLM", {"pad_token_id": 0, "sliding_window": 24}, "sentencepiece"),
    "phi3, long rope": ("Phi3Config", "Phi3ForCausalLM", {"pad_token_id": 0, "rope_parameters": {
        "rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 32,
        "long_factor": [1.0 + 0.5 * i for i in range(16)], "short_factor": [1.0] * 16},
        "original_max_position_embeddings": 32}, "sentencepiece"),
}


def byte_level(pattern):
    pre = tokenizers.pre_tokenizers
    t = tokenizers.Tokenizer(tokenizers.models.BPE())
    if pattern == "gpt-2":
        t.pre_tokenizer = pre.ByteLevel(add_prefix_space=False)
    else:
        split = pre.Split(tokenizers.Regex(pattern), "isolated")
        t.pre_tokenizer = pre.Sequence([split, pre.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<unk>", "<|begin|>", "<|end|>"],
        initial_alphabet=pre.ByteLevel.alphabet())
    t.train_from_iterator(TEXT * 20, trainer)
    return t


def sentence_piece(folder):
    (folder / "text").write_text("\n".join(TEXT * 20))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"), model_prefix=str(folder / "tokenizer"), vocab_size=400, model_type="bpe",
        byte_fallback=True, character_coverage=1.0, hard_vocab_limit=False, minloglevel=2,
        normalization_rule_name="identity", remove_extra_whitespaces=False)
    (folder / "text").unlink()
    (folder / "tokenizer.vocab").unlink()
    model = sentencepiece.SentencePieceProcessor(str(folder / "tokenizer.model"))
    return model.encode


def sentence_piece_as_json():
    """BPE with bytes to fall back to, as conversions of SentencePiece are."""
    t = tokenizers.Tokenizer(tokenizers.models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    t.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.Prepend("\u2581"), tokenizers.normalizers.Replace(" ", "\u2581")])
    bytes_ = [f"<0x{i:02X}>" for i in range(256)]
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=450, special_tokens=["<unk>", "<s>", "</s>"] + bytes_)
    t.train_from_iterator(TEXT * 20, trainer)
    data = json.loads(t.to_str())
    data["added_tokens"] = [a for a in data["added_tokens"] if not a["content"].startswith("<0x")]
    return tokenizers.Tokenizer.from_str(json.dumps(data))


def make(name, folder):
    config_class, model_class, numbers, tokenizer = MODELS[name]
    torch.manual_seed(len(name))
    config = getattr(transformers, config_class)(**{**SIZES, **numbers})
    config._attn_implementation = "eager"
    model = getattr(transformers, model_class)(config).eval().float()
    with torch.no_grad():
        for key, p in model.named_parameters():
            scale = 0.3 if p.ndim == 1 else p.shape[-1] ** -0.5
            base = 1.0 if "norm" in key and "gemma" not in name and key.endswith("weight") else 0.0
            p.copy_(base + scale * torch.randn_like(p))
    model.tie_weights()
    model.save_pretrained(folder, max_shard_size="1MB")
    if tokenizer == "sentencepiece":
        return model, sentence_piece(folder)
    t = sentence_piece_as_json() if tokenizer == "bpe json" else byte_level(tokenizer)
    t.save(str(folder / "tokenizer.json"))
    return model, lambda text: t.encode(text, add_special_tokens=False).ids


def compare(name, build, folder):
    folder.mkdir()
    model, encode = make(name, folder)
    out = folder / "model.gguf"
    subprocess.run([build / "troika", "convert", folder, out, "--type", "f32"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    ids = [int(i) for i in torch.randint(3, 400, (N_TOKENS,))]
    subprocess.run([build / "tests" / "troika_logits", out, folder / "logits", *map(str, ids)], check=True)
    found = numpy.fromfile(folder / "logits", numpy.float32).reshape(N_TOKENS, -1)
    with torch.no_grad():
        wanted = model(torch.tensor([ids])).logits[0].numpy()
    difference = float(numpy.abs(found - wanted).max() / numpy.abs(wanted).max())
    n_equal, texts = 0, TEXT + ["unseen: \u00e9\u4e2d 99999  x"]
    for text in texts:
        (folder / "prompt").write_text(text)
        done = subprocess.run([build / "troika", "tokenize", out, "-f", folder / "prompt", "--no-bos",
                               "--ids"], check=True, capture_output=True, text=True)
        n_equal += [int(i) for i in done.stdout.split()] == list(encode(text))
    return difference, n_equal, len(texts)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    names = sys.argv[3:] or list(MODELS)
    failed = False
    print("| model | class | largest logit difference | texts tokenized alike |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as temp:
        for i, name in enumerate(names):
            try:
                difference, n_equal, n_texts = compare(name, build, pathlib.Path(temp) / str(i))
            except subprocess.CalledProcessError as error:
                print(f"| {name} | {MODELS[name][1]} | {error.stderr} | |", flush=True)
                failed = True
                continue
            # A logit that is no number makes a difference that is none, which is neither above nor below.
            failed = failed or not difference < LIMIT or n_equal < n_texts
            print(f"| {name} | {MODELS[name][1]} | {difference:.1e} | {n_equal} of {n_texts} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
