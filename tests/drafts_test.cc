// Text that is made with drafts is plain text, token for token, over prompts, kinds of drafts, ways
// of sampling and types of keys and values. The test takes a few hundred prompts; TROIKA_DRAFTS=all
// takes the full cross product, which runs for many minutes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "engine/drafting/drafting.h"
#include "engine/generate.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace troika {
namespace {

using cache::Token;
using Tokens = std::vector<Token>;

bool takes_all() {
  const char* value = std::getenv("TROIKA_DRAFTS");
  return value != nullptr && std::string(value) == "all";
}

constexpr tensor::Type kKvTypes[] = {tensor::Type::kF16, tensor::Type::kF32, tensor::Type::kQ8_0};
// A fixed width makes sure that there are drafts; with 0 the clock decides.
constexpr int kWidths[] = {8, 32, 0, 3};
constexpr const char* kKinds[] = {"context", "lookup", "sam+reuse+calibrated"};
// Calibrated drafts cover these percentages of a prompt.
constexpr int kCoverages[] = {100, 35};

engine::SamplerOptions sampling(int way, uint64_t seed) {
  engine::SamplerOptions o;
  o.seed = seed;
  if (way == 0) o.temperature = 0.0f;
  if (way == 1) o.temperature = 0.7f;
  if (way == 2) {
    o.temperature = 0.9f;
    o.top_k = 0;
    o.top_p = 0.8f;
    o.repetition_penalty = 1.1f;
    o.frequency_penalty = 0.05f;
    o.logit_bias = {{11, 1.5f}};
  }
  return o;
}
constexpr int kWays = 3;

struct Case {
  int kv = 0, width = 0, kind = 0, way = 0;
};

// Returns all combinations, or only one of them, which depends on the prompt's number.
std::vector<Case> cases_of(int prompt) {
  std::vector<Case> all;
  for (int kv = 0; kv < 3; ++kv) {
    for (int width = 0; width < 4; ++width) {
      for (int kind = 0; kind < 3; ++kind) {
        for (int way = 0; way < kWays; ++way) all.push_back({kv, width, kind, way});
      }
    }
  }
  if (takes_all()) return all;
  return {all[static_cast<size_t>(prompt) * 37 % all.size()]};
}

// Compares drafted with plain text for one model and some prompts.
class Comparison {
 public:
  explicit Comparison(prepare::Options options) : options_(std::move(options)) {}

  void compare(const Tokens& prompt, int number, int n_tokens) {
    std::optional<Plain> plains[std::size(kKvTypes)][kWays];
    for (const Case& c : cases_of(number)) {
      engine::Engine& engine = engine_of(c.kv);
      engine::GenerateOptions how;
      how.most_tokens = n_tokens;
      how.ignore_end = number % 2 == 0;
      engine::Sampler sampler(sampling(c.way, static_cast<uint64_t>(number)));
      std::optional<Plain>& plain = plains[c.kv][c.way];
      if (!plain.has_value()) {
        engine::Session session(engine);
        plain.emplace();
        plain->generated = generate(session, prompt, sampler, how, {});
        plain->history = session.history();
      }
      const engine::Generated& expected = plain->generated;
      engine::DraftOptions draft;
      draft.kind = kKinds[c.kind];
      draft.fixed_width = kWidths[c.width];
      draft.coverage = kCoverages[number % 2];
      const auto drafter = make_drafter(engine, options_, draft);
      how.drafter = drafter.get();
      engine::Session drafted(engine);
      const engine::Generated g = generate(drafted, prompt, sampler, how, {});
      ASSERT_EQ(g.tokens, expected.tokens)
          << "prompt " << number << ", kv " << c.kv << ", width " << draft.fixed_width << ", "
          << draft.kind << ", sampling " << c.way;
      EXPECT_EQ(g.text, expected.text);
      EXPECT_EQ(g.stop, expected.stop);
      EXPECT_EQ(drafted.history(), plain->history);
      n_accepted_ += drafter->statistics().n_accepted;
      n_verified_ += drafter->statistics().n_verified;
      ++n_compared_;
    }
  }
  int64_t n_verified() const { return n_verified_; }
  void expect_real_drafts(int least_accepted) const {
    EXPECT_GE(n_accepted_, least_accepted);
    EXPECT_GT(n_verified_, n_accepted_);  // some were rejected
    RecordProperty("compared", n_compared_);
    RecordProperty("accepted", static_cast<int>(n_accepted_));
  }

