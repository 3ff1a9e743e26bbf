// What the tasks of an FFN by neurons cost on a virtual phone (P1–P7): which neurons fire is drawn,
// which of them must be read says the neuron cache, and each task counts its own. No weights.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "lanes/virtual/cost.h"
#include "lanes/virtual/neurons/activity.h"
#include "lanes/virtual/timed_task.h"
#include "plan/phones/neuron_plan.h"
#include "plan/shape.h"
#include "weights/neurons/neuron_cache.h"

namespace troika::lanes {

// The FFN of a model.
struct NeuronShape {
  int n_layers = 0;
  int n_experts = 1;
  int n_experts_used = 1;
  int n_neurons = 0;          // of a layer, or of an expert
  int width = 0;              // inputs of a neuron
  int n_matrices = 3;         // rows of each neuron: gate, up, down
  double weight_bytes = 0.0;  // of one weight in memory, scales counted
  int rank = 0;               // of predictors; 0: there are none
  uint64_t model_bytes = 0;   // of all weights

  int n_groups() const { return n_layers * n_experts; }
  // What one neuron takes in the cache: its levels without scales.
  uint64_t neuron_bytes() const;
  // Bytes of a neuron in the file, where its rows lie together: whole pages.
  int bundle_bytes() const;
  int row_read_bytes() const;  // of one row by itself, in whole pages
  uint64_t cacheable_bytes() const;
  uint64_t scale_bytes() const;
  uint64_t predictor_bytes() const;
};

// Tasks of a block, in the words of P §4.3.
enum class NeuronStage : uint8_t {
  kPredict,    // draws what fires (Pred)
  kHotRead,    // hot clusters that are not in memory, and those that never stay there
  kHot,        // hot clusters, dense
  kHeld,       // neurons in memory: gate, up and down
  kGateRead,   // GIO
  kGate,       // of neurons that were read (GC)
  kUpRead,     // UDIO, or the rows of up
  kUp,         // up and, where rows are read by neurons, down (UDC)
  kDownRead,   // where rows are read by matrices
  kDown,       // likewise
  kHeldGate,   // of neurons in memory, where matrices follow one another
  kHeldUp,     // likewise
  kHeldDown,   // likewise
  kMerge,      // sums of the lanes; the block's neurons are given back
  kPages,      // of a mapped file, as they are touched
  kWholeRead,  // what a prompt needs of a block
};
const char* stage_name(NeuronStage stage);

struct NeuronCounters {
  int64_t n_passes = 0;    // of steps
  int64_t n_fired = 0;     // neurons that were wanted, hot ones among them
  int64_t n_missed = 0;    // of them, cold ones that were read
  int64_t n_requests = 0;  // of cold neurons
  double read_bytes = 0.0;
  double miss_rate() const {
    return n_fired > 0 ? static_cast<double>(n_missed) / static_cast<double>(n_fired) : 0.0;
  }
};

class NeuronWork {
 public:
  // The model must outlive it. Throws Error where the plan's cache has not room for a neuron.
  NeuronWork(const CostModel& model, const NeuronShape& shape, const plan::NeuronPlan& plan,
             uint64_t seed = 1);

  const NeuronShape& shape() const { return shape_; }
  const plan::NeuronPlan& plan() const { return plan_; }
  // Segments of cold neurons in passes of up to n_rows tokens.
  int n_segments(int n_rows) const;
  bool has_hot(int n_rows) const;
  // Hot clusters can be read before the router has spoken, where there is none.
  bool reads_ahead() const { return shape_.n_experts == 1; }
  // A part of a block; `segment` -1: all of them.
  std::unique_ptr<Executable> make(NeuronStage stage, int block, int segment,
                                   plan::Shape shape) const;

  TaskCost cost(NeuronStage stage, int block, int segment, const Run& run);

  // So many tokens of one sequence pass, without time: what the cache holds then is what it would
  // hold in a long text.
  void warm(int n_tokens);

  // Counts up to the last whole pass.
  const NeuronCounters& counters() const { return counters_; }
  uint64_t resident_bytes() const { return cache_ ? cache_->resident_bytes() : 0; }
  uint64_t most_resident_bytes() const { return cache_ ? cache_->most_resident_bytes() : 0; }
  // The share of neurons that each pass of steps read.
  const std::vector<double>& miss_rates() const { return miss_rates_; }
  void forget_counters() {
    counters_ = {};
    miss_rates_.clear();
  }

  // Time of one read of a neuron on the phone's flash, among others.
  double read_us(int request_bytes) const;

 private:
  // The work in one segment of the block at hand.
  struct Part {
    int n_held = 0, n_read = 0;            // neurons
    int n_held_more = 0, n_read_more = 0;  // of them, those that need up and down
    int held_rows = 0, read_rows = 0;      // tokens that fire them, all together
  };
  Part part(int segment) const;
  void make_cache();
  void preload();
  std::vector<weights::NeuronId> frequent() const;
  void set_rows(int n_rows);
  void begin_block(int block, int n_rows);
  void fire_group(int group, int n_rows, const std::vector<uint8_t>& uses);
  void end_block();
  void end_pass();
  void acquire_hot(int group);
  TaskCost predict_cost(int block, int n_rows);
  TaskCost hot_cost(int n_rows) const;
  TaskCost hot_read_cost(int block, int n_rows);
  TaskCost cold_cost(int n_neurons, int n_rows_all, int n_matrices) const;
  TaskCost read_cost(int n, int request_bytes);
  TaskCost pages_cost();
  TaskCost whole_read_cost(int block, int n_rows);
  Cores cores() const;

  const CostModel& model_;
  NeuronShape shape_;
  plan::NeuronPlan plan_;
  NeuronActivity activity_;
  std::optional<weights::NeuronCache> cache_;  // none: every neuron is in memory, or none stays
  bool holds_all_ = false;
  NeuronCounters counters_;
  std::vector<double> miss_rates_;
  int64_t pass_fired_ = 0, pass_missed_ = 0;  // of the pass at hand

  // What follows is about the block at hand.
  plan::HotNeurons hot_;
  int n_rows_ = 1;
  std::vector<int> groups_;
  std::vector<Part> parts_;
  std::vector<weights::NeuronCache::Held> held_, read_;  // to be given back
  std::vector<uint8_t> is_kept_;                         // of `read_`: it is there in full
  int n_hot_missed_ = 0;
  std::vector<int> firing_;  // tokens that fire each neuron of a group
};

}  // namespace troika::lanes
