// A machine on which a seed chooses which of the tasks under way ends next. They compute on the
// lanes of another machine, one at a time, so that every seed is an order that can be had again.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"
#include "lanes/machine.h"

namespace troika::test {

class RandomMachine : public lanes::Machine {
 public:
  RandomMachine(lanes::Machine& inner, uint64_t seed) : inner_(inner), seed_(seed) {
    for (lanes::Lane* lane : inner.lanes()) owned_.push_back(std::make_unique<Waiting>(lane));
    for (const auto& lane : owned_) lanes_.push_back(lane.get());
  }
  std::span<lanes::Lane* const> lanes() const override { return lanes_; }
  const Clock& clock() const override { return inner_.clock(); }
  void wait(const lanes::Latch& latch) override {
    while (!latch.is_open()) {
      std::vector<Waiting*> busy;
      for (const auto& lane : owned_) {
        if (lane->completion != nullptr) busy.push_back(lane.get());
      }
      ASSERT_FALSE(busy.empty());
      Waiting& lane = *busy[random_bits(seed_, n_drawn_++) % busy.size()];
      lanes::Ended& ended = ended_.emplace_back();
      lane.inner->submit(*lane.executable, *lane.run, ended);
      inner_.wait(ended.latch);
      std::exchange(lane.completion, nullptr)->finished(ended.status);
    }
  }

 private:
  struct Waiting : lanes::Lane {
    explicit Waiting(lanes::Lane* inner) : inner(inner) {}
    const lanes::LaneInfo& info() const override { return inner->info(); }
    std::unique_ptr<lanes::Executable> build(const lanes::Subgraph&, plan::Shape,
                                             const weights::Store&,
                                             const lanes::Buffers&) override {
      return nullptr;
    }
    void submit(const lanes::Executable& task, const lanes::Run& with,
                lanes::Completion& told) override {
      ASSERT_EQ(completion, nullptr) << "two tasks at once";
      executable = &task;
      run = &with;
      completion = &told;
    }
    lanes::Lane* inner;
    const lanes::Executable* executable = nullptr;
    const lanes::Run* run = nullptr;
    lanes::Completion* completion = nullptr;
  };

  lanes::Machine& inner_;
  uint64_t seed_;
  uint64_t n_drawn_ = 0;
  std::vector<std::unique_ptr<Waiting>> owned_;
  std::vector<lanes::Lane*> lanes_;
  std::deque<lanes::Ended> ended_;  // a lane may still be in the call that opened a latch
};

}  // namespace troika::test
