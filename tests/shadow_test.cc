// Outliers that run on a lane of their own, beside the product that they belong to (N4), give the
// bits of one lane, in whatever order tasks end and however a prompt is divided.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "base/error.h"
#include "base/system.h"
#include "tests/support/int8_plan.h"
#include "tests/support/logits.h"
#include "tests/support/random_machine.h"
#include "tests/support/temp_folder.h"

namespace troika {
namespace {

using engine::Engine;
using engine::Session;
using plan::Int8Method;
using test_support::NamedModel;
using test_support::TinyModelFile;
using text::Token;
using Row = std::vector<float>;

constexpr int kChunk = 36;
// Lists lengths around the borders of chunks: odd and even numbers of chunks, and last chunks of
// any length.
constexpr int kLengths[] = {1,          kChunk - 1,      kChunk,     kChunk + 1,
                            2 * kChunk, 2 * kChunk + 34, 3 * kChunk, 3 * kChunk + 7};

// Returns int8 options with limits that some activations exceed. Each lane has a core; outliers and
// attention run on the second lane.
prepare::Options options_of(const TinyModelFile& file, Int8Method method, int n_lanes,
                            plan::Order order = plan::Order::kOutOfOrder, int prune = 0) {
  prepare::Options options = file.float_options();
  options.prompts.chunk = kChunk;
  plan::Plan plan = test_support::plan_of(options, method, 1.0f);
  plan.int8.outlier_prune = prune;
  plan.order = order;
  plan.chunks_in_flight = 3;
  if (n_lanes == 2) {
    const std::vector<int> cores = usable_core_numbers();
    plan.lanes = {{{cores[0]}, 1}, {{cores[1]}, 1}};
    plan.placements = {{"attention", 0, 1}, {"shadow", 2, 1}};
  }
  options.plan.exact = plan;
  options.memory.shadow_rows = prepare::ShadowRows::kAll;
  return options;
}

bool has_two_cores() { return usable_core_numbers().size() >= 2; }

// Returns the logits behind a prompt and behind tokens that follow it, which show that the cache is
// the same too.
std::vector<Row> rows_of(Engine& engine, const test_support::TinyModel& model, int length,
                         Trace* trace = nullptr) {
  Session session(engine);
  session.watch({.trace = trace});
  const auto copy = [&] {
    const std::span<const float> logits = session.logits();
    return Row(logits.begin(), logits.end());
  };
  EXPECT_EQ(session.prefill(test_support::random_tokens(model, static_cast<size_t>(length), 7)),
            length);
  std::vector<Row> rows = {copy()};
  session.evaluate(test_support::random_tokens(model, 2, 9), {});
  rows.push_back(copy());
  return rows;
}

class ShadowModels : public testing::TestWithParam<NamedModel> {};

TEST_P(ShadowModels, N4AnotherLaneGivesTheBitsOfOneInAnyOrder) {
  if (!has_two_cores()) GTEST_SKIP() << "two lanes need two cores";
  const test_support::TinyModel& model = GetParam().model;
  const TinyModelFile file(model);
  Engine alone(options_of(file, Int8Method::kShadow, 1));
  ASSERT_EQ(alone.plan().chunk(), kChunk);
  std::map<int, std::vector<Row>> expected;
  for (const int length : kLengths) expected[length] = rows_of(alone, model, length);
  // One model of each architecture runs in every order.
  std::vector<plan::Order> orders = {plan::Order::kOutOfOrder};
  if (GetParam().name == model.architecture) {
    orders.insert(orders.end(), {plan::Order::kInOrder, plan::Order::kLockStep});
  }
  for (const plan::Order order : orders) {
    Engine engine(options_of(file, Int8Method::kShadow, 2, order));
    for (const int length : kLengths) {
      EXPECT_TRUE(rows_of(engine, model, length) == expected[length])
          << plan::order_name(order) << ", " << length << " tokens";
    }
    EXPECT_GT(engine.graphs().shadow()->counters().n_outliers, 0u);
  }
}

TEST_P(ShadowModels, N4EveryMethodThatTakesOutliersOut) {
  if (!has_two_cores()) GTEST_SKIP() << "two lanes need two cores";
  const test_support::TinyModel& model = GetParam().model;
  const TinyModelFile file(model);
  for (const Int8Method method : {Int8Method::kTokenShadow, Int8Method::kSplit}) {
    Engine alone(options_of(file, method, 1)), engine(options_of(file, method, 2));
    EXPECT_TRUE(rows_of(engine, model, 2 * kChunk) == rows_of(alone, model, 2 * kChunk))
        << plan::int8_method_name(method);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, ShadowModels,
                         testing::ValuesIn(test_support::tiny_model_variants()),
                         [](const auto& info) { return test_support::test_name(info.param); });

// Returns the trace of a prompt, which names its tasks.
std::vector<TraceEvent> events_of(Engine& engine, const test_support::TinyModel& model,
                                  int length) {
  Trace trace({"matrix", "vector"});
  rows_of(engine, model, length, &trace);
  return trace.events();
}

int count(const std::vector<TraceEvent>& events, const std::string& name) {
  return static_cast<int>(std::count_if(events.begin(), events.end(),
                                        [&](const TraceEvent& e) { return name == e.name; }));
}

TEST(Shadow, N4TasksStandInTheTraceOnTheirLanes) {
  if (!has_two_cores()) GTEST_SKIP() << "two lanes need two cores";
  const test_support::TinyModel model = test_support::tiny_model("llama");
  const TinyModelFile file(model);
  Engine engine(options_of(file, Int8Method::kShadow, 2));
  const std::vector<TraceEvent> events = events_of(engine, model, 2 * kChunk);
  const size_t n_inputs = model::linear_inputs(engine.blueprint()).size();
  for (const char* name : {"extract", "shadow", "sum"}) {
    EXPECT_EQ(count(events, name), 2 * static_cast<int>(n_inputs)) << name;
  }
  for (const TraceEvent& event : events) {
    const std::string name = event.name;
    if (name == "extract" || name == "shadow" || name == "sum") {
      EXPECT_EQ(event.lane, 1) << name;
    }
  }
  // A shadow waits only for its extraction, so it may run beside the product. The sum waits for
  // both.
  const schedule::TaskList& list = engine.graphs().body(plan::Phase::kPrompt, kChunk);
  int n_shadows = 0;
  for (size_t i = 0; i < list.tasks.size(); ++i) {
    if (std::string(list.tasks[i].name) != "shadow") continue;
    ++n_shadows;
    const schedule::Task& product = list.tasks[i - 1];
    EXPECT_EQ(product.lane, 0);
    EXPECT_EQ(list.tasks[i].waits_for, product.waits_for);
    EXPECT_EQ(std::string(list.tasks[static_cast<size_t>(product.waits_for[0])].name), "extract");
    EXPECT_EQ(list.tasks[i + 1].waits_for,
              (std::vector<int>{static_cast<int>(i) - 1, static_cast<int>(i)}));
  }
  EXPECT_EQ(n_shadows, static_cast<int>(n_inputs));
}

TEST(Shadow, N6PrunedProductsHaveNoTasksOfTheirOwn) {
  if (!has_two_cores()) GTEST_SKIP() << "two lanes need two cores";
  const test_support::TinyModel model = test_support::tiny_model("llama");
  const TinyModelFile file(model);
  for (const int prune : {50, 100}) {
    Engine alone(options_of(file, Int8Method::kShadow, 1, plan::Order::kOutOfOrder, prune));
    Engine engine(options_of(file, Int8Method::kShadow, 2, plan::Order::kOutOfOrder, prune));
    const std::vector<bool> kept = engine.plan().int8.shadowed();
    const auto n_kept = static_cast<int>(std::count(kept.begin(), kept.end(), true));
    const std::vector<TraceEvent> events = events_of(engine, model, 2 * kChunk);
    for (const char* name : {"extract", "shadow", "sum"}) {
      EXPECT_EQ(count(events, name), 2 * n_kept) << name << ", " << prune << " %";
    }
    EXPECT_EQ(engine.graphs().shadow() == nullptr, prune == 100);
    EXPECT_TRUE(rows_of(engine, model, 3 * kChunk) == rows_of(alone, model, 3 * kChunk));
  }
}

TEST(Shadow, N4N7NoOrderInWhichTasksEndChangesABit) {
  if (!has_two_cores()) GTEST_SKIP() << "two lanes need two cores";
  const test_support::TinyModel model = test_support::tiny_model("llama");
  const TinyModelFile file(model);
  Engine alone(options_of(file, Int8Method::kShadow, 1, plan::Order::kOutOfOrder, 30));
  const std::vector<Row> expected = rows_of(alone, model, 3 * kChunk + 7);
  for (const plan::Order order :
       {plan::Order::kInOrder, plan::Order::kLockStep, plan::Order::kOutOfOrder}) {
    Engine engine(options_of(file, Int8Method::kShadow, 2, order, 30));
    for (uint64_t seed = 0; seed < 12; ++seed) {
      test::RandomMachine machine(engine.machine(), seed);
      engine.passes().runner.set_machine(machine);
      EXPECT_TRUE(rows_of(engine, model, 3 * kChunk + 7) == expected)
          << plan::order_name(order) << ", seed " << seed;
      engine.passes().runner.set_machine(engine.machine());
    }
  }
}

// Lists the ways to keep columns of weights: all in memory, those of a few hot channels, or none.
constexpr std::pair<const char*, prepare::ShadowRows> kShadowRows[] = {
    {"all", prepare::ShadowRows::kAll},
    {"hot", prepare::ShadowRows::kHot},
    {"none", prepare::ShadowRows::kNone}};

class ShadowRows : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_two_cores()) GTEST_SKIP() << "two lanes need two cores";
    ASSERT_EQ(setenv("XDG_CACHE_HOME", folder_.file("cache").c_str(), 1), 0);
  }
  void TearDown() override { unsetenv("XDG_CACHE_HOME"); }