 private:
  struct Plain {
    engine::Generated generated;
    Tokens history;
  };
  static void RecordProperty(const char* name, int value) {
    testing::Test::RecordProperty(name, value);
  }
  engine::Engine& engine_of(int kv) {
    auto& engine = engines_[kv];
    if (engine == nullptr) {
      prepare::Options options = options_;
      options.memory.kv_type = kKvTypes[kv];
      engine = std::make_unique<engine::Engine>(options);
    }
    return *engine;
  }

  prepare::Options options_;
  std::unique_ptr<engine::Engine> engines_[3];
  int64_t n_accepted_ = 0;
  int64_t n_verified_ = 0;
  int n_compared_ = 0;
};

constexpr const char* kBeginnings[] = {
    "Once upon a time there was a {} who lived in a little house near the river. One day the {} ",
    "The {} and the {} went to the market. The {} said, \"",
    "Item: copper {}\nPrice: $17.50\nShelf: K42\n\nItem: silver {}\nPrice: $",
    "Question: What does the {} want?\nAnswer: The {} wants to play.\nQuestion: What does the {} ",
    "Open the {}. Close the {}. Open the {}. Close the "};
constexpr const char* kThings[] = {"dog",   "cat",  "lamp", "boat", "king",   "horse",
                                   "bird",  "girl", "tree", "door", "rabbit", "queen",
                                   "stone", "cake", "fox",  "hill", "star",   "mouse"};

std::string prompt_text(int number) {
  std::string text = kBeginnings[number % 5];
  int next = number / 5;
  for (size_t at = text.find("{}"); at != std::string::npos; at = text.find("{}")) {
    text.replace(at, 2, kThings[next % 18]);
    next += 1 + number % 3;
  }
  return text;
}

class House : public testing::TestWithParam<std::string> {};

TEST_P(House, D3_DraftedTextIsPlainText) {
  prepare::Options options;
  options.model.file = std::string(TROIKA_MODELS) + "/troika-" + GetParam() + "-q8_0.gguf";
  if (!std::filesystem::exists(options.model.file)) {
    GTEST_SKIP() << options.model.file << " is missing: the recipe in models/train makes it";
  }
  options.lanes.n_threads = 2;
  options.memory.context = 256;
  Comparison comparison(options);
  prepare::Options for_tokens = options;
  const engine::Engine engine(for_tokens);
  const int n_texts = takes_all() ? 60 : 30;
  for (int number = 0; number < n_texts; ++number) {
    comparison.compare(engine.tokenizer().encode(prompt_text(number)), number, 48);
    if (HasFatalFailure()) return;
  }
  comparison.expect_real_drafts(5 * n_texts);
}

INSTANTIATE_TEST_SUITE_P(Drafts, House, testing::Values("silu", "relu"),
                         [](const auto& info) { return info.param; });

// Models of every architecture, with matrices in formats that generation computes with whole
// numbers. Random models repeat themselves when the likeliest token is taken, and hardly otherwise.
class Tiny : public testing::TestWithParam<test_support::NamedModel> {};

TEST_P(Tiny, D3_DraftedTextIsPlainText) {
  constexpr uint32_t kTypes[] = {test_support::kQ8_0, test_support::kQ4_0, test_support::kQ4_K,
                                 test_support::kQ6_K, test_support::kF16};
  test::TempFolder folder;
  int number = 0;
  int64_t n_verified = 0;
  for (const uint32_t type : kTypes) {
    test_support::TinyModel model = GetParam().model;
    model.type = type;
    prepare::Options options;
    options.model.file = folder.file("tiny.gguf");
    options.lanes.n_threads = 1;
    options.memory.context = 128;
    write_tiny_model(model, options.model.file);
    Comparison comparison(options);
    const int n_prompts = takes_all() ? 4 : 2;
    for (int i = 0; i < n_prompts; ++i, ++number) {
      // The text repeats itself, so that there is something to guess from.
      const auto part = test_support::random_tokens(model, 6, static_cast<uint64_t>(number) + 1);
      Tokens prompt;
      for (int j = 0; j < 3; ++j) prompt.insert(prompt.end(), part.begin(), part.end());
      comparison.compare(prompt, number, 32);
      if (HasFatalFailure()) return;
    }
    n_verified += comparison.n_verified();
  }
  EXPECT_GT(n_verified, 100);  // so guesses were made, and some rejected ones left the cache again
}

INSTANTIATE_TEST_SUITE_P(Drafts, Tiny, testing::ValuesIn(test_support::tiny_model_variants()),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace troika
