// Sparse attention of prompts has the same bits under conditions that come together: keys and
// values in Q8_0, chunks of any length, one lane or heads over three, and tasks that end in any
// order (S1-S8).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/system.h"
#include "engine/session.h"
#include "tests/support/logits.h"
#include "tests/support/random_machine.h"

namespace troika {
namespace {

using engine::Engine;
using engine::Session;
using plan::AttentionForm;
using tensor::Type;
using test_support::TinyModel;
using test_support::TinyModelFile;
using LastLogits = std::vector<float>;

constexpr size_t kPromptOfConditions = 1536;  // is three chunks of 512
constexpr Type kCaches[] = {Type::kF16, Type::kQ8_0};

// The last layer shows only the last token, whose tile is whole here.
TinyModel model_of_conditions() { return test_support::narrow_llama(2048, 6, 2); }

struct WayToAttend {
  const char* name;
  AttentionForm form;
  double share, above;  // percent; 0: not given
  int n_buckets;
};
constexpr WayToAttend kWaysToAttend[] = {
    {"by share", AttentionForm::kSparse, 20, 0, 0},
    {"by weight", AttentionForm::kSparse, 0, 1.1, 0},
    {"each query", AttentionForm::kQuery, 20, 0, 0},
    {"each query, fixed scales", AttentionForm::kQuery, 20, 0, 9},
    {"blocks", AttentionForm::kBlock, 20, 0, 0},
    {"int8", AttentionForm::kInt8, 0, 0, 0}};

prepare::Options options_to_attend(const WayToAttend& way, Type cache, int chunk) {
  static const TinyModelFile file(model_of_conditions());
  prepare::Options options;
  options.model.file = file.path();
  options.memory.context = 2048;
  options.memory.kv_type = cache;
  options.lanes.n_threads = 1;
  options.prompts.prefill = plan::Prefill::kBf16;
  options.prompts.chunk = chunk;
  options.prompts.attention = way.form;
  options.prompts.attention_from = 512;
  if (way.share > 0) options.prompts.attention_share = way.share;
  if (way.above > 0) options.prompts.attention_above = way.above;
  if (way.n_buckets > 0) {
    options.prompts.attention_buckets = way.n_buckets;
    options.prompts.head_scales.assign(
        2 * size_t{model_of_conditions().n_layers} * model_of_conditions().n_heads, 0.02f);
  }
  return options;
}

// Puts heads on three lanes: of the estimate, of the selection and of the exact part.
prepare::Options on_three_lanes(prepare::Options options, std::vector<int> lanes) {
  options.lanes.n_threads = 0;
  options.lanes.cores = {{{}, 1}, {{}, 1}, {{}, 1}};
  options.prompts.attention_lanes = std::move(lanes);
  return options;
}

LastLogits last_logits_of(Engine& engine) {
  Session session(engine);
  session.prefill(test_support::random_tokens(model_of_conditions(), kPromptOfConditions, 3));
  return {session.logits().begin(), session.logits().end()};
}

LastLogits last_logits_of(const prepare::Options& options) {
  Engine engine(options);
  return last_logits_of(engine);
}

TEST(SparseConditions, S2S8CachesInQ8AndChunksOf512ChangeNoBit) {
  const WayToAttend full = {"full", AttentionForm::kFull, 0, 0, 0};
  for (const Type cache : kCaches) {
    const LastLogits of_full = last_logits_of(options_to_attend(full, cache, 512));
    for (const WayToAttend& way : kWaysToAttend) {
      const LastLogits wanted = last_logits_of(options_to_attend(way, cache, 512));
      EXPECT_NE(wanted, of_full) << way.name;
      for (const int chunk : {64, 128}) {
        prepare::Options other = options_to_attend(way, cache, chunk);
        other.lanes.n_threads = 2;
        EXPECT_EQ(last_logits_of(other), wanted) << way.name << ", " << tensor::type_name(cache);
      }
    }
    EXPECT_EQ(
        last_logits_of(options_to_attend({"all", AttentionForm::kSparse, 100, 0, 0}, cache, 128)),
        of_full);
  }
  EXPECT_NE(last_logits_of(options_to_attend(kWaysToAttend[0], Type::kF16, 512)),
            last_logits_of(options_to_attend(kWaysToAttend[0], Type::kQ8_0, 512)));
}

TEST(SparseConditions, S6HeadsOverTwoLanesAndOverThreeHaveTheBitsOfOne) {
  if (usable_core_numbers().size() < 2) GTEST_SKIP() << "lanes beside each other need two cores";
  for (const Type cache : kCaches) {
    for (const WayToAttend& way : kWaysToAttend) {
      if (way.form != AttentionForm::kQuery) continue;
      const LastLogits wanted = last_logits_of(options_to_attend(way, cache, 512));
      for (const int chunk : {128, 512}) {
        for (const std::vector<int>& lanes : {std::vector<int>{1, 0, 0}, {2, 1, 0}}) {
          EXPECT_EQ(last_logits_of(on_three_lanes(options_to_attend(way, cache, chunk), lanes)),
                    wanted)
              << way.name << ", " << tensor::type_name(cache) << ", chunks of " << chunk << ", "
              << lanes[0] << lanes[1] << lanes[2];
        }
      }
    }
  }
}

// Expects the wanted bits with tasks that end in eight orders.
void expect_in_any_order(const prepare::Options& options, const LastLogits& wanted) {
  Engine engine(options);
  for (uint64_t seed = 0; seed < 8; ++seed) {
    test::RandomMachine machine(engine.machine(), seed);
    engine.passes().runner.set_machine(machine);
    EXPECT_EQ(last_logits_of(engine), wanted) << "seed " << seed;
    engine.passes().runner.set_machine(engine.machine());
  }
}

TEST(SparseConditions, S2S6NoOrderInWhichTasksEndChangesABit) {
  if (usable_core_numbers().size() < 2) GTEST_SKIP() << "lanes beside each other need two cores";
  for (const WayToAttend& way : kWaysToAttend) {
    const LastLogits wanted = last_logits_of(options_to_attend(way, Type::kF16, 512));
    prepare::Options options = options_to_attend(way, Type::kF16, 128);
    options.prompts.order = plan::Order::kOutOfOrder;
    if (way.form == AttentionForm::kQuery) {
      expect_in_any_order(on_three_lanes(options, {2, 1, 0}), wanted);
      continue;
    }
    options.lanes.n_threads = 0;
    options.lanes.cores = {{{}, 1}, {{}, 1}};
    options.lanes.placements = {{"attention", 0, 1}};
    expect_in_any_order(options, wanted);
  }
}

}  // namespace
}  // namespace troika
