// The options that a caller may ask of an engine: the model, the machine, how it computes. Texts
// are read at the edges (the command line, the C interface); here everything has a type.
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
  std::string file;           // names a GGUF file; for timing also a known model
  std::string type = "q4_0";  // the weights' type in a model that is only a name
  int n_blocks = 0;           // how many blocks of such a model are taken, from the first; 0: all
  std::string pre_tokenizer;  // replaces the name in the file
};

// Says how much of llm.npu there is.
using NpuStage = plan::NpuStage;

// Says how sparse attention of prompts goes over the lanes of a phone.
struct PhoneHeads {
  // The lanes of the estimate, the selection and the exact part. Empty: the NPU estimates where it
  // is a lane, and the CPU does the rest.
  std::vector<lanes::Processor> lanes;
  schedule::HeadStage stage = schedule::HeadStage::kOrdered;
  int n_buckets = 9;  // counts pairs of scales, for each of which there are graphs (S4)
  int block = 1;      // counts positions that are chosen together, by as many queries
  // All heads keep as many positions; else S3 gives each its own share.
  bool has_equal_shares = false;
};

// A virtual phone in place of this machine.
struct PhoneChoice {
  std::string file;                          // empty: this machine
  std::string stack;                         // names the software on the phone
  std::string prompt_stack;                  // names another one that runs prompts; empty: the same
  std::vector<lanes::Processor> processors;  // the lanes; empty: all
  bool has_values = true;                    // false: the phone takes time and computes nothing
  std::optional<NpuStage> npu_stage;         // none: lanes and placements are chosen as elsewhere
  int npu_prune = 85;              // the percentage of blocks without shadow tasks (N4, N6)
  bool has_square_shapes = true;   // takes the fastest of equivalent shapes (N8)
  bool has_fast_handover = true;   // lanes poll on a flag (H8)
  bool has_rendering = false;      // a game draws on the GPU meanwhile (H14)
  int queue_depth = 1;             // counts tasks that GPU and NPU take before one has ended
  std::vector<int> small_shapes;   // the row counts of executables beside the chunk; empty: 1 and 8
  std::vector<int> prompt_shapes;  // empty: lengths up to the chunk that is best
  std::vector<plan::ConstantChoice> constants;  // replace constants of the files of phone or stack
  std::optional<lanes::Cores> cores;            // the cores of the CPU's lane; none: all large ones
  double bus_taken_gb_s = 0.0;                  // what other programs take all the time
  PhoneHeads heads;                             // counts where prompts.attention is set
  plan::NeuronChoice neurons;
};

// Says which cores work as lanes, and what runs on which of them.
struct LaneChoice {
  int n_threads = 0;  // the threads of a single lane; 0: all cores that this process may use
  std::vector<plan::PlannedLane> cores;     // empty: there is one lane of n_threads
  std::vector<plan::Placement> placements;  // place subgraphs on lanes, or on a phone's processors
  std::vector<plan::LaneLimit> limits;      // limit the weights that a lane may run with
  std::vector<plan::LaneCap> caps;          // limit the time in which a lane may be busy (H14)
  bool has_fast_handover = false;           // is for lanes of this machine (H8)
  std::vector<plan::TensorCut> cuts;  // divide tensors between lanes; they count before the plan's
  std::vector<plan::LengthCut> lengths;  // divide prompts of these lengths, in any order
  bool has_cuts = true;      // false: cuts of the plan do not count, and none are searched
  bool solves_cuts = false;  // finds the cuts that take least time, on a phone (H10)
  // Where cuts are searched, odd lengths are divided by their margin and not by time (H12).
  bool divides_by_margin = false;
  plan::Splits splits;                  // says what can be placed apart
  bool is_strict_npu = false;           // matrix lanes may use static scales only
  bool is_op_by_op = false;             // makes every op a subgraph of its own, to time it
  schedule::RangeCutRequest range_cut;  // replaces the plan's cuts; null: they stay
};

