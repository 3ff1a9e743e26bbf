#include "prepare/streaming/weight_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace troika::prepare {
namespace {

// Returns parts of the sizes of one block, block after block.
WeightParts parts_of(const std::vector<std::vector<size_t>>& blocks) {
  WeightParts parts;
  for (size_t block = 0; block < blocks.size(); ++block) {
    for (const size_t bytes : blocks[block]) {
      parts.of_blocks.push_back({static_cast<int>(block), {}, bytes});
    }
  }
  parts.of_none.bytes = 50;
  parts.mapped_bytes = 20;
  return parts;
}

WeightParts equal_blocks(size_t n) {
  return parts_of(std::vector<std::vector<size_t>>(n, {23, 33, 33, 33}));
}

// The parts of a block at work and of the next one must never share a slot, or reading would wait
// for computing.
void expect_next_block_has_room(const WeightParts& parts, const Turns& turns) {
  const size_t n = turns.slot_bytes.size();
  for (size_t i = 0; i < turns.order.size(); ++i) {
    const int block = parts.of_blocks[turns.order[i]].block;
    EXPECT_GE(turns.slot_bytes[i % n], parts.of_blocks[turns.order[i]].bytes);
    const auto next = std::find_if(turns.order.begin(), turns.order.end(), [&](size_t part) {
      return parts.of_blocks[part].block > block;
    });
    for (size_t j = i + 1; j < turns.order.size(); ++j) {
      const int other = parts.of_blocks[turns.order[j]].block;
      const bool are_neighbours =
          other == block || (next != turns.order.end() && other == parts.of_blocks[*next].block);
      if (!are_neighbours) continue;
      EXPECT_NE(i % n, j % n) << i << " and " << j << " of " << n << " slots";
    }
  }
}

// Slots of small parts are small where few parts take turns.
TEST(WeightParts, P10TheLeastMemoryMayBeThatOfFewerParts) {
  const WeightParts parts = parts_of({{1}, {10}, {1}, {1}, {10}, {1}});
  // The first and the fourth stay. If all took turns, both slots would be large.
  const Turns turns = least_turns(parts);
  EXPECT_EQ(turns.order, (std::vector<size_t>{1, 2, 4, 5}));
  EXPECT_EQ(turns.slot_bytes, (std::vector<size_t>{10, 1}));
  EXPECT_EQ(turns.bytes(), 20u + 50u + 2u + 11u);
}

TEST(WeightParts, P10TheLeastMemoryIsThatOfTwoBlocks) {
  const WeightParts parts = equal_blocks(8);
  EXPECT_EQ(parts.whole_bytes(), 20u + 50u + 8u * 122u);
  const Turns turns = least_turns(parts);
  EXPECT_EQ(turns.kept_bytes, 20u + 50u);
  EXPECT_EQ(turns.shared_bytes(), 2u * 122u);
  EXPECT_EQ(turns.order.size(), 32u);
  EXPECT_EQ(turning_bytes(parts, turns), 8u * 122u);
  expect_next_block_has_room(parts, turns);
}

TEST(WeightParts, P10HalfOfEachBlockNeedsHalfOfTheSlots) {
  const WeightParts parts = equal_blocks(8);
  // Two of four parts of each block take turns, of 33 bytes each.
  const size_t kept = 20 + 50 + 8 * (23 + 33);
  const Turns turns = choose_turns(parts, kept + 4 * 33);
  EXPECT_EQ(turns.order.size(), 16u);
  EXPECT_EQ(turns.kept_bytes, kept);
  EXPECT_EQ(turns.slot_bytes, std::vector<size_t>(4, 33));
  std::map<int, int> n_of_block;
  for (const size_t part : turns.order) ++n_of_block[parts.of_blocks[part].block];
  for (const auto& [block, n] : n_of_block) EXPECT_EQ(n, 2) << block;
  expect_next_block_has_room(parts, turns);
}

TEST(WeightParts, P10NothingTakesTurnsWhereAllFits) {
  const WeightParts parts = equal_blocks(3);
  const Turns turns = choose_turns(parts, parts.whole_bytes());
  EXPECT_TRUE(turns.order.empty());
  EXPECT_EQ(turns.bytes(), parts.whole_bytes());
}

TEST(WeightParts, P10MoreMemoryNeverMeansMoreReading) {
  const std::vector<std::vector<std::vector<size_t>>> models = {
      std::vector<std::vector<size_t>>(6, {23, 33, 33, 33}),
      {{10, 40}, {10, 40, 40}, {10, 40}, {30}, {10, 40, 40}, {10}},
      {{5}, {5}, {5}, {5}, {5}, {5}, {5}},
      {{}, {8, 8}, {}, {8, 8}, {8}},
  };
  for (const auto& blocks : models) {
    const WeightParts parts = parts_of(blocks);
    size_t last = turning_bytes(parts, least_turns(parts));
    for (size_t most = least_turns(parts).bytes(); most <= parts.whole_bytes(); ++most) {
      const Turns turns = choose_turns(parts, most);
      EXPECT_LE(turns.bytes(), most);
      EXPECT_EQ(turns.kept_bytes + turning_bytes(parts, turns), parts.whole_bytes());
      EXPECT_LE(turning_bytes(parts, turns), last) << most;
      last = turning_bytes(parts, turns);
      expect_next_block_has_room(parts, turns);
    }
    EXPECT_EQ(last, 0u);
  }
}

}  // namespace
}  // namespace troika::prepare
