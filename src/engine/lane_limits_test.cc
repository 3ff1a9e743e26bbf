// Tests lanes of this machine that have memory for few weights only (N9).
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/system.h"
#include "solve/lane_memory.h"
#include "tests/support/tiny_engine.h"

namespace troika::engine {
namespace {

prepare::Options two_lanes(uint64_t limit_of_second) {
  prepare::Options options;
  const std::vector<int> cores = usable_core_numbers();
  options.lanes.cores = {{{cores.front()}, 1}, {{cores.back()}, 1}};
  options.lanes.placements = {{"ffn", 0, 1}};
  options.lanes.limits = {{1, limit_of_second}};
  return options;
}

TEST(LaneLimits, N9_ALimitHoldsOnLanesOfThisMachine) {
  if (usable_core_numbers().size() < 2) GTEST_SKIP() << "two lanes need two cores";
  const auto model = test_support::small_model();
  test_support::TinyEngine one(model);
  test_support::TinyEngine whole(model, two_lanes(plan::PlannedLane::kNoLimit));
  const auto held_of = [](const Engine& engine) {
    return solve::held_by_lanes(engine.blueprint(), engine.weights(), engine.plan());
  };
  const size_t all = held_of(*whole.engine)[1];
  const size_t limit = all * 2 / 3;
  test_support::TinyEngine limited(model, two_lanes(limit));
  const size_t held = held_of(*limited.engine)[1];
  EXPECT_LE(held, limit);
  EXPECT_GT(held, 0u);
  EXPECT_LT(held, all);
  const auto rules = two_lanes(limit).lanes.placements;
  EXPECT_EQ(solve::broken_rules(limited.engine->blueprint(), limited.engine->plan(), rules).size(),
            1u);
  EXPECT_TRUE(solve::broken_rules(whole.engine->blueprint(), whole.engine->plan(), rules).empty());
  // The trace shows the FFN on both lanes, and the text is the same.
  const std::vector<cache::Token> prompt = {1, 7, 9, 300, 12, 5, 44};
  Trace trace({"0", "1"});
  limited.session->watch({.trace = &trace});
  limited.session->prefill(prompt);
  limited.session->watch({});
  int n_ffn[2] = {0, 0};
  for (const TraceEvent& event : trace.events()) {
    if (std::string(event.name) == "ffn") ++n_ffn[event.lane];
  }
  EXPECT_GT(n_ffn[0], 0);
  EXPECT_GT(n_ffn[1], 0);
  one.session->prefill(prompt);
  EXPECT_EQ(test_support::copy_of(one.session->logits()),
            test_support::copy_of(limited.session->logits()));
}

// Blocks go where there is room, but a cut says itself which lanes have parts.
TEST(LaneLimits, N9ACutThatALaneHasNoRoomForIsASentence) {
  if (usable_core_numbers().size() < 2) GTEST_SKIP() << "two lanes need two cores";
  const auto refusal = [](uint64_t limit) {
    prepare::Options options = two_lanes(limit);
    options.lanes.cuts = {plan::cut_from_text("ffn=rows:0:1,1:1")};
    return test::message_of<Error>(
        [&] { test_support::TinyEngine engine(test_support::small_model(), options); });
  };
  EXPECT_EQ(refusal(uint64_t{1} << 40), "");
  EXPECT_NE(refusal(1000).find("Lane 1 (host) may hold 1.0 KB"), std::string::npos)
      << refusal(1000);
}

TEST(LaneLimits, ALimitThatNoOtherLaneMakesUpForIsASentence) {
  const auto model = test_support::small_model();
  prepare::Options options;
  options.lanes.limits = {{0, 1000}};
  EXPECT_THROW(test_support::TinyEngine(model, options), Error);
  options.lanes.limits = {{1, 1000}};
  EXPECT_THROW(test_support::TinyEngine(model, options), UsageError);
}

}  // namespace
}  // namespace troika::engine
