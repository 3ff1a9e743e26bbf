#include "cache/kv_rows.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/error.h"

namespace troika::cache {
namespace {

KvShape small_shape(int most_slots = 1024) {
  return {.n_layers = 3,
          .n_kv_heads = 2,
          .head_dim = 32,
          .type = tensor::Type::kF16,
          .most_slots = most_slots};
}

// Makes a sequence of the tokens 0, 1, 2, ... with tags 0, 1, 0, ... and random bytes as keys and
// values.
SequenceId fill(KvCache& kv, int n_tokens, std::mt19937& random) {
  const SequenceId sequence = kv.open();
  for (int i = 0; i < n_tokens; ++i) {
    std::vector<std::byte> rows(rows_bytes(kv.shape(), 1));
    for (std::byte& b : rows) b = static_cast<std::byte>(random() & 0xff);
    const Token token = i;
    const Tag tag = static_cast<Tag>(i % 2);
    append_rows(kv, sequence, {&token, 1}, {&tag, 1}, rows);
  }
  return sequence;
}

TEST(KvRows, GoElsewhereAndComeBackWithTheirBits) {
  std::mt19937 random(1);
  KvCache from(small_shape()), to(small_shape());
  fill(from, 70, random);  // makes the slots of later sequences lie elsewhere
  const SequenceId source = fill(from, 300, random);
  const SequenceId target = to.open();
  for (const auto& [first, n] : {std::pair{0, 128}, {128, 100}, {228, 72}}) {
    std::vector<std::byte> rows(rows_bytes(from.shape(), n));
    copy_rows(from, source, first, n, rows);
    std::vector<Token> tokens;
    std::vector<Tag> tags;
    for (int i = first; i < first + n; ++i) {
      tokens.push_back(from.token_of(source, i));
      tags.push_back(from.tag_of(source, i));
    }
    append_rows(to, target, tokens, tags, rows);
  }
  ASSERT_EQ(to.length(target), 300);
  const size_t bytes = from.shape().head_bytes();
  for (int position = 0; position < 300; ++position) {
    const auto at = static_cast<size_t>(position);
    EXPECT_EQ(to.token_of(target, position), position);
    EXPECT_EQ(to.tag_of(target, position), position % 2);
    for (int layer = 0; layer < 3; ++layer) {
      for (int head = 0; head < 2; ++head) {
        const Slot a = from.slots(source)[at], b = to.slots(target)[at];
        ASSERT_EQ(std::memcmp(from.key_row(layer, a, head), to.key_row(layer, b, head), bytes), 0);
        ASSERT_EQ(std::memcmp(from.value_row(layer, a, head), to.value_row(layer, b, head), bytes),
                  0);
      }
    }
  }
}

TEST(KvRows, TakeNothingWhereThereIsNoRoom) {
  KvCache kv(small_shape(64));
  const SequenceId sequence = kv.open();
  const std::vector<Token> tokens(65, 1);
  const std::vector<Tag> tags(65, 0);
  const std::vector<std::byte> rows(rows_bytes(kv.shape(), 65));
  EXPECT_THROW(append_rows(kv, sequence, tokens, tags, rows), Error);
  EXPECT_EQ(kv.length(sequence), 0);
  EXPECT_EQ(kv.n_free(), 64);
}

}  // namespace
}  // namespace troika::cache
