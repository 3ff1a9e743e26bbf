#include "schedule/expected_times.h"

#include <algorithm>
#include <string_view>

namespace troika::schedule {
namespace {

constexpr double kOperationsPerUs = 1e6;  // of a lane that has not run yet
// Of the newest run in what is expected of the next.
constexpr double kNewShare = 0.25;

// What the time of a task is in proportion to.
double units(const Task& task, const lanes::Run& run) {
  if (!task.is_dynamic) return 1.0;
  double n_positions = 0.0;
  for (const cache::VisibleSlots& row : run.visible) {
    n_positions += static_cast<double>(row.past.size() + row.own.size());
  }
  return std::max(1.0, n_positions);
}

}  // namespace

const ExpectedTimes::Entry* ExpectedTimes::find(const Task& task) const {
  const int n_rows = task.executable->n_tokens();
  for (const Entry& entry : entries_) {
    if (entry.lane == task.lane && entry.n_rows == n_rows &&
        std::string_view(entry.name) == task.name) {
      return &entry;
    }
  }
  return nullptr;
}

double ExpectedTimes::task_us(const Task& task, const lanes::Run& run) const {
  const Entry* entry = find(task);
  const double us_per_unit =
      entry != nullptr ? entry->us_per_unit : task.operations / kOperationsPerUs;
  return us_per_unit * units(task, run);
}

void ExpectedTimes::learn(const Task& task, const lanes::Run& run, double us) {
  const double us_per_unit = us / units(task, run);
  if (const Entry* entry = find(task); entry != nullptr) {
    Entry& known = entries_[static_cast<size_t>(entry - entries_.data())];
    known.us_per_unit += kNewShare * (us_per_unit - known.us_per_unit);
    return;
  }
  entries_.push_back({task.name, task.lane, task.executable->n_tokens(), us_per_unit});
}

}  // namespace troika::schedule
