// The base of lanes for tests: they build nothing and get their tasks from elsewhere.
#pragma once

#include <memory>
#include <string>

#include "lanes/lane.h"

namespace troika::test {

class TestLane : public lanes::Lane {
 public:
  explicit TestLane(std::string name = "", int queue_depth = 1) {
    info_.name = std::move(name);
    info_.queue_depth = queue_depth;
  }
  const lanes::LaneInfo& info() const override { return info_; }
  std::unique_ptr<lanes::Executable> build(const lanes::Subgraph&, plan::Shape,
                                           const weights::Store&, const lanes::Buffers&) override {
    return nullptr;
  }

 private:
  lanes::LaneInfo info_;
};

}  // namespace troika::test