  prepare::Options options(prepare::ShadowRows rows, int prune = 0,
                           Int8Method method = Int8Method::kShadow) const {
    prepare::Options options = options_of(file_, method, 2, plan::Order::kOutOfOrder, prune);
    options.memory.shadow_rows = rows;
    // Few activations exceed the doubled limits, so not every channel is in every chunk.
    for (plan::Int8Input& input : options.plan.exact->int8.inputs) {
      input.limit *= 2;
      input.hot_channels = {0, 5, 9, 2};
    }
    return options;
  }
  prepare::Options one_lane(int prune = 0) const {
    prepare::Options one = options(prepare::ShadowRows::kAll, prune);
    one.plan.exact->lanes = {{{}, 1}};
    one.plan.exact->placements.clear();
    return one;
  }
  std::vector<Row> rows(const prepare::Options& options) const {
    Engine engine(options);
    return rows_of(engine, model_, kLength);
  }
  std::vector<std::string> side_files() const {
    std::vector<std::string> files;
    const std::string cache = folder_.file("cache");
    if (!std::filesystem::exists(cache)) return files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(cache)) {
      if (entry.is_regular_file()) files.push_back(entry.path().string());
    }
    return files;
  }
  // Changes a byte, whatever it is: keys and times differ from run to run.
  static void change_byte(const std::string& path, std::streamoff at) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(at);
    const int byte = file.get();
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 1));
    ASSERT_TRUE(file.good());
  }

  static constexpr int kLength = 3 * kChunk + 7;
  test::TempFolder folder_;
  test_support::TinyModel model_ = test_support::tiny_model("llama");
  TinyModelFile file_{model_};
};

