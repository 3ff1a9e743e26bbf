// A tiny model behind an engine and a session, for tests of the engine's parts.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/session.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace troika::test_support {

// Returns a model so small that a pass takes well below a millisecond.
inline TinyModel small_model(const std::string& architecture = "llama") {
  TinyModel model = tiny_model(architecture);
  model.width = 64;
  model.n_heads = 4, model.n_kv_heads = architecture == "gemma" ? 1 : 2;
  model.head_dim = model.rope_dims = 32;
  if (architecture == "phi2") model.n_kv_heads = 4;
  model.ffn_width = 96;
  if (model.n_experts > 0) model.expert_width = architecture == "mixtral" ? 96 : 64;
  return model;
}

struct TinyEngine {
  explicit TinyEngine(const TinyModel& model = small_model(), prepare::Options options = {}) {
    options.model.file = folder.file("tiny.gguf");
    if (options.lanes.n_threads == 0 && options.lanes.cores.empty()) options.lanes.n_threads = 1;
    if (options.memory.context == 0) options.memory.context = 128;
    write_tiny_model(model, options.model.file);
    engine = std::make_unique<engine::Engine>(options);
    session = std::make_unique<engine::Session>(*engine);
  }

  test::TempFolder folder;
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<engine::Session> session;
};

inline std::vector<float> copy_of(std::span<const float> row) { return {row.begin(), row.end()}; }

// Returns the logits behind a prompt of the first n_prompt tokens, and behind each of the other
// tokens.
inline std::vector<std::vector<float>> talk(engine::Session& session,
                                            std::span<const cache::Token> tokens, size_t n_prompt) {
  std::vector<std::vector<float>> all;
  session.prefill(tokens.first(n_prompt));
  all.push_back(copy_of(session.logits()));
  for (const cache::Token token : tokens.subspan(n_prompt)) {
    session.append(token);
    all.push_back(copy_of(session.logits()));
  }
  return all;
}

}  // namespace troika::test_support