// Says how prompts are computed. What is given takes the place of what a plan says.
struct PromptChoice {
  std::optional<plan::Prefill> prefill;  // none: the fastest that is safe
  std::optional<plan::AttentionForm> attention;
  std::optional<double> attention_share;  // the percentage of positions that are kept
  // Positions are kept that weigh more than the mean times this.
  std::optional<double> attention_above;
  std::optional<int> attention_from;  // the position from which on attention is sparse
  // The next three are for the form `query` on this machine. Its lanes run estimate, selection and
  // exact part; empty: one lane runs all.
  std::vector<int> attention_lanes;
  std::optional<plan::HeadStage> attention_stage;  // says how heads go over the lanes
  std::optional<int> attention_buckets;  // counts pairs of scales that are fixed beforehand (S4)
  // Tuning found these scales and shares of heads. A run of the form `query` takes them where it
  // does not take the tuned plan.
  std::vector<float> head_scales;
  std::vector<float> head_shares;                   // count where no share is asked for
  std::optional<plan::Int8Method> int8;             // if given, prompts are in int8
  std::optional<plan::WeightScales> weight_scales;  // says where scales of int8 weights come from
  // With kInt4, the percentage of each row that is outliers.
  std::optional<double> weight_outliers;
  std::optional<int> outlier_prune;  // percent
  std::optional<plan::Order> order;  // the order of chunks, where there are several lanes
  int chunks_in_flight = 0;          // 0: the plan's
  int chunk = 0;                     // counts tokens that go together; 0: the plan's
};

using plan::BundleReads;
using plan::ReadPipeline;

// Says how steps compute feed-forward blocks. What is given takes the place of what a plan says.
struct FfnChoice {
  std::optional<plan::FfnForm> form;
  // Says what is computed while neurons are read that are not in memory; none: the plan's, or
  // kCluster.
  std::optional<ReadPipeline> pipeline;
  // Says in how many requests a neuron is read with its gate; none: the plan's, or one.
  std::optional<BundleReads> reads;
  // False: each token reads its neurons anew, to see what a cache is worth.
  bool keeps_neurons = true;
  // Prompts by neuron read the next layer's neurons while the disk is free (P2).
  bool reads_ahead = true;
  // Generation does so with the next layer's hottest neurons (P6).
  bool reads_hottest_ahead = false;
  // What each layer's last step used stays in memory as far as there is room; else whoever was used
  // longest ago makes room, of all layers.
  bool keeps_last_steps = true;
  // The percentages of places in memory that the hottest neurons have for good, by the number of
  // tokens in a step: the first is for one token, the last for more (P4). The other places go to
  // those used last (P5). Empty: the plan's, or none.
  std::vector<int> pinned_percent;
  // Neurons that lie at most so far apart in their file are read together; none: as the plan says,
  // or as suits the disk.
  std::optional<uint64_t> gap_bytes;
  // A predictor says which rows of the gate are computed (P3), where has_predictor is set or the
  // plan has one. may_predict = false forbids it.
  bool has_predictor = false;
  bool is_predictor_of_stage = false;  // says that ‹neurons› asks for it, not the user
  bool may_predict = true;
  // What is known of that predictor, so that a plan counts its memory.
  std::optional<plan::FfnPredictor> predictor;
  // Where gates are, with a predictor and neurons that are read; none: see plan::gates_for().
  std::optional<plan::FfnGates> gates;
  // The percentage of each block's neurons that are computed densely, as a task of their own (P1),
  // and the lane of that task. None: as the plan says, or no neurons on the last lane.
  std::optional<int> hot_percent;
  std::optional<int> hot_lane;
  // What is known of these neurons, so that a plan counts their memory.
  std::optional<plan::FfnHot> hot;
  // What a planner has chosen (P8), with the form, the predictor and the gates above. It becomes
  // part of the plan.
  std::optional<plan::StreamedNeurons> planned;
};

// What is computed while neurons are read, and in how many requests each is.
struct NeuronReads {
  ReadPipeline pipeline = ReadPipeline::kCluster;
  BundleReads reads = BundleReads::kOnce;
};

