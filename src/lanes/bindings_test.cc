#include "lanes/bindings.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/error.h"
#include "lanes/memory.h"
#include "lanes/subgraph.h"
#include "model/architecture.h"
#include "tests/support/tiny_model.h"
#include "weights/switched_blocks.h"

namespace troika::lanes {
namespace {

// A memory like a driver's shared buffers, whose pieces are given back.
class SharedMemory : public Memory {
 public:
  std::byte* allocate(size_t bytes) override {
    piece_.assign(bytes, std::byte{0});
    return piece_.data();
  }
  void free(std::byte* begin) noexcept override { n_freed += begin == piece_.data() ? 1 : 0; }
  const std::byte* begin() const { return piece_.data(); }
  size_t size() const { return piece_.size(); }
  int n_freed = 0;

 private:
  std::vector<std::byte> piece_;
};

TEST(Buffers, ValuesLieInTheMemoryOfALane) {
  model::Blueprint blueprint;
  blueprint.values = {{"x", 5, false}, {"y", 33, false}, {"logits", 7, true}};
  blueprint.logits = 2;
  SharedMemory memory;
  {
    const Buffers buffers(blueprint, 9, 3, true, 2, &memory);
    EXPECT_EQ(memory.size(), Buffers::bytes_for(blueprint, 9, 3, 2));
    EXPECT_EQ(buffers.bytes(), memory.size());
    const std::byte* last = memory.begin();
    for (int set = 0; set < 2; ++set) {
      for (model::ValueId id = 0; id < 3; ++id) {
        const View view = buffers.view(id, set);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(view.address) % 64, 0u);
        EXPECT_GE(view.address, last);  // lies behind the value before
        const size_t n_rows = id == 2 ? 3 : 9;
        last = view.address + n_rows * static_cast<size_t>(buffers.width(id)) * sizeof(float);
        EXPECT_LE(last, memory.begin() + memory.size());
        EXPECT_EQ(view.floats(),
                  buffers.view(id).floats() + static_cast<size_t>(set) * buffers.set_stride());
      }
    }
  }
  EXPECT_EQ(memory.n_freed, 1);
}

// A lane without memory is refused in a sentence.
TEST(Buffers, NoMemoryIsASentence) {
  struct NoMemory : PlainMemory {
    std::byte* allocate(size_t) override { return nullptr; }
  } none;
  model::Blueprint blueprint;
  blueprint.values = {{"logits", 7, true}};
  blueprint.logits = 0;
  EXPECT_THROW(Buffers(blueprint, 1, 1, true, 1, &none), Error);
}

TEST(TaskBindings, TakeAllLeasesAndGiveThemBack) {
  test_support::TinyModel model = test_support::tiny_model("llama");
  model.type = test_support::kQ4_0;
  const std::vector<uint8_t> bytes = test_support::tiny_model_bytes(model);
  const gguf::File file = gguf::File::parse(std::as_bytes(std::span(bytes)), "tiny");
  const model::Blueprint blueprint = model::read(file);
  weights::Store store(file, blueprint);
  auto made = std::make_unique<weights::SwitchedBlocks>(blueprint, store, file);
  weights::SwitchedBlocks& blocks = *made;
  store.set_switched(std::move(made));
  const std::vector<model::WeightId> ids = weights::prompt_matrices(blueprint);
  TaskBindings bindings;
  EXPECT_TRUE(bindings.empty());
  EXPECT_TRUE(bindings.acquire(store));
  EXPECT_EQ(bindings.add(ids[0]), 0);
  EXPECT_EQ(bindings.add(ids[1]), 1);
  EXPECT_FALSE(bindings.acquire(store));  // no block is in memory yet
  std::vector<weights::FileRead> reads;
  (void)blocks.use(blocks.begin_rows(0, &reads));
  EXPECT_TRUE(bindings.acquire(store));
  EXPECT_EQ(bindings.lease(1).rows(), blocks.find(ids[1])->rows);
  TaskBindings other = bindings.unbound();
  EXPECT_FALSE(other.lease(1).is_ready());
  EXPECT_TRUE(other.acquire(store));
  EXPECT_EQ(other.lease(1).rows(), bindings.lease(1).rows());
  bindings.give_back();
  EXPECT_FALSE(bindings.lease(1).is_ready());
}

}  // namespace
}  // namespace troika::lanes
