// Subgraphs that are cut at random places between two lanes, by rows of their weights, by tokens,
// by heads or by several of these, give the bits of uncut ones: for prompts in every precision, and
// for steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "tests/support/int8_plan.h"
#include "tests/support/prompt_case.h"
#include "tests/support/prompt_rows.h"
#include "tests/support/tiny_engine.h"

namespace troika {
namespace {

using engine::Engine;
using engine::Session;
using lanes::Range;
using plan::Int8Method;
using schedule::LaneRanges;
using schedule::RangeCut;
using test_support::copy_of;
using test_support::TinyEngine;
using test_support::TinyModel;
using text::Token;
using Row = std::vector<float>;

constexpr int kCutContext = 256;
constexpr int kChunk = 40;
// The lengths make a rest alone (which steps compute) and whole chunks with and without a short
// rest.
constexpr int kLengths[] = {9, 2 * kChunk, 2 * kChunk + 37};

// Cuts subgraphs at random places, which depend on a seed and on the subgraph.
class RandomCuts {
 public:
  explicit RandomCuts(uint64_t seed) : seed_(seed) {}

  RangeCut operator()(const lanes::Subgraph& subgraph, plan::Shape shape) {
    first_lane_ = up_to(1);
    if (subgraph.is_dynamic()) return heads(subgraph.blueprint->n_kv_heads);
    std::vector<int> products;  // has the number of rows of each product
    for (const model::Op& op : subgraph.ops) {
      if (op.kind != model::OpKind::kLinear) continue;
      products.push_back(subgraph.blueprint->weights[static_cast<size_t>(op.weight)].n_rows);
    }
    switch (products.empty() ? up_to(1) : up_to(3)) {
      case 0:
        return tokens(shape.n_rows);
      case 1:
        return {};
      case 2:
        return rows(products, {});
      default:
        return rectangles(products, shape.n_rows);
    }
  }

 private:
  // Returns a random number from 0 to n.
  int up_to(int n) { return static_cast<int>(random_unit(seed_, counter_++) * (n + 1)); }
  int lane(int part) const { return (first_lane_ + part) % 2; }

  RangeCut heads(int n_heads) {
    const int border = up_to(n_heads);
    RangeCut parts(2);
    parts[0] = {.lane = lane(0), .heads = {0, border}};
    parts[1] = {.lane = lane(1), .heads = {border, n_heads}};
    return parts;
  }

  RangeCut tokens(int n_tokens) {
    const int first = up_to(n_tokens), second = first + up_to(n_tokens - first);
    RangeCut parts(3);
    parts[0] = {.lane = lane(0), .tokens = {0, first}};
    parts[1] = {.lane = lane(1), .tokens = {first, second}};
    parts[2] = {.lane = lane(0), .tokens = {second}};
    return parts;
  }

  // Cuts the products of one subgraph at different places or, as gate and up mostly are, at the
  // same.
  RangeCut rows(const std::vector<int>& products, Range tokens) {
    RangeCut parts(2);
    parts[0].lane = lane(0), parts[1].lane = lane(1);
    parts[0].tokens = parts[1].tokens = tokens;
    const bool is_alike = up_to(1) == 0;
    int border = 0, last = -1;
    for (const int n : products) {
      if (!is_alike || n != last) border = up_to((n + 15) / 16) * 16;
      last = n;
      parts[0].rows.push_back({0, std::min(border, n)});
      parts[1].rows.push_back({std::min(border, n), n});
    }
    return parts;
  }

  RangeCut rectangles(const std::vector<int>& products, int n_tokens) {
    const int border = up_to(n_tokens);
    RangeCut parts = rows(products, {border});
    parts.push_back({.lane = lane(0), .tokens = {0, border}});
    return parts;
  }

