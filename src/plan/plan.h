// The plan as plain data: what was decided about a model on a machine before anything runs.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/cuts/cuts.h"
#include "plan/ffn.h"
#include "plan/int8.h"
#include "plan/phones/neuron_plan.h"
#include "plan/prompt_attention.h"
#include "plan/shape.h"
#include "tensor/type.h"

namespace troika::plan {

// The form in which activations meet block-quantised weights.
enum class Activations : uint8_t {
  kF32,  // weights decoded exactly, float products: the judge
  kQ8,   // activations quantised in blocks of 32, whole-number products within a block
};

// How the products of prompts are computed: of executables of Phase::kPrompt. Those of steps, which
// decoding and verification use, always take `Activations`.
enum class Prefill : uint8_t {
  kSame,  // as decoding
  kF32,   // weights decoded exactly, float products
  kBf16,  // weights and activations as bfloat16, float sums (H13)
  kInt8,  // weights and activations as int8, by the plan's Int8Plan (N3, N4, N11)
  kQ8,    // blocks with 8-bit activations, a scale for each 32, as steps have them; attention, and
          // weights that are floats, as kBf16
};

// Whether a prompt's queries share the keys and values that they unpack, as bfloat16.
constexpr bool shares_keys(Prefill prefill) {
  return prefill == Prefill::kBf16 || prefill == Prefill::kInt8 || prefill == Prefill::kQ8;
}

const char* prefill_name(Prefill prefill);
// Throws UsageError that lists the names.
Prefill prefill_from_name(std::string_view name);

const char* activations_name(Activations activations);
// Throws UsageError that lists the names.
Activations activations_from_name(std::string_view name);

// The order in which the chunks of a prompt run where there are several lanes (N7).
enum class Order : uint8_t {
  kInOrder,     // one chunk after the other
  kLockStep,    // two chunks, one step of each at a time, as most public code has it
  kOutOfOrder,  // whatever is ready and leaves the matrix lane idle least
};

inline constexpr int kMostChunksInFlight = 64;

// Plan::class_at is less.
inline constexpr int kMostClasses = 3;

const char* order_name(Order order);
// Throws UsageError that lists the names.
Order order_from_name(std::string_view name);

// Which ops of a block are subgraphs of their own, so that they can be placed apart.
struct Splits {
  // Norms, and the projection behind attention: six subgraphs a block instead of three (N2).
  bool at_norms = false;
  // The activation of the feed-forward part, and the product behind it: two more (H2).
  bool at_activations = false;

  bool operator==(const Splits&) const = default;
};

// A lane: cores of this machine, a device that a driver runs, or a processor of a virtual phone.
struct HostLane {
  std::vector<int> cores;  // empty: whichever the system gives; of a device: for its driver
  int n_threads = 1;       // that compute; 0 of a device
  // Or one of plan/device.h, or "cpu", "gpu", "npu" of a phone, which has neither of the above.
  std::string kind = "host";
  uint64_t memory_limit = kNoLimit;  // bytes of weights that it may run with (N9)
  std::string device = {};           // which one of its kind; of cores and of phones: empty
  int busy_percent = kAllTime;       // of the time, at most: what else uses it needs the rest (H14)

  bool is_device() const { return !device.empty(); }

  bool is_capped() const { return busy_percent < kAllTime; }
  double busy_share() const { return busy_percent / 100.0; }

