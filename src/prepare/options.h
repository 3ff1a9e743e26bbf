// What a user may ask of an engine, of its model and of the machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "plan/plan.h"
#include "schedule/graphs.h"
#include "tensor/type.h"

namespace troika::prepare {

struct Options {
  std::string model;  // a GGUF file; for timing also the name of a known model
  // "here", or the file of a virtual phone; then `stack` names the software on it.
  std::string machine = "here";
  std::string stack;
  std::string type = "q4_0";  // of the weights of a model that is only a name
  bool has_values = true;     // false: a virtual phone takes time and computes nothing
  // On a phone, how much of llm.npu there is (N12): "naive", "chunk", "outlier" or "out-of-order",
  // each with what the ones before it have; empty: lanes and placements as everywhere.
  std::string npu_step;
  bool has_square_shapes = true;  // the same with the fastest of equivalent shapes (N8)
  int npu_prune = 85;             // percent of the blocks without shadow tasks (N4, N6)
  bool has_fast_handover = true;  // of a phone (H8)
  // On a phone, numbers of tokens to build executables for beside the chunk; empty: 1 and 8.
  std::vector<int> small_shapes = {};
  double npu_rate = 0.0;              // of a phone's NPU beside the stack's; 0: as the phone says
  bool is_strict_npu = false;         // matrix lanes may use static scales only
  bool is_op_by_op = false;           // every op a subgraph of its own, to time it where it runs
  schedule::PartsRequest parts = {};  // how subgraphs are divided between lanes; null: not at all
  std::optional<plan::Plan> made_plan = std::nullopt;  // run as this says, whatever stands below
  // Begin with this plan in place of the usual one: what was asked for of context, order, chunks in
  // flight and int8 lies over it, and context and copies are fitted to the memory there is.
  std::optional<plan::Plan> base_plan = std::nullopt;
  int n_threads = 0;  // 0: all cores this process may use
  std::string plan;  // a plan file; then threads, lanes, placements, context and types come from it
  // "0,1" or "0;1"; empty: one lane of n_threads. On a phone "cpu;npu"; empty: all processors.
  std::string lanes;
  std::vector<std::string> placements;  // "ffn=1", "attention@2=0": see plan::Placement
  // In which order the chunks of a prompt run, where there are several lanes; empty: the plan's.
  std::string order;
  int chunks_in_flight = 0;      // 0: the plan's
  int chunk = 0;                 // tokens of a prompt that go together; 0: the plan's
  bool is_cut_at_norms = false;  // norms can be placed apart
  int context = 0;               // 0: what model, memory and common sense allow
  plan::Activations activations = plan::Activations::kQ8;
  std::string prefill = "auto";  // or a name of plan::Prefill
  // How prompts in int8 are computed; each given one takes the place of what a plan file says.
  std::string int8;                                 // a name of plan::Int8Method: then in int8
  std::string int8_weights;                         // "row" or "tensor": a scale for each
  std::optional<int> outlier_prune = std::nullopt;  // percent
  std::string load = "auto";  // "map" or "copy": where weights lie, see weight_pages.h
  // Which weights of outliers' channels stay in memory where outliers have a lane of their own:
  // "hot" (the others come from a side file when they are needed), "all" or "none".
  std::string shadow_rows = "hot";
  // What the process may keep in memory, see memory.h; 0: of what is free, half bounds what is
  // copied and cached.
  size_t memory_bytes = 0;
  bool has_cache = true;    // false: no side files
  size_t packed_bytes = 0;  // most bytes of packed copies of weights
  // Which layouts of the weights there are for prompts in int8: "blocks" (those of the file),
  // "both" (packed copies of all beside them) or "switch" (one copy that changes, D1); empty: as
  // packed_bytes says.
  std::string layouts;
  // Told of the slow parts of loading.
  ProgressFunction progress;
  tensor::Type kv_type = tensor::Type::kF16;
  std::string kernels;        // the fastest implementation allowed, "" for any
  std::string pre_tokenizer;  // overrides what the file names
};

// The options mean this machine, not a phone.
inline bool is_here(const Options& options) { return options.machine == "here"; }

// "f32", "f16" or "q8_0"; throws UsageError.
tensor::Type kv_type_from_name(const std::string& name);

}  // namespace troika::prepare
