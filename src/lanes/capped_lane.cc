#include "lanes/capped_lane.h"

#include <chrono>
#include <thread>

#include "base/error.h"

namespace troika::lanes {

CappedLane::CappedLane(std::unique_ptr<Lane> inner, double busy_share, const Clock& clock)
    : inner_(std::move(inner)), busy_share_(busy_share), clock_(clock), info_(inner_->info()) {
  TROIKA_ASSERT(busy_share > 0.0 && busy_share <= 1.0);
  info_.queue_depth = 1;
}

void CappedLane::submit(const Executable& executable, const Run& run, Completion& completion) {
  for (double left_us = rests_until_us_ - clock_.now_us(); left_us > 0.0;
       left_us = rests_until_us_ - clock_.now_us()) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(left_us));
  }
  started_us_ = clock_.now_us();
  ended_.latch.close();
  inner_->submit(executable, run, ended_);
  ended_.latch.wait();
  const double now_us = clock_.now_us();
  rests_until_us_ = now_us + (now_us - started_us_) * (1.0 / busy_share_ - 1.0);
  completion.finished(ended_.status);
}

}  // namespace troika::lanes