  static constexpr uint64_t kNoLimit = UINT64_MAX;
  static constexpr int kAllTime = 100;
};

// That a lane may run with no more weights.
struct LaneLimit {
  int lane = 0;
  uint64_t bytes = HostLane::kNoLimit;
};
// Throws UsageError for a lane that is not there.
void limit_lanes(const std::vector<LaneLimit>& limits, std::vector<HostLane>* lanes);

// A limit: a lane may be busy for so much of the time (H14).
struct LaneCap {
  int lane = 0;
  int busy_percent = HostLane::kAllTime;
};
// Throws UsageError for a lane that is not there, and for no share of the time.
void cap_lanes(const std::vector<LaneCap>& caps, std::vector<HostLane>* lanes);

// How a lane's thread waits for its next task where there are several lanes (H8).
enum class HandoverKind : uint8_t {
  kOrdinary,  // awake for a moment, then asleep until the system wakes it
  kFast,      // asleep for as long as it expects, then awake until the task comes
};
const char* handover_name(HandoverKind handover);
// Throws UsageError that lists the names.
HandoverKind handover_from_name(std::string_view name);

// Which lane runs a kind of subgraph. The first rule that matches counts.
struct Placement {
  std::string subgraph;  // "attention"; empty: every one
  int least_tokens = 0;  // for executables of at least so many tokens: 2 leaves decoding out
  int lane = 0;
  int n_blocks = kAllBlocks;  // only the first so many: where a lane has no memory for all (N9)
  std::optional<Phase> phase = std::nullopt;  // for executables of this phase; none: of both

  bool holds_for(Shape shape, int block) const {
    return shape.n_rows >= least_tokens && block < n_blocks && (!phase || *phase == shape.phase);
  }

  static constexpr int kAllBlocks = INT_MAX;
};

// An equivalent shape in which a lane computes a product faster than in its first one (N8). Files
// of plans and profiles call it a layout.
struct ProductArrangement {
  int lane = 0;
  int n_rows = 0;  // of the weight
  int k = 0;
  Shape shape;              // of the executable
  std::string arrangement;  // one of those that the lane names
};

// What a pass of so many rows of Phase::kStep takes, their logits included.
struct StepCost {
  int n_rows = 0;
  double ms = 0.0;

  bool operator==(const StepCost&) const = default;
};

struct Plan {
  std::vector<HostLane> lanes = {{}};
  std::vector<Placement> placements;  // lane 0 where none matches
  Activations activations = Activations::kQ8;
  Prefill prefill = Prefill::kSame;
  PromptAttention attention;
  FfnPlan ffn;
  // Most bytes of packed copies of weights, which spare int8 prompts the unpacking.
  uint64_t packed_bytes = 0;
  Int8Plan int8;
  std::string prefill_reason;  // why it is not what was asked for, or what was chosen; for people
  tensor::Type kv_type = tensor::Type::kF16;
  int context = 0;
  // The row counts for which executables of each phase are built, ascending. A pass takes the
  // smallest that holds it; longer prompts go in chunks of the largest. Steps are as wide as
  // several answers, drafts and short rests of prompts need.
  std::vector<int> step_shapes = {1, 8, 32, 64};
  std::vector<int> prompt_shapes = {32, 128, 512};
  // Rows whose logits are wanted are always computed in Phase::kStep.
  std::vector<int> output_shapes = {1, 8, 32, 64};
  // What is left of a prompt behind its whole chunks is computed in Phase::kStep where it is no
  // more than so many tokens: to unpack every weight for a few rows would take longer. 0: never.
  int short_rest = 32;
  // Only so many tokens at a time are reused of what is cached of a prompt: more than 1 where an op
  // computes positions in groups.
  int reuse_granule = 1;
  Order order = Order::kOutOfOrder;
  HandoverKind handover = HandoverKind::kOrdinary;
  // Chunks of a prompt that several lanes work on at once, each with buffers of its own; one lane
  // has no use for a second. Out of order; lock step takes two of them, in order one.
  int chunks_in_flight = 4;
  Splits splits;

  std::vector<ProductArrangement> arrangements;  // the lane's first one where none matches
  // The first that holds for an op counts; ops for which none does, and parts of prompts for which
  // no length does, run whole on the lane of their subgraph.
  std::vector<TensorCut> cuts;
  std::vector<LengthParts> lengths;  // in ascending order
  // What drafts cost (D3), ascending by rows. Empty: it is learned while running.
  std::vector<StepCost> step_costs;
  // How a virtual phone runs an FFN by neurons; none: as a whole.
  std::optional<NeuronPlan> neurons;

