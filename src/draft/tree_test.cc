#include "draft/tree.h"

#include <gtest/gtest.h>

namespace troika::draft {
namespace {

TEST(Tree, JoinsEqualGuesses) {
  Tree tree;
  const std::vector<Token> first = {5, 6, 7}, second = {5, 6, 8, 9};
  EXPECT_EQ(tree.add_chain(kRoot, first, 0.5f, 0), 2);
  EXPECT_EQ(tree.add_chain(kRoot, second, 0.75f, 1), 4);
  ASSERT_EQ(tree.size(), 5);
  EXPECT_EQ(tree.child(kRoot, 5), 0);
  EXPECT_EQ(tree.child(1, 7), 2);
  EXPECT_EQ(tree.child(1, 8), 3);
  EXPECT_EQ(tree.child(kRoot, 6), Tree::kNoNode);
  EXPECT_EQ(tree.child(tree.child(1, 8), 9), 4);
  EXPECT_FLOAT_EQ(tree[1].chance, 0.75f);
  EXPECT_EQ(tree[1].source, 1);
  EXPECT_FLOAT_EQ(tree[2].chance, 0.5f);
  tree.add(kRoot, 5, 0.1f, 2);
  EXPECT_FLOAT_EQ(tree[0].chance, 0.75f);
}

TEST(Tree, BecomesABatchBehindTheLastToken) {
  Tree tree;
  tree.add(kRoot, 5, 0.5f);
  tree.add(kRoot, 6, 0.5f);
  tree.add(0, 7, 0.5f);
  cache::Batch batch;
  tree.add_rows(4, 10, 3, 2, &batch);
  ASSERT_EQ(batch.size(), 4);
  const int parents[] = {-1, 0, 0, 1}, positions[] = {10, 11, 11, 12}, tokens[] = {4, 5, 6, 7};
  for (size_t row = 0; row < 4; ++row) {
    EXPECT_EQ(batch.rows[row].parent, parents[row]);
    EXPECT_EQ(batch.rows[row].position, positions[row]);
    EXPECT_EQ(batch.rows[row].token, tokens[row]);
    EXPECT_EQ(batch.rows[row].sequence, 3);
    EXPECT_EQ(batch.rows[row].tag, 2);
    EXPECT_TRUE(batch.rows[row].wants_logits);
  }
  // The rows stand behind those of other sequences.
  tree.add_rows(4, 20, 7, 2, &batch);
  ASSERT_EQ(batch.size(), 8);
  for (size_t row = 4; row < 8; ++row) {
    EXPECT_EQ(batch.rows[row].parent, parents[row - 4] < 0 ? -1 : parents[row - 4] + 4);
    EXPECT_EQ(batch.rows[row].position, positions[row - 4] + 10);
    EXPECT_EQ(batch.rows[row].sequence, 7);
  }
  tree.clear();
  tree.add_rows(4, 10, 3, 0, &batch);
  EXPECT_EQ(batch.size(), 9);
}

}  // namespace
}  // namespace troika::draft
