// Collects the logits that sessions give in all their ways, for tests that compare two engines.
#pragma once

#include <span>
#include <vector>

#include "tests/support/tiny_engine.h"

namespace troika::test_support {

// For each of the prompt lengths, returns the logits behind the prompt, behind each of three single
// tokens, and of all rows of a step of `n_wide` tokens.
template <typename Lengths>
std::vector<std::vector<float>> rows_behind(engine::Engine& engine, const TinyModel& model,
                                            const Lengths& lengths, size_t n_wide) {
  std::vector<std::vector<float>> rows;
  for (const int length : lengths) {
    engine::Session session(engine);
    session.prefill(random_tokens(model, static_cast<size_t>(length), 5));
    rows.push_back(copy_of(session.logits()));
    for (const text::Token token : random_tokens(model, 3, 6)) {
      session.append(token);
      rows.push_back(copy_of(session.logits()));
    }
    session.evaluate(random_tokens(model, n_wide, 7),
                     [&](int, std::span<const float> row) { rows.push_back(copy_of(row)); });
  }
  return rows;
}

}  // namespace troika::test_support
