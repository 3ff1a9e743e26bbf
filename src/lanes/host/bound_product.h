// A product of a weight with activations: what it takes and which functions compute it.
#pragma once

#include "kernels/kernels.h"
#include "lanes/int8_rule.h"
#include "lanes/subgraph.h"
#include "plan/plan.h"
#include "weights/neurons/neurons.h"
#include "weights/store.h"

namespace troika::lanes {

// In which form a product takes its input, and thus how it is computed.
enum class InputForm : uint8_t {
  kFloat,   // as it stands
  kQ8,      // kernels/activations.h, as rows
  kSpread,  // the same as blocks where there are several tokens, else as rows
  kInt8,    // kernels/panels.h, by an Int8Rule
  kBf16,
};
// Bytes of one row of k elements; 0 for kFloat.
size_t form_bytes(InputForm form, size_t k);

// Strips of 16 rows that are multiplied together, so that activations are read once for all. Which
// number is best depends on the caches and on the shape, so a profile may tell (N8).
inline constexpr const char* kProductArrangements[] = {"64 rows", "32 rows", "128 rows"};
inline constexpr size_t kStripsTogether[] = {4, 2, 8};
inline constexpr size_t kMostStripsTogether = 8;

// A product's weight where it lies: in every run, in one that leases it, or of one expert.
struct ProductWeight {
  weights::Matrix matrix{};
  // For kInt8. Without packed copy, strips are unpacked when they are needed, by the rows'
  // magnitudes.
  const kernels::Int8Panels* panels = nullptr;
  const float* row_largest = nullptr;
};

// How many experts a mixture has.
struct ExpertCounts {
  int n = 0;
  int n_used = 0;  // by each token
};

// The part of a product with outliers that is a task of its own, and what these parts share (N4).
struct OutlierPart {
  Role role = Role::kWhole;
  ShadowAreas* areas = nullptr;
  const weights::ChannelInput* channels = nullptr;
};

// The gate of a block that is computed by neuron, where a predictor says which of its rows are
// computed (P3): in the form of the product's input, what multiplies the gate's rows, and the
// predictor's.
struct NeuronGate {
  weights::Matrix matrix{};
  kernels::MatmulF32* f32 = nullptr;
  kernels::MatmulQ8* q8 = nullptr;
  kernels::MatmulF32* predictor_f32 = nullptr;
  kernels::MatmulQ8* predictor_q8 = nullptr;
};

// kLinear, kExpertLinear.
struct BoundProduct {
  ProductWeight weight;
  // Where the run's leases say where the weight lies (D1): the index of its own.
  int lease = model::kNone;
  const float* bias = nullptr;
  // The product is the first of a feed-forward block that is computed by neuron (P1): the second
  // input is what its gate came to, and the output is that of the whole block.
  const weights::NeuronFfn* neurons = nullptr;
  NeuronGate gate;
  ExpertCounts experts;  // kExpertLinear: the weight is that of all experts
  InputForm form = InputForm::kFloat;
  // The input must be brought into the form first; false where an op before has already done so.
  bool prepares_input = false;
  // kFloat
  kernels::MatmulF32* matmul_f32 = nullptr;
  // kQ8; kSpread where the tokens are few
  kernels::MatmulQ8* matmul_q8 = nullptr;
  // kSpread
  kernels::SpreadToken* spread_token = nullptr;
  kernels::MatmulSpread* matmul_spread = nullptr;
  // kInt8
  Int8Rule int8_rule;
  kernels::UnpackInt8* unpack_int8 = nullptr;  // without packed copy
  OutlierPart outliers;
  // kBf16
  kernels::UnpackBf16* unpack_bf16 = nullptr;
  // kInt8, kBf16
  size_t strips_together = kStripsTogether[0];

  bool has_panels() const { return form == InputForm::kInt8 || form == InputForm::kBf16; }
};

// How an executable computes its products.
struct Precision {
  plan::Activations activations;
  plan::Prefill prefill;                  // kSame in an executable for decoding
  const Int8Rules* int8_rules = nullptr;  // null: each token's own scale everywhere
  plan::PromptAttention attention = {};   // dense in an executable for decoding
};

// Chooses the form and its functions.
BoundProduct bind_product(const model::Op& op, const weights::Store& weights,
                          const kernels::Table& kernels, Precision precision);

}  // namespace troika::lanes
