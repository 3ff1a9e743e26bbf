// A product of a weight with activations: the form of its input, and the functions that compute it.
#pragma once

#include "kernels/kernels.h"
#include "lanes/int8_rule.h"
#include "lanes/subgraph.h"
#include "plan/plan.h"
#include "weights/expert_source.h"
#include "weights/neurons/neurons.h"
#include "weights/store.h"

namespace troika::lanes {

// The form in which a product takes its input, which decides how the product is computed.
enum class InputForm : uint8_t {
  kFloat,   // floats, as they stand
  kQ8,      // quantised rows of kernels/activations.h
  kSpread,  // the contents of kQ8 in blocks of several tokens; a single token stays a row
  kInt8,    // int8 for panels (kernels/panels.h), by an Int8Rule
  kBf16,
};
// Returns the bytes of one row of k elements in this form; 0 for kFloat.
size_t form_bytes(InputForm form, size_t k);

// Strips of 16 rows are multiplied together, so that activations are read once for all of them.
// Which number of rows is best depends on the caches and on the shape, so a profile may tell (N8).
inline constexpr const char* kProductArrangements[] = {"64 rows", "32 rows", "128 rows"};
inline constexpr size_t kStripsTogether[] = {4, 2, 8};
inline constexpr size_t kMostStripsTogether = 8;

// Where a product's weight lies: in every run, in a run that leases the weight, or for one expert.
struct ProductWeight {
  weights::Matrix matrix{};
  // kInt8 only. Where a weight has no packed copy, strips are unpacked when they are needed, by the
  // rows' magnitudes.
  const kernels::Int8Panels* panels = nullptr;
  const float* row_largest = nullptr;
};

// How many experts a mixture has, and where they are.
struct ExpertCounts {
  int n = 0;
  int n_used = 0;  // how many experts each token takes
  // Where they lie; null: in the matrix. The source knows the product by its place.
  weights::ExpertSource* source = nullptr;
  weights::ExpertSource::Place place = {};
};

// Guesses which experts the next mixture will take, so that they are read ahead (P10): its router
// is applied to what stands before this one.
struct ExpertGuess {
  int mixture = 0;               // whose experts are guessed
  const float* state = nullptr;  // (n_tokens, width), in the first set of buffers
  size_t width = 0;
  bool is_layer_norm = false;
  const float* norm_weight = nullptr;
  const float* norm_bias = nullptr;
  float eps = 0.0f;
  weights::Matrix router{};
  const float* router_bias = nullptr;
  kernels::MatmulF32* matmul = nullptr;  // null: nothing is guessed

  bool is_there() const { return matmul != nullptr; }
};

// The part of a product with outliers that a task of its own computes, and the memory that these
// parts share (N4).
struct OutlierPart {
  Role role = Role::kWhole;
  ShadowAreas* areas = nullptr;
  const weights::ChannelInput* channels = nullptr;
};

// The gate of a block that is computed by neuron, where a predictor says which rows of the gate are
// computed (P3). The activation has the form of the product's input. It is multiplied with the
// gate's rows and with the predictor's.
struct NeuronGate {
  weights::Matrix matrix{};
  kernels::MatmulF32* f32 = nullptr;
  kernels::MatmulQ8* q8 = nullptr;
  kernels::MatmulF32* predictor_f32 = nullptr;
  kernels::MatmulQ8* predictor_q8 = nullptr;
};

// What an op of kind kLinear or kExpertLinear is bound to.
struct BoundProduct {
  ProductWeight weight;
  // Where a run leases the weight (D1), this is the index of the lease.
  int lease = model::kNone;
  const float* bias = nullptr;
  // Set where the product is the first of a feed-forward block that is computed by neuron (P1).
  // Then the second input is the result of the block's gate, and the output is that of the whole
  // block.
  const weights::NeuronFfn* neurons = nullptr;
  NeuronGate gate;
  ExpertCounts experts;  // kExpertLinear: the weight holds all experts
  ExpertGuess guess;     // is there in the first product of a mixture
  InputForm form = InputForm::kFloat;
  // Says whether the product must bring its input into the form first; false where an op before has
  // done so.
  bool prepares_input = false;
  // kFloat uses this function.
  kernels::MatmulF32* matmul_f32 = nullptr;
  // kQ8 uses this function, and kSpread where the tokens are few.
  kernels::MatmulQ8* matmul_q8 = nullptr;
  // kSpread uses these functions.
  kernels::SpreadToken* spread_token = nullptr;
  kernels::MatmulSpread* matmul_spread = nullptr;
  // Where the weight's rows stand as in the file, workers bring those that they take at a time side
  // by side, if there are this many tokens or more; 0: never. Then kSpread takes blocks from this
  // number on, and kQ8 uses matmul_turned.
  size_t turned_from = 0;
  kernels::MatmulQ8* matmul_turned = nullptr;
  // kInt8 uses these.
  Int8Rule int8_rule;
  kernels::UnpackInt8* unpack_int8 = nullptr;  // needed where the weight has no packed copy
  OutlierPart outliers;
  // kBf16 uses these functions.
  kernels::UnpackBf16* unpack_bf16 = nullptr;
  // Counts the strips that kInt8 and kBf16 multiply together.
  size_t strips_together = kStripsTogether[0];

  bool has_panels() const { return form == InputForm::kInt8 || form == InputForm::kBf16; }
  bool turns_rows(size_t n_tokens) const { return turned_from > 0 && n_tokens >= turned_from; }
  // Makes the product take quantised rows, one by one or all, whatever else would be faster.
  void take_rows();
};

// How an executable computes its products.
struct Precision {
  plan::Activations activations;
  plan::Prefill prefill;                  // kSame in an executable for decoding
  const Int8Rules* int8_rules = nullptr;  // null: each token's own scale everywhere
  plan::PromptAttention attention = {};   // dense in an executable for decoding
};

// Refuses products of prompts in half floats on a lane that does not compute in them. Throws Error.
[[noreturn]] void refuse_halves();

// Chooses the form of a product's input and the functions that compute the product.
BoundProduct bind_product(const model::Op& op, const weights::Store& weights,
                          const kernels::Table& kernels, const Precision& precision);

}  // namespace troika::lanes
