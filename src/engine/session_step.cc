// The part of a session that verifies drafts (D3). A draft is a batch like any other: the text's
// last token and a tree of guesses behind it. Each row is sampled with the randomness of its own
// position, and a guess that equals the sample is followed. So nothing but time shows whether there
// was a draft, and nothing at all shows whose rows stood beside it.
#include <algorithm>
#include <mutex>

#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "engine/session.h"

namespace troika::engine {

// Returns how many guesses may stand in a batch of n_rows rows beside the text's last token.
int Session::most_draft_nodes(int most_tokens, int most_rows, int n_rows) const {
  // The rows of the draft and the text's last token must fit into one executable of steps, and the
  // tokens that come of them must fit into the context.
  const plan::Plan& plan = engine_.plan();
  const int room = context() - static_cast<int>(history_.size());
  int most = std::min({draft::kMostWidth, plan.most_step_rows(), plan.output_shapes.back(), room,
                       most_tokens, most_rows});
  if (most <= 1) return 0;
  // Guesses take free slots and those of idle texts, but no text ends for want of them.
  Passes& passes = engine_.passes();
  if (!passes.sequences.evict_until(n_rows + most)) most = passes.kv.n_free() - n_rows;
  return std::max(0, most - 1);
}

// Tells the drafter what the model says behind every row of the draft.
void Session::predict(std::span<const std::span<const float>> logits, Token next) {
  predicted_.clear();
  for (const std::span<const float> row : logits) {
    predicted_.push_back(
        static_cast<Token>(engine_.kernels().table.argmax(row.data(), row.size())));
  }
  int at = draft::kRoot;
  for (const int node : path_) {
    predicted_[static_cast<size_t>(at) + 1] = (*tree_)[node].token;
    at = node;
  }
  if (next >= 0) predicted_[static_cast<size_t>(at) + 1] = next;
}

double Session::add_step(draft::Drafter* drafter, int most_tokens, int most_rows,
                         draft::Company company, cache::Batch* batch) {
  TROIKA_ASSERT(!history_.empty() && !has_logits_ && most_tokens >= 1 && most_rows >= 1);
  check_next();
  tree_ = &no_draft_;
  if (drafter != nullptr) {
    const int n_nodes = most_draft_nodes(most_tokens, most_rows, batch->size());
    tree_ = &drafter->propose(history_, n_nodes, company);
  }
  // Where the cache has the last token already, that token is computed again.
  const auto position = static_cast<int>(history_.size()) - 1;
  engine_.passes().kv.truncate(sequence_, position);
  n_cached_ = position;
  tree_->add_rows(history_.back(), position, sequence_, engine_.passes().tag_of(plan::Phase::kStep),
                  batch);
  return drafter != nullptr ? drafter->expected_tokens() : 1.0;
}

Session::Stepped Session::take_step(Sampler& sampler, draft::Drafter* drafter,
                                    std::span<const std::span<const float>> logits, double pass_ms,
                                    int n_step_rows, const IsLast& is_last,
                                    std::vector<int>* kept) {
  const size_t n_before = history_.size();
  path_.clear();
  kept->clear();
  Token next = -1;
  try {
    for (int node = draft::kRoot;;) {
      try {
        next = sampler.sample(history_, logits[static_cast<size_t>(node) + 1]);
      } catch (const Error&) {
        if (path_.empty()) throw;
        next = -1;  // the next call will report this again; accepted tokens come first
        break;
      }
      const int child = tree_->child(node, next);
      if (child == draft::Tree::kNoNode || (is_last && is_last(next))) break;
      path_.push_back(child);
      history_.push_back(next);
      node = child;
    }
    if (drafter != nullptr) {
      if (drafter->uses_predictions()) predict(logits, next);
      drafter->learn({*tree_, predicted_, path_, next, logits.front().data(),
                      static_cast<int>(logits.front().size())});
    }
  } catch (...) {
    history_.resize(n_before);
    throw;
  }
  kept->push_back(0);
  for (const int node : path_) kept->push_back(node + 1);
  n_cached_ += static_cast<int>(kept->size());
  if (next >= 0) history_.push_back(next);
  if (drafter != nullptr) drafter->measured(n_step_rows, pass_ms);
  const auto n_drafted = static_cast<int>(path_.size());
  return {.n_tokens = n_drafted + (next >= 0), .n_drafted = n_drafted};
}

Session::Stepped Session::step(Sampler& sampler, draft::Drafter* drafter, int most_tokens,
                               const IsLast& is_last) {
  TROIKA_ASSERT(!history_.empty() && most_tokens >= 1);
  check_next();
  if (has_logits_) {
    next(sampler);
    return {.n_tokens = 1, .n_drafted = 0};
  }
  const std::lock_guard<TurnMutex> lock(engine_.passes().mutex);
  batch_.clear();
  add_step(drafter, most_tokens, engine_.plan().most_step_rows(), {}, &batch_);
  rows_.clear();
  Stepped stepped;
  const Clock& clock = engine_.machine().clock();
  const double start_us = clock.now_us();
  const auto keep_row = [&](int, std::span<const float> row) { rows_.push_back(row); };
  const auto choose = [&]() -> std::span<const int> {
    const double ms = (clock.now_us() - start_us) / kUsPerMs;
    stepped = take_step(sampler, drafter, rows_, ms, batch_.size(), is_last, &kept_);
    return kept_;
  };
  engine_.passes().batches.run(batch_, plan::Phase::kStep, keep_row, choose, watch_);
  return stepped;
}

}  // namespace troika::engine
