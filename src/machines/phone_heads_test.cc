// Tests how heads differ on a virtual phone that computes no values.
#include "machines/phone_heads.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "attention/choose/scale_buckets.h"
#include "forge/hollow.h"
#include "model/architecture.h"
#include "model/known.h"
#include "tests/support/repository.h"

namespace troika::machines {
namespace {

class PhoneHeadsOf : public testing::Test {
 protected:
  std::vector<schedule::BlockHeads> draw(const plan::HeadPlan& heads = {}) const {
    return draw_heads(stack_, blueprint_, heads);
  }
  static std::set<int> buckets_of(const std::vector<schedule::BlockHeads>& blocks) {
    std::set<int> buckets;
    for (const auto& block : blocks) buckets.insert(block.buckets.begin(), block.buckets.end());
    return buckets;
  }

  plan::Stack stack_ =
      plan::read_stack(test::repository_file("phones") + "/stacks/shadowattn.json");
  forge::HollowModel hollow_{model::get_known("phonelm-0.5b"), "q8_0"};
  gguf::File file_ = hollow_.open();
  model::Blueprint blueprint_ = model::read(file_);
};

TEST_F(PhoneHeadsOf, S4EveryHeadHasOneOfTheBucketsThereAre) {
  plan::HeadPlan heads;
  EXPECT_EQ(buckets_of(draw()).size(), attention::kScaleBuckets);
  heads.n_buckets = 5;
  const std::set<int> five = buckets_of(draw(heads));
  EXPECT_EQ(five.size(), 5u);
  EXPECT_EQ(*five.rbegin(), 4);
  heads.n_buckets = 1;
  EXPECT_EQ(buckets_of(draw(heads)), std::set<int>{0});
  // Heads that do not differ have one bucket.
  stack_.attention.scale_spread.value = 0.0;
  EXPECT_EQ(buckets_of(draw()), std::set<int>{0});
}

TEST_F(PhoneHeadsOf, S3SharesDifferAndTheirMeanIsTheGlobalOne) {
  for (const bool is_equal : {false, true}) {
    plan::HeadPlan heads;
    heads.share = 0.3;
    heads.has_equal_shares = is_equal;
    std::vector<double> shares;
    for (const auto& block : draw(heads)) {
      ASSERT_EQ(block.shares.size(), 16u);
      shares.insert(shares.end(), block.shares.begin(), block.shares.end());
    }
    ASSERT_EQ(shares.size(), 24u * 16u);
    EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0) / 384.0, 0.3, 1e-9);
    EXPECT_EQ(std::set<double>(shares.begin(), shares.end()).size() == 1, is_equal);
  }
}

TEST_F(PhoneHeadsOf, TheSameModelHasTheSameHeads) {
  const auto one = draw(), other = draw();
  for (size_t block = 0; block < one.size(); ++block) {
    EXPECT_EQ(one[block].shares, other[block].shares);
    EXPECT_EQ(one[block].buckets, other[block].buckets);
  }
}

}  // namespace
}  // namespace troika::machines
