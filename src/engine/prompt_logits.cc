#include "engine/prompt_logits.h"

namespace troika::engine {

bool PromptLogits::wants(int position) const {
  const auto covered_before = [&](int n) { return static_cast<int64_t>(n) * coverage_ / 100; };
  return covered_before(position + 1) > covered_before(position);
}

void PromptLogits::see(int position, std::span<const float> logits) {
  likely_.push_back(draft::likely_next(position, logits));
}

}  // namespace troika::engine
