#include "cache/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "cache/sequences.h"
#include "tests/support/address_limit.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/sanitized.h"
#include "tests/support/temp_folder.h"

namespace troika::cache {
namespace {

KvShape shape(int most_slots) { return {2, 2, 32, tensor::Type::kF16, most_slots}; }

// Makes a cache with sequences 0 .. n - 1.
KvCache open_cache(const KvShape& shape, int n_sequences = 1) {
  KvCache kv(shape);
  for (SequenceId s = 0; s < n_sequences; ++s) EXPECT_EQ(kv.open(), s);
  return kv;
}

std::vector<Token> tokens(int n) { return std::vector<Token>(static_cast<size_t>(n), 7); }

// Returns what a row sees, as one list.
std::vector<Slot> seen(const PlacedBatch& placed, size_t row) {
  const VisibleSlots& visible = placed.visible[row];
  std::vector<Slot> all(visible.past.begin(), visible.past.end());
  all.insert(all.end(), visible.own.begin(), visible.own.end());
  return all;
}

// Adds a chain of tokens to the end of a sequence; returns its slots.
std::vector<Slot> append(KvCache& kv, int n, SequenceId sequence = 0) {
  Batch batch;
  batch.add_chain(tokens(n), kv.length(sequence), sequence);
  PlacedBatch placed;
  kv.place(batch, &placed);
  kv.keep_all(batch, placed);
  return placed.slots;
}

// Returns the slots of a sequence: those that one more token would see.
std::vector<Slot> slots_of(KvCache& kv, SequenceId sequence) {
  Batch batch;
  batch.add_chain(tokens(1), kv.length(sequence), sequence);
  PlacedBatch placed;
  kv.place(batch, &placed);
  std::vector<Slot> slots = seen(placed, 0);
  slots.pop_back();
  kv.drop(placed);
  return slots;
}

TEST(Batch, ChainsLinkTheirRowsAndWantTheLastLogits) {
  Batch batch;
  batch.add_chain(tokens(3), 5, 2);
  batch.add_chain(tokens(2), 0, 4, /*all_logits=*/true);
  ASSERT_EQ(batch.size(), 5);
  const int parents[] = {-1, 0, 1, -1, 3};
  const int positions[] = {5, 6, 7, 0, 1};
  const bool wanted[] = {false, false, true, true, true};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(batch.rows[i].parent, parents[i]);
    EXPECT_EQ(batch.rows[i].position, positions[i]);
    EXPECT_EQ(batch.rows[i].wants_logits, wanted[i]);
    EXPECT_EQ(batch.rows[i].sequence, i < 3 ? 2 : 4);
  }
}

TEST(KvCache, AChainSeesThePastAndItself) {
  KvCache kv = open_cache(shape(100));
  const std::vector<Slot> past = append(kv, 3);
  Batch batch;
  batch.add_chain(tokens(2), 3, 0);
  PlacedBatch placed;
  kv.place(batch, &placed);
  std::vector<Slot> expected = past;
  expected.push_back(placed.slots[0]);
  EXPECT_EQ(seen(placed, 0), expected);
  expected.push_back(placed.slots[1]);
  EXPECT_EQ(seen(placed, 1), expected);
  EXPECT_EQ(kv.length(0), 3);
  kv.keep_all(batch, placed);
  EXPECT_EQ(kv.length(0), 5);
  EXPECT_EQ(slots_of(kv, 0), expected);
  EXPECT_EQ(kv.n_free(), 95);
}

TEST(KvCache, FullContextIsAnErrorAndTakesNothing) {
  KvCache kv = open_cache(shape(10));
  append(kv, 8);
  Batch batch;
  batch.add_chain(tokens(3), 8, 0);
  PlacedBatch placed;
  const std::string message = test::message_of<Error>([&] { kv.place(batch, &placed); });
  EXPECT_NE(message.find("10 tokens is full: 1 more"), std::string::npos) << message;
  EXPECT_EQ(kv.n_free(), 2);
  EXPECT_EQ(kv.length(0), 8);
  append(kv, 2);
  EXPECT_EQ(kv.n_free(), 0);
}

// Pages are handed out whole, but the context is not rounded up to them.
TEST(KvCache, TheContextNeedNotBeAMultipleOfAPage) {
  for (const int most_slots : {1, 255, 256, 257, 300, 512, 513}) {
    KvCache kv = open_cache(shape(most_slots));
    std::set<Slot> taken;
    for (int i = 0; i < most_slots; ++i) {
      EXPECT_TRUE(taken.insert(append(kv, 1)[0]).second);
    }
    EXPECT_EQ(kv.n_free(), 0);
    EXPECT_THROW(append(kv, 1), Error) << most_slots;
    EXPECT_EQ(kv.bytes(),
              static_cast<size_t>((most_slots + 255) / 256 * 256) * kv.shape().bytes_per_token());
    kv.truncate(0, 0);
    EXPECT_EQ(kv.n_free(), most_slots);
    append(kv, most_slots);
  }
}

// Pages do not move when the cache grows, rows of one slot do not overlap those of another, and
// row pointers agree with the page tables.
TEST(KvCache, GrowthKeepsWhatWasWritten) {
  KvCache kv = open_cache(shape(1000));
  const size_t bytes = kv.shape().head_bytes();
  const int n_heads = kv.shape().n_kv_heads;
  std::vector<Slot> slots;
  EXPECT_EQ(kv.bytes(), 0u);
  for (const int n : {1, 254, 2, 300, 443}) {
    for (const Slot slot : append(kv, n)) {
      const auto mark = static_cast<int>(slots.size() % 61);
      for (int layer = 0; layer < 2; ++layer) {
        for (int head = 0; head < n_heads; ++head) {
          std::memset(kv.key_row(layer, slot, head), mark + 70 * layer + head, bytes);
          std::memset(kv.value_row(layer, slot, head), mark + 70 * layer + 110 + head, bytes);
        }
      }
      slots.push_back(slot);
    }
  }
  EXPECT_EQ(kv.bytes(), 1024 * kv.shape().bytes_per_token());
  bool as_written = true;
  for (size_t i = 0; i < slots.size(); ++i) {
    const Slot slot = slots[i];
    for (int layer = 0; layer < 2; ++layer) {
      for (int head = 0; head < n_heads; ++head) {
        const std::byte* key = kv.key_row(layer, slot, head);
        const std::byte* value = kv.value_row(layer, slot, head);
        const int mark = static_cast<int>(i % 61) + 70 * layer + head;
        for (size_t b = 0; b < bytes; ++b) {
          as_written = as_written && key[b] == static_cast<std::byte>(mark) &&
                       value[b] == static_cast<std::byte>(mark + 110);
        }
        const size_t offset = kv.head_offset_bytes(head) + (slot & 255) * bytes;
        EXPECT_EQ(kv.key_pages(layer)[slot >> KvCache::kPageSlotsLog2] + offset, key);
        EXPECT_EQ(kv.value_pages(layer)[slot >> KvCache::kPageSlotsLog2] + offset, value);
      }
    }
  }
  EXPECT_TRUE(as_written);
}

TEST(KvCache, ForkedSequencesShareSlotsUntilTheLastUserLetsGo) {
  KvCache kv = open_cache(shape(100), 3);
  const std::vector<Slot> slots = append(kv, 10);
  kv.fork(0, 1, 6);
  kv.fork(1, 2, 4);
  EXPECT_EQ(kv.n_free(), 90);
  EXPECT_EQ(kv.length(1), 6);
  EXPECT_EQ(slots_of(kv, 2), std::vector<Slot>(slots.begin(), slots.begin() + 4));
  append(kv, 2, 1);
  append(kv, 1, 2);
  EXPECT_EQ(kv.n_free(), 87);
  kv.truncate(0, 0);  // frees the 4 of 10 slots that only sequence 0 had
  EXPECT_EQ(kv.n_free(), 91);
  kv.truncate(1, 5);
  EXPECT_EQ(kv.n_free(), 94);
  kv.truncate(1, 2);  // sequence 2 keeps the third and fourth slot
  EXPECT_EQ(kv.n_free(), 95);
  kv.truncate(2, 0);
  EXPECT_EQ(kv.n_free(), 98);
  kv.truncate(1, 0);
  EXPECT_EQ(kv.n_free(), 100);
}

TEST(KvCache, ForkReplacesTheTargetsTokens) {
  KvCache kv = open_cache(shape(20), 2);
  append(kv, 3, 0);
  append(kv, 5, 1);
  kv.fork(0, 1, 3);
  EXPECT_EQ(kv.n_free(), 17);
  EXPECT_EQ(slots_of(kv, 1), slots_of(kv, 0));
  kv.fork(0, 1, 0);
  EXPECT_EQ(kv.length(1), 0);
}

TEST(KvCache, MoreSequencesThanSixteenBitsCountMayShareASlot) {
  KvCache kv = open_cache(shape(4), 65537);
  append(kv, 1, 0);
  constexpr int kForks = 65536;
  for (int i = 1; i <= kForks; ++i) kv.fork(0, i, 1);
  for (int i = 1; i <= kForks; ++i) kv.truncate(i, 0);
  EXPECT_EQ(kv.n_free(), 3);
  kv.truncate(0, 0);
  EXPECT_EQ(kv.n_free(), 4);
}

TEST(KvCache, TruncateToMoreThanThereIsChangesNothing) {
  KvCache kv = open_cache(shape(20));
  append(kv, 3);
  kv.truncate(0, 5);
  EXPECT_EQ(kv.length(0), 3);
}

// Makes a batch of these trees and of a chain of another sequence:
//      0 - 1 - 3
//       \   \- 4 - 5
//        2 - 6
//      7 - 8
Batch tree(int position) {
  Batch batch;
  const int parents[] = {-1, 0, 0, 1, 1, 4, 2, -1, 7};
  for (const int parent : parents) {
    const int depth = parent < 0 ? position : batch.rows[static_cast<size_t>(parent)].position + 1;
    batch.rows.push_back({7, depth, 0, parent, true});
  }
  batch.add_chain(tokens(2), 0, 5);
  return batch;
}

TEST(KvCache, TreesSeeTheirAncestorsInOrder) {
  KvCache kv = open_cache(shape(100), 6);
  const std::vector<Slot> past = append(kv, 4);
  const Batch batch = tree(4);
  PlacedBatch placed;
  kv.place(batch, &placed);
  const std::vector<std::vector<size_t>> paths = {
      {0}, {0, 1}, {0, 2}, {0, 1, 3}, {0, 1, 4}, {0, 1, 4, 5}, {0, 2, 6}, {7}, {7, 8}};
  for (size_t row = 0; row < paths.size(); ++row) {
    std::vector<Slot> expected = past;
    for (const size_t i : paths[row]) expected.push_back(placed.slots[i]);
    EXPECT_EQ(seen(placed, row), expected) << row;
  }
  EXPECT_EQ(seen(placed, 9), std::vector<Slot>{placed.slots[9]});
  EXPECT_EQ(seen(placed, 10), (std::vector<Slot>{placed.slots[9], placed.slots[10]}));

  kv.keep(batch, placed, std::vector<int>{0, 1, 4, 9, 10});
  EXPECT_EQ(kv.n_free(), 100 - 4 - 3 - 2);
  std::vector<Slot> kept = past;
  for (const size_t i : {0, 1, 4}) kept.push_back(placed.slots[i]);
  EXPECT_EQ(slots_of(kv, 0), kept);
  EXPECT_EQ(kv.length(5), 2);
}

TEST(KvCache, ADroppedPlacementLeavesNothing) {
  KvCache kv = open_cache(shape(100), 6);
  append(kv, 4);
  const Batch batch = tree(4);
  PlacedBatch placed;
  kv.place(batch, &placed);
  EXPECT_EQ(kv.n_free(), 96 - batch.size());
  kv.drop(placed);
  EXPECT_EQ(kv.n_free(), 96);
  EXPECT_EQ(kv.length(0), 4);
  EXPECT_EQ(kv.length(5), 0);
}

// Random trees must see what walking up the parents finds.
TEST(KvCache, RandomTreesOfSeveralSequences) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    KvCache kv = open_cache(shape(400), 3);
    uint64_t counter = 0;
    const auto below = [&](int n) {
      return static_cast<int>(random_bits(seed, counter++) % static_cast<uint64_t>(n));
    };
    std::vector<std::vector<Slot>> past;
    past.reserve(3);
    for (SequenceId s = 0; s < 3; ++s) past.push_back(append(kv, below(5) + 1, s));
    const int n_before = kv.n_free();
    Batch batch;
    for (int row = 0; row < 60; ++row) {
      // Half of the rows follow the row before, as in chains.
      const int parent = row > 0 && below(2) == 0 ? row - 1 : below(row + 1) - 1;
      const SequenceId s = parent < 0 ? below(3) : batch.rows[static_cast<size_t>(parent)].sequence;
      const int position =
          parent < 0 ? kv.length(s) : batch.rows[static_cast<size_t>(parent)].position + 1;
      batch.rows.push_back({7, position, s, parent, true});
    }
    PlacedBatch placed;
    kv.place(batch, &placed);
    for (int row = 0; row < batch.size(); ++row) {
      std::vector<Slot> path;
      for (int i = row; i >= 0; i = batch.rows[static_cast<size_t>(i)].parent) {
        path.push_back(placed.slots[static_cast<size_t>(i)]);
      }
      const auto index = static_cast<size_t>(row);
      std::vector<Slot> expected = past[static_cast<size_t>(batch.rows[index].sequence)];
      expected.insert(expected.end(), path.rbegin(), path.rend());
      ASSERT_EQ(seen(placed, index), expected) << "seed " << seed << " row " << row;
    }
    kv.drop(placed);
    EXPECT_EQ(kv.n_free(), n_before);
  }
}

