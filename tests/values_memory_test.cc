// Values lie in the memory of a lane if the lane has its own.
#include <gtest/gtest.h>

#include "forge/hollow.h"
#include "model/architecture.h"
#include "model/known.h"
#include "schedule/graphs.h"
#include "tests/support/null_lane.h"

namespace troika::schedule {
namespace {

// Plain memory that knows which addresses it gave, as a driver's memory does.
class NamedMemory : public lanes::PlainMemory {
 public:
  std::byte* allocate(size_t bytes) override {
    begin_ = lanes::PlainMemory::allocate(bytes);
    size_ = bytes;
    return begin_;
  }
  bool holds(const void* address) const { return address >= begin_ && address < begin_ + size_; }

 private:
  std::byte* begin_ = nullptr;
  size_t size_ = 0;
};

class OwningLane : public test::NullLane {
 public:
  using NullLane::NullLane;
  lanes::Memory* memory() override { return &own; }
  NamedMemory own;
};

class TwoLanes : public lanes::Machine {
 public:
  std::span<lanes::Lane* const> lanes() const override { return lanes_; }
  const Clock& clock() const override { return clock_; }
  void wait(const lanes::Latch&) override {}

  test::NullLane plain{"plain"};
  OwningLane owning{"owning"};

 private:
  RealClock clock_;
  std::vector<lanes::Lane*> lanes_ = {&plain, &owning};
};

TEST(Graphs, ValuesLieWhereTheLaneThatOwnsMemoryMapsThem) {
  const forge::HollowModel hollow(model::get_known("tiny-llama"), "q8_0");
  const gguf::File file = hollow.open();
  const model::Blueprint blueprint = model::read(file);
  const weights::Store weights(file, blueprint);
  plan::Plan plan;
  plan.lanes = {{}, {}};
  plan.context = 4096;
  TwoLanes machine;
  const Graphs graphs(blueprint, plan, machine, weights);
  ASSERT_GT(graphs.n_sets(), 1);
  for (int set = 0; set < graphs.n_sets(); ++set) {
    EXPECT_TRUE(machine.owning.own.holds(graphs.logits(set))) << set;
  }
}

}  // namespace
}  // namespace troika::schedule
