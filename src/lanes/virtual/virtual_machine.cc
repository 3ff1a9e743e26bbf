#include "lanes/virtual/virtual_machine.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/units.h"

namespace troika::lanes {
namespace {

constexpr double kNothing = 1e-9;

}  // namespace

VirtualMachine::VirtualMachine(Bus bus)
    : bus_(std::move(bus)),
      lane_ends_us_(bus_.lane_gb_s.size(), -1.0),
      depths_(bus_.lane_gb_s.size(), 1),
      busy_shares_(bus_.lane_gb_s.size(), 1.0),
      rests_until_us_(bus_.lane_gb_s.size(), 0.0),
      lanes_started_us_(bus_.lane_gb_s.size(), -1.0),
      busy_us_(bus_.lane_gb_s.size(), 0.0),
      alone_us_(bus_.lane_gb_s.size(), 0.0),
      bytes_(bus_.lane_gb_s.size(), 0.0),
      powered_us_(bus_.lane_gb_s.size(), 0.0),
      background_us_(bus_.lane_gb_s.size() + 1, 0.0) {}

void VirtualMachine::set_queue_depth(int lane, int depth) {
  TROIKA_ASSERT(depth >= 1);
  depths_.at(static_cast<size_t>(lane)) = depth;
}

void VirtualMachine::set_busy_share(int lane, double share) {
  TROIKA_ASSERT(share > 0.0 && share <= 1.0);
  busy_shares_.at(static_cast<size_t>(lane)) = share;
}

void VirtualMachine::set_rendering(const Rendering& rendering) {
  TROIKA_ASSERT(rendering.lane < static_cast<int>(busy_us_.size()) &&
                (rendering.lane < 0 || rendering.period_us > 0.0));
  rendering_ = rendering;
  next_frame_us_ = clock_.now;
  is_in_period_ = false;
}

bool VirtualMachine::takes_over(size_t lane, const Transitions& transitions) const {
  const bool is_handed_over =
      last_lane_ >= 0 && last_lane_ != static_cast<int>(lane) && last_end_us_ == clock_.now;
  // Lanes behind the processors only read from flash: they take nothing over and hand nothing over.
  const size_t n_processors = transitions.handover_us.size();
  return is_handed_over && lane < n_processors && static_cast<size_t>(last_lane_) < n_processors;
}

double VirtualMachine::transition_us(size_t lane, bool has_tasks,
                                     const Transitions& transitions) const {
  double us = 0.0;
  if (takes_over(lane, transitions)) {
    us += transitions.handover_us[static_cast<size_t>(last_lane_)][lane];
  }
  const bool has_run_empty = !has_tasks && lane_ends_us_[lane] != clock_.now;
  if (lane < transitions.restart_us.size() && has_run_empty) us += transitions.restart_us[lane];
  return us;
}

void VirtualMachine::start(int lane, const TaskCost& cost, Status status, Completion& completion,
                           int software) {
  TROIKA_ASSERT(static_cast<size_t>(lane) < busy_us_.size());
  const auto is_before = [&](const Running& task) {
    return task.lane == lane && task.completion != nullptr;
  };
  const auto n_before = std::count_if(running_.begin(), running_.end(), is_before) +
                        std::count_if(resting_.begin(), resting_.end(), is_before);
  TROIKA_ASSERT(n_before < depths_[static_cast<size_t>(lane)]);
  double fixed_us = cost.fixed_us;
  if (!transitions_.empty()) {
    const auto at = static_cast<size_t>(lane);
    const Transitions& transitions = transitions_[static_cast<size_t>(software)];
    fixed_us += transition_us(at, n_before > 0, transitions);
    // Behind other tasks the queue keeps the order, and nobody polls.
    if (n_before == 0 && takes_over(at, transitions)) {
      polled_us_ += std::min(transitions.poll_us, clock_.now - lane_ends_us_[at]);
    }
  }
  const bool is_capped = busy_shares_[static_cast<size_t>(lane)] < 1.0;
  (is_capped ? resting_ : running_).push_back({lane, cost, status, &completion, fixed_us, 1.0});
  bytes_[static_cast<size_t>(lane)] += cost.bytes;
}

bool VirtualMachine::has_task(int lane) const {
  return std::any_of(running_.begin(), running_.end(), [&](const Running& task) {
    return task.lane == lane && task.completion != nullptr;
  });
}

// Moves tasks of capped lanes from rest into the queue. Such a lane has one task at a time in its
// queue, and gets it when it has rested.
void VirtualMachine::end_rests() {
  for (size_t i = 0; i < resting_.size();) {
    const Running& task = resting_[i];
    const double until_us = rests_until_us_[static_cast<size_t>(task.lane)];
    if (has_task(task.lane) || clock_.now < until_us - kNothing) {
      ++i;
      continue;
    }
    running_.push_back(task);
    resting_.erase(resting_.begin() + static_cast<ptrdiff_t>(i));
  }
}

void VirtualMachine::end_period() {
  if (is_in_period_) {
    ++frames_.n_periods;
    frames_.n_drawn += ended_.n_drawn;
    frames_.n_in_time += ended_.n_in_time;
  }
  is_in_period_ = true;
  ended_ = {};
}

void VirtualMachine::begin_frame() {
  if (rendering_.lane < 0 || clock_.now < next_frame_us_ - kNothing) return;
  end_period();
  next_frame_us_ += rendering_.period_us;
  if (is_drawing_) return;
  is_drawing_ = true;
  running_.push_back(
      {rendering_.lane, {0.0, rendering_.frame_us, 0.0}, Status::kDone, nullptr, 0.0, 1.0});
  frame_end_us_ = next_frame_us_;
}

// Returns the next moment at which a frame begins, or a lane with a waiting task has rested.
double VirtualMachine::next_change_us() const {
  double us = std::numeric_limits<double>::infinity();
  if (rendering_.lane >= 0) us = next_frame_us_;
  for (const Running& task : resting_) {
    if (!has_task(task.lane)) us = std::min(us, rests_until_us_[static_cast<size_t>(task.lane)]);
  }
  return us;
}

void VirtualMachine::find_what_passes() {
  for (size_t i = 0; i < running_.size(); ++i) {
    Running& task = running_[i];
    task.is_first = true;
    task.is_starting = task.fixed_left_us > 0.0;
    for (size_t before = 0; before < i; ++before) {
      if (running_[before].lane != task.lane) continue;
      task.is_first = false;
      if (running_[before].fixed_left_us > 0.0) task.is_starting = false;
    }
    if (task.is_first && task.begin_us < 0.0) task.begin_us = clock_.now;
  }
}

// Shares the bus by max-min fairness: a lane that wants less than an equal share leaves the rest to
// the others. A task wants no more than what lets it read while it computes, so that more would not
// end it sooner.
std::vector<double> VirtualMachine::share_bus() const {
  constexpr double kUnlimited = std::numeric_limits<double>::infinity();
  std::vector<double> gb_s(running_.size(), kUnlimited);
  std::vector<size_t> readers;
  for (size_t i = 0; i < running_.size(); ++i) {
    const double alone = bus_.lane_gb_s[static_cast<size_t>(running_[i].lane)];
    if (alone > 0.0) gb_s[i] = alone;
    const TaskCost& cost = running_[i].cost;
    if (!running_[i].is_running() || cost.bytes <= 0.0) continue;
    readers.push_back(i);
    if (cost.compute_us <= 0.0) continue;
    gb_s[i] = std::min(gb_s[i], cost.bytes / (cost.compute_us * kBytesPerUsOfGbPerS));
  }
  if (bus_.total_gb_s <= 0.0) return gb_s;
  std::sort(readers.begin(), readers.end(), [&](size_t a, size_t b) { return gb_s[a] < gb_s[b]; });
  double left = bus_.total_gb_s;
  for (size_t i = 0; i < readers.size(); ++i) {
    const double fair = left / static_cast<double>(readers.size() - i);
    gb_s[readers[i]] = std::min(gb_s[readers[i]], fair);
    left -= gb_s[readers[i]];
  }
  return gb_s;
}

double VirtualMachine::duration_us(const Running& task, const std::vector<double>& gb_s) const {
  const auto index = static_cast<size_t>(&task - running_.data());
  const double memory_us = task.cost.bytes / (gb_s[index] * kBytesPerUsOfGbPerS);
  return std::max(task.cost.compute_us, memory_us);
}

// Counts the power of first tasks, and of the core that asks for what another lane does.
void VirtualMachine::count_power(double us) {
  if (us <= 0.0) return;
  double of_other = 0.0;
  bool has_asking = false;
  for (const Running& task : running_) {
    if (!task.is_first || task.completion == nullptr) continue;
    powered_us_[static_cast<size_t>(task.lane)] += task.cost.power_share * us;
    if (task.lane == asking_.other) of_other = task.cost.power_share;
    has_asking = has_asking || task.lane == asking_.lane;
  }
  if (!has_asking) return;
  // Work in the background has the whole lane where no task has it.
  const auto other = static_cast<size_t>(asking_.other);
  if (of_other == 0.0 && other < background_us_.size()) {
    of_other = std::min(us, background_us_[other]) / us;
  }
  powered_us_[other] += std::clamp(1.0 - of_other, 0.0, asking_.share) * us;
}

void VirtualMachine::advance(double us, const std::vector<double>& gb_s) {
  count_power(us);
  for (size_t lane = 0; lane < background_us_.size(); ++lane) {
    const bool has_task = std::any_of(running_.begin(), running_.end(), [&](const Running& task) {
      return task.lane == static_cast<int>(lane);
    });
    if (has_task) continue;
    const double done_us = std::min(us, background_us_[lane]);
    background_us_[lane] -= done_us;
    (lane < busy_us_.size() ? busy_us_[lane] : outside_us_) += done_us;
    if (lane < powered_us_.size()) powered_us_[lane] += done_us;
  }
  const auto n_lanes = std::count_if(running_.begin(), running_.end(),
                                     [](const Running& task) { return task.is_first; });
  for (Running& task : running_) {
    if (task.is_first && task.completion != nullptr) {
      busy_us_[static_cast<size_t>(task.lane)] += us;
    }
    if (task.is_first && n_lanes == 1) alone_us_[static_cast<size_t>(task.lane)] += us;
    if (task.is_starting) {
      task.fixed_left_us -= us;
      if (task.fixed_left_us < kNothing) task.fixed_left_us = 0.0;
      continue;
    }
    if (!task.is_running()) continue;
    const double whole = duration_us(task, gb_s);
    task.share_left = whole > 0.0 ? std::max(0.0, task.share_left - us / whole) : 0.0;
  }
  clock_.now += us;
}

void VirtualMachine::wait(const Latch& latch) {
  while (!latch.is_open()) {
    TROIKA_ASSERT(!running_.empty() || !resting_.empty());
    pass_time(std::numeric_limits<double>::infinity());
  }
}

void VirtualMachine::finish_background(int lane) {
  double& left_us = background_of(lane);
  while (left_us > kNothing) pass_time(left_us);
  left_us = 0.0;
}

void VirtualMachine::end(const Running& task) {
  if (task.completion == nullptr) {
    is_drawing_ = false;
    ++ended_.n_drawn;
    if (clock_.now <= frame_end_us_ + kNothing) ++ended_.n_in_time;
    return;
  }
  const auto lane = static_cast<size_t>(task.lane);
  last_lane_ = task.lane;
  last_end_us_ = clock_.now;
  lane_ends_us_[lane] = clock_.now;
  lanes_started_us_[lane] = task.begin_us;
  rests_until_us_[lane] =
      clock_.now + (clock_.now - task.begin_us) * (1.0 / busy_shares_[lane] - 1.0);
  task.completion->finished(task.status);
}

void VirtualMachine::pass_time(double most_us) {
  begin_frame();
  end_rests();
  find_what_passes();
  // Time passes up to the nearest moment at which a task ends or its fixed part does.
  const std::vector<double> gb_s = share_bus();
  double step = std::min(most_us, std::max(0.0, next_change_us() - clock_.now));
  for (const Running& task : running_) {
    if (task.is_starting) step = std::min(step, task.fixed_left_us);
    if (task.is_running()) step = std::min(step, task.share_left * duration_us(task, gb_s));
  }
  advance(step, gb_s);
  // Ended tasks are collected first, because a completion may start new tasks.
  std::vector<Running> ended;
  for (Running& task : running_) {
    if (!task.is_running()) continue;
    if (task.share_left * duration_us(task, gb_s) > kNothing) continue;
    ended.push_back(task);
    task.lane = -1;  // marks a task that is erased below, so that `gb_s` fits the list until then
  }
  std::erase_if(running_, [](const Running& task) { return task.lane < 0; });
  for (const Running& task : ended) end(task);
}

}  // namespace troika::lanes
