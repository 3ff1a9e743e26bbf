// Makes seeded synthetic models of every architecture, a few hundred kilobytes each, as GGUF files
// that this program and llama.cpp can load. Nothing here includes from src/.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "tests/support/random_tensor.h"

namespace troika::test_support {

struct TinyModel {
  std::string architecture = "llama";  // is one of tiny_architectures()
  uint32_t n_layers = 2;
  uint32_t width = 256;
  uint32_t n_heads = 4;
  uint32_t n_kv_heads = 2;
  uint32_t head_dim = 64;
  uint32_t rope_dims = 64;
  uint32_t ffn_width = 512;
  uint32_t vocabulary = 512;
  uint32_t context = 512;
  double rope_base = 10000;

  bool tied = false;              // leaves out output.weight: the embedding is used again
  bool attention_biases = false;  // adds biases to q, k and v
  bool output_biases = false;     // adds a bias to the attention's output
  bool ffn_biases = false;
  bool fused_qkv = false;
  bool fused_gate_up = false;
  bool qk_norms = false;
  bool post_norms = false;     // normalizes what attention and FFN add
  uint32_t window = 0;         // counts positions that layers see; 0: all
  uint32_t window_period = 0;  // the last of so many layers sees all; 0: the key is not written
  double attention_cap = 0;    // is a soft cap; 0: it is not written
  double logit_cap = 0;
  uint32_t n_experts = 0;
  uint32_t n_experts_used = 2;
  uint32_t expert_width = 256;
  uint32_t shared_width = 0;    // is the width of the expert that all tokens share; 0: none
  double expert_scale = 0;      // is not written if it is 0
  uint32_t predictor_rank = 0;  // sparse models have one; 0: none
  std::string activation;       // becomes the key feed_forward_activation unless it is empty

  // Is "", "none", "linear", "yarn", "llama3" (with a tensor of divisors) or "longrope" (with two).
  std::string rope_scaling;
  double rope_factor = 4;
  double rope_attention_factor = 0;  // is a factor of YaRN; 0: it is not written
  uint32_t original_context = 128;

  uint32_t type = kF32;  // is the type of all matrices
  std::map<std::string, uint32_t>
      types;  // excepts tensors by the ending of their names: {"attn_v.weight", kQ6_K}

  std::string tokenizer = "spm";  // is "spm" or "bpe"
  std::string pre = "gpt-2";      // names the pre-tokenizer of "bpe"
  std::string chat_template;      // is not written if it is empty
  std::string tool_template;      // is for requests with tools, and not written if it is empty
  bool add_eos = false;           // says that the tokenizer puts its end token behind texts
  uint64_t seed = 1;
};

// Returns the architecture as real files have it: qwen2 with biases and BPE, gemma with one KV head
// and heads wider than width / n_heads, phi2 with its fused matrix. Throws for another name.
TinyModel tiny_model(const std::string& architecture);
// Returns all names that tiny_model knows. "mixtral" is a llama of experts.
const std::vector<std::string>& tiny_architectures();

// Every architecture and variant that the engine must compute has one of these, in F32.
struct NamedModel {
  std::string name;
  TinyModel model;
};
std::vector<NamedModel> tiny_model_variants();
// Returns a llama of width 64 with heads of 32, in Q8_0.
TinyModel narrow_llama(uint32_t context, uint32_t n_heads = 2, uint32_t n_kv_heads = 1);
// Returns the model's name with letters that GoogleTest allows in the name of a test.
std::string test_name(const NamedModel& model);
// GoogleTest calls this for its messages.
void PrintTo(const NamedModel& model, std::ostream* out);

// Returns a mixture of 8 experts of which each token takes 2, as Mixtral is one, with 190 million
// weights unless told otherwise. It is none of the variants. With a width that is a multiple of
// 1024, rows of experts are multiples of 256.
TinyModel larger_mixture(uint32_t n_layers = 4, uint32_t width = 1024);

// Changes a tensor before it is written: its type and its encoded elements, of which there are
// n_elements.
using Rewrite = std::function<void(uint32_t* type, std::vector<uint8_t>* data, size_t n_elements)>;
std::vector<uint8_t> tiny_model_bytes(const TinyModel& model, const Rewrite& rewrite = {});
void write_tiny_model(const TinyModel& model, const std::string& path);

// Returns seeded tokens of the model's vocabulary, beginning with token 1.
std::vector<int32_t> random_tokens(const TinyModel& model, size_t n_tokens, uint64_t seed = 7);

}  // namespace troika::test_support