// Returns what is asked for, and else what the plan says. Throws UsageError where the two do not go
// together.
NeuronReads neuron_reads(const FfnChoice& ffn, const plan::Plan& plan);

// Says where weights lie: see weight_pages.h.
enum class Load { kAuto, kMap, kCopy };
// Says which weights of outliers' channels stay in memory, where outliers have a lane of their own.
// With kHot the others come from a side file when they are needed.
enum class ShadowRows { kHot, kAll, kNone };
// Says which layouts the weights have for prompts in int8: that of the file, packed copies of all
// beside it, or one copy that changes (D1).
enum class Layouts { kBlocks, kBoth, kSwitch };

// How experts of mixtures are read where memory has no room for all weights.
enum class ExpertReads : uint8_t {
  kGuessed,  // when the router has spoken, and those that the next one may take ahead
  kByRoute,  // when the router has spoken
  kInOrder,  // all of a block's, used or not
};

// Throws UsageError that lists the names.
ExpertReads expert_reads_from_name(std::string_view name);

struct MemoryChoice {
  int context = 0;  // 0: what model, memory and common sense allow
  // Counts the texts that are computed at the same time at most; 0: nobody knows.
  int most_texts = 0;
  tensor::Type kv_type = tensor::Type::kF16;
  // Limits the bytes that the process may keep in memory, see memory.h. 0: no limit, and copies and
  // caches may take half of what is free.
  size_t limit_bytes = 0;
  // What the process is taken to hold before loading. None: what it does hold, which in a sanitised
  // program is mostly the sanitizer's.
  std::optional<size_t> held_bytes = {};
  Load load = Load::kAuto;
  ExpertReads expert_reads = ExpertReads::kByRoute;
  std::optional<Layouts> layouts;  // none: packed_bytes decides
  size_t packed_bytes = 0;         // limits the bytes of packed copies of weights
  ShadowRows shadow_rows = ShadowRows::kHot;
  bool has_side_files = true;  // false: no side file is read or written, and who needs one is told
};

// A plan that exists. Of the first members `exact` counts before `file`, and `file` before `base`.
struct GivenPlan {
  std::string file;                 // has threads, lanes, placements, context and types
  std::optional<plan::Plan> exact;  // runs as it stands, whatever else was asked for
  // Replaces the usual plan to begin with. What was asked for of context, order, chunks in flight
  // and int8 lies over it, and context and copies are fitted to the memory there is.
  std::optional<plan::Plan> base;
  // Says that the base is left where memory has no room for all weights and it wants them there.
  bool may_leave_base = false;
  // Says that prompts of a plan from a file are computed as steps, on one lane, in the context that
  // is asked for: whoever looks at steps reads texts so.
  bool is_read_as_steps = false;
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
  std::string kernels;        // name the fastest implementation allowed; empty: any
  ProgressFunction progress;  // is told of the slow parts of loading
};

// Says whether the options mean this machine, not a phone.
inline bool is_here(const Options& options) { return options.phone.file.empty(); }

// Throws UsageError for options that make no sense, or do not fit together, whatever the model.
void check_options(const Options& options);
void check_lanes(const LaneChoice& lanes);

// Sets the options that a stage of PowerInfer-2's ablation, as a phone is asked for it, means on
// this machine (P13). Throws UsageError for a stage that does not exist here, and for what is given
// beside a stage that lacks it.
void take_neuron_stage(Options* options);

// Says whether a phone runs an FFN by neurons.
inline bool has_neurons(const Options& options) {
  return !is_here(options) && (options.phone.neurons.is_wanted() || options.memory.limit_bytes > 0);
}

// These read the names that people use. Each throws UsageError that lists what there is.
tensor::Type kv_type_from_name(std::string_view name);
Load load_from_name(std::string_view name);
ShadowRows shadow_rows_from_name(std::string_view name);
Layouts layouts_from_name(std::string_view name);
const char* layouts_name(Layouts layouts);
NpuStage npu_stage_from_name(std::string_view name);

}  // namespace troika::prepare
