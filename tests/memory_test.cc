// The ledger before and after: what is reckoned from shapes, and what engines took.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/session.h"
#include "engine/taken_memory.h"
#include "prepare/memory.h"
#include "tests/support/tiny_engine.h"
#include "tests/support/tiny_model.h"

namespace troika::engine {
namespace {

using plan::Owner;

struct Setting {
  const char* prefill;
  const char* int8;
  size_t packed_bytes;
  const char* layouts;
};

TEST(Memory, NoOwnerTakesMoreThanWasReckoned) {
  const Setting settings[] = {
      {"same", "", 0, ""},      {"f32", "", 0, ""},          {"bf16", "", 0, ""},
      {"int8", "", 0, ""},      {"int8", "", 1u << 30, ""},  {"int8", "", 300000, ""},
      {"int8", "group", 0, ""}, {"int8", "llm.int8", 0, ""}, {"int8", "", 0, "switch"}};
  for (const std::string& architecture : test_support::tiny_architectures()) {
    test_support::TinyModel model = test_support::tiny_model(architecture);
    model.type = test_support::kQ8_0;
    const test::TempFolder folder;
    write_tiny_model(model, folder.file("m.gguf"));
    for (const Setting& setting : settings) {
      prepare::Options options;
      options.model = folder.file("m.gguf");
      options.n_threads = 2;
      options.prefill = setting.prefill;
      options.int8 = setting.int8;
      options.packed_bytes = setting.packed_bytes;
      options.layouts = setting.layouts;
      Engine engine(options);
      const std::string name = fmt::format("{} {} {} {} {}", architecture, setting.prefill,
                                           setting.int8, setting.packed_bytes, setting.layouts);
      const plan::Ledger expected = prepare::expected_memory(
          options, engine.blueprint(), engine.weights(), engine.plan(), engine.memory_figures());
      // Attention's parts come with the first passes.
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
      // And little more.
      EXPECT_LE(expected.total_bytes(), taken.total_bytes() + (8u << 20)) << name;
      EXPECT_EQ(taken.bytes(Owner::kCache),
                prepare::cache_bytes(prepare::kv_shape(engine.plan(), engine.blueprint()),
                                     engine.plan().context));
    }
  }
}

}  // namespace
}  // namespace troika::engine