TEST(KvCache, ATextAtItsLimitIsAnotherErrorThanACacheThatIsFull) {
  KvShape small = shape(20);
  small.most_positions = 12;
  KvCache kv = open_cache(small, 2);
  append(kv, 10, 0);
  const auto error_of = [&](SequenceId sequence) {
    return test::message_of<Error>([&] { append(kv, 5, sequence); });
  };
  EXPECT_NE(error_of(0).find("context of 12 tokens is full: 3 more"), std::string::npos);
  append(kv, 6, 1);
  EXPECT_NE(error_of(1).find("20 tokens together, and it is taken: 1 more"), std::string::npos);
  EXPECT_EQ(kv.n_free(), 4);
  append(kv, 2, 0);
  EXPECT_EQ(kv.length(0), 12);
}

TEST(KvCache, NumbersOfClosedSequencesAreGivenAgain) {
  KvCache kv = open_cache(shape(100), 3);
  append(kv, 4, 1);
  append(kv, 5, 2);
  kv.close(1);
  EXPECT_EQ(kv.n_free(), 95);
  EXPECT_FALSE(kv.is_open(1));
  EXPECT_FALSE(kv.is_open(3));
  EXPECT_EQ(kv.open(), 1);
  EXPECT_EQ(kv.length(1), 0);
  EXPECT_EQ(kv.open(), 3);
}

