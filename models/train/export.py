"""Writes a trained model as GGUF, and reads such a file back as a model.

    python3 export.py RUN/model.pt PREPARED/tokenizer.json OUT.gguf [--type Q8_0|F16|F32]

Where OUT does not end in .gguf it becomes a folder as Hugging Face has them, with the weights in F32.
"""

import argparse
import json
import pathlib
import struct

import bpe
import gguf
import torch
from model import Config, Model

NAMES = {"attn.q": "attn_q", "attn.k": "attn_k", "attn.v": "attn_v", "attn.out": "attn_output",
         "ffn.gate": "ffn_gate", "ffn.up": "ffn_up", "ffn.down": "ffn_down",
         "attn_norm": "attn_norm", "ffn_norm": "ffn_norm"}  # fmt: skip
LICENSE = "Apache-2.0"


def gguf_name(name):
    if name == "embedding.weight":
        return "token_embd.weight"
    if name == "norm.weight":
        return "output_norm.weight"
    _, layer, rest = name.split(".", 2)
    return f"blk.{layer}.{NAMES[rest.removesuffix('.weight')]}.weight"


def metadata(config, tokenizer, name, file_type):
    types = [3] * len(bpe.SPECIAL) + [1] * (len(tokenizer.tokens) - len(bpe.SPECIAL))
    values = {
        "general.architecture": "llama",
        "general.name": name,
        "general.description": "A small model trained by the Troika project on children's books, "
        "little stories and generated tasks whose answer stands in the context.",
        "general.license": LICENSE,
        "general.languages": ["en"],
        "general.file_type": {"F32": 0, "F16": 1, "Q8_0": 7}[file_type],
        "general.quantization_version": 2,
        "llama.vocab_size": config.vocab,
        "llama.context_length": config.context,
        "llama.embedding_length": config.width,
        "llama.block_count": config.layers,
        "llama.feed_forward_length": config.ffn,
        "llama.attention.head_count": config.heads,
        "llama.attention.head_count_kv": config.kv_heads,
        "llama.attention.layer_norm_rms_epsilon": config.norm_eps,
        "llama.rope.dimension_count": config.head_dim,
        "llama.rope.freq_base": config.rope_base,
    }
    if config.activation != "silu":
        values["llama.feed_forward_activation"] = config.activation
    values |= {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokenizer.tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": [" ".join(m) for m in tokenizer.merges],
        "tokenizer.ggml.bos_token_id": bpe.BOS,
        "tokenizer.ggml.eos_token_id": bpe.EOS,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_eos_token": False,
        "tokenizer.chat_template": bpe.CHAT_TEMPLATE,
    }
    return values


def load_checkpoint(path):
    state = torch.load(path, map_location="cpu", weights_only=False)
    model = Model(Config(**state["config"]))
    model.load_state_dict(state.get("mean", state["model"]))
    return model.eval(), state


def export(model, tokenizer, path, name, file_type="Q8_0"):
    tensors = {}
    for key, p in model.state_dict().items():
        kind = file_type if p.ndim == 2 else "F32"
        tensors[gguf_name(key)] = (p.detach().float().numpy(), kind)
    gguf.write(path, metadata(model.config, tokenizer, name, file_type), tensors)


def folder_name(name):
    if name == "embedding.weight":
        return "model.embed_tokens.weight"
    if name == "norm.weight":
        return "model.norm.weight"
    _, layer, rest = name.split(".", 2)
    rest = rest.replace("attn.out.", "self_attn.o_proj.")
    for part in ("q", "k", "v"):
        rest = rest.replace(f"attn.{part}.", f"self_attn.{part}_proj.")
    for part in ("gate", "up", "down"):
        rest = rest.replace(f"ffn.{part}.", f"mlp.{part}_proj.")
    rest = rest.replace("attn_norm.", "input_layernorm.").replace("ffn_norm.", "post_attention_layernorm.")
    return f"model.layers.{layer}.{rest}"


def folder_config(config):
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": config.activation,
        "vocab_size": config.vocab, "hidden_size": config.width, "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads, "num_key_value_heads": config.kv_heads,
        "intermediate_size": config.ffn, "max_position_embeddings": config.context,
        "rms_norm_eps": config.norm_eps, "rope_theta": config.rope_base, "tie_word_embeddings": True,
        "bos_token_id": bpe.BOS, "eos_token_id": bpe.EOS,
    }  # fmt: skip


def folder_tokenizer(tokenizer):
    n = len(bpe.SPECIAL)
    return {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": t, "special": True} for i, t in enumerate(bpe.SPECIAL)],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {t: n + i for i, t in enumerate(tokenizer.tokens[n:])},
                  "merges": [" ".join(m) for m in tokenizer.merges]},
    }  # fmt: skip


def export_folder(model, tokenizer, path):
    """Neighbouring pairs of a head become halves, as that library rotates them."""
    folder = pathlib.Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    header, data = {}, b""
    for key, p in model.state_dict().items():
        values = p.detach().float().numpy()
        if key.endswith(("attn.q.weight", "attn.k.weight")):
            rows = values.reshape(-1, model.config.head_dim // 2, 2, values.shape[1])
            values = rows.swapaxes(1, 2).reshape(values.shape)
        end = len(data) + values.nbytes
        header[folder_name(key)] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [len(data), end]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    settings = {"add_bos_token": True, "bos_token": "<s>", "eos_token": "</s>", "chat_template": bpe.CHAT_TEMPLATE}
    for name, value in (("config", folder_config(model.config)), ("tokenizer", folder_tokenizer(tokenizer)),
                        ("tokenizer_config", settings)):  # fmt: skip
        (folder / f"{name}.json").write_text(json.dumps(value))


def load_gguf(path):
    """The model and the tokenizer of an exported file; quantised weights become float."""
    f = gguf.Reader(path)
    m = f.metadata
    config = Config(
        m["llama.vocab_size"], m["llama.embedding_length"], m["llama.block_count"], m["llama.attention.head_count"],
        m["llama.attention.head_count_kv"], m["llama.feed_forward_length"], m["llama.context_length"],
        m.get("llama.feed_forward_activation", "silu"), m["llama.rope.freq_base"],
        float(f"{m['llama.attention.layer_norm_rms_epsilon']:.6g}"),
    )  # fmt: skip
    model = Model(config)
    model.load_state_dict({k: torch.from_numpy(f.tensors[gguf_name(k)].copy()) for k in model.state_dict()})
    return model.eval(), bpe.Tokenizer.of_file(path)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("checkpoint")
    p.add_argument("tokenizer")
    p.add_argument("out")
    p.add_argument("--type", choices=("Q8_0", "F16", "F32"), default="Q8_0")
    p.add_argument("--name", help="general.name; troika-silu or troika-relu if not given")
    a = p.parse_args()
    model, _ = load_checkpoint(a.checkpoint)
    name = a.name or f"troika-{model.config.activation}"
    tokenizer = bpe.Tokenizer.load(a.tokenizer)
    if a.out.endswith(".gguf"):
        export(model, tokenizer, a.out, name, a.type)
    else:
        export_folder(model, tokenizer, a.out)


if __name__ == "__main__":
    main()
