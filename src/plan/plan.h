// The plan as plain data: what was decided about a model on a machine before anything runs.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/attention/attention_plan.h"
#include "plan/cuts/cuts.h"
#include "plan/int8.h"
#include "plan/neurons/ffn.h"
#include "plan/neurons/streamed_neurons.h"
#include "plan/phones/head_plan.h"
#include "plan/phones/neuron_plan.h"
#include "plan/phones/npu_plan.h"
#include "plan/shape.h"
#include "tensor/type.h"

namespace troika::plan {

// The form in which block-quantised weights are multiplied with activations.
enum class Activations : uint8_t {
  kF32,  // decodes weights exactly and multiplies floats: the judge
  kQ8,   // quantises activations in blocks of 32; products are of whole numbers within a block
};

// How products are computed in executables of Phase::kPrompt. Executables of Phase::kStep, which
// decoding and verification use, always compute as `Activations` says.
enum class Prefill : uint8_t {
  kSame,  // computes prompts as steps
  kF32,   // decodes weights exactly and multiplies floats
  kBf16,  // takes weights and activations as bfloat16, sums in float (H13)
  kInt8,  // takes weights and activations as int8, by the plan's Int8Plan (N3, N4, N11)
  kQ8,  // takes activations as steps do, in 8 bits with a scale for each 32; attention, and weights
        // that are floats, are computed as kBf16
  kF16,  // multiplies levels and activations in half floats on OpenCL devices, and adds groups in
         // float (H13); weights that are floats, and attention, are computed as kF32
};

// Says whether a prompt's queries share keys and values that are unpacked once, as bfloat16.
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
  kInOrder,     // runs one chunk after the other
  kLockStep,    // runs two chunks, one step of each at a time, as most public code does
  kOutOfOrder,  // runs whatever is ready and leaves the matrix lane idle least
};

inline constexpr int kMostChunksInFlight = 64;
inline constexpr int kMostShapeRows = 1 << 20;  // counts tokens of one pass
// Counts the shapes of a phase, and lengths: a graph is built for each.
inline constexpr size_t kMostShapes = 256;

// Plan::class_at returns less than this.
inline constexpr int kMostClasses = 3;

const char* order_name(Order order);
// Throws UsageError that lists the names.
Order order_from_name(std::string_view name);

// Says which ops of a block are subgraphs of their own, so that they can be placed apart.
struct Splits {
  // Splits off norms, and the projection behind attention: six subgraphs a block instead of three
  // (N2).
  bool at_norms = false;
  // Splits off the activation of the feed-forward part, and the product behind it: two more (H2).
  bool at_activations = false;

  bool operator==(const Splits&) const = default;
};

// A lane: cores of this machine, a device that a driver runs, or a processor of a virtual phone.
struct PlannedLane {
  // Empty: whichever the system gives. Those of a device are for its driver's threads.
  std::vector<int> cores;
  int n_threads = 1;  // counts threads that compute; 0 for a device
  // "host" stands for cores; else it is a kind of plan/device.h, or "cpu", "gpu" or "npu" of a
  // phone, whose lanes have neither cores nor threads.
  std::string kind = "host";
  uint64_t memory_limit = kNoLimit;  // limits the bytes of weights that the lane may run with (N9)
  std::string device = {};           // says which device of its kind; empty for cores and phones
  // Limits the percentage of the time in which the lane works: other programs need the rest (H14).
  int busy_percent = kAllTime;

  bool is_device() const { return !device.empty(); }

  bool is_capped() const { return busy_percent < kAllTime; }
  double busy_share() const { return busy_percent / 100.0; }

  static constexpr uint64_t kNoLimit = UINT64_MAX;
  static constexpr int kAllTime = 100;
};

// Limits the bytes of weights that a lane may run with (N9).
struct LaneLimit {
  int lane = 0;
  uint64_t bytes = PlannedLane::kNoLimit;
};
// Throws UsageError for a lane that is not there.
void limit_lanes(const std::vector<LaneLimit>& limits, std::vector<PlannedLane>* lanes);

// Limits the percentage of the time in which a lane may be busy (H14).
struct LaneCap {
  int lane = 0;
  int busy_percent = PlannedLane::kAllTime;
};
// Throws UsageError for a lane that is not there, or a percentage that is none.
void cap_lanes(const std::vector<LaneCap>& caps, std::vector<PlannedLane>* lanes);

// How a lane's thread waits for its next task where there are several lanes (H8).
enum class HandoverKind : uint8_t {
  kOrdinary,  // stays awake for a moment, then sleeps until the system wakes it
  kFast,      // sleeps for as long as it expects to wait, then stays awake until the task comes
};
const char* handover_name(HandoverKind handover);
// Throws UsageError that lists the names.
HandoverKind handover_from_name(std::string_view name);