TEST_F(ShadowRows, N5AColdOutlierGivesTheExactResult) {
  const std::vector<Row> expected = rows(one_lane());
  std::map<std::string, lanes::ShadowCounters> counters;
  std::map<std::string, size_t> bytes;
  for (const auto& [which, kept] : kShadowRows) {
    Engine engine(options(kept));
    EXPECT_TRUE(rows_of(engine, model_, kLength) == expected) << which;
    counters[which] = engine.graphs().shadow()->counters();
    const weights::Channels& channels = *engine.weights().channels();
    bytes[which] = channels.resident_bytes();
    EXPECT_EQ(bytes[which] == channels.all_bytes(), std::string(which) == "all");
    EXPECT_GE(channels.measured_bytes(), bytes[which]);
    EXPECT_EQ(engine.loaded().channel_file == nullptr, std::string(which) == "all");
  }
  for (const auto& [which, c] : counters) EXPECT_EQ(c.n_outliers, counters["all"].n_outliers);
  EXPECT_EQ(counters["all"].n_reads, 0u);
  EXPECT_EQ(counters["none"].n_cold, counters["none"].n_outliers);
  EXPECT_GT(counters["hot"].n_cold, 0u);
  EXPECT_LT(counters["hot"].n_cold, counters["none"].n_cold);
  EXPECT_LT(counters["hot"].n_reads, counters["none"].n_reads);
  // A chunk reads a column once, however many of its tokens need it.
  EXPECT_LT(counters["none"].n_reads, counters["none"].n_cold);
  EXPECT_GE(counters["none"].read_bytes, 4096 * counters["none"].n_reads);
  EXPECT_EQ(bytes["none"], 0u);
  EXPECT_LT(bytes["hot"], bytes["all"]);
}

