#include "schedule/task_time.h"

#include <algorithm>
#include <string_view>

namespace troika::schedule {
namespace {

constexpr double kNewShare = 0.25;

}  // namespace

void TaskTime::learn(double n_units, double us) {
  const double us_per_unit = us / n_units;
  us_per_unit_ = is_known_ ? us_per_unit_ + kNewShare * (us_per_unit - us_per_unit_) : us_per_unit;
  is_known_ = true;
}

double n_positions(const lanes::Run& run) {
  double n = 0.0;
  for (const cache::VisibleSlots& row : run.visible) {
    n += static_cast<double>(row.past.size() + row.own.size());
  }
  return std::max(1.0, n);
}

TaskTime* LearnedTimes::of(const char* name, int lane, plan::Shape shape, int piece) {
  for (Kind& kind : kinds_) {
    if (kind.lane == lane && kind.piece == piece && kind.shape == shape &&
        std::string_view(kind.name) == name) {
      return &kind.time;
    }
  }
  return &kinds_.emplace_back(Kind{name, lane, shape, piece, {}}).time;
}

}  // namespace troika::schedule
