// The memory that the ledger expects from shapes is what engines take.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/memory/taken_memory.h"
#include "engine/session.h"
#include "prepare/memory.h"
#include "tests/support/logits.h"
#include "tests/support/tiny_engine.h"
#include "tests/support/tiny_model.h"

namespace troika::engine {
namespace {

using plan::Owner;

using plan::Prefill;

struct Setting {
  Prefill prefill;
  std::optional<plan::Int8Method> int8 = std::nullopt;
  size_t packed_bytes = 0;
  std::optional<prepare::Layouts> layouts = std::nullopt;

  std::string name() const {
    return fmt::format("{} {} {} {}", plan::prefill_name(prefill),
                       int8 ? plan::int8_method_name(*int8) : "", packed_bytes,
                       layouts ? prepare::layouts_name(*layouts) : "");
  }
};

TEST(Memory, NoOwnerTakesMoreThanWasReckoned) {
  const Setting settings[] = {{Prefill::kSame},
                              {Prefill::kF32},
                              {Prefill::kBf16},
                              {Prefill::kInt8},
                              {Prefill::kInt8, std::nullopt, 1u << 30},
                              {Prefill::kInt8, std::nullopt, 300000},
                              {Prefill::kInt8, plan::Int8Method::kGroup},
                              {Prefill::kInt8, plan::Int8Method::kSplit},
                              {Prefill::kInt8, std::nullopt, 0, prepare::Layouts::kSwitch}};
  for (const std::string& architecture : test_support::tiny_architectures()) {
    test_support::TinyModel model = test_support::tiny_model(architecture);
    model.type = test_support::kQ8_0;
    const test::TempFolder folder;
    write_tiny_model(model, folder.file("m.gguf"));
    for (const Setting& setting : settings) {
      prepare::Options options;
      options.model.file = folder.file("m.gguf");
      options.lanes.n_threads = 2;
      options.prompts.prefill = setting.prefill;
      options.prompts.int8 = setting.int8;
      options.memory.packed_bytes = setting.packed_bytes;
      options.memory.layouts = setting.layouts;
      Engine engine(options);
      const std::string name = architecture + " " + setting.name();
      const plan::Ledger expected = prepare::expected_memory(
          options, engine.blueprint(), engine.weights(), engine.plan(), engine.memory());
      // Attention takes its memory in the first passes.
      Session session(engine);
      const std::vector<cache::Token> tokens(400, 1);
      session.prefill(tokens);
      plan::Ledger taken = engine.ledger();
      enter_taken(engine, &taken);
      constexpr size_t kParts = 64 << 10;
      for (int i = 0; i < plan::kOwners; ++i) {
        const auto owner = static_cast<Owner>(i);
        const size_t more = owner == Owner::kLanes ? kParts : 0;
        EXPECT_GE(expected.bytes(owner) + more, taken.bytes(owner))
            << name << ": " << plan::owner_name(owner);
      }
      // The expectation is little more than what was taken.
      EXPECT_LE(expected.total_bytes(), taken.total_bytes() + (8u << 20)) << name;
      EXPECT_EQ(taken.bytes(Owner::kCache),
                prepare::cache_bytes(prepare::kv_shape(engine.plan(), engine.blueprint()),
                                     engine.plan().context));
    }
  }
}

// The longest heads that kernels take need more than a megabyte of each worker in prompts.
TEST(Memory, TheLongestHeadsAreReckonedToo) {
  test_support::TinyModel model = test_support::tiny_model("llama");
  model.head_dim = model.rope_dims = 512;
  const test_support::TinyModelFile file(model);
  prepare::Options options;
  options.model.file = file.path();
  options.lanes.n_threads = 4;
  options.prompts.prefill = Prefill::kBf16;
  Engine engine(options);
  plan::Ledger taken = engine.ledger();
  enter_taken(engine, &taken);
  const plan::Ledger expected = prepare::expected_memory(
      options, engine.blueprint(), engine.weights(), engine.plan(), engine.memory());
  EXPECT_GE(expected.bytes(Owner::kLanes), taken.bytes(Owner::kLanes));
}

// Lists of attention grow with the text: at the end of the context they are what the ledger has
// counted for it from the start, in leaps that do not go beyond.
TEST(Memory, AttentionTakesNoMoreThanWasReckonedForTheContext) {
  constexpr int kContext = 1536, kSteps = 20;
  test_support::TinyModel model = test_support::tiny_model("llama");
  model.context = kContext;
  const test_support::TinyModelFile file(model);
  for (const auto form : {plan::AttentionForm::kFull, plan::AttentionForm::kSparse,
                          plan::AttentionForm::kQuery, plan::AttentionForm::kInt8}) {
    for (const int n_threads : {1, 3}) {
      prepare::Options options;
      options.model.file = file.path();
      options.lanes.n_threads = n_threads;
      options.memory.context = kContext;
      options.prompts.prefill = Prefill::kBf16;
      options.prompts.attention = form;
      options.prompts.attention_from = plan::PromptAttention::kLeastFrom;
      Engine engine(options);
      const size_t lists =
          prepare::context_bytes(engine.blueprint(), engine.plan(), kContext).lists;
      const auto held = [&] { return engine.machine().lanes().front()->held_bytes(); };
      const size_t before = held();
      Session session(engine);
      session.prefill(std::vector<cache::Token>(kContext - kSteps, 1));
      for (int i = 0; i < kSteps; ++i) {
        session.append(1);
        session.logits();
      }
      const std::string name = fmt::format("{} {}", plan::attention_form_name(form), n_threads);
      EXPECT_LE(held() - before, lists) << name;
      EXPECT_GE(held() - before, lists / 8) << name;  // steps of one token need least
      // A single thread divides nothing into segments.
      EXPECT_EQ(lists == 0, form == plan::AttentionForm::kFull && n_threads == 1) << name;
    }
  }
}

}  // namespace
}  // namespace troika::engine