// Passes that give the logits of every row run task by task, whichever lane the tasks are on.
TEST_F(ShadowRows, N4N5AWholeTextGivesTheSameLogits) {
  const auto tokens = test_support::random_tokens(model_, 2 * kChunk + 3);
  const auto expected = test_support::engine_logits(one_lane(), tokens);
  for (const auto& [which, kept] : kShadowRows) {
    EXPECT_TRUE(test_support::engine_logits(options(kept), tokens) == expected) << which;
  }
}

TEST_F(ShadowRows, N5EveryFormOfScales) {
  for (const bool is_tensor : {false, true}) {
    for (const Int8Method method : {Int8Method::kShadow, Int8Method::kTokenShadow}) {
      prepare::Options cold = options(prepare::ShadowRows::kNone, 0, method);
      prepare::Options resident = options(prepare::ShadowRows::kAll, 0, method);
      cold.plan.exact->int8.weight_scales =
          is_tensor ? plan::WeightScales::kTensor : plan::WeightScales::kRow;
      resident.plan.exact->int8.weight_scales =
          is_tensor ? plan::WeightScales::kTensor : plan::WeightScales::kRow;
      EXPECT_TRUE(rows(cold) == rows(resident)) << is_tensor;
    }
  }
  EXPECT_EQ(side_files().size(), 2u);  // each form has one
}

TEST_F(ShadowRows, N5TheSideFileIsMadeOnceAndAgainWhenItIsStale) {
  const std::vector<Row> expected = rows(one_lane());
  const auto note_of = [&](const prepare::Options& options) {
    Engine engine(options);
    EXPECT_TRUE(rows_of(engine, model_, kLength) == expected);
    return engine.loaded().note;
  };
  EXPECT_NE(note_of(options(prepare::ShadowRows::kHot)).find("wrote"), std::string::npos);
  EXPECT_EQ(note_of(options(prepare::ShadowRows::kHot)), "");
  ASSERT_EQ(side_files().size(), 1u);
  const std::string path = side_files().front();
  // The file is stale after a change in any word of the header, or of the file's length.
  for (const std::streamoff at : {0, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96}) {
    change_byte(path, at);
    EXPECT_NE(note_of(options(prepare::ShadowRows::kHot)).find("wrote"), std::string::npos)
        << "byte " << at;
    EXPECT_EQ(note_of(options(prepare::ShadowRows::kNone)), "") << "byte " << at;
  }
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_NE(note_of(options(prepare::ShadowRows::kHot)).find("wrote"), std::string::npos);
  std::filesystem::resize_file(path, 3);
  EXPECT_NE(note_of(options(prepare::ShadowRows::kHot)).find("wrote"), std::string::npos);
  // The model's time of change is a part of its identity.
  std::filesystem::last_write_time(
      file_.path(), std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5));
  EXPECT_NE(note_of(options(prepare::ShadowRows::kHot)).find("another content"), std::string::npos);
  EXPECT_EQ(side_files().size(), 1u);
}

TEST_F(ShadowRows, N6AFileThatLacksAProductIsMadeAgainWithWhatItHad) {
  const auto bytes = [&](int prune) {
    Engine engine(options(prepare::ShadowRows::kHot, prune));
    EXPECT_TRUE(rows_of(engine, model_, kLength) == rows(one_lane(prune)));
    return engine.loaded().channel_file->bytes();
  };
  const uint64_t few = bytes(70);
  const uint64_t all = bytes(0);
  EXPECT_LT(few, all);
  EXPECT_EQ(bytes(70), all);  // keeps the products that it had
}

