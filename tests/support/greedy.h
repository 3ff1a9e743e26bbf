// Lets two sessions read one greedy text, for tests that compare what lanes compute.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "engine/session.h"

namespace troika::test_support {

// How often a session chooses the token that the judge chooses.
struct GreedyAgreement {
  int n_equal = 0;
  int n_ties = 0;  // counts other choices where the judge holds both tokens for equally likely
};

// Lets both sessions read a prompt and n greedy tokens of the judge behind it. Two logits are tied
// where they are apart by no more than `tie` of the largest.
inline GreedyAgreement greedy_agreement(engine::Session& judge, engine::Session& other,
                                        std::span<const cache::Token> prompt, int n,
                                        float tie = 2e-5f) {
  const auto best = [](std::span<const float> logits) {
    return static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  };
  GreedyAgreement agreement;
  judge.prefill(prompt);
  other.prefill(prompt);
  for (int i = 0; i < n; ++i) {
    const std::span<const float> logits = judge.logits();
    const size_t chosen = best(logits), others = best(other.logits());
    if (chosen == others) {
      ++agreement.n_equal;
    } else if (logits[chosen] - logits[others] <= tie * std::fabs(logits[chosen])) {
      ++agreement.n_ties;
    }
    judge.append(static_cast<cache::Token>(chosen));
    other.append(static_cast<cache::Token>(chosen));
  }
  return agreement;
}

}  // namespace troika::test_support
