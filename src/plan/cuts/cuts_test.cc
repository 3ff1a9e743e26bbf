#include "plan/cuts/cuts.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/plan.h"

namespace troika::plan {
namespace {

TEST(Cuts, H3TextsSayWhatACutSays) {
  const TensorCut cut = cut_from_text("ffn.ffn_down@2-64=rows:0:60,1:40+tokens:0:256,1:44");
  EXPECT_EQ(cut.subgraph, "ffn");
  EXPECT_EQ(cut.op, "ffn_down");
  EXPECT_EQ(cut.least_tokens, 2);
  EXPECT_EQ(cut.most_tokens, 64);
  EXPECT_EQ(cut.rows, (Shares{{0, 60}, {1, 40}}));
  EXPECT_EQ(cut.tokens, (Shares{{0, 256}, {1, 44}}));
  for (const char* text :
       {"ffn.ffn_down@2-64=rows:0:60,1:40+tokens:0:256,1:44", "=tokens:0:1,1:2,0:3",
        "head=rows:1:1", "@prompt=rows:0:3,2:1,1:7", "qkv@step=rows:0:1,1:1",
        "attention@32=heads:0:1,1:1", ".attn_q=rows:0:1,1:1", "@step:1-1=rows:0:1,1:1",
        "ffn@prompt:32=rows:0:1,1:1"}) {
    EXPECT_EQ(cut_text(cut_from_text(text)), text);
  }
}

TEST(Cuts, TextsThatAreNotUnderstoodAreRefusedInASentence) {
  for (const char* text : {"",
                           "ffn",
                           "ffn@step:=rows:0:1,1:1",
                           "ffn@steps=rows:0:1,1:1",
                           "ffn@step2=rows:0:1,1:1",
                           "ffn=",
                           "ffn=rows",
                           "ffn=rows:",
                           "ffn=rows:0",
                           "ffn=rows:0:",
                           "ffn=rows:0:1,",
                           "ffn=rows:0:1,,1:1",
                           "ffn=rows:0:1+",
                           "ffn=rows:-1:1",
                           "ffn=rows:0:0",
                           "ffn=rows:0:1:2",
                           "ffn=columns:0:1",
                           "ffn=rows:0:1,0:2",
                           "ffn=rows:0:1+rows:1:1",
                           "nothing=rows:0:1",
                           "shadow=rows:0:1",
                           "ffn@=rows:0:1",
                           "ffn@9-2=rows:0:1",
                           "ffn@2-1048577=rows:0:1,1:1",
                           "ffn@1048577=rows:0:1,1:1",
                           "ffn@x=rows:0:1",
                           "ffn=heads:0:1",
                           "attention=rows:0:1,1:1",
                           "attention.q=heads:0:1",
                           "ffn=rows:0:99999999999,1:1",
                           "ffn=rows:0:16777216,1:1",
                           "ffn=tokens:0:1048576,1:1"}) {
    EXPECT_THROW(cut_from_text(text), UsageError) << text;
  }
  for (const char* text : {"", "0", "0:", "0:256,", "0:256;1:44", "0:0", "0:1048576,1:1"}) {
    EXPECT_THROW(length_from_text(text), UsageError) << text;
  }
}

TEST(Cuts, H5TheTokensOfALengthAddUp) {
  const LengthCut length = length_from_text("0:512,0:32,1:56");
  EXPECT_EQ(length.n_tokens, 600);
  EXPECT_EQ(length.least_tokens(), 545);
  EXPECT_EQ(shares_text(length.tokens), "0:512,0:32,1:56");
}

TEST(Cuts, H3RowsAreDividedInGranules) {
  EXPECT_EQ(divide(4864, {{0, 3328}, {1, 1536}}, 16), (std::vector<Span>{{0, 3328}, {3328, 4864}}));
  EXPECT_EQ(divide(896, {{0, 60}, {1, 40}}, 16), (std::vector<Span>{{0, 544}, {544, 896}}));
  EXPECT_EQ(divide(40, {{0, 1}, {1, 1}}, 16), (std::vector<Span>{{0, 16}, {16, 40}}));
  EXPECT_EQ(divide(7, {{0, 1}}, 16), (std::vector<Span>{{0, 7}}));
  // The spans together are all rows, whatever the numbers are.
  for (const int n : {1, 16, 17, 100, 151'936, (1 << 30) - 1}) {
    const Shares shares = {{0, 1}, {1, kMostSharedRows - 2}, {2, 1}};
    const std::vector<Span> spans = divide(n, shares, 16);
    int end = 0;
    for (const Span& span : spans) {
      EXPECT_EQ(span.begin, end);
      EXPECT_LE(span.begin, span.end);
      end = span.end;
    }
    EXPECT_EQ(end, n);
  }
}

Plan with_lengths(Prefill prefill) {
  Plan plan;
  plan.prefill = prefill;
  plan.lanes = {{}, {}};
  plan.lengths = {length_from_text("0:256,1:44"), length_from_text("0:512,0:32,1:56")};
  return plan;
}

TEST(Cuts, H11APassTakesTheExecutableOfItsLength) {
  const Plan plan = with_lengths(Prefill::kQ8);
  const auto rows = [&](int n) { return plan.body_shape(Phase::kPrompt, n).n_rows; };
  EXPECT_EQ(rows(300), 300);
  EXPECT_EQ(rows(257), 300);
  EXPECT_EQ(rows(256), 512);  // with the length 300, the lane of the last 44 would have nothing
  EXPECT_EQ(rows(301), 512);
  EXPECT_EQ(rows(545), 600);
  EXPECT_EQ(rows(520), 600);  // 600 is the only length that is long enough
  EXPECT_EQ(plan.most_rows(), 600);
  // A length divides a usual shape only if it has as many rows.
  EXPECT_EQ(plan.length_of({Phase::kPrompt, 128}), nullptr);
  Plan usual = plan;
  usual.lengths = {length_from_text("0:64,1:64")};
  EXPECT_NE(usual.length_of({Phase::kPrompt, 128}), nullptr);
  EXPECT_EQ(usual.length_of({Phase::kStep, 128}), nullptr);
  EXPECT_EQ(usual.length_alone({Phase::kPrompt, 128}), nullptr);
  EXPECT_EQ(usual.body_shapes().size(), usual.step_shapes.size() + usual.prompt_shapes.size());
}

TEST(Cuts, H5APromptEndsWithItsLength) {
  const Plan plan = with_lengths(Prefill::kQ8);
  EXPECT_EQ(plan.prompt_chunk(0, 600), (Shape{Phase::kPrompt, 600}));
  EXPECT_EQ(plan.prompt_chunk(0, 1112), (Shape{Phase::kPrompt, 512}));
  EXPECT_EQ(plan.prompt_chunk(512, 1112), (Shape{Phase::kPrompt, 600}));
  EXPECT_EQ(plan.prompt_chunk(0, 601), (Shape{Phase::kPrompt, 512}));
  // Lengths do not change the phase of a prompt's short rest.
  Plan without = plan;
  without.lengths.clear();
  for (int n = 1; n < 1300; ++n) EXPECT_EQ(plan.n_prompt_phase(n), without.n_prompt_phase(n));
}

TEST(Cuts, LanesThatAreNotThereAreNamed) {
  Plan plan = with_lengths(Prefill::kQ8);
  EXPECT_NO_THROW(check_cuts(plan));
  Plan cut = plan;
  cut.cuts = {cut_from_text("ffn=rows:0:1,2:1")};
  EXPECT_THROW(check_cuts(cut), UsageError);
  Plan length = plan;
  length.lengths = {length_from_text("7:512")};
  EXPECT_THROW(check_cuts(length), UsageError);
}

// An executable is built for each length.
TEST(Cuts, H5MoreLengthsThanAPlanHoldsAreRefused) {
  Plan plan = with_lengths(Prefill::kQ8);
  plan.lengths.clear();
  for (int n = 1; n <= 256; ++n) plan.lengths.push_back({n, {{0, n}}});
  EXPECT_NO_THROW(check_cuts(plan));
  plan.lengths.push_back({257, {{0, 257}}});
  EXPECT_THROW(check_cuts(plan), UsageError);
}

}  // namespace
}  // namespace troika::plan
