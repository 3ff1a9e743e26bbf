// A lane that rests behind each task, so that it is busy for no more than a share of the time and
// other programs get the rest of its processor (H14). Its tasks go to the lane inside one at a
// time: between them the queue of a device stays free for others.
#pragma once

#include <memory>

#include "lanes/machine.h"

namespace troika::lanes {

class CappedLane : public Lane {
 public:
  // The clock must outlive the lane. REQUIRES: 0 < busy_share <= 1.
  CappedLane(std::unique_ptr<Lane> inner, double busy_share, const Clock& clock);

  const LaneInfo& info() const override { return info_; }
  std::span<const int> caller_cores() const override { return inner_->caller_cores(); }
  Memory* memory() override { return inner_->memory(); }
  size_t held_bytes() const override { return inner_->held_bytes(); }
  std::string problem() const override { return inner_->problem(); }
  std::string note() const override { return inner_->note(); }
  double started_us() const override { return started_us_; }
  std::unique_ptr<Executable> build(const Subgraph& subgraph, plan::Shape shape,
                                    const weights::Store& weights,
                                    const Buffers& buffers) override {
    return inner_->build(subgraph, shape, weights, buffers);
  }
  std::span<const char* const> arrangements(plan::Shape shape) const override {
    return inner_->arrangements(shape);
  }
  // Returns when the task has ended: until the task may begin, the calling thread sleeps.
  void submit(const Executable& executable, const Run& run, Completion& completion) override;

 private:
  // Outlives the lane inside: that lane's thread may still be on its way out of `finished` when the
  // next task is submitted.
  Ended ended_;
  std::unique_ptr<Lane> inner_;
  double busy_share_;
  const Clock& clock_;
  LaneInfo info_;
  double started_us_ = -1.0;
  double rests_until_us_ = 0.0;
};

}  // namespace troika::lanes
