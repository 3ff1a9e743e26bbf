// What a caller may ask of an engine, of its model and of the machine. Texts are read at the edges
// (the command line, the C interface): what stands here has a type.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "lanes/virtual/cost.h"
#include "plan/phones/constants.h"
#include "plan/plan.h"
#include "schedule/graphs.h"
#include "tensor/type.h"

namespace troika::prepare {

struct ModelChoice {
  std::string file;           // a GGUF file; for timing also the name of a known model
  std::string type = "q4_0";  // of the weights of a model that is only a name: a file type's name
  int n_blocks = 0;           // of such a model, only the first so many; 0: all
  std::string pre_tokenizer;  // overrides what the file names
};

// How much of llm.npu there is (N12): each step has what the ones before it have.
enum class NpuStep { kNaive, kChunk, kOutlier, kOutOfOrder };

// How sparse attention of prompts goes over the lanes of a phone.
struct PhoneHeads {
  // They run the estimate, the selection and the exact part; empty: the NPU takes the first where
  // it is a lane, the CPU the rest.
  std::vector<lanes::Processor> lanes;
  schedule::HeadStep step = schedule::HeadStep::kOrdered;
  int n_buckets = 9;              // of scales, for each of which there are graphs (S4)
  int block = 1;                  // positions that are chosen together, by so many queries
  bool has_equal_shares = false;  // each head keeps as many positions (else S3)
};

// A virtual phone in place of this machine.
struct PhoneChoice {
  std::string file;                             // empty: this machine
  std::string stack;                            // the software on the phone
  std::string prompt_stack;                     // another one that runs prompts; empty: the same
  std::vector<lanes::Processor> processors;     // its lanes; empty: all
  bool has_values = true;                       // false: it takes time and computes nothing
  std::optional<NpuStep> npu_step;              // none: lanes and placements as everywhere
  int npu_prune = 85;                           // percent of blocks without shadow tasks (N4, N6)
  bool has_square_shapes = true;                // the fastest of equivalent shapes (N8)
  bool has_fast_handover = true;                // a flag to poll on (H8)
  bool has_rendering = false;                   // a game draws on the GPU meanwhile (H14)
  int queue_depth = 1;                          // tasks that GPU and NPU take before one has ended
  std::vector<int> small_shapes;                // of executables beside the chunk; empty: 1 and 8
  std::vector<int> prompt_shapes;               // empty: up to the chunk that is best
  std::vector<plan::ConstantChoice> constants;  // of phone or stack, in place of their files'
  std::optional<lanes::Cores> cores;            // that the CPU's lane has; none: all large ones
  double bus_taken_gb_s = 0.0;                  // by other programs, all the time
  PhoneHeads heads;                             // with prompts.attention
  plan::NeuronChoice neurons;
};

// Which cores work as lanes, and what runs on which of them.
struct LaneChoice {
  int n_threads = 0;                        // of one lane; 0: all cores this process may use
  std::vector<plan::HostLane> cores;        // empty: one lane of n_threads
  std::vector<plan::Placement> placements;  // of the lanes, or of a phone's processors
  std::vector<plan::LaneLimit> limits;      // likewise: how many weights a lane may run with
  std::vector<plan::LaneCap> caps;          // likewise: how much of the time it may be busy (H14)
  bool has_fast_handover = false;           // between lanes of this machine (H8)
  std::vector<plan::TensorCut> cuts;        // of them, or of a phone; before those of the plan
  std::vector<plan::LengthParts> lengths;   // likewise, in any order
  bool has_cuts = true;                     // false: those of the plan do not count, nor any found
  bool solves_cuts = false;                 // on a phone: the cuts of least time (H10)
  plan::Splits splits;                      // what can be placed apart
  bool is_strict_npu = false;               // matrix lanes may use static scales only
  bool is_op_by_op = false;                 // every op a subgraph of its own, to time it
  schedule::PartsRequest parts;             // in place of the plan's cuts; null: those
};

// How prompts are computed. What is given takes the place of what a plan says.
struct PromptChoice {
  std::optional<plan::Prefill> prefill;  // none: the fastest that is safe
  std::optional<plan::AttentionForm> attention;
  std::optional<double> attention_share;  // of positions that sparse attention keeps, percent
  std::optional<double> attention_above;  // times the mean weight that a kept position has
  std::optional<int> attention_from;      // the position from which on it is sparse
  // These are for `query` on this machine.
  std::vector<int> attention_lanes;              // of estimate, selection, exact part; empty: one
  std::optional<plan::HeadStep> attention_step;  // how heads go over them
  std::optional<int> attention_buckets;          // pairs of scales that are fixed beforehand (S4)
  std::vector<float> head_scales;        // that tuning found, where the plan it made is not used
  std::optional<plan::Int8Method> int8;  // then prompts are in int8
  std::optional<bool> has_one_weight_scale;  // int8 weights have one scale, or one for each row
  std::optional<int> outlier_prune;          // percent
  std::optional<plan::Order> order;          // of chunks, where there are several lanes
  int chunks_in_flight = 0;                  // 0: the plan's
  int chunk = 0;                             // tokens that go together; 0: the plan's
};

// What is computed while reads of neurons are under way (P6: 4.3, Figure 6).
enum class NeuronPipeline : uint8_t {
  kCluster,  // each segment of neurons as soon as its own are there
  kMatrix,   // segments that need no reads; the others when all reads have ended
};

// Throws UsageError that lists the names.
NeuronPipeline neuron_pipeline_from_name(std::string_view name);

// How steps compute feed-forward blocks. What is given takes the place of what a plan says.
struct FfnChoice {
  std::optional<plan::FfnForm> form;
  // Where neurons are read when they are needed.
  NeuronPipeline pipeline = NeuronPipeline::kCluster;
  // False: what one layer has read the next token reads anew, to see what a cache is worth.
  bool keeps_neurons = true;
  // How many percent of their places in memory are those of the hottest for good; the others go by
  // who was used last (P5). None: the usual share.
  std::optional<int> pinned_percent;
  // Neurons that stand no further apart in their side file are read together; none: as the disk is
  // measured to like.
  std::optional<uint64_t> gap_bytes;
  // Whether a predictor says which rows of the gate are computed (P3); a plan that has one says so
  // too, unless it may not.
  bool has_predictor = false;
  bool may_predict = true;
  // With a predictor, where neurons are read: none: as the plan says.
  std::optional<plan::FfnGates> gates;
};

inline constexpr int kUsualPinnedPercent = 0;

// Where weights lie: see weight_pages.h.
enum class Load { kAuto, kMap, kCopy };
// Which weights of outliers' channels stay in memory where outliers have a lane of their own. With
// kHot the others come from a side file when they are needed.
enum class ShadowRows { kHot, kAll, kNone };
// Which layouts of the weights there are for prompts in int8: that of the file, packed copies of
// all beside it, or one copy that changes (D1).
enum class Layouts { kBlocks, kBoth, kSwitch };

struct MemoryChoice {
  int context = 0;  // 0: what model, memory and common sense allow
  tensor::Type kv_type = tensor::Type::kF16;
  // What the process may keep in memory, see memory.h; 0: of what is free, half bounds what is
  // copied and cached.
  size_t limit_bytes = 0;
  // What the process is taken to hold before loading; none: what it does hold, which in a sanitised
  // program is mostly the sanitizer's.
  std::optional<size_t> held_bytes = {};
  Load load = Load::kAuto;
  std::optional<Layouts> layouts;  // none: as packed_bytes says
  size_t packed_bytes = 0;         // most bytes of packed copies of weights
  ShadowRows shadow_rows = ShadowRows::kHot;
  bool has_side_files = true;  // false: none are read or written
};

// A plan that exists. At most one of the three is given.
struct GivenPlan {
  std::string file;                 // threads, lanes, placements, context and types come from it
  std::optional<plan::Plan> exact;  // run as this says, whatever else was asked for
  // Begin with this plan in place of the usual one: what was asked for of context, order, chunks in
  // flight and int8 lies over it, and context and copies are fitted to the memory there is.
  std::optional<plan::Plan> base;
};

struct Options {
  ModelChoice model;
  PhoneChoice phone;
  LaneChoice lanes;
  PromptChoice prompts;
  FfnChoice ffn;
  MemoryChoice memory;
  GivenPlan plan;
  plan::Activations activations = plan::Activations::kQ8;
  std::string kernels;        // the fastest implementation allowed, "" for any
  ProgressFunction progress;  // told of the slow parts of loading
};

// The options mean this machine, not a phone.
inline bool is_here(const Options& options) { return options.phone.file.empty(); }

// Throws UsageError for what makes no sense, or does not fit together, whatever the model.
void check_options(const Options& options);
void check_lanes(const LaneChoice& lanes);

// What a step of PowerInfer-2's ablation, as a phone is asked for it, means on this machine (P13).
// Throws UsageError for one that there is not.
void take_neuron_step(Options* options);

// Whether a phone runs an FFN by neurons.
inline bool has_neurons(const Options& options) {
  return !is_here(options) && (options.phone.neurons.is_wanted() || options.memory.limit_bytes > 0);
}

// What people call them. Each throws UsageError that lists what there is.
tensor::Type kv_type_from_name(std::string_view name);
Load load_from_name(std::string_view name);
ShadowRows shadow_rows_from_name(std::string_view name);
Layouts layouts_from_name(std::string_view name);
const char* layouts_name(Layouts layouts);
NpuStep npu_step_from_name(std::string_view name);
bool has_one_weight_scale_from_name(std::string_view name);  // "row" or "tensor"

}  // namespace troika::prepare
