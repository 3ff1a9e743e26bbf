// The judge of every other path: a forward pass in double precision, one token at a time, written
// to be obviously right. It shares no code with src/.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/reference/gguf.h"

namespace troika::reference {

using Vector = std::vector<double>;

// y = weight x + bias. A missing tensor is an empty vector.
struct Linear {
  Vector weight;                 // (n_out, n_in), row after row
  Vector bias;                   // (n_out) or empty
  bool is_block_format = false;  // in the file: a quantised type
};

struct Norm {
  Vector weight;
  Vector bias;
};

// Rotary embedding: pair j of a head turns by position * frequencies[j], and its length is
// multiplied by the magnitude.
struct Rope {
  Vector frequencies;
  double magnitude = 1;
};

// down(activation(gate x) * up x), without a gate down(activation(up x)).
struct FeedForward {
  Linear gate, up, down;
};

struct Layer {
  Norm attention_norm;
  Linear q, k, v;         // three matrices,
  Linear qkv;             // or one with the rows of all three
  Vector q_norm, k_norm;  // (head_dim) each, or empty
  size_t window = 0;      // how many positions a token sees, itself too; 0: all
  Rope rope;
  Linear attention_output;
  Norm attention_post_norm;  // of what attention adds; or empty
  Norm ffn_norm;
  FeedForward ffn;
  Norm ffn_post_norm;
  // In place of ffn, where there are experts.
  Linear router;
  std::vector<FeedForward> experts;
  FeedForward shared;   // or empty
  Linear shared_share;  // one row, or empty
};

struct Model {
  explicit Model(const Gguf& file);

  std::string architecture;
  size_t width, n_layers, n_heads, n_kv_heads, head_dim, vocabulary;
  double norm_epsilon;
  bool layer_norm;    // LayerNorm instead of RMSNorm
  bool parallel_ffn;  // attention and FFN read the same input and are added together
  double embedding_scale;
  std::string activation;  // "silu", "gelu", "relu", or "drelu": ReLU of both factors
  double attention_scale;  // of q times k
  double attention_cap = 0, logit_cap = 0;  // soft; 0: none
  size_t n_experts_used = 0;
  bool normalize_shares = true;
  double share_scale = 1;
  bool rope_halves;  // pair j is (j, j + n_pairs), else (2j, 2j + 1)

  Vector embedding;  // (vocabulary, width)
  std::vector<Layer> layers;
  Norm output_norm;
  Linear output;

  // Off unless a test asks for it: rounds what a matrix in a block format is multiplied with, as
  // the integer kernels do. The judge of those.
  bool eight_bit_activations = false;

 private:
  Rope read_rope(const Gguf& file) const;
  Layer read_layer(const Gguf& file, size_t index) const;
  void read_experts(const Gguf& file, const std::string& block, Layer& layer) const;
};

// One sequence: takes tokens one after another and remembers their keys and values.
class Sequence {
 public:
  explicit Sequence(const Model& model);

  // The logits after this token.
  Vector next(int token);
  // How many tokens each expert of each layer got so far.
  const std::vector<std::vector<size_t>>& expert_uses() const { return expert_uses_; }
  // Share of the neurons whose activation was not 0, over all tokens and layers so far.
  double active_share() const { return static_cast<double>(n_active_) / n_neurons_; }

 private:
  Vector attention(size_t layer, const Vector& x);
  Vector feed_forward(const FeedForward& ffn, const Vector& x);
  Vector mixture(size_t layer, const Vector& x);

  const Model& model_;
  size_t n_active_ = 0, n_neurons_ = 0;
  size_t position_ = 0;
  std::vector<std::vector<size_t>> expert_uses_;
  std::vector<std::vector<Vector>> keys_, values_;  // [layer][position]: (n_kv_heads * head_dim)
};

// Logits for every position of a fresh sequence.
std::vector<Vector> forward(const Model& model, const std::vector<int>& tokens);

// The index of the largest logit, and n_tokens of them generated after the prompt.
int largest(const Vector& logits);
std::vector<int> greedy(const Model& model, const std::vector<int>& prompt, size_t n_tokens);

// Minus the logarithm of the probability that softmax(logits) gives to `token`.
double negative_log_likelihood(const Vector& logits, int token);

// max |a - b| / max |b| over all positions: the error that the tests speak of. b is the judge.
double relative_error(const std::vector<Vector>& a, const std::vector<Vector>& b);

}  // namespace troika::reference
