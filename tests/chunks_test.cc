// Chunks of a prompt that run on several lanes at once give the bits of one lane that runs them one
// after the other, whatever the order of their tasks is.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "base/system.h"
#include "engine/session.h"
#include "tests/support/cancels_behind_a_part.h"
#include "tests/support/logits.h"
#include "tests/support/repository.h"

namespace troika {
namespace {

using engine::Engine;
using engine::Session;
using test_support::TinyModel;
using test_support::TinyModelFile;
using text::Token;
using Row = std::vector<float>;

constexpr int kChunk = 40;

TinyModel model() { return test_support::narrow_llama(512); }

constexpr plan::Order kOrders[] = {plan::Order::kInOrder, plan::Order::kLockStep,
                                   plan::Order::kOutOfOrder};

class ChunksTest : public testing::Test {
 protected:
  static prepare::Options one_lane() {
    static const TinyModelFile file(model());
    prepare::Options options;
    options.model.file = file.path();
    options.memory.context = 512;
    options.prompts.prefill = plan::Prefill::kBf16;
    options.prompts.chunk = kChunk;
    return options;
  }
  // Returns options with two lanes of a core each. Attention runs on the second one.
  static prepare::Options two_lanes(plan::Order order) {
    prepare::Options options = one_lane();
    const std::vector<int> cores = usable_core_numbers();
    options.lanes.cores = {{{cores[0]}, 1}, {{cores[1]}, 1}};
    options.lanes.placements = {{"attention", 0, 1}};
    options.prompts.order = order;
    return options;
  }
  static std::set<std::string> names_on_second_lane(const Engine& engine) {
    std::set<std::string> names;
    for (const schedule::Task& task : engine.graphs().body(plan::Phase::kPrompt, kChunk).tasks) {
      if (task.lane == 1) names.insert(task.name);
    }
    return names;
  }
  static bool has_two_cores() { return usable_core_numbers().size() >= 2; }
  static std::vector<Token> tokens(size_t n, uint64_t seed = 7) {
    return test_support::random_tokens(model(), n, seed);
  }
  static Row row(Session& session) {
    const std::span<const float> logits = session.logits();
    return {logits.begin(), logits.end()};
  }
};

// Parts of a block, which runs on the first lane, that run on the second one.
struct OwnPart {
  int in_flight;
  plan::Splits splits;
  const char* name;  // null: no part does
};
constexpr OwnPart kOwnParts[] = {
    {2, {}, nullptr}, {3, {.at_norms = true}, "norm"}, {2, {.at_activations = true}, "activation"}};

TEST_F(ChunksTest, N1N7H2PromptsOfAnyLengthInAnyOrderOnTwoLanes) {
  if (!has_two_cores()) GTEST_SKIP() << "two lanes need two cores";
  Engine alone(one_lane());
  ASSERT_EQ(alone.plan().chunk(), kChunk);
  for (const plan::Order order : kOrders) {
    for (const OwnPart& part : kOwnParts) {
      prepare::Options options = two_lanes(order);
      options.prompts.chunks_in_flight = part.in_flight;
      options.lanes.splits = part.splits;
      if (part.name != nullptr) options.lanes.placements.push_back({part.name, 0, 1});
      Engine engine(options);
      EXPECT_EQ(names_on_second_lane(engine), part.name != nullptr
                                                  ? std::set<std::string>({"attention", part.name})
                                                  : std::set<std::string>({"attention"}));
      for (const int length : {1, kChunk - 1, kChunk, kChunk + 1, 2 * kChunk, 3 * kChunk + 7}) {
        const std::vector<Token> prompt = tokens(static_cast<size_t>(length));
        Session expected(alone), session(engine);
        expected.prefill(prompt);
        EXPECT_EQ(session.prefill(prompt), length);
        EXPECT_EQ(row(session), row(expected))
            << plan::order_name(order) << ", " << length << " tokens";
        // The cache is the same too, so generation goes on alike.
        expected.evaluate(tokens(3, 9), {});
        session.evaluate(tokens(3, 9), {});
        EXPECT_EQ(row(session), row(expected))
            << plan::order_name(order) << ", behind " << length << " tokens";
      }
    }
  }
}

TEST_F(ChunksTest, N1N7ASharedBeginningIsNotComputedAgain) {
  if (!has_two_cores()) GTEST_SKIP() << "two lanes need two cores";
  Engine alone(one_lane()), engine(two_lanes(plan::Order::kOutOfOrder));
  Session expected(alone), session(engine);
  std::vector<Token> first = tokens(3 * kChunk + 7);
  std::vector<Token> second = first;
  second.resize(kChunk + 5);
  const std::vector<Token> more = tokens(2 * kChunk + 9, 2);
  second.insert(second.end(), more.begin(), more.end());
  for (const std::vector<Token>* prompt : {&first, &second, &first}) {
    EXPECT_EQ(session.prefill(*prompt), expected.prefill(*prompt));
    EXPECT_EQ(row(session), row(expected));
    EXPECT_EQ(session.history(), *prompt);
  }
}

TEST_F(ChunksTest, N1APaddedChunkLeavesTheCacheAsItIs) {
  if (!has_two_cores()) GTEST_SKIP() << "two lanes need two cores";
  Engine engine(two_lanes(plan::Order::kOutOfOrder));
  Session session(engine);
  // The executables take 40 tokens, while the cache has room for no more than the prompt.
  session.prefill(tokens(500));
  const size_t bytes = session.kv_bytes();
  session.truncate(480);
  session.prefill(tokens(505));
  EXPECT_EQ(session.kv_bytes(), bytes);
  EXPECT_EQ(session.history().size(), 505u);
}

TEST_F(ChunksTest, N7APromptCanBeCancelledBetweenChunks) {
  if (!has_two_cores()) GTEST_SKIP() << "two lanes need two cores";
  prepare::Options options = two_lanes(plan::Order::kOutOfOrder);
  options.prompts.chunks_in_flight = 2;
  Engine engine(options);
  Session session(engine);
  test_support::CancelsBehindAPart observer;
  const std::vector<Token> prompt = tokens(500);
  const int n_done = session.prefill(prompt, &observer.cancel, &observer);
  EXPECT_GT(n_done, 0);
  EXPECT_LT(n_done, 500);
  EXPECT_EQ(n_done % kChunk, 0);
  // The session keeps what was computed before the cancel.
  EXPECT_EQ(session.prefill(prompt), 500 - n_done);
  Session whole(engine);
  whole.prefill(prompt);
  EXPECT_EQ(row(session), row(whole));
}

// The values that a simulated phone computes are real, so they must have the same bits in every
// order.
TEST_F(ChunksTest, N7APhoneRunsChunksInAnyOrder) {
  prepare::Options options = one_lane();
  options.prompts.prefill = plan::Prefill::kSame;
  Engine alone(options);
  for (const plan::Order order : kOrders) {
    prepare::Options phone = options;
    phone.phone.file = test::repository_file("phones/8gen3.json");
    phone.phone.stack = "llm.npu";
    phone.phone.processors = {lanes::Processor::kCpu, lanes::Processor::kNpu};
    phone.prompts.order = order;
    phone.lanes.splits.at_norms = true;
    phone.lanes.placements = {
        {"norm", 0, 0}, {"attention", 0, 0}, {"qkv", 0, 1}, {"out", 0, 1}, {"ffn", 0, 1}};
    Engine engine(phone);
    for (const int length : {1, kChunk, kChunk + 1, 3 * kChunk + 7}) {
      const std::vector<Token> prompt = tokens(static_cast<size_t>(length));
      Session expected(alone), session(engine);
      expected.prefill(prompt);
      session.prefill(prompt);
      EXPECT_EQ(row(session), row(expected))
          << plan::order_name(order) << ", " << length << " tokens";
    }
  }
}

// The prompt runs on one lane and generation on another (N10). The cache goes with them.
TEST_F(ChunksTest, N10PromptAndGenerationOnLanesOfTheirOwn) {
  if (!has_two_cores()) GTEST_SKIP() << "two lanes need two cores";
  prepare::Options options = two_lanes(plan::Order::kOutOfOrder);
  options.lanes.placements = {{"", 2, 0}, {"", 0, 1}};
  Engine engine(options), alone(one_lane());
  Session session(engine), expected(alone);
  Trace trace({"prompt", "generation"});
  session.watch({.trace = &trace});
  const std::vector<Token> prompt = tokens(2 * kChunk + 1);
  session.prefill(prompt);
  expected.prefill(prompt);
  const std::vector<Token> next = tokens(1, 3);
  session.evaluate(next, {});
  expected.evaluate(next, {});
  EXPECT_EQ(row(session), row(expected));
  for (const TraceEvent& event : trace.events()) {
    const bool is_prompt = event.n_tokens > 1 && std::string(event.name) != "head";
    EXPECT_EQ(event.lane, is_prompt ? 0 : 1) << event.name << ", " << event.n_tokens << " tokens";
  }
}

// The phase and the length decide where an executable runs: a step and a prompt of as many rows run
// on different lanes, and so do short and long prompts.
TEST_F(ChunksTest, H11_TheLaneFollowsPhaseAndLength) {
  if (!has_two_cores()) GTEST_SKIP() << "two lanes need two cores";
  prepare::Options options = two_lanes(plan::Order::kOutOfOrder);
  options.prompts.chunk = 64;
  options.lanes.placements = {{"ffn", 33, 1, plan::Placement::kAllBlocks, plan::Phase::kPrompt},
                              {"qkv", 2, 1, plan::Placement::kAllBlocks, plan::Phase::kStep},
                              {"", 0, 0}};
  prepare::Options on_one_lane = one_lane();
  on_one_lane.prompts.chunk = 64;
  Engine engine(options), alone(on_one_lane);
  ASSERT_FALSE(engine.plan().has_one_class());
  struct Case {
    plan::Phase phase;
    size_t n_rows;
    int lane_of_ffn, lane_of_qkv;
  };
  for (const Case& c :
       {Case{plan::Phase::kStep, 1, 0, 0}, Case{plan::Phase::kStep, 64, 0, 1},
        Case{plan::Phase::kPrompt, 20, 0, 0}, Case{plan::Phase::kPrompt, 64, 1, 0}}) {
    const std::vector<Token> before = tokens(64, 5), rows = tokens(c.n_rows, 6);
    Session session(engine), expected(alone);
    Trace trace({"0", "1"});
    std::vector<Row> results, wanted;
    cache::Batch batch;
    batch.add_chain(rows, 64, 0, /*all_logits=*/true);
    for (Session* s : {&session, &expected}) {
      s->prefill(before);
      std::vector<Row>& seen = s == &session ? results : wanted;
      if (s == &session) s->watch({.trace = &trace});
      s->run_batch(
          batch,
          [&](int, std::span<const float> row) { seen.emplace_back(row.begin(), row.end()); },
          [] { return std::vector<int>(); }, c.phase);
    }
    EXPECT_EQ(results.size(), c.n_rows);
    EXPECT_EQ(results, wanted);
    int n_ffn = 0, n_qkv = 0;
    for (const TraceEvent& event : trace.events()) {
      const std::string name = event.name;
      const int lane = name == "ffn" ? c.lane_of_ffn : name == "qkv" ? c.lane_of_qkv : 0;
      EXPECT_EQ(event.lane, lane) << name << ", " << phase_name(c.phase) << " of " << c.n_rows;
      n_ffn += name == "ffn";
      n_qkv += name == "qkv";
    }
    EXPECT_EQ(n_ffn, engine.blueprint().n_layers);
    EXPECT_EQ(n_qkv, engine.blueprint().n_layers);
  }
}

}  // namespace
}  // namespace troika