TEST(KvCache, SlotsSayWhatTheyHold) {
  KvCache kv = open_cache(shape(100), 2);
  Batch batch;
  batch.add_chain(std::vector<Token>{5, 6}, 0, 0, false, /*tag=*/9);
  batch.add_chain(std::vector<Token>{7}, 0, 1, false, /*tag=*/3);
  PlacedBatch placed;
  kv.place(batch, &placed);
  kv.keep_all(batch, placed);
  kv.fork(0, 1, 1);
  append(kv, 1, 1);
  const Token expected_tokens[] = {5, 7};
  const Tag expected_tags[] = {9, 0};
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(kv.token_of(1, i), expected_tokens[i]);
    EXPECT_EQ(kv.tag_of(1, i), expected_tags[i]);
  }
  EXPECT_EQ(kv.n_common(0, std::vector<Token>{5, 6, 7}, std::vector<Tag>{9, 9, 9}), 2);
  EXPECT_EQ(kv.n_common(0, std::vector<Token>{5, 6, 7}, std::vector<Tag>{9, 8, 9}), 1);
  EXPECT_EQ(kv.n_common(0, std::vector<Token>{4, 6, 7}, std::vector<Tag>{9, 9, 9}), 0);
}

// The slots of a sequence stay neighbours, because attention reads them faster than slots that
// alternate.
TEST(KvCache, SequencesThatGrowSideBySideStayApart) {
  constexpr int kSequences = 4;
  KvCache kv = open_cache(shape(4 * 512), kSequences);
  for (SequenceId s = 0; s < kSequences; ++s) append(kv, 10 + 50 * s, s);
  for (int step = 0; step < 300; ++step) {
    for (SequenceId s = 0; s < kSequences; ++s) append(kv, 1, s);
  }
  for (SequenceId s = 0; s < kSequences; ++s) {
    const std::span<const Slot> slots = kv.slots(s);
    int n_jumps = 0;
    for (size_t i = 1; i < slots.size(); ++i) n_jumps += slots[i] != slots[i - 1] + 1;
    EXPECT_LE(n_jumps, kv.length(s) / 64) << s;
  }
}