TEST_F(ShadowRows, N5AFileThatCannotBeWrittenOrReadIsASentence) {
  ASSERT_EQ(setenv("XDG_CACHE_HOME", "/dev/null/no-folder", 1), 0);
  try {
    Engine engine(options(prepare::ShadowRows::kHot));
    FAIL() << "wrote to no folder";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("‹no-cache›"), std::string::npos) << error.what();
  }
  prepare::Options without = options(prepare::ShadowRows::kHot);
  without.memory.has_side_files = false;
  EXPECT_TRUE(rows(without) == rows(one_lane()));
  ASSERT_EQ(setenv("XDG_CACHE_HOME", folder_.file("cache").c_str(), 1), 0);
  EXPECT_TRUE(side_files().empty());
  // The file is cut short while it is in use.
  Engine engine(options(prepare::ShadowRows::kNone));
  std::filesystem::resize_file(side_files().front(), 4096);
  try {
    rows_of(engine, model_, kLength);
    FAIL() << "read what is not there";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("channels-"), std::string::npos) << error.what();
  }
}

// A column that stays in memory is checked at the start, the others where a pass reads them.
TEST_F(ShadowRows, N5AColumnThatIsDamagedOnTheDiskIsASentence) {
  rows(options(prepare::ShadowRows::kNone));
  ASSERT_EQ(side_files().size(), 1u);
  const std::string path = side_files().front();
  Engine engine(options(prepare::ShadowRows::kNone));
  const std::vector<Row> expected = rows_of(engine, model_, kLength);
  // The tables, the scales and the checks keep what they are; only columns change.
  for (const weights::ChannelInput& input : engine.weights().channels()->inputs()) {
    for (size_t channel = 0; channel < input.k; ++channel) {
      change_byte(path, static_cast<std::streamoff>(input.file_offset + channel * input.bytes));
    }
  }
  const std::string message = test::message_of<Error>([&] { rows_of(engine, model_, kLength); });
  EXPECT_NE(message.find(path), std::string::npos) << message;
  EXPECT_NE(message.find("the weights of a channel are damaged"), std::string::npos) << message;
  // An engine that is made now reads no better ones.
  EXPECT_NE(test::message_of<Error>([&] {
              rows(options(prepare::ShadowRows::kNone));
            }).find("are damaged"),
            std::string::npos);
  std::filesystem::remove(path);
  EXPECT_TRUE(rows(options(prepare::ShadowRows::kNone)) == expected);
}

TEST_F(ShadowRows, N5ReadsAreTasksOfALaneOfTheirOwn) {
  Engine engine(options(prepare::ShadowRows::kNone));
  ASSERT_EQ(engine.machine().lanes().size(), 3u);
  Trace trace({"matrix", "vector", "disk"});
  rows_of(engine, model_, 2 * kChunk, &trace);
  int n_reads = 0;
  for (const TraceEvent& event : trace.events()) {
    EXPECT_EQ(event.lane == 2, std::string(event.name) == "read");
    n_reads += event.lane == 2 ? 1 : 0;
  }
  EXPECT_EQ(n_reads, 2 * static_cast<int>(model::linear_inputs(engine.blueprint()).size()));
  // Only the shadow product waits for the reads.
  const schedule::TaskList& list = engine.graphs().body(plan::Phase::kPrompt, kChunk);
  for (size_t i = 0; i < list.tasks.size(); ++i) {
    for (const int other : list.tasks[i].waits_for) {
      if (std::string(list.tasks[static_cast<size_t>(other)].name) != "read") continue;
      EXPECT_STREQ(list.tasks[i].name, "shadow");
    }
  }
}

TEST(Shadow, N4ALaneWithoutOutliersIsToldAndChangesNothing) {
  if (!has_two_cores()) GTEST_SKIP() << "two lanes need two cores";
  const TinyModelFile file(test_support::tiny_model("llama"));
  const Engine engine(options_of(file, Int8Method::kToken, 2));
  EXPECT_NE(engine.loaded().note.find("no outliers"), std::string::npos);
  EXPECT_EQ(engine.graphs().shadow(), nullptr);
}

}  // namespace
}  // namespace troika
