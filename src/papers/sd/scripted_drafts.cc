#include "papers/sd/scripted_drafts.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"

namespace troika::papers {

ScriptedDrafts::ScriptedDrafts(int n_drafts, double accepted, draft::Token right,
                               std::function<void(int n_drafts)> drafts)
    : n_drafts_(n_drafts), accepted_(accepted), right_(right), drafts_(std::move(drafts)) {
  TROIKA_ASSERT(accepted >= 1.0 && accepted <= n_drafts + 1.0);
}

void ScriptedDrafts::propose(int most, draft::Tree* tree) {
  const int n = std::min(most, n_drafts_);
  if (n <= 0) return;
  drafts_(n);
  due_ += accepted_ - 1.0;
  // Rounding keeps means of a few verifications near the wanted one.
  const int n_right = std::clamp(static_cast<int>(std::lround(due_)), 0, n);
  due_ -= n_right;
  std::vector<draft::Token> chain(static_cast<size_t>(n), right_ + 1);
  std::fill_n(chain.begin(), n_right, right_);
  constexpr float kLikely = 0.9f;
  tree->add_chain(draft::kRoot, chain, kLikely);
}

}  // namespace troika::papers
