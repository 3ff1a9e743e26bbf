// A phase says how rows are computed, never how many there are: a wide step has the bits of many
// narrow ones, and a few tokens that are computed as a prompt have the bits of their place in a
// long prompt.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cache/batch.h"
#include "tests/support/prompt_case.h"
#include "tests/support/tiny_engine.h"

namespace troika {
namespace {

using engine::Session;
using test_support::copy_of;
using test_support::TinyEngine;
using test_support::TinyModel;
using text::Token;
using Rows = std::vector<std::vector<float>>;

constexpr int kContext = 640;

class Phases : public testing::TestWithParam<test_support::PromptCase> {
 protected:
  static TinyModel model() {
    TinyModel model = test_support::small_model(GetParam().architecture);
    model.type = test_support::kQ8_0;
    model.context = kContext;
    return model;
  }
  static prepare::Options options() {
    prepare::Options options;
    options.memory.context = kContext;
    options.lanes.n_threads = 2;
    options.prompts.prefill = plan::prefill_from_name(GetParam().prefill);
    return options;
  }
  // Runs the tokens as one pass of a phase behind the history, and adds them to it.
  static Rows pass(Session& session, std::span<const Token> tokens, plan::Phase phase) {
    cache::Batch batch;
    batch.add_chain(tokens, static_cast<int>(session.history().size()), 0, /*all_logits=*/true);
    Rows rows;
    session.run_batch(
        batch, [&](int, std::span<const float> row) { rows.push_back(copy_of(row)); },
        [&] {
          std::vector<int> all;
          for (int i = 0; i < batch.size(); ++i) all.push_back(i);
          return all;
        },
        phase);
    return rows;
  }

  TinyEngine tiny_{model(), options()};
};

TEST_P(Phases, AWideStepHasTheBitsOfNarrowOnes) {
  const std::vector<Token> tokens = test_support::random_tokens(model(), 40 + 64);
  const std::span<const Token> text(tokens);
  for (const size_t width : {size_t{33}, size_t{64}}) {
    Session wide(*tiny_.engine), narrow(*tiny_.engine);
    for (Session* session : {&wide, &narrow}) session->prefill(text.first(40));
    const Rows rows = pass(wide, text.subspan(40, width), plan::Phase::kStep);
    ASSERT_EQ(rows.size(), width);
    for (size_t i = 0; i < width; ++i) {
      narrow.append(tokens[40 + i]);
      EXPECT_EQ(copy_of(narrow.logits()), rows[i]) << "row " << i << " of " << width;
    }
  }
}

TEST_P(Phases, AFewTokensAsAPromptHaveTheBitsOfTheirPlaceInALongOne) {
  const std::vector<Token> tokens = test_support::random_tokens(model(), 512);
  const std::span<const Token> text(tokens);
  Session whole(*tiny_.engine);
  Rows rows;
  whole.evaluate(text, [&](int, std::span<const float> row) { rows.push_back(copy_of(row)); });
  ASSERT_EQ(rows.size(), 512u);
  for (const size_t first : {size_t{0}, size_t{100}, size_t{492}}) {
    Session session(*tiny_.engine);
    for (size_t done = 0; done < first; done += 50) {
      pass(session, text.subspan(done, std::min<size_t>(50, first - done)), plan::Phase::kPrompt);
    }
    const Rows few = pass(session, text.subspan(first, 20), plan::Phase::kPrompt);
    for (size_t i = 0; i < 20; ++i) EXPECT_EQ(few[i], rows[first + i]) << first << " + " << i;
  }
}

// If both phases had the same bits, the tests above would show nothing.
TEST_P(Phases, ThePhasesDiffer) {
  const std::vector<Token> tokens = test_support::random_tokens(model(), 20);
  Session one(*tiny_.engine), other(*tiny_.engine);
  EXPECT_NE(pass(one, tokens, plan::Phase::kPrompt), pass(other, tokens, plan::Phase::kStep));
}

INSTANTIATE_TEST_SUITE_P(All, Phases,
                         testing::ValuesIn(test_support::prompt_cases({"bf16", "q8", "int8"})),
                         test_support::case_name);

}  // namespace
}  // namespace troika
