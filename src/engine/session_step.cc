// The part of a session that verifies drafts (D3). A draft is a batch like any other: the text's
// last token and a tree of guesses behind it. Each row is sampled with the randomness of its own
// position, and the guess that equals the sample is followed, so nothing but time tells whether
// there was a draft.
#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "engine/session.h"

namespace troika::engine {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

int Session::most_draft_nodes(int most_tokens) const {
  // Row by row, the text's last token included, they must fit into one executable of the numerics
  // class of decoding, and the tokens that come of them into the context.
  const plan::Plan& plan = engine_.plan();
  const int most_rows = std::min(
      {draft::kMostWidth, plan::kMostDecodeTokens, plan.chunk(), plan.output_shapes.back()});
  const int room = context() - static_cast<int>(history_.size());
  return std::max(0, std::min({most_rows, room, most_tokens}) - 1);
}

// What the model says behind every row of the draft.
void Session::predict(const draft::Tree& tree, std::span<const int> path, Token next) {
  predicted_.clear();
  for (const std::span<const float> row : rows_) {
    predicted_.push_back(
        static_cast<Token>(engine_.kernels().table.argmax(row.data(), row.size())));
  }
  int at = draft::kRoot;
  for (const int node : path) {
    predicted_[static_cast<size_t>(at + 1)] = tree[node].token;
    at = node;
  }
  if (next >= 0) predicted_[static_cast<size_t>(at + 1)] = next;
}

Session::Stepped Session::step(Sampler& sampler, draft::Drafter& drafter, int most_tokens,
                               const IsLast& is_last) {
  TROIKA_ASSERT(!history_.empty() && most_tokens >= 1);
  check_next();
  if (has_logits_) {
    next(sampler);
    return {1, 0, false};
  }
  const size_t n_before = history_.size();
  const draft::Tree& tree = drafter.propose(history_, most_draft_nodes(most_tokens));
  // The last token is computed again where it is in the cache already.
  kv_.truncate(kSequence, static_cast<int>(n_before) - 1);
  tree.fill_batch(history_.back(), static_cast<int>(n_before) - 1, kSequence, &batch_);
  rows_.clear();
  path_.clear();
  Token next = -1;
  double pass_ms = 0.0;
  const Clock::time_point start = Clock::now();
  const auto keep_row = [&](int, std::span<const float> row) { rows_.push_back(row); };
  const auto follow = [&] {
    pass_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    for (int node = draft::kRoot;;) {
      try {
        next = sampler.sample(history_, rows_[static_cast<size_t>(node + 1)]);
      } catch (const Error&) {
        if (path_.empty()) throw;
        next = -1;  // the next call will say so again: what is accepted comes first
        break;
      }
      const int child = tree.child(node, next);
      if (child == draft::Tree::kNoNode || (is_last && is_last(next))) break;
      path_.push_back(child);
      history_.push_back(next);
      node = child;
    }
    if (drafter.uses_predictions()) predict(tree, path_, next);
    drafter.learn({tree, predicted_, path_, next, rows_.front().data(),
                   static_cast<int>(rows_.front().size())});
    std::vector<int> kept = {0};
    for (const int node : path_) kept.push_back(node + 1);
    return kept;
  };
  try {
    run(batch_, 0, keep_row, follow);
  } catch (...) {
    history_.resize(n_before);
    has_logits_ = false;
    throw;
  }
  if (next >= 0) history_.push_back(next);
  has_logits_ = false;
  drafter.measured(batch_.size(), pass_ms);
  return {static_cast<int>(path_.size()) + (next >= 0), static_cast<int>(path_.size()), true};
}

}  // namespace troika::engine
