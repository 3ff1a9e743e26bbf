// Answers that a grammar constrains fit it, and neither drafts nor other answers change them.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/batching/batcher.h"
#include "engine/constrain/constraint.h"
#include "engine/drafting/drafting.h"
#include "engine/generate.h"
#include "tests/support/tiny_engine.h"

namespace troika {
namespace {

using engine::Constraint;
using engine::Generated;
using test_support::TinyEngine;
using test_support::TinyModel;
using text::Token;

constexpr const char* kSchema = R"({
  "type": "object",
  "properties": {
    "name_of_the_person": {"type": "string", "maxLength": 12},
    "is_known_to_us": {"type": "boolean"},
    "numbers": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "maxItems": 3}
  },
  "required": ["name_of_the_person", "is_known_to_us", "numbers"],
  "additionalProperties": false
})";

// A text must begin with 24 letters, each as itself or as an escape of six bytes. Then it may end
// at once with "b", or go on with "a". To find whether a text with "a" can be completed takes a
// long search among 7 x 11 x 13 states.
constexpr const char* kSlowSchema = R"({"type": "string", "allOf": [
  {"pattern": "^x{24}(b|a(.{7})+)$"}, {"pattern": "^x{24}(b|a(.{11})+)$"},
  {"pattern": "^x{24}(b|a(.{13})+)$"}]})";
constexpr int kMostTokens = 200;

class ConstrainedAnswers : public testing::Test {
 protected:
  ConstrainedAnswers() {
    TinyModel model = test_support::small_model();
    model.n_layers = 1;
    model.context = 256;
    options_.memory.context = 256;
    tiny_ = std::make_unique<TinyEngine>(model, options_);
    grammar_ = compiled(kSchema);
  }
  std::shared_ptr<grammar::Grammar> compiled(const char* schema) {
    return grammar::compile(schema, grammar::Format::kJsonSchema,
                            std::make_shared<grammar::TokenTrie>(engine().tokenizer()));
  }
  engine::Engine& engine() { return *tiny_->engine; }

  engine::SamplerOptions sampling(uint64_t seed) {
    engine::SamplerOptions o;
    o.temperature = seed % 2 == 0 ? 0.0f : 1.0f;
    o.top_k = 0;
    o.top_p = 1.0f;
    o.min_p = 0.0f;
    o.seed = seed;
    return o;
  }
  std::vector<Token> prompt(uint64_t seed) {
    return engine().tokenizer().encode("Once upon a time there were " + std::to_string(seed),
                                       {.add_special = true, .parse_special = false});
  }
  struct Held {
    std::shared_ptr<Constraint> constraint;
    std::unique_ptr<draft::Drafter> drafter;
  };
  Held hold(uint64_t seed, const std::string& kind, const Constraint::Elsewhere& elsewhere = {}) {
    Held held;
    held.constraint = std::make_shared<Constraint>(grammar_, prompt(seed).size(), elsewhere);
    engine::DraftOptions draft;
    draft.kind = kind;
    draft.fixed_width = kind == "none" ? 0 : 8;
    draft.constraint = held.constraint;
    held.drafter = engine::make_drafter(engine(), options_, draft);
    return held;
  }
  Generated alone(uint64_t seed, const std::string& kind, int64_t* n_accepted = nullptr) {
    Held held = hold(seed, kind);
    engine::Sampler sampler(sampling(seed), held.constraint.get());
    engine::GenerateOptions options;
    options.drafter = held.drafter.get();
    options.most_tokens = kMostTokens;
    engine::Session session(engine());
    Generated g = generate(session, prompt(seed), sampler, options, {});
    if (n_accepted != nullptr) *n_accepted += held.drafter->statistics().n_accepted;
    return g;
  }

  int submit(engine::Batcher& batcher, uint64_t seed, const Held& held) {
    engine::AnswerRequest request;
    request.prompt = prompt(seed);
    request.sampler = sampling(seed);
    request.mask = held.constraint.get();
    request.options.drafter = held.drafter.get();
    request.options.most_tokens = kMostTokens;
    return batcher.submit(std::move(request));
  }

  prepare::Options options_;
  std::unique_ptr<TinyEngine> tiny_;
  std::shared_ptr<grammar::Grammar> grammar_;
};

TEST_F(ConstrainedAnswers, FitTheirSchemaAndEndByThemselves) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const Generated g = alone(seed, "none");
    EXPECT_EQ(g.stop, engine::Stop::kEnd) << g.text;
    const auto json = nlohmann::ordered_json::parse(g.text, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(json.is_object()) << g.text;
    EXPECT_EQ(json.size(), 3u);
    EXPECT_TRUE(json["name_of_the_person"].is_string());
    EXPECT_TRUE(json["is_known_to_us"].is_boolean());
    EXPECT_LE(json["numbers"].size(), 3u);
    for (const auto& number : json["numbers"]) EXPECT_LE(number.get<int>(), 99);
  }
}

TEST_F(ConstrainedAnswers, AreTheSameWithDraftsOfWhatMustCome) {
  int64_t n_accepted = 0, n_tokens = 0;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const Generated plain = alone(seed, "none"), drafted = alone(seed, "context", &n_accepted);
    EXPECT_EQ(drafted.tokens, plain.tokens);
    EXPECT_EQ(drafted.text, plain.text);
    EXPECT_LT(drafted.n_steps, plain.n_steps);
    n_tokens += static_cast<int64_t>(plain.tokens.size());
  }
  EXPECT_GT(n_accepted, n_tokens / 5);
}

