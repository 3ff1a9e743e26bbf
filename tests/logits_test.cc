// The engine's logits are near those of the reference in every architecture and variant, every
// block format and every type of keys and values. What must agree to the last bit does so.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/cpu_features.h"
#include "kernels/choose.h"
#include "tests/support/logits.h"

namespace troika {
namespace {

using reference::relative_error;
using test_support::engine_logits;
using test_support::NamedModel;
using test_support::reference_logits;
using test_support::rounded_error;
using test_support::TinyModel;
using test_support::TinyModelFile;

constexpr size_t kTokens = 40;

// These are the largest allowed errors, as parts of the largest logit. docs/conformance.md shows
// what was measured.
constexpr double kFloatBound = 1e-5;  // float sums are compared with double ones
constexpr double kInt8Bound = 0.12;   // activations are rounded to 8 bits before every matrix
constexpr double kBf16Bound = 5e-2;   // weights and activations of prompts are in bfloat16
constexpr double kPanelBound = 0.3;   // each token and each row has one 8-bit scale
constexpr double kF16KvBound = 5e-3;  // keys and values are in half precision
constexpr double kQ8KvBound = 5e-2;   // keys and values are in 8 bits

// Returns a name that GoogleTest accepts: letters, digits, underscores.
std::string test_name(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// Checks the bound, and prints the figure into the test's log for docs/conformance.md.
void expect_error_below(double bound, double error, const std::string& what) {
  std::printf("%s: error %.2e\n", what.c_str(), error);
  EXPECT_LE(error, bound) << what;
}

// Returns the names of the kernels that this processor can run, fastest first.
std::vector<std::string> runnable_kernels() {
  const CpuFeatures features = detect_cpu_features();
  std::vector<std::string> names;
  for (const kernels::Implementation& implementation : kernels::implementations()) {
    if (features.has_all(implementation.needs)) names.push_back(implementation.name);
  }
  return names;
}

class Variant : public testing::TestWithParam<NamedModel> {
 protected:
  const TinyModel& model() const { return GetParam().model; }
  const std::string& name() const { return GetParam().name; }
  const std::vector<int32_t> tokens_ = test_support::random_tokens(GetParam().model, kTokens);
};

TEST_P(Variant, AgreesWithTheReferenceInFloat) {
  const TinyModelFile file(model());
  const auto judge = reference_logits(model(), tokens_);
  prepare::Options options = file.float_options();
  expect_error_below(kFloatBound, relative_error(engine_logits(options, tokens_), judge), name());
  options.kernels = "reference";
  expect_error_below(kFloatBound, relative_error(engine_logits(options, tokens_), judge),
                     name() + ", plain kernels");
}

TEST_P(Variant, AgreesWithTheReferenceAsItRunsByDefault) {
  const TinyModelFile file(model());
  prepare::Options options;
  options.model.file = file.path();
  // A user who wants more than the original context says so; then positions rotate differently.
  if (model().rope_scaling == "longrope") options.memory.context = model().context;
  expect_error_below(
      kBf16Bound,
      rounded_error(model(), engine_logits(options, tokens_), reference_logits(model(), tokens_)),
      name() + ", as it runs by default");
}

// Between products each worker computes the row of a single token for itself.
TEST_P(Variant, TokensOneByOneHaveTheBitsOfOneThread) {
  for (const uint32_t type : {test_support::kF32, test_support::kQ8_0}) {
    TinyModel tiny = model();
    tiny.type = type;
    const TinyModelFile file(tiny);
    prepare::Options options = file.float_options();
    if (type == test_support::kQ8_0) options.activations = plan::Activations::kQ8;
    const std::vector<size_t> pieces(tokens_.size(), 1);
    const auto expected = engine_logits(options, tokens_, pieces);
    for (const int n_threads : {2, 3, 5}) {
      options.lanes.n_threads = n_threads;
      EXPECT_EQ(engine_logits(options, tokens_, pieces), expected)
          << name() << ", type " << type << ", " << n_threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Variant, testing::ValuesIn(test_support::tiny_model_variants()),
                         [](const auto& info) { return test_name(info.param.name); });

// Says whether docs/conformance.md is being made, which shows each architecture with each format.
bool wants_every_format() { return std::getenv("TROIKA_EVERY_FORMAT") != nullptr; }

// Returns each architecture in a few formats, phi2 in the common ones and llama in all.
std::vector<NamedModel> formats() {
  std::vector<NamedModel> all;
  for (const std::string& architecture : test_support::tiny_architectures()) {
    for (const auto& [name, type] : test_support::tensor_types()) {
      // All architectures ask the same of a format's kernels, so a few formats are enough.
      const bool is_plain =
          type == test_support::kF16 || type == test_support::kQ8_0 || type == test_support::kQ4_K;
      const bool is_wanted = wants_every_format() || architecture == "llama" ||
                             (architecture == "phi2" && test_support::is_common(type));
      if (!is_wanted && !is_plain) continue;
      TinyModel model = test_support::tiny_model(architecture);
      model.type = type;
      all.push_back({architecture + "-" + name, model});
    }
  }
  // Real files mix types as this model does, and have rows that are no multiple of 256.
  TinyModel mixed = test_support::tiny_model("llama");
  mixed.type = test_support::kQ4_K;
  mixed.types = {{"attn_v.weight", test_support::kQ6_K},
                 {"ffn_down.weight", test_support::kQ5_0},
                 {"token_embd.weight", test_support::kQ6_K},
                 {"output.weight", test_support::kQ8_0}};
  mixed.ffn_width = 352;
  all.push_back({"llama-mixed", mixed});
  return all;
}

class Format : public Variant {};

TEST_P(Format, AgreesWithTheReferenceInFloat) {
  const TinyModelFile file(model());
  const auto judge = reference_logits(model(), tokens_);
  prepare::Options options = file.float_options();
  for (const std::string& kernels : runnable_kernels()) {
    options.kernels = kernels;
    expect_error_below(kFloatBound, relative_error(engine_logits(options, tokens_), judge),
                       name() + ", " + kernels);
  }
}

TEST_P(Format, AgreesWithTheReferenceWithEightBitActivations) {
  const TinyModelFile file(model());
  prepare::Options options = file.float_options();
  options.activations = plan::Activations::kQ8;
  expect_error_below(
      kInt8Bound,
      rounded_error(model(), engine_logits(options, tokens_), reference_logits(model(), tokens_)),
      name() + ", 8-bit activations");
}

// A copy of the weights has 16 rows side by side where kernels read them so: in steps, in prompts
// of every precision, in rows of the embedding.
TEST_P(Format, ACopyOfTheWeightsHasTheBitsOfTheFile) {
  const TinyModelFile file(model());
  prepare::Options options = file.float_options();
  options.activations = plan::Activations::kQ8;
  options.lanes.n_threads = 2;
  const auto check = [&](const std::string& what) {
    const std::vector<size_t> pieces = {33, 1, 1, 2};
    options.memory.load = prepare::Load::kMap;
    const auto wanted = engine_logits(options, tokens_, pieces);
    options.memory.load = prepare::Load::kCopy;
    engine::Engine engine(options);
    engine::Session session(engine);
    EXPECT_EQ(engine_logits(session, tokens_, pieces), wanted) << name() << " " << what;
    const auto strips = engine.kernels().table.matmul_q8_strips;
    const bool is_in_strips =
        engine.loaded().pages.text.find("16 rows side by side") != std::string::npos;
    const tensor::Type type = engine.weights().main_type();
    EXPECT_EQ(is_in_strips, kernels::find(strips, type) != nullptr) << engine.loaded().pages.text;
  };
  for (const char* prefill : {"same", "bf16", "q8", "int8"}) {
    options.prompts.prefill = plan::prefill_from_name(prefill);
    check(prefill);
  }
  if (model().n_experts > 0) return;
  options.prompts.int8 = plan::Int8Method::kGroup;
  check("int8 group");
  options.prompts.int8.reset();
  options.memory.packed_bytes = 8000;
  check("int8, packed in part");
}

// Prompts of more than 32 tokens run on every set of kernels.
TEST_P(Format, AgreesWithTheReferenceInEveryPrecisionOfPrompts) {
  const TinyModelFile file(model());
  const auto judge = reference_logits(model(), tokens_);
  prepare::Options options = file.float_options();
  // Some of so many random networks let roundings grow more, with all kernels alike.
  const double bf16_bound = wants_every_format() ? 2 * kBf16Bound : kBf16Bound;
  for (const std::string& kernels : runnable_kernels()) {
    options.kernels = kernels;
    for (const auto& [prefill, bound] :
         {std::pair{"f32", kFloatBound}, {"bf16", bf16_bound}, {"int8", kPanelBound}}) {
      options.prompts.prefill = plan::prefill_from_name(prefill);
      expect_error_below(bound, rounded_error(model(), engine_logits(options, tokens_), judge),
                         name() + ", " + kernels + ", prompts in " + prefill);
    }
  }
}

// With 8-bit activations, the reference rounds them too, so that only mistakes are left. The last
// bit of a float may round a value halfway between two integers to the other side, and then the
// texts differ. So the best of some short texts counts, which a mistake would not spare.
TEST_P(Format, RoundsActivationsAsTheReferenceDoes) {
  const TinyModelFile file(model());
  prepare::Options options = file.float_options();
  options.activations = plan::Activations::kQ8;
  struct Text {
    std::vector<int32_t> tokens;
    std::vector<reference::Vector> judge;
  };
  std::vector<Text> texts;
  const auto text = [&](size_t i) -> const Text& {
    while (texts.size() <= i) {
      auto tokens = test_support::random_tokens(model(), 5, texts.size() + 1);
      tokens.erase(tokens.begin());  // drops the first token, which all texts share
      auto judge = reference_logits(model(), tokens, /*eight_bit_activations=*/true);
      texts.push_back({std::move(tokens), std::move(judge)});
    }
    return texts[i];
  };
  for (const std::string& kernels : runnable_kernels()) {
    options.kernels = kernels;
    double best = 1;
    for (size_t i = 0; i < 5 && best > kFloatBound; ++i) {
      const auto& [tokens, judge] = text(i);
      best = std::min(best, relative_error(engine_logits(options, tokens), judge));
    }
    std::printf("%s, %s, both round to 8 bits: error %.2e\n", name().c_str(), kernels.c_str(),
                best);
    EXPECT_LE(best, kFloatBound) << kernels;
  }
}

// The bits are the same however a prompt is cut into pieces, and however many threads compute it.
TEST_P(Format, DoesNotDependOnPiecesOrThreads) {
  const TinyModelFile file(model());
  prepare::Options options = file.float_options();
  for (const std::string& kernels : runnable_kernels()) {
    options.kernels = kernels;
    for (const auto activations : {plan::Activations::kF32, plan::Activations::kQ8}) {
      options.activations = activations;
      const std::string how = kernels + ", " + plan::activations_name(activations);
      options.lanes.n_threads = 1;
      const auto whole = engine_logits(options, tokens_);
      const std::vector<std::vector<size_t>> ways = {
          std::vector<size_t>(kTokens, 1), {8, 32}, {33, 7}, {1, 2, 3, 4, 5, 6, 7}};
      for (const auto& pieces : ways) {
        EXPECT_EQ(engine_logits(options, tokens_, pieces), whole)
            << how << ", first piece " << pieces[0];
      }
      for (int n_threads : {2, 3}) {
        options.lanes.n_threads = n_threads;
        EXPECT_EQ(engine_logits(options, tokens_), whole) << how << ", threads " << n_threads;
        EXPECT_EQ(engine_logits(options, tokens_, {17, 1, 1}), whole)
            << how << ", in pieces, threads " << n_threads;
      }
    }
    if (!name().starts_with("llama")) break;  // kernels differ in formats, which llama shows
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Format, testing::ValuesIn(formats()),
                         [](const auto& info) { return test_name(info.param.name); });

class KvType : public testing::TestWithParam<std::string> {};

TEST_P(KvType, StaysWithinItsBoundAndDoesNotDependOnPieces) {
  const tensor::Type type = prepare::kv_type_from_name(GetParam());
  const double bound = type == tensor::Type::kF32   ? kFloatBound
                       : type == tensor::Type::kF16 ? kF16KvBound
                                                    : kQ8KvBound;
  for (const std::string& architecture : test_support::tiny_architectures()) {
    const TinyModel model = test_support::tiny_model(architecture);
    const auto tokens = test_support::random_tokens(model, kTokens);
    const TinyModelFile file(model);
    prepare::Options options = file.float_options();
    options.memory.kv_type = type;
    const auto whole = engine_logits(options, tokens);
    expect_error_below(bound, rounded_error(model, whole, reference_logits(model, tokens)),
                       architecture + ", keys and values in " + GetParam());
    EXPECT_EQ(engine_logits(options, tokens, std::vector<size_t>(kTokens, 1)), whole);
    EXPECT_EQ(engine_logits(options, tokens, {19}), whole);
    options.lanes.n_threads = 3;
    EXPECT_EQ(engine_logits(options, tokens), whole);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, KvType, testing::Values("f32", "f16", "q8_0"),
                         [](const auto& info) { return info.param; });

// The text is longer than one block of attention and one chunk.
TEST(LongText, AgreesWithTheReferenceAndDoesNotDependOnPieces) {
  TinyModel model = test_support::tiny_model("llama");
  model.width = 64, model.head_dim = model.rope_dims = 16, model.ffn_width = 96;
  model.context = 1024;
  const auto tokens = test_support::random_tokens(model, 600);
  const TinyModelFile file(model);
  prepare::Options options = file.float_options();
  options.memory.context = 1024;
  const auto whole = engine_logits(options, tokens);
  expect_error_below(kFloatBound, relative_error(whole, reference_logits(model, tokens)),
                     "600 tokens");
  EXPECT_EQ(engine_logits(options, tokens, {100, 1, 1, 300}), whole);
  options.lanes.n_threads = 3;
  EXPECT_EQ(engine_logits(options, tokens, {513}), whole);
}

// Windows end within blocks of attention and at their borders, in every precision of prompts.
TEST(LongText, WindowsAgreeWithTheReferenceAndDoNotDependOnPieces) {
  for (const uint32_t window : {100, 128, 300}) {
    TinyModel model = test_support::tiny_model("gemma3");
    model.width = 64, model.n_heads = 2, model.head_dim = model.rope_dims = 32;
    model.ffn_width = 96, model.context = 1024, model.window = window;
    const auto tokens = test_support::random_tokens(model, 600);
    const auto judge = reference_logits(model, tokens);
    const TinyModelFile file(model);
    prepare::Options options = file.float_options();
    options.memory.context = 1024;
    for (const auto& [prefill, bound] : {std::pair{"f32", kFloatBound}, {"bf16", kBf16Bound}}) {
      options.prompts.prefill = plan::prefill_from_name(prefill);
      options.lanes.n_threads = 1;
      const std::string what = "window " + std::to_string(window) + ", " + prefill;
      const auto whole = engine_logits(options, tokens);
      expect_error_below(bound, relative_error(whole, judge), what);
      EXPECT_EQ(engine_logits(options, tokens, {101, 33, 300}), whole) << what;
      options.lanes.n_threads = 3;
      EXPECT_EQ(engine_logits(options, tokens, {140}), whole) << what;
    }
  }
}

// The experts have sizes for which kernels are cut, and each gets a share of the prompt.
TEST(Mixture, OfMillionsOfWeightsAgreesWithTheReferenceWhateverThePieces) {
  TinyModel model = test_support::larger_mixture(2, 512);
  const auto tokens = test_support::random_tokens(model, 96);
  // Eight experts are nearly tied more often than four, and other tokens see the result of each
  // tie.
  constexpr double kRoundedBound = 2 * kBf16Bound;
  for (const auto type : {test_support::kQ8_0, test_support::kQ4_0}) {
    model.type = type;
    const TinyModelFile file(model);
    reference::Model judging(reference::read_gguf(file.path()));
    reference::Sequence sequence(judging);
    std::vector<reference::Vector> judge;
    for (const int token : tokens) judge.push_back(sequence.next(token));
    for (const auto& layer : sequence.expert_uses()) {
      EXPECT_GE(*std::min_element(layer.begin(), layer.end()), 2u) << "an expert without work";
    }
    prepare::Options options = file.float_options();
    for (const auto& [prefill, bound] : {std::pair{"f32", kFloatBound}, {"bf16", kRoundedBound}}) {
      options.prompts.prefill = plan::prefill_from_name(prefill);
      options.lanes.n_threads = 1;
      const std::string what = "mixture, type " + std::to_string(type) + ", prompts in " + prefill;
      const auto whole = engine_logits(options, tokens);
      expect_error_below(bound, rounded_error(model, whole, judge), what);
      options.lanes.n_threads = 3;
      EXPECT_EQ(engine_logits(options, tokens, {40}), whole) << what;
    }
  }
}

TEST(Session, PrefillGivesTheLogitsOfTheLastToken) {
  const TinyModel model = test_support::tiny_model("llama");
  const auto tokens = test_support::random_tokens(model, kTokens);
  const TinyModelFile file(model);
  engine::Engine engine(file.float_options());
  engine::Session session(engine);
  const auto all = engine_logits(session, tokens);
  engine::Session other(engine);
  EXPECT_EQ(other.prefill(tokens), static_cast<int>(kTokens));
  const auto last = other.logits();
  EXPECT_EQ(reference::Vector(last.begin(), last.end()), all.back());
}

TEST(Session, ReusedPrefixGivesTheBitsOfAComputedOne) {
  const TinyModel model = test_support::tiny_model("qwen2");
  auto tokens = test_support::random_tokens(model, kTokens);
  const TinyModelFile file(model);
  engine::Engine engine(file.float_options());
  engine::Session session(engine);
  session.prefill(tokens);
  for (size_t i = 25; i < kTokens; ++i) tokens[i] = (tokens[i] + 1) % 500;
  EXPECT_EQ(session.prefill(tokens), static_cast<int>(kTokens) - 25);
  const auto reused = session.logits();
  engine::Session fresh(engine);
  fresh.prefill(tokens);
  const auto computed = fresh.logits();
  EXPECT_TRUE(std::equal(reused.begin(), reused.end(), computed.begin(), computed.end()));
}

}  // namespace
}  // namespace troika
