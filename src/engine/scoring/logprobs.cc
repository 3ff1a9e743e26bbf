#include "engine/scoring/logprobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace troika::engine {

void LogprobRecorder::on_logits(std::span<const Token> history, std::span<const float> logits) {
  if (which_ == Likelihoods::kOfModel) {
    const size_t place = history.size() - n_prompt_;
    if (!spare_.empty() && !logits_.contains(place)) {
      spare_.back().key() = place;
      logits_.insert(std::move(spare_.back()));
      spare_.pop_back();
    }
    logits_[place].assign(logits.begin(), logits.end());
  }
  if (inner_ != nullptr) inner_->on_logits(history, logits);
}

void LogprobRecorder::apply(std::span<const Token> history, std::span<float> logits) {
  if (inner_ != nullptr) inner_->apply(history, logits);
}

void LogprobRecorder::on_choice(std::span<const Token> history, std::span<const Candidate> among) {
  if (which_ == Likelihoods::kOfModel) return;
  double sum = 0.0;
  for (const Candidate& c : among) sum += c.probability;
  std::vector<Likelihood>& choice = choices_[history.size() - n_prompt_];
  choice.clear();
  for (const Candidate& c : among) {
    choice.push_back({c.token, static_cast<float>(std::log(c.probability / sum))});
  }
}

TokenLogprobs LogprobRecorder::take_chosen(Token token) {
  const auto found = choices_.find(n_taken_++);
  TROIKA_ASSERT(found != choices_.end());
  std::vector<Likelihood> choice = std::move(found->second);
  choices_.erase(found);
  const auto taken = std::find_if(choice.begin(), choice.end(),
                                  [&](const Likelihood& one) { return one.token == token; });
  TROIKA_ASSERT(taken != choice.end());
  TokenLogprobs result{*taken, std::move(choice)};
  // A token that had no chance could not have stood there.
  std::erase_if(result.top, [](const Likelihood& one) { return std::isinf(one.logprob); });
  result.top.resize(std::min(result.top.size(), static_cast<size_t>(n_top_)));
  return result;
}

TokenLogprobs LogprobRecorder::take(Token token) {
  if (which_ == Likelihoods::kOfChoice) return take_chosen(token);
  spare_.push_back(logits_.extract(n_taken_++));
  TROIKA_ASSERT(!spare_.back().empty());
  const std::vector<float>& logits = spare_.back().mapped();
  const float most = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit - most));
  const float log_sum = most + static_cast<float>(std::log(sum));
  const auto logprob = [&](Token t) { return logits[static_cast<size_t>(t)] - log_sum; };

  TokenLogprobs result{{token, logprob(token)}, {}};
  order_.resize(logits.size());
  std::iota(order_.begin(), order_.end(), 0);
  const auto n =
      static_cast<std::ptrdiff_t>(std::min<size_t>(static_cast<size_t>(n_top_), order_.size()));
  std::partial_sort(order_.begin(), order_.begin() + n, order_.end(), [&](Token a, Token b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    const Token t = order_[static_cast<size_t>(i)];
    result.top.push_back({t, logprob(t)});
  }
  return result;
}

double mean_logprob(std::span<const TokenLogprobs> tokens) {
  double sum = 0.0;
  for (const TokenLogprobs& token : tokens) sum += static_cast<double>(token.taken.logprob);
  return tokens.empty() ? 0.0 : sum / static_cast<double>(tokens.size());
}

std::vector<size_t> best_first(std::span<const double> means) {
  std::vector<size_t> order(means.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return means[a] > means[b]; });
  return order;
}

}  // namespace troika::engine
