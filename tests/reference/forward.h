// The reference that judges every other path: a forward pass in double precision, one token at a
// time, written to be obviously right. It shares no code with src/.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/reference/gguf.h"

namespace troika::reference {

using Vector = std::vector<double>;

// Computes weight x + bias. A missing tensor is an empty vector.
struct Linear {
  Vector weight;                 // (n_out, n_in), row after row
  Vector bias;                   // (n_out) or empty
  bool is_block_format = false;  // says whether the file has it in a quantised type
};

struct Norm {
  Vector weight;
  Vector bias;
};

// Rotary embedding turns pair j of a head by position * frequencies[j], and multiplies its length
// by the magnitude.
struct Rope {
  Vector frequencies;
  double magnitude = 1;
};

// Computes down(activation(gate x) * up x), or down(activation(up x)) without a gate.
struct FeedForward {
  Linear gate, up, down;
};

struct Layer {
  Norm attention_norm;
  Linear q, k, v;         // are empty where there is `qkv`
  Linear qkv;             // has the rows of all three matrices
  Vector q_norm, k_norm;  // (head_dim) each, or empty
  size_t window = 0;      // counts the positions that a token sees, itself too; 0: all
  Rope rope;
  Linear attention_output;
  Norm attention_post_norm;  // normalizes what attention adds; may be empty
  Norm ffn_norm;
  FeedForward ffn;
  Norm ffn_post_norm;
  // These replace `ffn` in models of experts.
  Linear router;
  std::vector<FeedForward> experts;
  FeedForward shared;   // may be empty
  Linear shared_share;  // has one row or is empty
};

struct Model {
  explicit Model(const Gguf& file);

  std::string architecture;
  size_t width, n_layers, n_heads, n_kv_heads, head_dim, vocabulary;
  double norm_epsilon;
  bool layer_norm;    // chooses LayerNorm instead of RMSNorm
  bool parallel_ffn;  // attention and FFN read the same input, and both are added
  double embedding_scale;
  std::string activation;  // is "silu", "gelu", "relu", or "drelu" (ReLU of both factors)
  double attention_scale;  // multiplies q times k
  double attention_cap = 0, logit_cap = 0;  // are soft caps; 0: none
  size_t n_experts_used = 0;
  bool normalize_shares = true;
  double share_scale = 1;
  bool rope_halves;  // pair j is (j, j + n_pairs) if set, else (2j, 2j + 1)

  Vector embedding;  // (vocabulary, width)
  std::vector<Layer> layers;
  Norm output_norm;
  Linear output;

  // Rounds what a matrix in a block format is multiplied with, as the integer kernels do, so that
  // this reference can judge them.
  bool eight_bit_activations = false;

 private:
  Rope read_rope(const Gguf& file) const;
  Layer read_layer(const Gguf& file, size_t index) const;
  void read_experts(const Gguf& file, const std::string& block, Layer& layer) const;
};

// A sequence of tokens. It takes one after another and remembers their keys and values.
class Sequence {
 public:
  explicit Sequence(const Model& model);

  // Computes the next token, and returns the logits behind it.
  Vector next(int token);
  // Returns how many tokens each expert of each layer got so far.
  const std::vector<std::vector<size_t>>& expert_uses() const { return expert_uses_; }
  // Returns the share of neurons whose activation was not 0, over all tokens and layers so far.
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

// Returns the logits at every position of a new sequence.
std::vector<Vector> forward(const Model& model, const std::vector<int>& tokens);

// Return the index of the largest logit, and the n_tokens likeliest tokens in turn behind the
// prompt.
int largest(const Vector& logits);
std::vector<int> greedy(const Model& model, const std::vector<int>& prompt, size_t n_tokens);

// Returns minus the logarithm of the probability that softmax(logits) gives to `token`.
double negative_log_likelihood(const Vector& logits, int token);

// Returns max |a - b| / max |b| over all positions, which the tests call the error. b is the judge.
double relative_error(const std::vector<Vector>& a, const std::vector<Vector>& b);

}  // namespace troika::reference