TEST_F(ConstrainedAnswers, AreTheSameInCompany) {
  engine::Batcher batcher(engine());
  std::vector<Held> held;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    held.push_back(hold(seed, seed % 3 == 0 ? "none" : "context"));
    submit(batcher, seed, held.back());
  }
  while (batcher.step()) {
  }
  for (uint64_t seed = 0; seed < 6; ++seed) {
    EXPECT_EQ(batcher.take(static_cast<int>(seed)).tokens, alone(seed, "none").tokens);
  }
}

// An answer that needs a slow mask pauses until the mask is there, while others go on, and has the
// text that it would have alone.
TEST_F(ConstrainedAnswers, PauseWhileASlowMaskIsMadeElsewhere) {
  std::vector<std::function<void()>> works;
  const auto elsewhere = [&](std::function<void()> work) { works.push_back(std::move(work)); };
  for (const char* const kind : {"none", "context"}) {
    grammar_ = compiled(kSchema);
    engine::Batcher batcher(engine());
    const Held quick = hold(0, kind, elsewhere);
    const int quick_answer = submit(batcher, 0, quick);
    grammar_ = compiled(kSlowSchema);
    const Held slow = hold(1, kind, elsewhere), second = hold(2, kind, elsewhere);
    const int slow_answer = submit(batcher, 1, slow), second_answer = submit(batcher, 2, second);
    while (batcher.step()) {
    }
    EXPECT_TRUE(batcher.is_done(quick_answer));
    EXPECT_FALSE(batcher.is_done(slow_answer) || batcher.is_done(second_answer));
    EXPECT_EQ(works.size(), 2u);
    size_t n_done = 0;
    while (n_done < works.size()) {
      works[n_done++]();
      while (batcher.step()) {
      }
    }
    const Generated texts[] = {batcher.take(slow_answer), batcher.take(second_answer)};
    for (uint64_t seed : {1, 2}) {
      grammar_ = compiled(kSlowSchema);  // a new grammar has no masks yet
      const Generated& text = texts[seed - 1];
      EXPECT_GT(text.text.size(), 24u);
      EXPECT_EQ(text.tokens, alone(seed, "none").tokens);
    }
    works.clear();
  }
}

// A mask may take too much work elsewhere too. For an answer that has gone no mask is made.
TEST_F(ConstrainedAnswers, EndWhereAMaskTakesTooMuchElsewhere) {
  std::vector<std::function<void()>> works;
  const auto elsewhere = [&](std::function<void()> work) { works.push_back(std::move(work)); };
  grammar::CompileOptions options;
  options.limits.n_mask_steps = 30'000;
  grammar_ = grammar::compile(kSlowSchema, grammar::Format::kJsonSchema,
                              std::make_shared<grammar::TokenTrie>(engine().tokenizer()), options);
  engine::Batcher batcher(engine());
  Held held = hold(1, "none", elsewhere), gone = hold(2, "none", elsewhere);
  const int answer = submit(batcher, 1, held);
  while (batcher.step()) {
  }
  ASSERT_EQ(works.size(), 1u);
  works[0]();
  while (batcher.step()) {
  }
  EXPECT_THROW(batcher.take(answer), grammar::TooMuchWork);
  submit(batcher, 2, gone);
  while (batcher.step()) {
  }
  ASSERT_EQ(works.size(), 2u);
  gone = {};
  const size_t n_before = grammar_->n_expressions();
  works[1]();
  EXPECT_EQ(grammar_->n_expressions(), n_before);
}

// Drafts guess what a text repeats, but nothing that the grammar forbids.
TEST_F(ConstrainedAnswers, PassesHoldNoGuessThatTheGrammarForbids) {
  std::vector<Token> text;
  for (int i = 0; i < 3; ++i) {
    const std::vector<Token> again = prompt(0);
    text.insert(text.end(), again.begin(), again.end());
  }
  engine::DraftOptions draft;
  draft.kind = "lookup";
  draft.fixed_width = 16;
  const auto free = engine::make_drafter(engine(), options_, draft);
  free->begin(text);
  EXPECT_GT(free->propose(text, 15).size(), 0);
  draft.constraint = std::make_shared<Constraint>(grammar_, text.size());
  const auto held = engine::make_drafter(engine(), options_, draft);
  held->begin(text);
  const draft::Tree& tree = held->propose(text, 15);
  std::string guessed;
  for (const draft::Node& node : tree.nodes()) {
    EXPECT_EQ(held->statistics().sources[static_cast<size_t>(node.source)].name, "grammar");
    guessed += grammar_->tokens().bytes(node.token);
  }
  EXPECT_TRUE(std::string(R"({"name_of_the_person":")").starts_with(guessed)) << guessed;
  EXPECT_GT(tree.size(), 5);
}

TEST_F(ConstrainedAnswers, AHistoryThatLeftTheGrammarIsASentence) {
  Constraint constraint(grammar_, 1);
  const std::vector<Token> history = {
      1, engine().tokenizer().encode("x", {.add_special = false, .parse_special = false}).back()};
  std::vector<float> logits(static_cast<size_t>(engine().blueprint().n_vocab));
  EXPECT_THROW(constraint.apply(history, logits), Error);
  constraint.apply(std::span(history).first(1), logits);
  EXPECT_EQ(constraint.statistics().n_masks, 1);
}

}  // namespace
}  // namespace troika