// Both sequences could go on in the same last free slot.
TEST(KvCache, ForksThatShareTheirLastPageGoOnInAnother) {
  KvCache kv = open_cache(shape(300), 2);
  append(kv, 255);
  kv.fork(0, 1, 255);
  Batch batch;
  batch.add_chain(tokens(1), 255, 0);
  batch.add_chain(tokens(1), 255, 1);
  PlacedBatch placed;
  kv.place(batch, &placed);
  EXPECT_NE(placed.slots[0], placed.slots[1]);
  kv.keep_all(batch, placed);
  EXPECT_EQ(kv.bytes(), 512 * kv.shape().bytes_per_token());
}

// Steps, drafts and cuts of several sequences allocate nothing, because pages are taken between
// them.
TEST(KvCache, StepsAllocateNothing) {
  if (!test::AllocationCounter::is_on()) GTEST_SKIP() << "Sanitizers count allocations themselves.";
  constexpr int kSequences = 6;
  KvCache kv = open_cache(shape(4000), kSequences);
  PlacedBatch placed;
  placed.reserve(64, 64);
  const std::vector<int> kept = {0, 1, 4, 9, 10};
  for (int step = 0; step < 100; ++step) {
    kv.truncate(5, 0);
    const Batch drafts = tree(kv.length(0));
    Batch plain, next;
    for (SequenceId s = 1; s < 5; ++s) {
      plain.add_chain(tokens(2), kv.length(s), s);
      next.add_chain(tokens(1), kv.length(s) + 2, s);
    }
    Batch later;
    later.add_chain(tokens(1000), kv.length(0), 0);
    kv.reserve_for(later);
    const test::AllocationCounter counter;
    kv.place(drafts, &placed);
    kv.keep(drafts, placed, kept);
    kv.place(plain, &placed);
    kv.keep_all(plain, placed);
    kv.place(next, &placed);
    kv.drop(placed);
    kv.truncate(1, kv.length(1) - 1);
    kv.fork(2, 3, kv.length(2));
    ASSERT_EQ(counter.n_allocations(), 0) << "step " << step;
  }
  EXPECT_GT(kv.bytes(), 3 * 256 * kv.shape().bytes_per_token());
  const test::AllocationCounter counter;
  kv.open();
  EXPECT_GT(counter.n_allocations(), 0);
}

