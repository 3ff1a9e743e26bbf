// The ops of a host executable, each with everything that is known before the run.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "base/team.h"
#include "kernels/kernels.h"
#include "lanes/int8_rule.h"
#include "lanes/lane.h"
#include "plan/plan.h"

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
// The longest stretch of k that is unpacked at a time: 64 rows of it fit a second-level cache.
inline constexpr size_t kStretch = 2048;
inline constexpr size_t kStretchBytes =
    kMostStripsTogether * kernels::kPanelRows * kStretch * sizeof(uint16_t);
// Whole rows of int8 strips are unpacked together: more than this many bytes only where one strip
// takes more.
inline constexpr size_t kMostUnpackedBytes = 640 << 10;

// A product's weight where it lies: in every run, in one that leases it, or of one expert.
struct ProductWeight {
  weights::Matrix matrix{};
  // For kInt8. Without packed copy, strips are unpacked when they are needed, by the rows'
  // magnitudes.
  const kernels::Int8Panels* panels = nullptr;
  const float* row_largest = nullptr;
};

// One op, bound to its weights and buffers. They run in order; workers meet between them where one
// may need what another has made.
struct BoundOp {
  model::Op op;
  // kRope
  int n_rotated = 0;  // dimensions of a head
  bool is_half_split = false;
  int first_pair = 0;  // of its rotation among those of all
  int n_pairs = 0;     // of all rotations
  // In the first set of buffers: OpContext finds them in the run's.
  const float* inputs[3] = {};
  float* output = nullptr;
  int input_width = 0;   // of experts: of one part
  int output_width = 0;  // of kExpertLinear: of one part
  int n_experts = 0;
  int n_experts_used = 0;
  int head_dim = 0;
  int n_kv_heads = 0;
  bool per_output = false;  // rows are wanted outputs, not tokens
  // The columns of the output that are computed: rows of a product's weight, of experts of one
  // part, or elements of what goes element by element. All of them but in a slice.
  int first_column = 0;
  int last_column = 0;
  // kAttention: heads of keys and values, likewise.
  int first_head = 0;
  int last_head = 0;
  ProductWeight weight;  // kEmbed has the matrix alone
  // Where the run's leases say where the weight lies (D1): the index of its own.
  int lease = model::kNone;
  const float* weight_vector = nullptr;
  const float* bias = nullptr;
  // kLinear, kExpertLinear. Of the products, the one for `form` is set.
  InputForm form = InputForm::kFloat;
  kernels::MatmulF32* matmul_f32 = nullptr;
  kernels::MatmulQ8* matmul_q8 = nullptr;
  // Beside it, for kSpread.
  kernels::SpreadToken* spread_token = nullptr;
  kernels::MatmulSpread* matmul_spread = nullptr;
  Int8Rule int8_rule;
  kernels::UnpackBf16* unpack_bf16 = nullptr;
  kernels::UnpackInt8* unpack_int8 = nullptr;  // without packed copy
  // kAttention of a prompt, in bfloat16.
  bool shares_keys = false;
  size_t strips_together = kStripsTogether[0];  // of products with panels
  // The input must be brought into the form first; false where an op before has already done so.
  bool prepares_input = false;
  // The workers meet before this op.
  bool meets_before = false;
  // Where outliers are tasks of their own (N4).
  Role role = Role::kWhole;
  ShadowAreas* shadow = nullptr;
  const weights::ChannelInput* channels = nullptr;

  int n_columns() const { return last_column - first_column; }
  int n_own_heads() const { return last_head - first_head; }
};

// How an executable computes its products.
struct Precision {
  plan::Activations activations;
  plan::Prefill prefill;                  // kSame in an executable for decoding
  const Int8Rules* int8_rules = nullptr;  // null: each token's own scale everywhere
};

// Bytes of a row of the product's input that is brought into its form; 0: it is taken as it stands.
size_t prepared_row_bytes(const BoundOp& bound);
// Rows of it for so many tokens.
size_t n_prepared_rows(const BoundOp& bound, int n_tokens);

// Bytes that each worker needs for what an op unpacks in runs of so many tokens, a multiple of 64.
size_t unpacked_bytes(const BoundOp& bound, int n_tokens);

std::vector<BoundOp> bind_ops(const Subgraph& subgraph, const weights::Store& weights,
                              const Buffers& buffers, const kernels::Table& kernels,
                              Precision precision);

// Counts the items of one op that one worker has begun, its own or another's. On a cache line of
// its own, because its worker counts often.
struct alignas(64) ItemCounter {
  std::atomic<int64_t> n_begun{0};
};

// What the workers of one run share.
struct OpContext {
  const kernels::Table& kernels;
  const Run& run;
  Team& team;
  size_t set_offset;           // floats from the first set of buffers to the run's
  const TaskBindings* leases;  // of the run; null where none is needed
  std::byte* prepared;         // (n_rows, form_bytes): the input of the product at hand
  std::byte* stretches;        // (workers, stretch_bytes): what is unpacked
  size_t stretch_bytes;
  ItemCounter* counters;   // (n_steps, team.size())
  float* attention_parts;  // attention_parts_floats
  // The outliers of the product at hand, where it takes them out.
  kernels::Outlier* outliers;  // (n_rows, k)
  uint32_t* outlier_counts;    // (n_rows)
  float* scratch;              // (workers, scratch_floats): a row on its way into its form
  size_t scratch_floats;
  int32_t* expert_scratch;  // (workers, expert_scratch_length)
  size_t expert_scratch_length;

  // Where an op finds and leaves its values in this run.
  const float* input(const BoundOp& bound, size_t i = 0) const {
    return bound.inputs[i] + set_offset;
  }
  float* output(const BoundOp& bound) const { return bound.output + set_offset; }
};

// Into how many segments the attention of each (token, head) is divided between the workers; 0
// where they share whole ones.
size_t n_shared_segments(const BoundOp& bound, const Run& run, int n_workers);
// Room for what these come to.
size_t attention_parts_floats(const BoundOp& bound, const Run& run, int n_workers);

// The share of an op that falls to one worker.
void run_op(const BoundOp& bound, const OpContext& context, int index, int worker);

}  // namespace troika::lanes