  int chunk() const { return prompt_shapes.back(); }
  int most_step_rows() const { return step_shapes.back(); }
  // Both phases compute alike, so a pass may take the executables of either and carry rows of both.
  bool has_one_class() const;
  // So many tokens of a prompt, from its first one on, belong to Phase::kPrompt; the others are its
  // short rest. It depends on the prompt alone, never on what of it is known already. All of them
  // where both phases compute alike.
  int n_prompt_phase(int n_prompt) const;
  // What one pass takes of a prompt of n_prompt tokens from this position on.
  Shape prompt_part(int position, int n_prompt) const;
  // How many of at most so many tokens go together where whole granules are computed together: more
  // than that, up to the next granule, where fewer would end inside of one.
  int whole_granules(int position, int n_prompt, int most) const;
  // The numerics class of a prompt's token, where it is computed from `first` on: 0 as steps are, 1
  // as prompts are, 2 with sparse attention. 0 where both phases compute alike.
  int class_at(int position, int n_prompt, int first = 0) const;
  // The largest number of rows of a pass.
  int most_rows() const;
  // The shapes of every executable of a body, ascending within each phase, and those of lengths
  // behind them. Where both phases compute alike, one of equal ones is left out.
  std::vector<Shape> body_shapes() const;
  // The one that a pass of so many rows takes: of those that hold them, of its phase or, where
  // both compute alike, of either, the best as `is_better` says. REQUIRES: 1 <= n_rows <= the
  // largest of the phase.
  Shape body_shape(Phase phase, int n_rows) const;
  // Whether a pass of so many rows rather takes the executable of shape `a` than that of shape
  // `b`: that of a length which the rows reach the last part of, else the smallest that is of no
  // length, else that of a length all the same. REQUIRES: both hold the rows.
  bool is_better(Shape a, Shape b, int n_rows) const;
  // The length that an executable was built for alone; null: it is that of a usual shape.
  const LengthParts* length_alone(Shape shape) const;
  // The length by which a static subgraph of an executable is cut; null: by none.
  const LengthParts* length_of(Shape shape) const;
  // How many sets of buffers that takes.
  int n_buffer_sets() const;
  // Threads that compute on cores; 1 where all lanes are devices.
  int n_threads() const;
  // "2 threads", "opencl:0", or "1 thread and opencl:0": for people.
  std::string workers_text() const;
  // `block`: -1 before the first and behind the last.
  int lane_of(std::string_view subgraph, Shape shape, int block = -1) const;
  // Which lane a rule for "shadow" names: it multiplies the outliers of products at the same time
  // as their lane multiplies the rest (N4). -1: none does, and outliers stay with their product.
  int shadow_lane(Shape shape, int block = -1) const;
  bool places_shadow() const;
};

// The kinds of subgraphs that placements name: "embed, norm, qkv, attention, out, ffn, activation,
// down, head, shadow". The last is none by itself but what stands beside the products of the
// others.
bool is_subgraph_name(std::string_view name);  // or empty: every one
std::string subgraph_names();

// Throws UsageError where the plan's prompts cannot attend as it says.
void check_attention(const Plan& plan);
// Throws UsageError, for what was asked for, where a cut or a length names a lane that is not
// there.
void check_cuts(const Plan& plan);

// "ffn=1" runs every "ffn" subgraph on lane 1, "ffn@2=1" only executables of at least 2 tokens,
// "@2=1" every subgraph of such, "ffn@prompt=1" and "ffn@step=1" those of a phase. Throws
// UsageError.
Placement placement_from_text(std::string_view text);
// Throws UsageError where one names a lane that is not there.
void check_placements(const std::vector<Placement>& placements, size_t n_lanes);

// "0,1" is one lane on the cores 0 and 1, "0;1" two lanes, "0;opencl:0" a core and a device
// (plan/device.h), "opencl:0@1" a device whose driver's threads belong on core 1. Throws UsageError
// for what is not understood, a core or a device named twice, or a core that this process may not
// use.
std::vector<HostLane> lanes_from_text(std::string_view text, const std::vector<int>& usable_cores);
std::string lane_text(const HostLane& lane);
std::string lanes_text(const std::vector<HostLane>& lanes);  // such a text

}  // namespace troika::plan