TEST(KvCache, AFormatThatDoesNotDivideTheHeadsIsAnError) {
  KvShape bad = {1, 1, 48, tensor::Type::kQ8_0, 10};
  const std::string message = test::message_of<Error>([&] { KvCache kv(bad); });
  EXPECT_NE(message.find("‹kv› f16"), std::string::npos) << message;
  bad.head_dim = 64;
  KvCache good(bad);
  EXPECT_EQ(good.shape().slot_bytes(), 68u);
}

TEST(KvCache, TakesItsPagesFromASourceAtEqualDistances) {
  const KvShape of = {2, 3, 32, tensor::Type::kF16, 600};
  size_t asked = 0;
  std::shared_ptr<std::byte> given;
  {
    KvCache kv(of, [&](size_t bytes) {
      asked = bytes;
      given = std::shared_ptr<std::byte>(new std::byte[bytes], std::default_delete<std::byte[]>());
      return given;
    });
    EXPECT_EQ(asked, 3 * 256 * of.bytes_per_token());
    EXPECT_EQ(kv.bytes(), 0u);
    Batch batch;
    batch.add_chain(tokens(600), 0, kv.open());
    kv.reserve_for(batch);
    EXPECT_EQ(kv.bytes(), asked);
    const size_t stride = kv.page_stride_bytes();
    EXPECT_EQ(stride, 256 * of.bytes_per_token());
    for (int layer = 0; layer < 2; ++layer) {
      for (size_t page = 0; page < 3; ++page) {
        EXPECT_EQ(kv.key_pages(layer)[page], kv.key_pages(layer)[0] + page * stride);
        EXPECT_EQ(kv.value_pages(layer)[page], kv.value_pages(layer)[0] + page * stride);
        EXPECT_GE(kv.key_pages(layer)[page], given.get());
        EXPECT_LE(kv.value_pages(layer)[page] + 256 * of.slot_bytes(), given.get() + asked);
      }
    }
    EXPECT_GT(given.use_count(), 1);
  }
  EXPECT_EQ(given.use_count(), 1);
  EXPECT_EQ(KvCache(of).page_stride_bytes(), 0u);
  const PageSource none = [](size_t) { return std::shared_ptr<std::byte>(); };
  EXPECT_THROW(KvCache(of, none), Error);
}

