#include "machines/neuron_tasks.h"

#include <algorithm>
#include <array>
#include <utility>

namespace troika::machines {
namespace {

using lanes::NeuronStage;
using schedule::FfnPlace;
using schedule::Task;

// The tasks of one block, each behind those it waits for.
class BlockTasks {
 public:
  BlockTasks(const lanes::NeuronWork& work, int block, plan::Shape shape, int n_before)
      : work_(work), block_(block), shape_(shape), n_before_(n_before) {}

  // Adds a task and returns its number in the list.
  int add(NeuronStage stage, int lane, int segment, std::vector<int> waits_for) {
    Task task{lane, work_.make(stage, block_, segment, shape_), lanes::stage_name(stage), block_,
              std::move(waits_for)};
    tasks_.push_back(std::move(task));
    return n_before_ + static_cast<int>(tasks_.size()) - 1;
  }
  std::vector<Task> take() { return std::move(tasks_); }

 private:
  const lanes::NeuronWork& work_;
  int block_;
  plan::Shape shape_;
  int n_before_;
  std::vector<Task> tasks_;
};

// Adds tasks in which clusters of all matrices mix (Figure 6b): clusters in memory are computed
// while the rest are read.
void add_clusters(BlockTasks* tasks, const NeuronLanes& lanes, int n_segments, bool is_in_two,
                  int predicted, std::vector<int>* ends) {
  std::vector<int> reads;
  reads.reserve(static_cast<size_t>(n_segments));
  for (int segment = 0; segment < n_segments; ++segment) {
    reads.push_back(tasks->add(NeuronStage::kGateRead, lanes.flash, segment, {predicted}));
  }
  for (int segment = 0; segment < n_segments; ++segment) {
    ends->push_back(tasks->add(NeuronStage::kHeld, lanes.cpu, segment, {predicted}));
  }
  for (int segment = 0; segment < n_segments; ++segment) {
    const int read = reads[static_cast<size_t>(segment)];
    const int gate = tasks->add(NeuronStage::kGate, lanes.cpu, segment, {read});
    const int rest =
        is_in_two ? tasks->add(NeuronStage::kUpRead, lanes.flash, segment, {gate}) : gate;
    ends->push_back(tasks->add(NeuronStage::kUp, lanes.cpu, segment, {rest}));
  }
}

// Adds one matrix after the other (Figure 6a): what is in memory of a matrix is computed while its
// rest is read. Without overlap the read comes first.
void add_matrices(BlockTasks* tasks, const NeuronLanes& lanes, bool overlaps, int predicted,
                  std::vector<int>* ends) {
  constexpr std::array<std::array<NeuronStage, 3>, 3> kMatrices = {
      {{NeuronStage::kGateRead, NeuronStage::kHeldGate, NeuronStage::kGate},
       {NeuronStage::kUpRead, NeuronStage::kHeldUp, NeuronStage::kUp},
       {NeuronStage::kDownRead, NeuronStage::kHeldDown, NeuronStage::kDown}}};
  int before = predicted;
  for (const auto& [read_stage, held_stage, rest_stage] : kMatrices) {
    const int read = tasks->add(read_stage, lanes.flash, -1, {before});
    const int held = tasks->add(held_stage, lanes.cpu, -1, {overlaps ? before : read});
    std::vector<int> waits_for = {read, held};
    before = tasks->add(rest_stage, lanes.cpu, -1, std::move(waits_for));
  }
  ends->push_back(before);
}

}  // namespace

std::vector<Task> NeuronTasks::in_place(int block, plan::Shape shape, const FfnPlace& place) const {
  const plan::NeuronPlan& plan = work_.plan();
  if (shape.phase == plan::Phase::kPrompt || plan.is_dense()) return {};
  BlockTasks tasks(work_, block, shape, place.n_tasks);
  const bool has_hot = lanes_.npu >= 0 && work_.has_hot(shape.n_rows);
  int hot_read = -1;
  if (has_hot && work_.reads_ahead()) {
    hot_read = tasks.add(NeuronStage::kHotRead, lanes_.flash, -1, place.block_begin);
  }
  const int predicted = tasks.add(NeuronStage::kPredict, lanes_.cpu, -1, place.ends);
  if (has_hot && !work_.reads_ahead()) {
    hot_read = tasks.add(NeuronStage::kHotRead, lanes_.flash, -1, {predicted});
  }
  std::vector<int> ends;
  if (has_hot) {
    std::vector<int> waits_for = work_.reads_ahead() ? place.ends : std::vector<int>{predicted};
    waits_for.push_back(hot_read);
    ends.push_back(tasks.add(NeuronStage::kHot, lanes_.npu, -1, std::move(waits_for)));
  }
  if (plan.pipeline == plan::NeuronPipeline::kCluster) {
    add_clusters(&tasks, lanes_, work_.n_segments(shape.n_rows), plan.second_read_bytes > 0,
                 predicted, &ends);
  } else {
    add_matrices(&tasks, lanes_, plan.pipeline == plan::NeuronPipeline::kMatrix, predicted, &ends);
  }
  ends.push_back(predicted);
  std::sort(ends.begin(), ends.end());
  tasks.add(NeuronStage::kMerge, lanes_.cpu, -1, std::move(ends));
  return tasks.take();
}

// A prompt needs all neurons of a block: those of the next block are read while this one computes
// (P2). Pages of a mapped file need no task of their own, in steps neither: they come when they are
// touched.
std::vector<Task> NeuronTasks::before(int block, plan::Shape shape, const FfnPlace& place) const {
  const plan::NeuronPlan& plan = work_.plan();
  BlockTasks tasks(work_, block, shape, place.n_tasks);
  if (plan.is_dense()) {
    tasks.add(NeuronStage::kPages, lanes_.flash, -1, place.ends);
  } else if (shape.phase == plan::Phase::kPrompt) {
    const bool reads_ahead = plan.pipeline == plan::NeuronPipeline::kCluster;
    tasks.add(NeuronStage::kWholeRead, lanes_.flash, -1,
              reads_ahead ? place.previous_begin : place.ends);
  }
  return tasks.take();
}

}  // namespace troika::machines
