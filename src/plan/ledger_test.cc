#include "plan/ledger.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "base/error.h"
#include "tests/support/temp_folder.h"

namespace troika::plan {
namespace {

constexpr size_t kMega = 1'000'000;

std::string refusal(const Ledger& ledger) {
  return test::message_of<Error>([&] { ledger.check(); });
}

TEST(Ledger, CountsWhatOwnersHave) {
  Ledger ledger(100 * kMega);
  EXPECT_TRUE(ledger.is_limited());
  ledger.set(Owner::kWeights, 60 * kMega);
  ledger.set(Owner::kCache, 50 * kMega);
  ledger.set(Owner::kCache, 30 * kMega);  // replaces the first value
  EXPECT_EQ(ledger.bytes(Owner::kCache), 30 * kMega);
  EXPECT_EQ(ledger.total_bytes(), 90 * kMega);
  EXPECT_EQ(ledger.room_for(Owner::kCache), 40 * kMega);
  EXPECT_EQ(ledger.room_for(Owner::kPacked), 10 * kMega);
  EXPECT_EQ(refusal(ledger), "");
}

TEST(Ledger, TheLimitItselfFitsAndOneByteMoreDoesNot) {
  Ledger ledger(100);
  ledger.set(Owner::kWeights, 100);
  EXPECT_EQ(refusal(ledger), "");
  ledger.set(Owner::kProgram, 1);
  EXPECT_NE(refusal(ledger), "");
  EXPECT_EQ(ledger.room_for(Owner::kCache), 0u);
}

TEST(Ledger, ARefusalNamesTheLargestAndWhatToDo) {
  Ledger ledger(100 * kMega);
  ledger.set(Owner::kWeights, 60 * kMega);
  ledger.set(Owner::kCache, 80 * kMega);
  ledger.set(Owner::kPacked, 70 * kMega);
  ledger.set(Owner::kLanes, 1 * kMega);
  EXPECT_EQ(
      refusal(ledger),
      "‹memory› 100.0 MB is too little: 211.0 MB are needed, most of them for keys and "
      "values 80.0 MB, packed weights 70.0 MB and weights 60.0 MB. Give more ‹memory›, as in 202M, "
      "or use less of what takes them: a smaller ‹context›, ‹kv› q8_0, less ‹packed› or ‹layouts› "
      "blocks, a smaller model or element type.");
}

TEST(Ledger, ARefusalBeginsWithTheAdviceThatItWasGiven) {
  Ledger ledger(100 * kMega);
  ledger.set(Owner::kWeights, 160 * kMega);
  ledger.advise("one chunk ‹in-flight›");
  EXPECT_TRUE(refusal(ledger).ends_with(
      "what takes them: one chunk ‹in-flight›, a smaller model or element type."))
      << refusal(ledger);
}

// What is small is not worth an advice, however many owners take anything, unless an option alone
// brought it.
TEST(Ledger, ARefusalAdvisesOnTheLargestAndOnWhatCanBeLeftOut) {
  Ledger ledger(100 * kMega);
  ledger.set(Owner::kBuffers, 90 * kMega);
  ledger.set(Owner::kLanes, 80 * kMega);
  ledger.set(Owner::kPacked, 70 * kMega);
  ledger.set(Owner::kWeights, 60 * kMega);
  ledger.set(Owner::kCache, 50 * kMega);
  ledger.set(Owner::kNeurons, 40 * kMega);
  const std::string sentence = refusal(ledger);
  EXPECT_TRUE(sentence.ends_with(
      "use less of what takes them: a smaller ‹chunk›, fewer ‹threads›, "
      "less on devices by ‹place›, less ‹packed› or ‹layouts› blocks, ‹ffn› by-output."))
      << sentence;
}

TEST(Ledger, ARefusalNamesWhereTheLimitComesFrom) {
  const auto refusal_from = [](LimitSource source) {
    Ledger ledger(100 * kMega, source);
    ledger.set(Owner::kWeights, 160 * kMega);
    return refusal(ledger);
  };
  const auto expect = [&](LimitSource source, const std::string& begin, const std::string& advice) {
    const std::string sentence = refusal_from(source);
    EXPECT_TRUE(sentence.starts_with(begin + " is too little: 160.0 MB are needed")) << sentence;
    EXPECT_NE(sentence.find("160.0 MB. " + advice + ", or use less"), std::string::npos)
        << sentence;
  };
  expect(LimitSource::kAsked, "‹memory› 100.0 MB", "Give more ‹memory›, as in 153M");
  expect(LimitSource::kPlan, "The plan's limit of memory, 100.0 MB,",
         "Give more ‹memory›, as in 153M");
  expect(LimitSource::kMachine, "The free memory of this machine, 100.0 MB for this program,",
         "End other programs");
  expect(LimitSource::kCgroup,
         "The memory that the limit of the cgroup leaves, 100.0 MB for this program,",
         "Raise the limit of the cgroup");
  // Nobody is told to change an option that was not given.
  EXPECT_EQ(refusal_from(LimitSource::kMachine).find("‹memory›"), std::string::npos);
  EXPECT_EQ(refusal_from(LimitSource::kCgroup).find("‹memory›"), std::string::npos);
}

TEST(Ledger, S6ARefusalNamesWhatMakesScoresOfHeadsFewer) {
  Ledger ledger(100 * kMega);
  ledger.set(Owner::kHeads, 120 * kMega);
  const std::string sentence = refusal(ledger);
  for (const char* name : {"scores of heads 120.0 MB", "‹in-flight›", "‹attention-lanes›"}) {
    EXPECT_NE(sentence.find(name), std::string::npos) << sentence;
  }
}

TEST(Ledger, WithoutALimitEverythingFits) {
  Ledger ledger;
  EXPECT_FALSE(ledger.is_limited());
  ledger.set(Owner::kWeights, SIZE_MAX / 2 + 1);
  ledger.set(Owner::kCache, SIZE_MAX / 2 + 1);
  EXPECT_EQ(ledger.total_bytes(), SIZE_MAX);  // does not wrap around
  EXPECT_EQ(refusal(ledger), "");
}

TEST(Ledger, EveryOwnerHasANameOfItsOwn) {
  for (int i = 0; i < kOwners; ++i) {
    for (int j = 0; j < i; ++j) {
      EXPECT_STRNE(owner_key(static_cast<Owner>(i)), owner_key(static_cast<Owner>(j)));
      EXPECT_STRNE(owner_name(static_cast<Owner>(i)), owner_name(static_cast<Owner>(j)));
    }
  }
}

}  // namespace
}  // namespace troika::plan