// A device's driver may take all of a piece at once, and not have as much as many texts need.
TEST(KvCache, TakesLessFromASourceAsLongAsItHoldsAText) {
  KvShape of = {2, 3, 32, tensor::Type::kF16, 64 * 600};
  of.most_positions = 600;
  const size_t page = 256 * of.bytes_per_token();
  const auto slots_where = [&](size_t most_bytes) {
    const KvCache kv(of, [&](size_t bytes) {
      return bytes > most_bytes ? std::shared_ptr<std::byte>()
                                : std::shared_ptr<std::byte>(new std::byte[bytes],
                                                             std::default_delete<std::byte[]>());
    });
    EXPECT_EQ(kv.n_limit(), kv.shape().most_slots);
    return kv.shape().most_slots;
  };
  EXPECT_EQ(slots_where(SIZE_MAX), 64 * 600);
  EXPECT_EQ(slots_where(100 * page), 75 * 256);
  EXPECT_EQ(slots_where(3 * page), 3 * 256);
  const std::string message = test::message_of<Error>([&] { slots_where(3 * page - 1); });
  EXPECT_NE(message.find("Use a smaller ‹context›"), std::string::npos) << message;
}

// A sequence reserves a list for a whole context.
TEST(KvCache, ASequenceWithoutMemoryLeavesNoNumberBehind) {
  if (test::kIsSanitized) GTEST_SKIP() << "sanitizers end the program that asks for so much";
  KvShape wide = shape(256);
  wide.most_positions = 1 << 28;  // a list of 1 GB
  KvCache kv(wide);
  Sequences sequences(kv, 1);
  {
    const test::AddressLimit limit(uint64_t{256} << 20);
    if (!limit.is_held()) GTEST_SKIP() << "the system does not keep to the limit";
    EXPECT_THROW(sequences.open(), std::bad_alloc);
  }
  EXPECT_EQ(kv.sequence_end(), 0);
  EXPECT_EQ(sequences.open(), 0);
}

}  // namespace
}  // namespace troika::cache
