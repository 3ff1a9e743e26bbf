// The times of tasks of a feed-forward block that is computed by neuron, on a virtual phone.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "lanes/virtual/neurons/neuron_work.h"

namespace troika::lanes {
namespace {

constexpr int64_t kSequentialBytes = 512 << 10;  // the size of one request of a sequential read
constexpr double kTiny = 1e-9;  // bytes that stand for a weight that is in memory already
constexpr int kNumbersOfAGraphKb = 1024;

}  // namespace

// Returns the cores that compute. Where reading and computing overlap, one core of those that are
// used only asks for reads, unless it is the only one.
Cores NeuronWork::cores() const {
  Cores cores = model_.used_cores();
  const bool has_reader = plan_.pipeline != plan::NeuronPipeline::kNone && !holds_all_;
  if (!has_reader || cores.count() <= 1) return cores;
  const Cores reader = model_.asking_core(plan_.reads_on_large_core);
  cores.prime -= reader.prime;
  cores.middle -= reader.middle;
  cores.small = std::max(0.0, cores.small - reader.small);
  return cores;
}

double NeuronWork::power_share() const {
  return model_.core_w(cores()) / model_.power_w(Processor::kCpu);
}

FlashRead NeuronWork::read_of(int64_t request_bytes) const {
  FlashRead read;
  read.request_bytes = request_bytes;
  read.core_ghz = model_.clock_ghz(model_.asking_core(plan_.reads_on_large_core));
  return read;
}

double NeuronWork::read_us(int request_bytes) const {
  FlashRead read = read_of(request_bytes);
  read.range_bytes =
      static_cast<int64_t>(shape_.n_groups()) * shape_.n_neurons * shape_.bundle_bytes();
  return model_.flash_us(read);
}

// Costs reads. A request's latency passes while the requests before it are read.
TaskCost NeuronWork::read_cost(int n, int request_bytes) {
  if (n == 0 || request_bytes == 0) return {};
  counters_.n_requests += n;
  counters_.read_bytes += static_cast<double>(n) * request_bytes;
  return {model_.stack().flash.latency_us / model_.phone().flash.relative_rate,
          n * read_us(request_bytes), static_cast<double>(n) * request_bytes};
}

// Costs cold neurons. The team of threads is woken once, when the block's feed-forward part begins;
// threads that are awake take the next cluster by themselves. Weights are read once, and multiplied
// with each row that fires them.
TaskCost NeuronWork::cold_cost(int n_neurons, int n_rows_all, int n_matrices) const {
  if (n_neurons == 0) return {};
  Product weights{1, shape_.width, n_neurons, Arithmetic::kInt8};
  weights.weight_bytes = shape_.weight_bytes;
  TaskCost cost = model_.product(cores(), weights);
  Product rows = weights;
  rows.outputs = std::max(1, n_rows_all);
  rows.weight_bytes = kTiny;
  cost.fixed_us = 0.0;
  cost.compute_us =
      n_matrices * std::max(cost.compute_us, model_.product(cores(), rows).compute_us);
  cost.bytes *= n_matrices;
  cost.power_share = power_share();
  return cost;
}

TaskCost NeuronWork::predict_cost(int block, int n_rows) {
  set_rows(n_rows);
  begin_block(block, n_rows);
  TaskCost sum;
  sum.power_share = power_share();
  const auto add = [&](int columns, int outputs) {
    if (columns == 0 || outputs == 0) return;
    Product product{n_rows, columns, outputs, Arithmetic::kInt8};
    product.weight_bytes = shape_.weight_bytes;
    const TaskCost cost = model_.product(cores(), product);
    sum.fixed_us = std::max(sum.fixed_us, cost.fixed_us);
    sum.compute_us += cost.compute_us;
    sum.bytes += cost.bytes;
  };
  if (shape_.n_experts > 1) add(shape_.width, shape_.n_experts);
  const int n_cold = shape_.n_neurons - hot_.n_hot - hot_.n_streamed;
  for (size_t i = 0; i < groups_.size(); ++i) {
    add(shape_.width, shape_.rank);
    add(shape_.rank, n_cold);
  }
  return sum;
}

// Costs gate, up and down of the hot neurons of all used experts, as one graph.
TaskCost NeuronWork::hot_cost(int n_rows) const {
  const int n_hot = hot_.n_hot + hot_.n_streamed;
  TaskCost sum;
  if (n_hot == 0) return sum;
  for (int matrix = 0; matrix < shape_.n_matrices; ++matrix) {
    const bool is_down = matrix == shape_.n_matrices - 1;
    Product product{n_rows, is_down ? n_hot : shape_.width, is_down ? shape_.width : n_hot,
                    model_.arithmetic(Processor::kNpu, plan::Phase::kStep)};
    product.weight_bytes = shape_.weight_bytes;
    const TaskCost cost = model_.product(Processor::kNpu, product);
    const auto n = static_cast<double>(groups_.size());
    sum.fixed_us = std::max(sum.fixed_us, cost.fixed_us);
    sum.compute_us += n * cost.compute_us;
    sum.bytes += n * cost.bytes;
  }
  return sum;
}

// Costs the read of hot neurons, in a row. It runs while attention computes; where there is a
// router, after it. A changed number of rows needs another graph, which is read, too (P §4.1.3).
TaskCost NeuronWork::hot_read_cost(int block, int n_rows) {
  const bool is_other_graph = n_rows != graph_rows_ && block == 0;
  if (block == 0) graph_rows_ = n_rows;
  set_rows(n_rows);
  if (reads_ahead()) acquire_hot(block);
  const double n_neurons =
      n_hot_missed_ + (holds_all_ ? 0.0
                                  : static_cast<double>(hot_.n_streamed) *
                                        static_cast<double>(reads_ahead() ? 1 : groups_.size()));
  double bytes = n_neurons * shape_.bundle_bytes();
  if (is_other_graph) bytes += model_.stack().graph.size_kb * kNumbersOfAGraphKb;
  if (bytes <= 0.0) return {};
  counters_.read_bytes += bytes;
  FlashRead read = read_of(static_cast<int64_t>(bytes));
  read.is_sequential = true;
  return {model_.stack().flash.latency_us / model_.phone().flash.relative_rate,
          model_.flash_us(read), bytes};
}

// Returns the bytes of a mapped file that a pass touches and that are not in memory. The pages used
// last stay. Of a model without experts a pass touches all weights in a cycle, so that nothing
// stays until it is needed again unless everything fits. Of a mixture it touches some experts:
// where what a pass touches fits, the room beside the other weights has that share of the experts,
// and those of the token before.
double NeuronWork::bytes_to_map(int n_rows) const {
  const auto model = static_cast<double>(shape_.model_bytes);
  const double ffn = static_cast<double>(shape_.cacheable_bytes() + shape_.scale_bytes());
  const double program = std::max(0.0, static_cast<double>(plan_.other_bytes) - (model - ffn));
  const double room = static_cast<double>(plan_.budget_bytes) - program;
  if (room >= model) return 0.0;
  const double experts = shape_.n_experts > 1 ? ffn : 0.0;
  const double always = model - experts;
  const double share_used = static_cast<double>(shape_.n_experts_used) / shape_.n_experts;
  const double touched = experts * (1.0 - std::pow(1.0 - share_used, n_rows));
  if (experts <= 0.0 || room < always + touched) return always + touched;
  const double again = plan_.statistics.overlap;
  const double found = again + (1.0 - again) * (room - always) / experts;
  return touched * (1.0 - found);
}

// Costs a mapped file, which is read in the pieces that the system reads ahead, one after the
// other.
TaskCost NeuronWork::pages_cost(int n_rows) {
  const double bytes = bytes_to_map(n_rows) / shape_.n_layers;
  if (bytes <= 0.0) return {};
  FlashRead read;
  read.request_bytes = static_cast<int64_t>(model_.stack().flash.readahead_kb * 1024.0);
  read.n_requests = static_cast<int64_t>(bytes / static_cast<double>(read.request_bytes)) + 1;
  read.is_sequential = read.is_alone = true;
  counters_.read_bytes += bytes;
  return {0.0, model_.flash_us(read), bytes};
}

// Costs the read of neurons that are not in memory: all of them in a row, or, for a system that
// knows random reads only, those that any row of the prompt fires.
TaskCost NeuronWork::whole_read_cost(int block, int n_rows) {
  if (holds_all_ || !cache_) return {};
  int64_t n_absent = 0;
  double n_fired = 0.0;
  for (int expert = 0; expert < shape_.n_experts; ++expert) {
    const int group = block * shape_.n_experts + expert;
    for (int neuron = 0; neuron < shape_.n_neurons; ++neuron) {
      const int cluster = neuron / std::max(1, plan_.segment);
      if (cache_->is_resident({group, neuron}) || cache_->is_cluster_resident(group, cluster)) {
        continue;
      }
      ++n_absent;
      n_fired += 1.0 - std::pow(1.0 - activity_.shares()[static_cast<size_t>(neuron)], n_rows);
    }
  }
  const bool is_in_a_row =
      plan_.system == plan::NeuronSystem::kPipeline || plan_.system == plan::NeuronSystem::kXpu;
  if (!is_in_a_row) {
    const int n_reads = plan_.has_bundles() ? 1 : shape_.n_matrices;
    return read_cost(static_cast<int>(n_fired) * n_reads,
                     plan_.has_bundles() ? shape_.bundle_bytes() : shape_.row_read_bytes());
  }
  const double bytes = static_cast<double>(n_absent) * shape_.bundle_bytes();
  if (bytes <= 0.0) return {};
  FlashRead read = read_of(kSequentialBytes);
  read.n_requests = static_cast<int64_t>(std::ceil(bytes / kSequentialBytes));
  read.is_sequential = true;
  counters_.read_bytes += bytes;
  return {model_.stack().flash.latency_us / model_.phone().flash.relative_rate,
          model_.flash_us(read), bytes};
}

}  // namespace troika::lanes