// Says which lane runs a kind of subgraph. The first rule that matches counts.
struct Placement {
  std::string subgraph;  // "attention"; empty: every one
  // The rule holds for executables of at least this many tokens: 2 leaves decoding out.
  int least_tokens = 0;
  int lane = 0;
  // Counts the blocks, from the first on, for which the rule holds: a lane may have no memory for
  // all (N9).
  int n_blocks = kAllBlocks;
  // Holds for executables of this phase; none: for both phases.
  std::optional<Phase> phase = std::nullopt;
  // Says that lanes of different numerics classes may run the subgraph in executables of one class,
  // so that results depend on how many tokens go together. That is refused unless a rule says so.
  bool mixes_classes = false;

  bool holds_for(Shape shape, int block) const {
    return shape.n_rows >= least_tokens && block < n_blocks && (!phase || *phase == shape.phase);
  }

  static constexpr int kAllBlocks = INT_MAX;
};

// An equivalent shape in which a lane computes a product faster than in its first one (N8).
struct ProductArrangement {
  int lane = 0;
  int n_rows = 0;  // counts rows of the weight
  int k = 0;
  Shape shape;              // the executable's shape
  std::string arrangement;  // one of the arrangements that the lane names
};

// What a pass of n_rows rows of Phase::kStep takes, with its logits.
struct StepCost {
  int n_rows = 0;
  double ms = 0.0;

  bool operator==(const StepCost&) const = default;
};

struct Plan {
  std::vector<PlannedLane> lanes = {{}};
  std::vector<Placement> placements;  // lane 0 runs what no rule matches
  Activations activations = Activations::kQ8;
  Prefill prefill = Prefill::kSame;
  PromptAttention attention;
  FfnPlan ffn;
  // Limits the bytes of packed copies of weights. int8 prompts unpack weights that have no copy.
  uint64_t packed_bytes = 0;
  Int8Plan int8;
  // Tells people why `prefill` is not what was asked for, or what was chosen.
  std::string prefill_reason;
  tensor::Type kv_type = tensor::Type::kF16;
  int context = 0;
  // The row counts for which executables of each phase are built, ascending. A pass takes the
  // smallest that holds its rows; longer prompts go in chunks of the largest. Steps are as wide as
  // several answers, drafts and short rests of prompts need.
  std::vector<int> step_shapes = {1, 8, 32, 64};
  std::vector<int> prompt_shapes = {32, 128, 512};
  // Logits are always computed in Phase::kStep, for the rows that want them.
  std::vector<int> output_shapes = {1, 8, 32, 64};
  // The whole chunks of a prompt may leave a rest. It is computed in Phase::kStep where it has no
  // more than short_rest tokens, because unpacking every weight for a few rows would take longer.
  // 0: never.
  int short_rest = 32;
  // A prompt whose beginning is cached reuses a multiple of this number of tokens. It is more than
  // 1 where an op computes positions in groups.
  int reuse_granule = 1;
  Order order = Order::kOutOfOrder;
  HandoverKind handover = HandoverKind::kOrdinary;
  // Counts the chunks of a prompt that several lanes work on at once, each with buffers of its own;
  // one lane has no use for a second. It holds for Order::kOutOfOrder: lock step takes two, in
  // order takes one.
  int chunks_in_flight = 4;
  Splits splits;

  std::vector<ProductArrangement> arrangements;  // a lane's first one holds where none matches
  // The first cut that holds for an op counts. Ops for which none does, and parts of prompts for
  // which no length does, run whole on the lane of their subgraph.
  std::vector<TensorCut> cuts;
  std::vector<LengthCut> lengths;  // in ascending order
  // What passes cost that check drafts (D3), ascending by rows. Empty: it is learned while running.
  std::vector<StepCost> step_costs;
  // How a virtual phone runs an FFN by neurons; none: the FFN is computed as a whole.
  std::optional<NeuronPlan> neurons;
  // How a virtual phone runs prompts as llm.npu does; none: products have no stage of it.
  std::optional<NpuPlan> npu;
  // How heads of a prompt's attention go over the lanes of a virtual phone; none: attention is one
  // task, which sees everything.
  std::optional<HeadPlan> heads;
  // Lets graphs of prompts and of steps change block by block on a virtual phone (D1).
  bool changes_layouts = false;
  // How this machine runs blocks whose neurons memory has no room for; none: as options say (P8).
  std::optional<StreamedNeurons> streamed_neurons;

