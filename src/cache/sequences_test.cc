#include "cache/sequences.h"

#include <gtest/gtest.h>

namespace troika::cache {
namespace {

using Tokens = std::vector<Token>;
using Tags = std::vector<Tag>;

class SequencesTest : public testing::Test {
 protected:
  Sequences::Begun begin(const Tokens& tokens, int granule = 1) {
    return sequences_.begin(tokens, Tags(tokens.size(), 0), granule);
  }

  // Computes the rest of a text.
  void compute(SequenceId sequence, const Tokens& tokens, Tag tag = 0) {
    const int n = kv_.length(sequence);
    Batch batch;
    batch.add_chain(std::span(tokens).subspan(static_cast<size_t>(n)), n, sequence, false, tag);
    PlacedBatch placed;
    kv_.place(batch, &placed);
    kv_.keep_all(batch, placed);
  }

  SequenceId text(const Tokens& tokens) {
    const SequenceId sequence = begin(tokens).sequence;
    compute(sequence, tokens);
    return sequence;
  }

  KvCache kv_{{1, 1, 32, tensor::Type::kF16, 100, 50}};
  Sequences sequences_{kv_, 2};
};

TEST_F(SequencesTest, ANewTextSharesTheLongestBeginning) {
  const SequenceId a = text({1, 2, 3, 4, 5, 6});
  const SequenceId b = text({1, 2, 7, 8});
  EXPECT_EQ(kv_.n_free(), 100 - 6 - 2);
  const Sequences::Begun begun = begin({1, 2, 3, 4, 9});
  EXPECT_EQ(begun.n_reused, 4);
  EXPECT_NE(begun.sequence, a);
  EXPECT_NE(begun.sequence, b);
  EXPECT_EQ(kv_.n_free(), 92);
  EXPECT_EQ(kv_.slots(begun.sequence)[3], kv_.slots(a)[3]);
  EXPECT_EQ(begin({2}).n_reused, 0);
}

TEST_F(SequencesTest, OwnersTakeOverNothingFromEachOther) {
  const Tokens tokens = {1, 2, 3, 4, 5};
  const Tags tags(tokens.size(), 0);
  const SequenceId a = sequences_.begin(tokens, tags, 1, 1).sequence;
  compute(a, tokens);
  EXPECT_EQ(sequences_.begin(tokens, tags, 1, 2).n_reused, 0);
  EXPECT_EQ(begin(tokens).n_reused, 0);
  EXPECT_EQ(sequences_.begin(tokens, tags, 1, 1).n_reused, 4);
  // A copy has the owner of its source, and so has the next text of the same conversation.
  const SequenceId copy = sequences_.copy(a);
  sequences_.forget(a);
  EXPECT_EQ(sequences_.longest_prefix(tokens, tags, 1, 1).length, 5);
  const Tokens other = {7, 8};
  const SequenceId again = sequences_.begin_again(copy, other, Tags(2, 0), 1).sequence;
  compute(again, other);
  EXPECT_EQ(sequences_.longest_prefix(other, Tags(2, 0), 1, 1).length, 2);
  EXPECT_EQ(sequences_.longest_prefix(other, Tags(2, 0), 1, 2).length, 0);
  // A place that another owner had before is the new owner's.
  sequences_.forget(again);
  const SequenceId next = sequences_.open(2);
  compute(next, tokens);
  EXPECT_EQ(sequences_.longest_prefix(tokens, tags, 1, 2).length, 5);
}

TEST_F(SequencesTest, TheLastTokenIsComputedAlways) {
  text({1, 2, 3});
  EXPECT_EQ(begin({1, 2, 3}).n_reused, 2);
  EXPECT_EQ(begin({1}).n_reused, 0);
}

TEST_F(SequencesTest, WholeGranulesAreReused) {
  text({1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(begin({1, 2, 3, 4, 5, 6, 9}, 4).n_reused, 4);
  // The last token must be computed, so its granule is not reused.
  EXPECT_EQ(begin({1, 2, 3, 4}, 4).n_reused, 0);
}

// A step has computed the second half of the answer, but a fresh prompt would not use steps.
TEST_F(SequencesTest, OnlyWhatAFreshPromptWouldGiveIsReused) {
  const SequenceId answer = text({1, 2, 3});
  compute(answer, {1, 2, 3, 4, 5}, /*tag=*/1);
  const Tokens next = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(sequences_.begin(next, Tags(6, 0), 1).n_reused, 3);
  EXPECT_EQ(sequences_.begin(next, Tags{0, 0, 0, 1, 0, 0}, 1).n_reused, 4);
  EXPECT_EQ(sequences_.begin(next, Tags{0, 0, 0, 1, 1, 1}, 1).n_reused, 5);
  EXPECT_EQ(sequences_.begin(next, Tags{1, 0, 0, 1, 1, 1}, 1).n_reused, 0);
}

TEST_F(SequencesTest, AnIdleTextThatGoesOnIsTakenOver) {
  const SequenceId a = text({1, 2, 3});
  sequences_.release(a);
  EXPECT_EQ(begin({1, 2, 4}).n_reused, 2);  // takes a part of the text, so it is a fork
  EXPECT_TRUE(sequences_.is_idle(a));
  const Sequences::Begun begun = begin({1, 2, 3, 4});
  EXPECT_EQ(begun.sequence, a);
  EXPECT_EQ(begun.n_reused, 3);
  EXPECT_FALSE(sequences_.is_idle(a));
  EXPECT_NE(begin({1, 2, 3, 4}).sequence, a);  // is busy now
}

TEST_F(SequencesTest, IdleOnesGoWhenNobodyAskedForThem) {
  const SequenceId a = text({1, 2, 3}), b = text({4, 5}), c = text({6, 7, 8});
  sequences_.release(a);
  sequences_.release(b);
  EXPECT_EQ(begin({1, 2, 9}).n_reused, 2);  // asks for a part of a
  sequences_.release(c);                    // leaves two idle texts, and no more may stay
  EXPECT_TRUE(sequences_.is_idle(a));
  EXPECT_FALSE(kv_.is_open(b));
  EXPECT_TRUE(sequences_.is_idle(c));
}

TEST_F(SequencesTest, EvictionFreesSlotsAndNeverTakesABusyOne) {
  const SequenceId a = text({1, 2, 3}), b = text({4, 5}), c = text({6, 7, 8});
  sequences_.release(b);
  sequences_.release(a);
  EXPECT_TRUE(sequences_.evict_until(92));
  EXPECT_TRUE(kv_.is_open(b));
  EXPECT_TRUE(sequences_.evict_until(93));
  EXPECT_FALSE(kv_.is_open(b));
  EXPECT_TRUE(kv_.is_open(a));
  EXPECT_FALSE(sequences_.evict_until(100));
  EXPECT_FALSE(kv_.is_open(a));
  EXPECT_EQ(kv_.length(c), 3);
}

TEST_F(SequencesTest, WhoBeginsAgainKeepsTheBeginning) {
  const SequenceId own = text({1, 2, 3, 4});
  const auto again = [&](const Tokens& tokens) {
    return sequences_.begin_again(own, tokens, Tags(tokens.size(), 0), 1);
  };
  EXPECT_EQ(again({1, 2, 9}).sequence, own);
  EXPECT_EQ(kv_.length(own), 2);
  text({1, 2, 3, 4, 5});
  const Sequences::Begun begun = again({1, 2, 3, 4, 6});
  EXPECT_EQ(begun.n_reused, 4);
  EXPECT_NE(begun.sequence, own);
  EXPECT_TRUE(sequences_.is_idle(own));
}

TEST_F(SequencesTest, NothingIsKeptOfAnEmptyOrForgottenText) {
  const SequenceId empty = begin({1}).sequence;
  sequences_.release(empty);
  EXPECT_FALSE(kv_.is_open(empty));
  const SequenceId full = text({1, 2});
  sequences_.forget(full);
  EXPECT_FALSE(kv_.is_open(full));
  EXPECT_EQ(kv_.n_free(), 100);
}

}  // namespace
}  // namespace troika::cache
