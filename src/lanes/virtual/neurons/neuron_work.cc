#include "lanes/virtual/neurons/neuron_work.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/random.h"

namespace troika::lanes {
namespace {

using weights::NeuronCache;
using weights::NeuronId;

constexpr int kPageBytes = 4096;
// Is the levels' share of a block of 32 4-bit weights and its scale.
constexpr double kLevelShare = 16.0 / 18.0;
constexpr size_t kMostRates = 1 << 16;

int whole_pages(double bytes) {
  return static_cast<int>((static_cast<int64_t>(bytes) + kPageBytes - 1) / kPageBytes) * kPageBytes;
}

class NeuronTask : public TimedTask {
 public:
  NeuronTask(NeuronWork* work, NeuronStage stage, int block, int segment, int n_tokens)
      : TimedTask(n_tokens), work_(work), stage_(stage), block_(block), segment_(segment) {}
  TaskCost cost(const Run& run) const override {
    return work_->cost(stage_, block_, segment_, run);
  }

 private:
  NeuronWork* work_;
  NeuronStage stage_;
  int block_;
  int segment_;
};

}  // namespace

// Counts levels alone: scales stay in memory.
uint64_t NeuronShape::neuron_bytes() const {
  return static_cast<uint64_t>(n_matrices * width * weight_bytes * kLevelShare);
}

int NeuronShape::bundle_bytes() const {
  return whole_pages(n_matrices * width * weight_bytes * kLevelShare);
}

int NeuronShape::row_read_bytes() const { return whole_pages(width * weight_bytes * kLevelShare); }

uint64_t NeuronShape::cacheable_bytes() const {
  return neuron_bytes() * static_cast<uint64_t>(n_groups()) * static_cast<uint64_t>(n_neurons);
}

uint64_t NeuronShape::scale_bytes() const {
  const double all =
      static_cast<double>(n_groups()) * n_neurons * n_matrices * width * weight_bytes;
  return static_cast<uint64_t>(all * (1.0 - kLevelShare));
}

uint64_t NeuronShape::predictor_bytes() const {
  return static_cast<uint64_t>(static_cast<double>(n_groups()) * rank * (width + n_neurons) *
                               weight_bytes);
}

const char* stage_name(NeuronStage stage) {
  static constexpr const char* kNames[] = {
      "predict",        "hot read", "hot",       "in memory", "gate read",      "gate",
      "up-down read",   "up-down",  "down read", "down",      "gate in memory", "up in memory",
      "down in memory", "merge",    "pages",     "read ahead"};
  return kNames[static_cast<size_t>(stage)];
}

NeuronWork::NeuronWork(const CostModel& model, const NeuronShape& shape,
                       const plan::NeuronPlan& plan, uint64_t seed)
    : model_(model),
      shape_(shape),
      plan_(plan),
      activity_(plan.statistics, shape.n_groups(), shape.n_neurons, seed),
      firing_(static_cast<size_t>(shape.n_neurons)) {
  hot_ = plan_.hot_for(1);
  if (plan_.is_dense()) return;
  holds_all_ = plan_.cache_bytes >= shape_.cacheable_bytes();
  if (!holds_all_) make_cache();
}

void NeuronWork::make_cache() {
  weights::NeuronCacheShape shape;
  shape.n_groups = shape_.n_groups();
  shape.n_neurons = shape_.n_neurons;
  shape.cluster_neurons = std::min(plan_.segment, shape_.n_neurons);
  shape.neuron_bytes = shape_.neuron_bytes();
  weights::NeuronCacheOptions options;
  options.capacity_bytes = plan_.cache_bytes;
  const double n_frames = static_cast<double>(plan_.cache_bytes / shape.neuron_bytes /
                                              static_cast<uint64_t>(shape.cluster_neurons));
  const int most = plan_.hot.empty() ? 0 : plan_.hot.back().n_sequences;
  for (int n = 1; n <= most; ++n) {
    const double clusters =
        static_cast<double>(plan_.hot_for(n).n_hot / shape.cluster_neurons) * shape.n_groups;
    options.hot_share.push_back(std::min(1.0, (clusters + 0.5) / std::max(1.0, n_frames)));
  }
  if (!plan_.has_cache()) {
    options.frequent = frequent();
    options.pinned_share = {1.0};
  }
  cache_.emplace(shape, options);
  preload();
}

// Returns the neurons that stay where nothing is cached, the first ones first: the most frequent
// ones, or, for systems that look neither at heat nor at use, arbitrary ones.
std::vector<NeuronId> NeuronWork::frequent() const {
  std::vector<NeuronId> ids;
  const int n_groups = shape_.n_groups();
  ids.reserve(static_cast<size_t>(n_groups) * static_cast<size_t>(shape_.n_neurons));
  for (int neuron = 0; neuron < shape_.n_neurons; ++neuron) {
    for (int group = 0; group < n_groups; ++group) ids.push_back({group, neuron});
  }
  if (plan_.system == plan::NeuronSystem::kPowerInfer) return ids;
  for (size_t i = ids.size(); i > 1; --i) {
    std::swap(ids[i - 1], ids[random_bits(7, i) % i]);
  }
  return ids;
}

// Fills the cache as it would be after a long text: with the neurons that fire most.
void NeuronWork::preload() {
  const int n_groups = shape_.n_groups();
  const int n_clusters = plan_.hot_for(1).n_hot / std::max(1, plan_.segment);
  const auto take = [&](const NeuronCache::Held& held) {
    if (held.found == NeuronCache::Found::kMiss) cache_->filled(held);
    if (held.is_held()) cache_->give_back(held);
  };
  if (!plan_.has_cache()) {
    int64_t n = 0;
    for (const NeuronId id : frequent()) {
      if (n++ >= cache_->n_slots()) break;
      take(cache_->acquire(id));
    }
  } else {
    for (int group = 0; group < n_groups; ++group) {
      for (int c = 0; c < n_clusters; ++c) take(cache_->acquire_cluster(group, c));
    }
    const int64_t n_cold = (cache_->n_slots() - cache_->n_hot_slots()) / n_groups;
    const int first = plan_.hot_for(1).n_hot;
    const int last = static_cast<int>(std::min<int64_t>(shape_.n_neurons, first + n_cold));
    for (int neuron = last; neuron-- > first;) {
      for (int group = 0; group < n_groups; ++group) take(cache_->acquire({group, neuron}));
    }
  }
  cache_->reset_counters();
}

int NeuronWork::n_segments(int n_rows) const {
  const plan::HotNeurons& hot = plan_.hot_for(n_rows);
  const int n_cold = std::max(0, shape_.n_neurons - hot.n_hot - hot.n_streamed);
  const int of_a_group = (n_cold + plan_.segment - 1) / plan_.segment;
  return of_a_group * std::min(shape_.n_experts, shape_.n_experts_used * n_rows);
}

bool NeuronWork::has_hot(int n_rows) const {
  const plan::HotNeurons& hot = plan_.hot_for(n_rows);
  return hot.n_hot + hot.n_streamed > 0;
}

std::unique_ptr<Executable> NeuronWork::make(NeuronStage stage, int block, int segment,
                                             plan::Shape shape) const {
  // A task counts what it does and so changes the work, although it is const here. Nothing else
  // changes the work while a pass runs.
  return std::make_unique<NeuronTask>(const_cast<NeuronWork*>(this), stage, block, segment,
                                      shape.n_rows);
}

void NeuronWork::set_rows(int n_rows) {
  if (n_rows == n_rows_) return;
  n_rows_ = n_rows;
  hot_ = plan_.hot_for(n_rows);
  if (cache_) cache_->set_batch(n_rows);
}

void NeuronWork::acquire_hot(int group) {
  if (!cache_) return;
  for (int c = 0; c < hot_.n_hot / plan_.segment; ++c) {
    const NeuronCache::Held held = cache_->acquire_cluster(group, c);
    const bool is_there = held.found == NeuronCache::Found::kHit;
    if (!is_there) n_hot_missed_ += cache_->cluster_size(c);
    if (!held.is_held()) continue;
    (is_there ? held_ : read_).push_back(held);
    if (!is_there) is_kept_.push_back(1);
  }
}

void NeuronWork::begin_block(int block, int n_rows) {
  groups_.clear();
  segments_.clear();
  std::vector<std::vector<uint8_t>> uses;  // for each group, which rows use it
  if (shape_.n_experts == 1) {
    groups_ = {block};
    uses.emplace_back(static_cast<size_t>(n_rows), uint8_t{1});
  } else {
    std::vector<std::vector<uint8_t>> by_expert(static_cast<size_t>(shape_.n_experts));
    for (int row = 0; row < n_rows; ++row) {
      for (const int expert :
           activity_.route(row, block, shape_.n_experts, shape_.n_experts_used)) {
        std::vector<uint8_t>& rows = by_expert[static_cast<size_t>(expert)];
        rows.resize(static_cast<size_t>(n_rows));
        rows[static_cast<size_t>(row)] = 1;
      }
    }
    for (int expert = 0; expert < shape_.n_experts; ++expert) {
      std::vector<uint8_t>& rows = by_expert[static_cast<size_t>(expert)];
      if (rows.empty()) continue;
      groups_.push_back(block * shape_.n_experts + expert);
      uses.push_back(std::move(rows));
    }
    for (const int group : groups_) acquire_hot(group);
  }
  for (size_t i = 0; i < groups_.size(); ++i) fire_group(groups_[i], n_rows, uses[i]);
}

void NeuronWork::fire_group(int group, int n_rows, const std::vector<uint8_t>& uses) {
  std::fill(firing_.begin(), firing_.end(), 0);
  for (int row = 0; row < n_rows; ++row) {
    if (uses[static_cast<size_t>(row)] == 0) continue;
    const auto fires = activity_.advance(row, group);
    for (size_t i = 0; i < fires.size(); ++i) firing_[i] += fires[i];
  }
  const bool is_in_two = plan_.second_read_bytes > 0;
  // Hot neurons that fire were in the cache, or were read with their cluster.
  pass_fired_ += std::count_if(firing_.begin(), firing_.begin() + hot_.n_hot + hot_.n_streamed,
                               [](int n) { return n > 0; });
  for (int first = hot_.n_hot + hot_.n_streamed; first < shape_.n_neurons; first += plan_.segment) {
    SegmentWork work;
    const int end = std::min(first + plan_.segment, shape_.n_neurons);
    for (int neuron = first; neuron < end; ++neuron) {
      const int n_firing = firing_[static_cast<size_t>(neuron)];
      if (n_firing == 0) continue;
      const bool goes_on = activity_.draw_continued(1) > 0;
      NeuronCache::Held held;
      held.found = NeuronCache::Found::kHit;
      if (cache_) held = cache_->acquire({group, neuron});
      if (held.found == NeuronCache::Found::kHit) {
        ++work.n_held;
        work.held_rows += n_firing;
        work.n_held_more += goes_on ? 1 : 0;
        if (held.is_held()) held_.push_back(held);
        continue;
      }
      ++work.n_read;
      work.read_rows += n_firing;
      work.n_read_more += goes_on ? 1 : 0;
      if (!held.is_held()) continue;
      read_.push_back(held);
      is_kept_.push_back(goes_on || !is_in_two ? 1 : 0);
    }
    pass_fired_ += work.n_held + work.n_read;
    pass_missed_ += work.n_read;
    segments_.push_back(work);
  }
}

void NeuronWork::end_block() {
  for (size_t i = 0; i < read_.size(); ++i) {
    if (is_kept_[i] != 0) {
      cache_->filled(read_[i]);
    } else {
      cache_->failed(read_[i]);
    }
    cache_->give_back(read_[i]);
  }
  for (const NeuronCache::Held& held : held_) cache_->give_back(held);
  held_.clear();
  read_.clear();
  is_kept_.clear();
  n_hot_missed_ = 0;
}

void NeuronWork::end_pass() {
  if (pass_fired_ > 0 && miss_rates_.size() < kMostRates) {
    miss_rates_.push_back(static_cast<double>(pass_missed_) / static_cast<double>(pass_fired_));
  }
  counters_.n_fired += pass_fired_;
  counters_.n_missed += pass_missed_;
  pass_fired_ = pass_missed_ = 0;
  ++counters_.n_passes;
}

void NeuronWork::warm(int n_tokens) {
  if (!cache_) return;
  set_rows(1);
  for (int i = 0; i < n_tokens; ++i) {
    for (int block = 0; block < shape_.n_layers; ++block) {
      if (reads_ahead()) acquire_hot(block);
      begin_block(block, 1);
      end_block();
    }
    end_pass();
  }
  forget_counters();
}

NeuronWork::SegmentWork NeuronWork::work_of(int segment) const {
  if (segment >= 0) {
    return static_cast<size_t>(segment) < segments_.size() ? segments_[static_cast<size_t>(segment)]
                                                           : SegmentWork();
  }
  SegmentWork sum;
  for (const SegmentWork& work : segments_) {
    sum.n_held += work.n_held;
    sum.n_read += work.n_read;
    sum.n_held_more += work.n_held_more;
    sum.n_read_more += work.n_read_more;
    sum.held_rows += work.held_rows;
    sum.read_rows += work.read_rows;
  }
  return sum;
}

TaskCost NeuronWork::cost(NeuronStage stage, int block, int segment, const Run& run) {
  const auto cold = [&](int n, int all, int n_rows, int n_matrices) {
    // The rows of the neurons that go on, in proportion to all.
    const int rows = all > 0 ? static_cast<int>(int64_t{n_rows} * n / all) : 0;
    return cold_cost(n, rows, n_matrices);
  };
  const SegmentWork here = work_of(segment);
  switch (stage) {
    case NeuronStage::kPredict:
      return predict_cost(block, run.n_tokens);
    case NeuronStage::kHotRead:
      return hot_read_cost(block, run.n_tokens);
    case NeuronStage::kHot:
      return hot_cost(run.n_tokens);
    case NeuronStage::kHeld: {
      TaskCost sum = cold(here.n_held, here.n_held, here.held_rows, 1);
      const TaskCost more = cold(here.n_held_more, here.n_held, here.held_rows, 2);
      sum.compute_us += more.compute_us;
      sum.bytes += more.bytes;
      return sum;
    }
    case NeuronStage::kGateRead:
      return read_cost(here.n_read, plan_.first_read_bytes);
    case NeuronStage::kGate:
      return cold(here.n_read, here.n_read, here.read_rows, 1);
    case NeuronStage::kUpRead:
      return read_cost(here.n_read_more, plan_.second_read_bytes);
    case NeuronStage::kDownRead:
      // The second read of a bundle has brought the row of down with that of up.
      if (plan_.has_bundles()) return {};
      return read_cost(here.n_read_more, plan_.second_read_bytes);
    case NeuronStage::kUp:
      return cold(here.n_read_more, here.n_read, here.read_rows,
                  plan_.pipeline == plan::NeuronPipeline::kCluster ? 2 : 1);
    case NeuronStage::kDown:
      return cold(here.n_read_more, here.n_read, here.read_rows, 1);
    case NeuronStage::kHeldGate:
      return cold(here.n_held, here.n_held, here.held_rows, 1);
    case NeuronStage::kHeldUp:
    case NeuronStage::kHeldDown:
      return cold(here.n_held_more, here.n_held, here.held_rows, 1);
    case NeuronStage::kMerge:
      end_block();
      if (block == shape_.n_layers - 1) end_pass();
      return model_.pointwise(Processor::kCpu, 3.0 * shape_.width * run.n_tokens * sizeof(float));
    case NeuronStage::kPages:
      return pages_cost(run.n_tokens);
    case NeuronStage::kWholeRead:
      break;
  }
  return whole_read_cost(block, run.n_tokens);
}

}  // namespace troika::lanes
