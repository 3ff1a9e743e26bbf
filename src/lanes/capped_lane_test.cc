#include "lanes/capped_lane.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/support/null_lane.h"

namespace troika::lanes {
namespace {

using test::NullLane;

// A lane whose tasks take real time.
class TimedLane : public NullLane {
 public:
  explicit TimedLane(double task_us) : NullLane("timed"), task_us_(task_us) {}
  void submit(const Executable&, const Run&, Completion& completion) override {
    const double end_us = RealClock().now_us() + task_us_;
    while (RealClock().now_us() < end_us) continue;
    completion.finished(Status::kDone);
  }

 private:
  double task_us_;
};

TEST(CappedLane, H14RestsBehindEachTaskForItsShareOfTheTime) {
  constexpr double kTaskUs = 300.0;
  for (const double share : {0.25, 0.5, 1.0}) {
    const RealClock clock;
    auto inner = std::make_unique<TimedLane>(kTaskUs);
    const auto executable = inner->make(1);
    CappedLane lane(std::move(inner), share, clock);
    EXPECT_EQ(lane.info().queue_depth, 1);
    double rested_us = 0.0;  // is until when the test expects the lane to rest
    for (int i = 0; i < 5; ++i) {
      Ended ended;
      lane.submit(*executable, {}, ended);
      ASSERT_EQ(ended.status, Status::kDone);
      const double now_us = clock.now_us();
      EXPECT_GE(lane.started_us(), rested_us);
      EXPECT_LE(lane.started_us() + kTaskUs, now_us);
      rested_us = lane.started_us() + kTaskUs / share;
    }
  }
}

class FailingLane : public NullLane {
 public:
  FailingLane() : NullLane("failing") {}
  void submit(const Executable&, const Run&, Completion& completion) override {
    completion.finished(Status::kFailed);
  }
  std::string problem() const override { return "it is gone"; }
};

// A task that fails in the lane inside is reported as failed.
TEST(CappedLane, H14TellsWhatTheLaneInsideSays) {
  auto inner = std::make_unique<FailingLane>();
  const auto executable = inner->make(1);
  const RealClock clock;
  CappedLane lane(std::move(inner), 0.5, clock);
  Ended ended;
  lane.submit(*executable, {}, ended);
  EXPECT_EQ(ended.status, Status::kFailed);
  EXPECT_EQ(lane.problem(), "it is gone");
}

}  // namespace
}  // namespace troika::lanes