  uint64_t seed_;
  uint64_t counter_ = 0;
  int first_lane_ = 0;
};

std::vector<Row> rows_of(Engine& engine, const TinyModel& model) {
  return test_support::rows_behind(engine, model, kLengths, 11);
}

// Expects the same rows from an engine whose work is cut between two lanes. Odd seeds read a copy
// of the weights, whose rows stand side by side.
void expect_equal(Engine& uncut, const std::vector<Row>& expected, const prepare::Options& options,
                  const TinyModel& model, uint64_t seed) {
  prepare::Options cut = options;
  cut.plan.exact = uncut.plan();
  cut.plan.exact->lanes = {{{}, 1}, {{}, static_cast<int>(1 + seed % 2)}};
  cut.plan.exact->chunks_in_flight = 2;
  cut.plan.exact->splits.at_norms = seed % 3 == 0;
  cut.plan.exact->placements = {{"out", 0, 1}, {"qkv", 2, 1}};
  cut.lanes.range_cut = RandomCuts(seed);
  cut.memory.load = seed % 2 == 1 ? prepare::Load::kCopy : prepare::Load::kMap;
  Engine engine(cut);
  size_t n_cut = 0, n_uncut = 0, n_on_second = 0;
  for (const schedule::TaskList& list : engine.graphs().bodies()) {
    n_cut += list.tasks.size();
    for (const schedule::Task& task : list.tasks) n_on_second += task.lane == 1 ? 1 : 0;
  }
  for (const auto& list : uncut.graphs().bodies()) n_uncut += list.tasks.size();
  EXPECT_GT(n_cut, n_uncut);
  EXPECT_GT(n_on_second, n_cut / 4);
  EXPECT_TRUE(rows_of(engine, model) == expected) << "seed " << seed;
}

TinyModel model_of(const std::string& architecture) {
  TinyModel model = test_support::small_model(architecture);
  model.type = test_support::kQ8_0;
  model.context = kCutContext;
  return model;
}

class Pieces : public testing::TestWithParam<test_support::PromptCase> {};

TEST_P(Pieces, CutsAtRandomPlacesKeepTheBits) {
  const TinyModel model = model_of(GetParam().architecture);
  prepare::Options options;
  options.memory.context = kCutContext;
  options.prompts.chunk = kChunk;
  options.prompts.prefill = plan::prefill_from_name(GetParam().prefill);
  TinyEngine uncut(model, options);
  options.model.file = uncut.folder.file("tiny.gguf");
  const std::vector<Row> expected = rows_of(*uncut.engine, model);
  for (const uint64_t seed : {1, 2, 3}) {
    expect_equal(*uncut.engine, expected, options, model, seed);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Pieces, testing::ValuesIn(test_support::prompt_cases({"same", "bf16", "q8", "int8"})),
    test_support::case_name);

// The outliers stay on the lane of their product, and weights may have scales in groups.
TEST(PiecesOfInt8, CutsAtRandomPlacesKeepTheBitsOfEveryMethod) {
  for (const char* architecture : {"llama", "qwen2"}) {
    const TinyModel model = model_of(architecture);
    prepare::Options options;
    options.memory.context = kCutContext;
    options.prompts.chunk = kChunk;
    const TinyEngine file(model, options);
    options.model.file = file.folder.file("tiny.gguf");
    uint64_t seed = 10;
    for (const Int8Method method : {Int8Method::kTokenShadow, Int8Method::kShadow,
                                    Int8Method::kSmooth, Int8Method::kSplit, Int8Method::kGroup}) {
      SCOPED_TRACE(plan::int8_method_name(method));
      options.plan.exact = test_support::plan_of(options, method, 1.0f);
      Engine uncut(options);
      const std::vector<Row> expected = rows_of(uncut, model);
      expect_equal(uncut, expected, options, model, ++seed);
      options.plan.exact = std::nullopt;
    }
  }
}

// Copies of weights are packed, and there are so few threads and rows that segments of attention
// are shared.
TEST(PiecesOfInt8, PackedCopiesAreCutToo) {
  const TinyModel model = model_of("llama");
  prepare::Options options;
  options.memory.context = kCutContext;
  options.prompts.chunk = kChunk;
  options.prompts.prefill = plan::Prefill::kInt8;
  options.memory.packed_bytes = size_t{1} << 30;
  TinyEngine uncut(model, options);
  options.model.file = uncut.folder.file("tiny.gguf");
  const std::vector<Row> expected = rows_of(*uncut.engine, model);
  for (const uint64_t seed : {21, 22}) {
    expect_equal(*uncut.engine, expected, options, model, seed);
  }
}

TEST(PiecesOfALlama, ACutThatDoesNotMakeUpAProductIsRefusedInASentence) {
  const TinyModel model = model_of("llama");
  prepare::Options options;
  options.lanes.range_cut = [](const lanes::Subgraph& subgraph, plan::Shape) -> RangeCut {
    if (std::string(subgraph.name) != "ffn") return {};
    RangeCut parts(1);
    parts[0].tokens = {1};
    return parts;
  };
  try {
    const TinyEngine engine(model, options);
    FAIL() << "the first token is in no part";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'ffn'"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace troika
