// Describes what a model computes, as data: values, weights and ops in order. One struct serves all
// architectures. The rooms behind this one do not know which architecture it came from, and this
// room knows no lane.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troika::model {

// A value is a row of floats per token, or per wanted output behind `OpKind::kSelect`. Ops of
// different blocks use the same values again.
using ValueId = int;
// A weight of the file, or a range of its rows.
using WeightId = int;
inline constexpr int kNone = -1;

struct Value {
  std::string name;
  int width;        // floats per row
  bool per_output;  // one row per wanted output, not per token
};

struct Weight {
  std::string name;  // the file's name for it
  // The first row, where several weights are fused into one tensor; for a vector the first element.
  int first_row = 0;
  int n_rows;  // 1 for vectors
  int row_length;
  int n_tensor_rows;            // counts rows of the whole tensor
  int whole_vector_length = 0;  // the length of the whole tensor; 0: this weight is all of it

  // Returns how many elements the file must hold for a vector.
  int tensor_length() const { return whole_vector_length > 0 ? whole_vector_length : row_length; }
};

enum class OpKind : uint8_t {
  kEmbed,      // output = the token's row of `weight`, times `scale`
  kRmsNorm,    // output = input / rms(input) * weight
  kLayerNorm,  // output = (input - mean) / deviation * weight + bias
  kLinear,     // output = weight · input (+ bias)
  kRope,       // rotates `n_heads` heads of input into output, by the position
  kAttention,  // keeps input[1], input[2] as keys and values of `layer`; output = attention of
               // input[0] over what the batch lets each token see
  kGate,       // output = activation(input[0]) * input[1]
  kActivate,   // output = activation(input[0])
  kAdd,        // output = input[0] + input[1]
  kSelect,     // output = the rows of input whose logits are wanted
  kSoftCap,    // output = soft_cap * tanh(input / soft_cap)
  // Mixture of experts: each token takes `n_experts_used` of the blueprint's experts. An expert
  // makes a part for each of its tokens. The parts of one expert stand together, in the order of
  // the experts, then of the tokens.
  kRoute,         // output = (expert, share) of the best experts, by input = a logit per expert
  kExpertLinear,  // output = weight[expert] · input for each expert in input[1]; the input is one
                  // row for all of a token's experts, or a part for each
  kExpertSum,     // output = sum over experts of share * part of input[0]; input[1] has the experts
  kSigmoidGate,   // output = input[0] * sigmoid(input[1]), which is one number for each token
};

const char* op_kind_name(OpKind kind);

// Says whether the op is part of a mixture: what it computes follows from what each token chooses.
constexpr bool is_of_experts(OpKind kind) {
  return kind == OpKind::kRoute || kind == OpKind::kExpertLinear || kind == OpKind::kExpertSum;
}

enum class Activation : uint8_t {
  kSilu,
  kGelu,
  kRelu,
  kDoubleRelu,  // acts on both factors of a gate
};

struct Op {
  OpKind kind;
  int layer = kNone;  // the block of the op; kNone before the first and behind the last
  std::array<ValueId, 3> inputs = {kNone, kNone, kNone};
  ValueId output = kNone;
  WeightId weight = kNone;
  WeightId bias = kNone;
  Activation activation = Activation::kSilu;
  // kRope: counts the heads that turn. kRmsNorm: counts heads that are normalised apart, with the
  // same factors; 0: the whole row is.
  int n_heads = 0;
  float scale = 1.0f;     // kEmbed; kAttention: factor of q·k; kRoute: factor of the shares
  float eps = 0.0f;       // norms
  float soft_cap = 0.0f;  // kSoftCap: the cap; kAttention: the cap of scores; 0: none
  int window = 0;         // kAttention: the last positions that a token sees, itself too; 0: all
  int rope = 0;           // one of the blueprint's ropes, for kRope
  // Says of a kLinear that its activations are never rounded (a router has near ties).
  bool keeps_float = false;
  bool takes_parts = false;  // kExpertLinear: the input is a part for each of the experts
  // Says of a kRoute that the shares of the experts that are used sum to 1.
  bool normalizes_shares = false;

  // Says that the op's cost depends on how many positions each token sees, not on the number of
  // tokens alone.
  bool is_dynamic() const { return kind == OpKind::kAttention; }
};

enum class RopeScaling : uint8_t { kNone, kLinear, kYarn };

struct Rope {
  int n_dims = 0;              // rotated dimensions of a head; 0: no rotation at all
  bool is_half_split = false;  // pairs (i, i + n/2) instead of (2i, 2i + 1)
  double base = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;       // context is stretched by this
  int original_context = 0;  // yarn needs it
  double yarn_beta_fast = 32.0;
  double yarn_beta_slow = 1.0;
  double yarn_ext_factor = 1.0;
  double attention_factor = 1.0;          // multiplies what is rotated: scores grow by its square
  std::vector<float> frequency_divisors;  // llama3, phi3: one per pair; empty: all 1
  // Counts in contexts above `original_context` (phi3); empty: none.
  std::vector<float> long_divisors;

  bool operator==(const Rope&) const = default;
};

// A small network that guesses which neurons of a block's FFN will be active. A dense pass needs
// none.
struct Predictor {
  int layer;
  WeightId down, up;  // (rank, width) and (ffn_width, rank), with a ReLU between them
};

struct Blueprint {
  std::string architecture;
  std::string name;
  int n_layers = 0;
  int width = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int n_vocab = 0;
  int ffn_width = 0;
  int n_experts = 0;  // 0: none
  int n_experts_used = 0;
  int trained_context = 0;
  // Most models have one; each op says which it uses.
  std::vector<Rope> ropes = std::vector<Rope>(1);

  std::vector<Value> values;
  std::vector<Weight> weights;
  std::vector<Op> ops;
  ValueId logits = kNone;
  // The predictors of sparse models, by layer; empty: there are none.
  std::vector<Predictor> predictors;
  float predictor_threshold = 0.0f;  // the output above which a neuron counts as active

  int kv_width() const { return n_kv_heads * head_dim; }
};

}  // namespace troika::model
