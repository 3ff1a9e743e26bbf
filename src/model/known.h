// Knows the shapes of published models by name, and what a file of each must hold.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/writer.h"

namespace troika::model {

struct KnownModel {
  std::string_view name;  // "qwen2.5-1.5b"; "tiny-ARCH" are small ones for tests
  uint32_t n_layers;
  uint32_t width;
  uint32_t n_heads;
  uint32_t n_kv_heads;
  uint32_t head_dim;
  uint32_t ffn_width;
  uint32_t n_vocab;
  uint32_t n_context;

  std::string_view architecture{};  // the value of general.architecture, and the prefix of the keys
  std::string_view tokenizer{};     // "llama" (SentencePiece) or "gpt2" (byte-level BPE)
  std::string_view pre{};           // names a BPE tokenizer's pre-tokenizer
  std::string_view activation{};    // "silu", "gelu", "relu" or "drelu" (on both factors)
  double norm_eps = 1e-5;
  double rope_base = 1e4;
  uint32_t rope_dims = 0;    // 0: the whole head
  double rope_factor = 0.0;  // the factor of Llama 3's long-context scaling; 0: none
  bool tied_embeddings = false;
  uint32_t n_experts = 0;
  uint32_t n_experts_used = 0;
  uint32_t expert_width = 0;   // 0: ffn_width
  uint32_t shared_width = 0;   // the width of the expert that all tokens share; 0: none
  uint32_t window = 0;         // positions that blocks with a sliding window see; 0: no such blocks
  uint32_t window_period = 0;  // the number in the file; 0: the architecture's own
  double attention_cap = 0.0;  // caps scores softly; 0: it does not
  double logit_cap = 0.0;

  uint32_t query_width() const { return n_heads * head_dim; }
  uint32_t kv_width() const { return n_kv_heads * head_dim; }
};

std::span<const KnownModel> known_models();
// Returns null where there is no model of this name.
const KnownModel* find_known(std::string_view name);
// Throws a UsageError that lists the names where there is no model of this name.
const KnownModel& get_known(std::string_view name);

enum class TensorRole {
  kEmbedding,    // has a row per token
  kMatrix,       // has a row per output
  kInnerMatrix,  // a matrix whose output is added to the residual stream
  kNorm,         // has factors around 1
  kBias,
  kRopeFactors,  // see rope_factors()
};

struct KnownTensor {
  std::string name;
  std::vector<uint64_t> shape;  // the shape in the file: shape[0] is the length of a row
  TensorRole role;
};

// Returns all tensors of the model in the order of a file. Architectures differ in which there are:
// biases, norms of queries and keys, one matrix for query, key and value together, experts.
std::vector<KnownTensor> known_tensors(const KnownModel& model);

uint64_t n_parameters(const KnownModel& model);

// Returns by how much Llama 3's scaling slows the rotation of each pair of a head down; empty where
// the model has no such scaling.
std::vector<float> rope_factors(const KnownModel& model);

// Adds the keys general.* and ARCH.* (not those of the tokenizer).
void add_known_metadata(const KnownModel& model, gguf::Writer& writer);

}  // namespace troika::model
