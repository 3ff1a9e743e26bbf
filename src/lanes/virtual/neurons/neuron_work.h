// What tasks of a feed-forward block that is computed by neuron cost on a virtual phone (P1–P7).
// Which neurons fire is drawn; the neuron cache says which of them must be read; each task counts
// its own cost. There are no weights.
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

// The feed-forward network of a model.
struct NeuronShape {
  int n_layers = 0;
  int n_experts = 1;
  int n_experts_used = 1;
  int n_neurons = 0;          // counts neurons of a layer, or of an expert
  int width = 0;              // counts inputs of a neuron
  int n_matrices = 3;         // counts the rows of a neuron: gate, up, down
  double weight_bytes = 0.0;  // what one weight takes in memory, its scales counted
  int rank = 0;               // the rank of predictors; 0: there are none
  uint64_t model_bytes = 0;   // counts the bytes of all weights

  int n_groups() const { return n_layers * n_experts; }
  // Returns what one neuron takes in the cache: its levels without scales.
  uint64_t neuron_bytes() const;
  // Returns the bytes of a neuron in the file, in whole pages, where its rows lie together.
  int bundle_bytes() const;
  int row_read_bytes() const;  // returns the bytes of a read of one row, in whole pages
  uint64_t cacheable_bytes() const;
  uint64_t scale_bytes() const;
  uint64_t predictor_bytes() const;
};

// Tasks of a block, with their names in P §4.3.
enum class NeuronStage : uint8_t {
  kPredict,    // draws what fires (Pred)
  kHotRead,    // reads hot clusters that are not in memory, and those that never stay there
  kHot,        // multiplies hot clusters, dense
  kHeld,       // computes neurons in memory: gate, up and down
  kGateRead,   // reads gates (GIO)
  kGate,       // computes gates that were read (GC)
  kUpRead,     // reads up and down (UDIO), or rows of up alone
  kUp,         // computes up and, where reads go by neuron, down (UDC)
  kDownRead,   // reads rows of down, where they lie by themselves
  kDown,       // computes down, where reads go by matrix
  kHeldGate,   // computes gates of neurons in memory, in the pipeline by matrix
  kHeldUp,     // computes up rows of neurons in memory, in the pipeline by matrix
  kHeldDown,   // computes down rows of neurons in memory, in the pipeline by matrix
  kMerge,      // adds the lanes' results, and gives the block's neurons back
  kPages,      // reads pages of a mapped file as they are touched
  kWholeRead,  // reads what a prompt needs of a block
};
const char* stage_name(NeuronStage stage);

struct NeuronCounters {
  int64_t n_passes = 0;    // counts passes of steps
  int64_t n_fired = 0;     // counts neurons that fired, hot ones too
  int64_t n_missed = 0;    // counts those of them that were cold and had to be read
  int64_t n_requests = 0;  // counts requests for cold neurons
  double read_bytes = 0.0;
  double miss_rate() const {
    return n_fired > 0 ? static_cast<double>(n_missed) / static_cast<double>(n_fired) : 0.0;
  }
};

class NeuronWork {
 public:
  // The model must outlive the work. Throws Error where the plan's cache has no room for a neuron.
  NeuronWork(const CostModel& model, const NeuronShape& shape, const plan::NeuronPlan& plan,
             uint64_t seed = 1);

  const NeuronShape& shape() const { return shape_; }
  const plan::NeuronPlan& plan() const { return plan_; }
  // Returns into how many segments cold neurons are cut in passes of up to n_rows tokens.
  int n_segments(int n_rows) const;
  bool has_hot(int n_rows) const;
  // Says whether hot clusters can be read before attention: only where there is no router.
  bool reads_ahead() const { return shape_.n_experts == 1; }
  // Makes a task: one stage of a block, for a segment of it; `segment` -1: for all segments.
  std::unique_ptr<Executable> make(NeuronStage stage, int block, int segment,
                                   plan::Shape shape) const;

  TaskCost cost(NeuronStage stage, int block, int segment, const Run& run);

  // Lets n_tokens tokens of one sequence pass, without time: then the cache holds what it would
  // hold in a long text.
  void warm(int n_tokens);

  // Returns counts up to the last whole pass.
  const NeuronCounters& counters() const { return counters_; }
  uint64_t resident_bytes() const { return cache_ ? cache_->resident_bytes() : 0; }
  uint64_t most_resident_bytes() const { return cache_ ? cache_->most_resident_bytes() : 0; }
  // Returns for each pass of steps the share of its neurons that were read.
  const std::vector<double>& miss_rates() const { return miss_rates_; }
  void forget_counters() {
    counters_ = {};
    miss_rates_.clear();
  }

  // Returns a read as the core that asks for reads makes it.
  FlashRead read_of(int64_t request_bytes) const;
  // Returns the time of one read of a neuron from the phone's flash, as one of many.
  double read_us(int request_bytes) const;

 private:
  // The work in one segment of the current block.
  struct SegmentWork {
    int n_held = 0, n_read = 0;            // count neurons
    int n_held_more = 0, n_read_more = 0;  // count those of them that need up and down, too
    int held_rows = 0, read_rows = 0;      // count the tokens that fire them, over all neurons
  };
  SegmentWork work_of(int segment) const;
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
  double bytes_to_map(int n_rows) const;
  TaskCost pages_cost(int n_rows);
  TaskCost whole_read_cost(int block, int n_rows);
  Cores cores() const;
  double power_share() const;  // of the cores that compute, over all that are used

  const CostModel& model_;
  NeuronShape shape_;
  plan::NeuronPlan plan_;
  NeuronActivity activity_;
  // Absent where every neuron is in memory, or none stays there.
  std::optional<weights::NeuronCache> cache_;
  bool holds_all_ = false;
  NeuronCounters counters_;
  std::vector<double> miss_rates_;
  int64_t pass_fired_ = 0, pass_missed_ = 0;  // count neurons of the current pass

  // The members below are about the current block.
  plan::HotNeurons hot_;
  int n_rows_ = 1;
  int graph_rows_ = 1;  // counts the rows of the graph that the NPU has
  std::vector<int> groups_;
  std::vector<SegmentWork> segments_;
  std::vector<weights::NeuronCache::Held> held_, read_;  // neurons that must be given back
  std::vector<uint8_t> is_kept_;  // for each of `read_`: it stays in the cache, in full
  int n_hot_missed_ = 0;
  std::vector<int> firing_;  // how many tokens fire each neuron of a group
};

}  // namespace troika::lanes
