// Experts are read when a router asks for them (P10). Results are those of experts in memory,
// whatever the budget is, whatever is guessed, and in whatever order experts come.
#include "prepare/streaming/expert_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/random.h"
#include "base/system.h"
#include "base/trace.h"
#include "lanes/host/experts/expert_reads.h"
#include "lanes/host/scratch.h"
#include "model/architecture.h"
#include "plan/plan_json.h"
#include "prepare/plan/saved_plan.h"
#include "prepare/streaming/weight_stream.h"
#include "tests/support/limited_engine.h"
#include "tests/support/tiny_engine.h"

namespace troika::prepare {
namespace {

using test_support::random_tokens;
using test_support::TinyEngine;
using test_support::TinyModel;
using weights::ExpertSource;
using Logits = std::vector<float>;

TinyModel mixture_model(const char* architecture, uint32_t type) {
  TinyModel model = test_support::tiny_model(architecture);
  model.n_layers = 6;
  model.type = type;
  return model;
}

struct Case {
  const char* architecture;
  uint32_t type;
  plan::Prefill prefill;
  ExpertReads reads;
};

Options options_for(const Case& c) {
  Options options;
  options.prompts.prefill = c.prefill;
  options.prompts.chunk = 32;  // gives a prompt several chunks
  options.memory.context = 256;
  options.memory.held_bytes = 0;
  options.memory.expert_reads = c.reads;
  options.lanes.n_threads = 2;
  return options;
}

// Runs a prompt, which needs nearly all experts, and steps, which need few.
std::vector<Logits> talk(engine::Session& session, const TinyModel& model) {
  return test_support::talk(session, random_tokens(model, 100, 5), 70);
}

const ExpertStream* experts_of(const TinyEngine& engine) {
  return engine.engine->loaded().experts.get();
}

// Returns an engine with the largest limit, to 64 KB, at which no more than this share of the
// experts has a place.
std::unique_ptr<TinyEngine> engine_with_experts(const TinyModel& model, const Options& options,
                                                size_t whole_bytes, double share) {
  const double most = share * double(model.n_layers) * model.n_experts;
  return test_support::engine_with_places(model, options, whole_bytes, most,
                                          [](const TinyEngine& engine) -> std::optional<int64_t> {
                                            const ExpertStream* const experts = experts_of(engine);
                                            if (experts == nullptr) return std::nullopt;
                                            return experts->n_places();
                                          });
}

// Returns an engine with the least limit, to 64 KB, that is accepted. It streams blocks beside the
// experts.
std::unique_ptr<TinyEngine> engine_with_least(const TinyModel& model, Options options,
                                              size_t enough_bytes) {
  size_t low = 0, high = enough_bytes;
  std::unique_ptr<TinyEngine> found;
  while (high - low > size_t{64} << 10) {
    options.memory.limit_bytes = low + (high - low) / 2;
    try {
      found = std::make_unique<TinyEngine>(model, options);
      high = options.memory.limit_bytes;
    } catch (const Error&) {
      low = options.memory.limit_bytes;
    }
  }
  return found;
}

class StreamedMixtures : public testing::TestWithParam<Case> {};

TEST_P(StreamedMixtures, P10ResultsAreThoseOfExpertsInMemory) {
  const TinyModel model = mixture_model(GetParam().architecture, GetParam().type);
  const Options options = options_for(GetParam());
  const TinyEngine whole(model, options);
  ASSERT_EQ(experts_of(whole), nullptr);
  const std::vector<Logits> expected = talk(*whole.session, model);
  for (const double share : {0.75, 0.4, 0.17}) {
    const auto streamed =
        engine_with_experts(model, options, whole.engine->ledger().total_bytes(), share);
    ASSERT_NE(streamed, nullptr) << share;
    EXPECT_EQ(talk(*streamed->session, model), expected) << share;
    const ExpertStream& experts = *experts_of(*streamed);
    const ExpertStream::Counters c = experts.counters();
    EXPECT_GT(c.misses, 0);
    // If a layer has fewer places than a token takes, each expert drives the others out.
    EXPECT_TRUE(c.hits > 0 || share < 0.2) << share;
    EXPECT_EQ(streamed->engine->loaded().stream->n_streamed(), 0);
    // A prompt at least makes right guesses, because it goes through the layers in order.
    EXPECT_GT(c.right_guesses, 0) << share;
    EXPECT_EQ(streamed->engine->ledger().bytes(plan::Owner::kWeights),
              experts.bytes() + streamed->engine->loaded().stream->most_bytes());
  }
  const auto least = engine_with_least(model, options, whole.engine->ledger().total_bytes());
  ASSERT_NE(least, nullptr);
  EXPECT_EQ(talk(*least->session, model), expected);
  EXPECT_EQ(experts_of(*least)->n_places(), model.n_experts);
  EXPECT_GT(least->engine->loaded().stream->n_streamed(), 0);
  EXPECT_FALSE(experts_of(*least)->takes_guesses());  // needs routers in memory
}

INSTANTIATE_TEST_SUITE_P(
    Every, StreamedMixtures,
    testing::Values(
        Case{"mixtral", test_support::kQ4_0, plan::Prefill::kQ8, ExpertReads::kGuessed},
        Case{"mixtral", test_support::kQ8_0, plan::Prefill::kBf16, ExpertReads::kByRoute},
        Case{"mixtral", test_support::kF32, plan::Prefill::kF32, ExpertReads::kGuessed},
        Case{"qwen2moe", test_support::kQ8_0, plan::Prefill::kSame, ExpertReads::kGuessed},
        Case{"qwen3moe", test_support::kQ4_0, plan::Prefill::kBf16, ExpertReads::kGuessed},
        Case{"qwen3moe", test_support::kQ8_0, plan::Prefill::kQ8, ExpertReads::kByRoute}),
    [](const auto& info) {
      return std::string(info.param.architecture) + "_" + plan::prefill_name(info.param.prefill) +
             (info.param.reads == ExpertReads::kGuessed ? "_guessed" : "");
    });

TEST(StreamedMixture, P10MemoryOfGuessesIsReckoned) {
  TinyModel model = mixture_model("qwen3moe", test_support::kQ8_0);
  model.n_layers = 2;
  model.n_experts = 128;
  const TinyEngine engine(model, options_for({"", 0, plan::Prefill::kSame, ExpertReads::kByRoute}));
  const model::Blueprint& blueprint = engine.engine->blueprint();
  const plan::Plan& plan = engine.engine->plan();
  int longest = 0;
  for (const model::Weight& weight : blueprint.weights) {
    longest = std::max(longest, static_cast<int>(weight.row_length));
  }
  const size_t guess = lanes::guess_floats(static_cast<size_t>(blueprint.width), 128);
  ASSERT_GT(guess, static_cast<size_t>(longest));
  const plan::PlannedLane& lane = plan.lanes.front();
  EXPECT_EQ(lanes::host_scratch_bytes(blueprint, lane, plan, true) -
                lanes::host_scratch_bytes(blueprint, lane, plan, false),
            2 * sizeof(float) * (guess - static_cast<size_t>(longest)));
}

// Prompts in int8 read blocks with all their experts, which need more memory than experts by route.
TEST(StreamedMixture, P10APlanWhosePromptsBecomeInt8IsReckonedWithThem) {
  const test::TempFolder folder;
  Options options =
      options_for({"qwen3moe", test_support::kQ8_0, plan::Prefill::kQ8, ExpertReads::kByRoute});
  options.model.file = folder.file("tiny.gguf");
  write_tiny_model(mixture_model("qwen3moe", test_support::kQ8_0), options.model.file);
  size_t whole_bytes = 0;
  {
    const engine::Engine engine(options);
    whole_bytes = engine.ledger().total_bytes();
    std::ofstream(folder.file("plan.json"))
        << plan::to_json({plan_identity(engine.file()), engine.plan()});
  }
  options.prompts = {};
  options.prompts.int8 = plan::Int8Method::kToken;
  options.plan.file = folder.file("plan.json");
  int n_run = 0, n_refused = 0;
  for (size_t share = 64; share > 0; --share) {
    options.memory.limit_bytes = whole_bytes / 64 * share;
    try {
      const engine::Engine engine(options);
      EXPECT_EQ(engine.plan().prefill, plan::Prefill::kInt8);
      EXPECT_LE(engine.ledger().total_bytes(), options.memory.limit_bytes);
      ++n_run;
    } catch (const Error&) {
      ++n_refused;
    }
  }
  EXPECT_GT(n_run, 0);
  EXPECT_GT(n_refused, 0);
}

TEST(StreamedMixture, P10WhatCannotBeReadIsASentenceAndNothingOfItStays) {
  const TinyModel model = mixture_model("qwen3moe", test_support::kQ8_0);
  const Options options = options_for({"", 0, plan::Prefill::kSame, ExpertReads::kGuessed});
  size_t whole_bytes = 0;
  std::vector<Logits> expected;
  {
    const TinyEngine whole(model, options);
    expected = talk(*whole.session, model);
    whole_bytes = whole.engine->ledger().total_bytes();
  }
  const auto streamed = engine_with_experts(model, options, whole_bytes, 0.3);
  ASSERT_NE(streamed, nullptr);
  EXPECT_EQ(talk(*streamed->session, model), expected);
  const std::string path = streamed->folder.file("tiny.gguf");
  std::string bytes;
  {
    std::ifstream file(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  // Experts of the last blocks are behind the new end of the file.
  std::filesystem::resize_file(path, bytes.size() * 3 / 4);
  {
    engine::Session session(*streamed->engine);
    const std::string problem = test::message_of<Error>([&] { talk(session, model); });
    EXPECT_NE(problem.find("tiny.gguf"), std::string::npos) << problem;
    EXPECT_NE(problem.find("ends at byte"), std::string::npos) << problem;
  }
  {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  engine::Session session(*streamed->engine);
  EXPECT_EQ(talk(session, model), expected);
}

TEST(StreamedMixture, P10ReadsOfExpertsHaveARowOfTheirOwn) {
  const TinyModel model = mixture_model("qwen3moe", test_support::kQ8_0);
  const Options options = options_for({"", 0, plan::Prefill::kSame, ExpertReads::kGuessed});
  size_t whole_bytes = 0;
  {
    const TinyEngine whole(model, options);
    whole_bytes = whole.engine->ledger().total_bytes();
  }
  const auto streamed = engine_with_experts(model, options, whole_bytes, 0.3);
  ASSERT_NE(streamed, nullptr);
  const std::vector<std::string> rows = streamed->engine->passes().trace_rows();
  ASSERT_EQ(rows.back(), "reads of experts");
  Trace trace(rows);
  streamed->session->watch({.trace = &trace});
  (void)talk(*streamed->session, model);
  std::set<int> blocks;
  double until_us = 0.0;
  for (const TraceEvent& event : trace.events()) {
    if (event.lane + 1 != static_cast<int>(rows.size())) continue;
    EXPECT_STREQ(event.name, "experts");
    EXPECT_GE(event.start_us, until_us);  // the disk is one row
    EXPECT_GE(event.end_us, event.start_us);
    until_us = event.end_us;
    blocks.insert(event.block);
  }
  EXPECT_EQ(blocks.size(), model.n_layers);
  EXPECT_EQ(*blocks.rbegin(), static_cast<int>(model.n_layers) - 1);
}

// Ends a stream before the file that its disk reads goes out of scope.
struct EndOfStream {
  ~EndOfStream() { stream.reset(); }
  std::unique_ptr<ExpertStream>& stream;
};

class ExpertsByHand : public testing::TestWithParam<bool> {
 protected:
  static constexpr int kMixtures = 6, kExperts = 8, kProducts = 3;

  ExpertsByHand() {
    path_ = folder_.file("tiny.gguf");
    write_tiny_model(mixture_model("qwen3moe", test_support::kQ4_0), path_);
    file_.emplace(gguf::File::open(path_));
    blueprint_ = model::read(*file_);
    weights_.emplace(*file_, blueprint_);
    for (const model::Mixture& mixture : model::mixtures(blueprint_)) {
      for (const model::WeightId id : mixture.products) {
        const weights::Matrix& matrix = weights_->matrix(id);
        const size_t bytes = matrix.row_bytes * static_cast<size_t>(matrix.n_rows);
        expected_.emplace_back(matrix.data, matrix.data + bytes);
      }
    }
  }

  RoutedExperts routed() const { return all_of_experts(blueprint_, *weights_); }

  // Opens a stream with places for n_places of all 48 experts.
  void open(int n_places) {
    const size_t one = ExpertStream::least_bytes(routed());
    ExpertStreamOptions options;
    options.way.may_use_io_uring = GetParam();
    options.way.spoil = spoil_;
    for (options.most_bytes = one / 8;; options.most_bytes += one / 64) {
      if (options.most_bytes < least_of_experts()) continue;
      stream_ = std::make_unique<ExpertStream>(options, routed(), *file_);
      EXPECT_LE(stream_->bytes(), options.most_bytes);
      if (stream_->n_places() >= n_places) return;
    }
  }
  FileRange part_of(int mixture, int product, int expert) const {
    const model::Mixture at = model::mixtures(blueprint_)[static_cast<size_t>(mixture)];
    const weights::Matrix& matrix = weights_->matrix(at.products[static_cast<size_t>(product)]);
    const size_t bytes = matrix.row_bytes * static_cast<size_t>(matrix.n_rows) / kExperts;
    return file_range(*file_, matrix.data + static_cast<size_t>(expert) * bytes, bytes);
  }
  size_t least_of_experts() const {
    return ExpertStream::shares_of(ExpertStream::least_bytes(routed()), routed()).experts;
  }

  // Takes rows as a worker does. Returns how many of them are not the model's.
  int take_all(int mixture, int first, size_t n, std::set<int>* taken) {
    int n_wrong = 0;
    for (int product = 0; product < kProducts; ++product) {
      const std::vector<std::byte>& all =
          expected_[static_cast<size_t>(mixture * kProducts + product)];
      const size_t bytes = all.size() / kExperts;
      for (size_t i = 0; i < n; ++i) {
        const int at = static_cast<int>((i + static_cast<size_t>(first)) % n);
        const ExpertSource::Rows rows = stream_->take({mixture, product}, at);
        taken->insert(rows.expert);
        const std::byte* const wanted = all.data() + static_cast<size_t>(rows.expert) * bytes;
        n_wrong += std::memcmp(rows.data, wanted, bytes) != 0 ? 1 : 0;
      }
    }
    return n_wrong;
  }

  // Uses a mixture as two workers compute it. Returns how many rows were wrong.
  int use(int mixture, const std::vector<int32_t>& wanted, const std::vector<int32_t>& guessed,
          plan::Phase phase = plan::Phase::kPrompt) {
    stream_->want(mixture, wanted, phase);
    std::set<int> taken, taken_too;
    int n_wrong = 0, n_wrong_too = 0;
    std::thread other([&] {
      if (mixture + 1 < kMixtures) stream_->guess(mixture + 1, guessed);
      n_wrong_too =
          take_all(mixture, static_cast<int>(wanted.size() / 2), wanted.size(), &taken_too);
    });
    n_wrong = take_all(mixture, 0, wanted.size(), &taken);
    other.join();
    stream_->finish(mixture);
    EXPECT_EQ(taken, std::set<int>(wanted.begin(), wanted.end()));
    EXPECT_EQ(taken_too, taken);
    return n_wrong + n_wrong_too;
  }

  // Returns experts of one token, of several, or of a prompt.
  static std::vector<int32_t> random_experts(uint64_t seed) {
    std::set<int32_t> experts;
    const uint64_t n = random_bits(seed, 0) % 5 == 0 ? 12 : 1 + random_bits(seed, 1) % 4;
    for (uint64_t i = 0; i < n; ++i) {
      experts.insert(static_cast<int32_t>(random_bits(seed, 2 + i) % kExperts));
    }
    return {experts.begin(), experts.end()};
  }

  test::TempFolder folder_;
  std::string path_;
  std::optional<gguf::File> file_;
  model::Blueprint blueprint_;
  std::optional<weights::Store> weights_;
  std::vector<std::vector<std::byte>> expected_;  // (mixtures, products)
  decltype(lanes::DiskOptions::spoil) spoil_;
  std::unique_ptr<ExpertStream> stream_;
};

// Says whether a read brings bytes of this part.
bool is_within(const lanes::ReadRequest& read, const FileRange& part) {
  return read.offset + read.bytes > part.offset && read.offset < part.offset + part.bytes;
}

TEST_P(ExpertsByHand, P10AreThoseOfTheModelInAnyOrderOfArrival) {
  // Some reads end short and go on later, so that reads behind them end before.
  std::atomic<uint64_t> n_calls = 0;
  const EndOfStream end{stream_};
  spoil_ = [&](const lanes::ReadRequest&, int64_t returned) -> int64_t {
    const uint64_t call = n_calls++;
    if (returned < 2 || random_bits(5, call) % 3 == 0) return returned;
    if (random_bits(6, call) % 4 == 0) return -EINTR;
    return 1 + static_cast<int64_t>(random_bits(7, call) % static_cast<uint64_t>(returned - 1));
  };
  for (const int n_places : {8, 12, 30, 48}) {
    open(n_places);
    for (uint64_t i = 0; i < 300; ++i) {
      const int mixture = static_cast<int>(i % kMixtures);
      const std::vector<int32_t> wanted = random_experts(i);
      // Some guesses are right, because the next round wants these experts.
      const std::vector<int32_t> guessed = random_experts(i % 3 == 0 ? i + 1 : 1000 + i);
      const plan::Phase phase = i / kMixtures % 2 == 0 ? plan::Phase::kPrompt : plan::Phase::kStep;
      ASSERT_EQ(use(mixture, wanted, guessed, phase), 0) << n_places << ", " << i;
    }
    EXPECT_FALSE(stream_->take_problem());
    const ExpertStream::Counters c = stream_->counters();
    // Where places are few, all are taken again before the same mixture returns.
    EXPECT_TRUE(n_places < 30 || c.hits > 0);
    EXPECT_GT(c.right_guesses, 0);
    EXPECT_TRUE(n_places == 48 || c.evictions > 0);
  }
}

TEST_P(ExpertsByHand, P10AScanDoesNotDriveOutWhatStepsUse) {
  // There are places for what steps use, for a scan's layer and the next one, and for four guesses
  // that may still be read when they have turned out wrong.
  open(2 * kMixtures + 2 * (kExperts - 2) + 4);
  const std::vector<int32_t> hot = {1, 4}, all = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto use_all = [&](const std::vector<int32_t>& wanted, plan::Phase phase) {
    const int64_t n_before = stream_->counters().hits;
    for (int mixture = 0; mixture < kMixtures; ++mixture) {
      EXPECT_EQ(use(mixture, wanted, {}, phase), 0);
    }
    return stream_->counters().hits - n_before;
  };
  EXPECT_EQ(use_all(hot, plan::Phase::kStep), 0);
  // Five experts of each mixture are a scan too, as there are places for less.
  for (const std::vector<int32_t>& some : {all, {1, 2, 4, 5, 6}, all}) {
    EXPECT_GE(use_all(some, plan::Phase::kPrompt), 12);
    EXPECT_EQ(use_all(hot, plan::Phase::kStep), 12);
  }
}

// What a prompt surely needs next is read behind what it needs now, guesses are not.
TEST_P(ExpertsByHand, P10AScanReadsAheadWhileWantedExpertsAreRead) {
  if (!GetParam()) GTEST_SKIP() << "One thread reads one part after the other.";
  std::atomic<bool> is_held = true;
  std::atomic<int> n_ahead = 0;
  const FileRange held = part_of(0, 0, 7);
  const uint64_t next = part_of(1, 0, 0).offset;
  const uint64_t next_end = part_of(1, 0, kExperts - 1).offset + held.bytes;
  const EndOfStream end{stream_};
  spoil_ = [&](const lanes::ReadRequest& read, int64_t returned) -> int64_t {
    if (is_within(read, held)) return is_held ? -EAGAIN : returned;
    if (read.offset >= next && read.offset < next_end) ++n_ahead;
    return returned;
  };
  open(48);
  stream_->want(0, std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7}, plan::Phase::kPrompt);
  for (int i = 0; i < 10000 && n_ahead < kExperts - 1; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GE(n_ahead, kExperts - 1);
  is_held = false;
  stream_->finish(0);
}

TEST_P(ExpertsByHand, P10PlacesHaveTheirMemoryBeforeTheFirstRead) {
  open(48);
  const size_t before = resident_anonymous_bytes();
  if (!stream_->take_memory(2)) GTEST_SKIP() << "This system gives no memory ahead.";
  EXPECT_GT(resident_anonymous_bytes(), before + stream_->bytes() * 3 / 4);
  ASSERT_EQ(use(0, {1, 4}, {}), 0);
}

// Several answers may take all experts of a mixture, and the next step takes others.
TEST_P(ExpertsByHand, P10AStepThatTakesAllExpertsIsNoScan) {
  const std::vector<int32_t> all = {0, 1, 2, 3, 4, 5, 6, 7};
  open(48);
  for (int mixture = 0; mixture < kMixtures; ++mixture) {
    ASSERT_EQ(use(mixture, all, {}, plan::Phase::kStep), 0);
  }
  EXPECT_EQ(stream_->counters().right_guesses, 0);
  EXPECT_EQ(stream_->counters().misses, kMixtures * kExperts);
  open(48);
  for (int mixture = 0; mixture < kMixtures; ++mixture) ASSERT_EQ(use(mixture, all, {}), 0);
  EXPECT_GT(stream_->counters().right_guesses, 0);
}

TEST_P(ExpertsByHand, P10AReadThatFailedIsSaidOnlyToAPassThatWantsIt) {
  std::atomic<bool> is_broken = false;
  std::atomic<int> n_failed = 0;
  const EndOfStream end{stream_};
  spoil_ = [&](const lanes::ReadRequest&, int64_t returned) -> int64_t {
    if (!is_broken) return returned;
    ++n_failed;
    return -EIO;
  };
  open(12);
  ASSERT_EQ(use(0, {1}, {}), 0);
  is_broken = true;
  stream_->want(1, std::vector<int32_t>{}, plan::Phase::kStep);
  stream_->guess(2, std::vector<int32_t>{3});
  while (n_failed < kProducts) std::this_thread::yield();
  stream_->finish(1);
  is_broken = false;
  EXPECT_EQ(use(2, {5}, {}), 0);  // nobody wants what was guessed
  EXPECT_FALSE(stream_->take_problem());
  is_broken = true;
  (void)use(3, {6}, {});
  const std::optional<std::string> problem = stream_->take_problem();
  ASSERT_TRUE(problem);
  // The sentence is about this read, not about the guess before.
  const std::string_view before = "from byte ";
  const size_t at = problem->find(before);
  ASSERT_NE(at, std::string::npos) << *problem;
  const lanes::ReadRequest read = {0, std::stoull(problem->substr(at + before.size())), 4096};
  bool is_own = false;
  for (int p = 0; p < kProducts; ++p) is_own = is_own || is_within(read, part_of(3, p, 6));
  EXPECT_TRUE(is_own) << *problem;
}

TEST_P(ExpertsByHand, P10APassThatWantsWhatFailedHalfHearsWhy) {
  const FileRange first = part_of(0, 0, 2), failed = part_of(1, 0, 4), held = part_of(1, 1, 4);
  std::atomic<bool> is_held = true, has_failed = false;
  const EndOfStream end{stream_};
  spoil_ = [&](const lanes::ReadRequest& read, int64_t returned) -> int64_t {
    if (is_within(read, first)) return -EIO;
    if (is_within(read, failed)) {
      has_failed = true;
      return -EIO;
    }
    return is_within(read, held) && is_held ? -EAGAIN : returned;
  };
  open(12);
  stream_->want(0, std::vector<int32_t>{2}, plan::Phase::kStep);
  stream_->guess(1, std::vector<int32_t>{4});
  while (!has_failed) std::this_thread::yield();
  stream_->finish(0);
  EXPECT_TRUE(stream_->take_problem());
  stream_->want(1, std::vector<int32_t>{4}, plan::Phase::kStep);
  is_held = false;
  stream_->finish(1);
  const std::optional<std::string> problem = stream_->take_problem();
  ASSERT_TRUE(problem);
  EXPECT_NE(problem->find("cannot be read"), std::string::npos) << *problem;
}

TEST_P(ExpertsByHand, P10TimesOfReadsAreNotedForATrace) {
  open(48);
  ASSERT_EQ(use(0, {1, 4}, {}, plan::Phase::kStep), 0);
  EXPECT_TRUE(stream_->take_reads().empty());  // nobody traced
  stream_->set_tracing(true);
  const double before_us = stream_->counters().read_us;
  ASSERT_EQ(use(1, {2, 3}, {}, plan::Phase::kStep), 0);
  const std::vector<ExpertStream::LayerReads> reads = stream_->take_reads();
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0].layer, 1);
  EXPECT_NEAR(reads[0].end_us - reads[0].start_us, stream_->counters().read_us - before_us, 1.0);
  ASSERT_EQ(use(1, {2, 3}, {}, plan::Phase::kStep), 0);
  EXPECT_TRUE(stream_->take_reads().empty());  // nothing was read
  ASSERT_EQ(use(2, {2, 3}, {}, plan::Phase::kStep), 0);
  stream_->set_tracing(false);
  EXPECT_TRUE(stream_->take_reads().empty());
}

TEST_P(ExpertsByHand, P10WaitsForTheEndOfAMixtureCount) {
  std::atomic<bool> is_held = true;
  const EndOfStream end{stream_};
  spoil_ = [&](const lanes::ReadRequest&, int64_t returned) -> int64_t {
    return is_held ? -EAGAIN : returned;
  };
  open(12);
  stream_->want(0, std::vector<int32_t>{2}, plan::Phase::kStep);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    is_held = false;
  });
  stream_->finish(0);  // nobody took rows
  other.join();
  EXPECT_GT(stream_->counters().wait_us, 0.0);
}

TEST_P(ExpertsByHand, P10WhatADiskCannotReadIsSaidOnceAndReadAgain) {
  std::atomic<bool> is_broken = false;
  const EndOfStream end{stream_};
  spoil_ = [&](const lanes::ReadRequest& read, int64_t returned) -> int64_t {
    return is_broken && read.offset / 4096 % 3 == 0 ? -EIO : returned;
  };
  open(12);
  int n_problems = 0;
  for (uint64_t i = 0; i < 120; ++i) {
    is_broken = i % 4 == 1;
    const int mixture = static_cast<int>(i % kMixtures);
    const int n_wrong = use(mixture, random_experts(i), random_experts(i + 1));
    const std::optional<std::string> problem = stream_->take_problem();
    n_problems += problem ? 1 : 0;
    if (problem) {
      EXPECT_NE(problem->find("tiny.gguf"), std::string::npos) << *problem;
      EXPECT_NE(problem->find("cannot be read"), std::string::npos) << *problem;
    } else {
      ASSERT_EQ(n_wrong, 0) << i;
    }
    EXPECT_FALSE(stream_->take_problem());
  }
  // How many reads there are while the disk is broken depends on what was read ahead before.
  EXPECT_GT(n_problems, 0);
}

TEST_P(ExpertsByHand, P10APassThatWasGivenUpLeavesNothingBehind) {
  open(8);
  for (uint64_t i = 0; i < 60; ++i) {
    // Nobody takes these.
    stream_->want(static_cast<int>(i) % kMixtures, random_experts(i), plan::Phase::kStep);
    ASSERT_EQ(use(0, random_experts(100 + i), random_experts(200 + i)), 0) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, ExpertsByHand, testing::Values(true, false), [](const auto& info) {
  return std::string(info.param ? "IoUring" : "Pread");
});

}  // namespace
}  // namespace troika::prepare