  int chunk() const { return prompt_shapes.back(); }
  int most_step_rows() const { return step_shapes.back(); }
  // Says whether both phases compute alike, so that a pass may take the executables of either and
  // carry rows of both.
  bool has_one_class() const;
  // Returns how many tokens of a prompt, from its first one on, belong to Phase::kPrompt; the
  // others are its short rest. The number depends on the prompt alone, never on what of it is
  // cached. It is n_prompt where both phases compute alike.
  int n_prompt_phase(int n_prompt) const;
  // Returns the shape of the pass that goes on with a prompt of n_prompt tokens at this position.
  Shape prompt_chunk(int position, int n_prompt) const;
  // Returns how many tokens from `position` on a pass takes, of at most `most`. Where granules are
  // computed as a whole it ends at a granule's end; where none ends within `most` tokens, it takes
  // more than `most`, up to the next end.
  int whole_granules(int position, int n_prompt, int most) const;
  // Returns the numerics class of a prompt's token that is computed in a run which begins at
  // `first`: 0 as in steps, 1 as in prompts, 2 with sparse attention. It is 0 where both phases
  // compute alike.
  int class_at(int position, int n_prompt, int first = 0) const;
  // Returns the largest number of rows of a pass.
  int most_rows() const;
  // Returns the shapes of every executable of a body, ascending within each phase, with those of
  // lengths at the end. Where both phases compute alike, equal row counts are there once.
  std::vector<Shape> body_shapes() const;
  // Returns the shape that a pass of n_rows rows takes. It is the best, as `is_better` says, of
  // those that hold the rows, of this phase or, where both compute alike, of either. REQUIRES: 1 <=
  // n_rows <= the largest of the phase.
  Shape body_shape(Phase phase, int n_rows) const;
  // Says whether a pass of n_rows rows takes the executable of shape `a` rather than that of shape
  // `b`. Best is one built for a length whose last part the rows reach, then the smallest that is
  // built for no length, then one built for another length. REQUIRES: both hold the rows.
  bool is_better(Shape a, Shape b, int n_rows) const;
  // Returns the length that an executable was built for alone; null: its shape is a usual one.
  const LengthCut* length_alone(Shape shape) const;
  // Returns the length by which an executable's static subgraphs are cut; null: none cuts them.
  const LengthCut* length_of(Shape shape) const;
  // Returns how many sets of buffers the chunks in flight take.
  int n_buffer_sets() const;
  // Counts threads that compute on cores; 1 where all lanes are devices.
  int n_threads() const;
  // Says to people what computes: "2 threads", "opencl:0", or "1 thread and opencl:0".
  std::string workers_text() const;
  // Returns the rule that holds for a subgraph; null: none does, and lane 0 runs it. `block` is -1
  // before the first block and behind the last.
  const Placement* rule_of(std::string_view subgraph, Shape shape, int block = -1) const;
  // Returns the lane of a subgraph.
  int lane_of(std::string_view subgraph, Shape shape, int block = -1) const;
  // Returns the lane that a rule for "shadow" names; -1: none does. That lane multiplies the
  // outliers of products at the same time as the products' lane multiplies the rest (N4). Without
  // one, outliers stay with their product.
  int shadow_lane(Shape shape, int block = -1) const;
  bool places_shadow() const;
};

// The kinds of subgraphs that placements name are "embed, norm, qkv, attention, out, ffn,
// activation, down, head, shadow". The last one is no subgraph, but stands beside the products of
// the others. An empty name means every kind.
bool is_subgraph_name(std::string_view name);
std::string subgraph_names();

// Throws UsageError where the plan's prompts cannot attend as it says.
void check_attention(const Plan& plan);
// Throws UsageError where a cut or a length that was asked for names a lane that is not there.
void check_cuts(const Plan& plan);

// Reads "ffn=1", which runs every "ffn" subgraph on lane 1. "ffn@2=1" holds for executables of at
// least 2 tokens only, "@2=1" for every subgraph of these, "ffn@prompt=1" and "ffn@step=1" for a
// phase. Throws UsageError.
Placement placement_from_text(std::string_view text);
// Throws UsageError where a placement names a lane that is not there.
void check_placements(const std::vector<Placement>& placements, size_t n_lanes);

// Reads "0,1", which is one lane on the cores 0 and 1; "0;1" is two lanes, "0;opencl:0" a core and
// a device (plan/device.h), "opencl:0@1" a device whose driver's threads belong on core 1. Throws
// UsageError for what is not understood, a core or a device named twice, or a core that this
// process may not use.
std::vector<PlannedLane> lanes_from_text(std::string_view text,
                                         const std::vector<int>& usable_cores);
std::string lane_text(const PlannedLane& lane);
// Returns the text that lanes_from_text reads.
std::string lanes_text(const std::vector<PlannedLane>& lanes);

}  // namespace troika::plan
