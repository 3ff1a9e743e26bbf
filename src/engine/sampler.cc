#include "engine/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "engine/narrowing.h"

namespace troika::engine {
namespace {

constexpr Token kNoToken = -1;

// Counts the logits that an inner loop takes together: where the number is fixed, compilers make
// vectors of them.
constexpr size_t kStride = 16;
constexpr float kMost = std::numeric_limits<float>::max();

void require(bool condition, const char* option, double value, const char* range) {
  if (condition) return;
  throw UsageError(fmt::format("{} {} makes no sense; it must be {}.", option, value, range));
}

void check(const SamplerOptions& o) {
  require(o.temperature >= 0 && std::isfinite(o.temperature), "‹temp›", o.temperature,
          "0 (the most likely token) or more");
  require(o.top_k >= 0, "‹top-k›", o.top_k, "0 (off) or more");
  require(o.top_p > 0 && o.top_p <= 1, "‹top-p›", o.top_p, "above 0 and at most 1 (off)");
  require(o.min_p >= 0 && o.min_p < 1, "‹min-p›", o.min_p, "at least 0 (off) and below 1");
  require(o.repetition_penalty > 0 && std::isfinite(o.repetition_penalty), "‹repeat-penalty›",
          o.repetition_penalty, "above 0 (1 is off)");
  require(std::isfinite(o.frequency_penalty), "‹frequency-penalty›", o.frequency_penalty, "finite");
  require(std::isfinite(o.presence_penalty), "‹presence-penalty›", o.presence_penalty, "finite");
  for (const auto& [token, bias] : o.logit_bias) {
    require(!std::isnan(bias), "‹logit-bias›", bias, "a number, or -inf to forbid the token");
  }
  require(o.penalty_window >= -1, "‹penalty-window›", o.penalty_window, "-1 (all), 0 or more");
}

// Returns the largest of the logits; what is no number counts as none.
float largest_of(std::span<const float> logits) {
  float largest[kStride];
  std::fill(std::begin(largest), std::end(largest), -std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + kStride <= logits.size(); i += kStride) {
    for (size_t j = 0; j < kStride; ++j) {
      const float logit = logits[i + j];
      largest[j] = largest[j] < logit ? logit : largest[j];
    }
  }
  for (; i < logits.size(); ++i) largest[0] = std::max(largest[0], logits[i]);
  return *std::max_element(std::begin(largest), std::end(largest));
}

// Returns the first of the likeliest tokens; kNoToken: all are forbidden. As in what a sampler
// takes over, a logit that is no number is forbidden, and an infinite one is the largest number.
Token likeliest(std::span<const float> logits) {
  constexpr size_t kPart = 256 * kStride;
  float best = -std::numeric_limits<float>::infinity();
  std::span<const float> best_part;
  for (size_t i = 0; i < logits.size() && best < kMost; i += kPart) {
    const auto part = logits.subspan(i, std::min(kPart, logits.size() - i));
    const float largest = std::min(largest_of(part), kMost);
    if (largest <= best) continue;
    best = largest;
    best_part = part;
  }
  if (best_part.empty()) return kNoToken;
  const auto found =
      std::find_if(best_part.begin(), best_part.end(), [&](float logit) { return logit >= best; });
  return static_cast<Token>(best_part.data() + (found - best_part.begin()) - logits.data());
}

}  // namespace

Sampler::Sampler(SamplerOptions options, LogitMask* mask)
    : options_(std::move(options)), mask_(mask) {
  check(options_);
}

void Sampler::throw_all_forbidden(std::span<const float> logits) {
  const bool is_damaged =
      std::any_of(logits.begin(), logits.end(), [](float logit) { return std::isnan(logit); });
  const bool has_numbers = std::any_of(logits.begin(), logits.end(), [](float logit) {
    return logit > -std::numeric_limits<float>::infinity();
  });
  if (has_numbers && !is_damaged) {
    throw NothingMayFollow(
        "No token may follow: what the answer must fit and the biases forbid every one. Change "
        "the one or the other.");
  }
  throw_no_numbers();
}

void throw_no_numbers() {
  throw Error(
      "No token may follow: what the model computes are no numbers. Its file may be damaged: fetch "
      "or make it again. If its numbers are too large for this arithmetic, ‹kv› f32 and "
      "‹activations› f32 have room for them.");
}

bool Sampler::has_penalties() const {
  const SamplerOptions& o = options_;
  return o.repetition_penalty != 1.0f || o.frequency_penalty != 0.0f || o.presence_penalty != 0.0f;
}

void Sampler::penalise(std::span<const Token> history) {
  const SamplerOptions& o = options_;
  const auto window = static_cast<size_t>(o.penalty_window);
  if (o.penalty_window >= 0 && history.size() > window) history = history.last(window);
  counts_.resize(logits_.size());
  seen_.reserve(logits_.size());
  for (const Token token : history) {
    if (token < 0 || static_cast<size_t>(token) >= logits_.size()) continue;
    if (counts_[static_cast<size_t>(token)]++ == 0) seen_.push_back(token);
  }
  for (const Token token : seen_) {
    const int count = std::exchange(counts_[static_cast<size_t>(token)], 0);
    float& logit = logits_[static_cast<size_t>(token)];
    logit = logit > 0 ? logit / o.repetition_penalty : logit * o.repetition_penalty;
    logit -= static_cast<float>(count) * o.frequency_penalty + o.presence_penalty;
  }
  seen_.clear();
}

// Takes logits over and replaces those that arithmetic cannot use: a logit that is no number is
// forbidden, an infinite one becomes the largest number. `from` may be the sampler's own logits.
void Sampler::take_finite(std::span<const float> from) {
  const auto finite = [](float logit) {
    const float bounded = logit < kMost ? logit : kMost;
    return logit == logit ? bounded : -std::numeric_limits<float>::infinity();
  };
  logits_.resize(from.size());
  float* const logits = logits_.data();
  size_t i = 0;
  for (; i + kStride <= from.size(); i += kStride) {
    for (size_t j = 0; j < kStride; ++j) logits[i + j] = finite(from[i + j]);
  }
  for (; i < from.size(); ++i) logits[i] = finite(from[i]);
}

Token Sampler::sample(std::span<const Token> history, std::span<const float> logits) {
  const bool is_greedy = options_.temperature == 0.0f;
  const bool has_changes = has_penalties() || mask_ != nullptr || !options_.logit_bias.empty();
  if (is_greedy && !has_changes) {
    const Token token = likeliest(logits);
    if (token == kNoToken) throw_all_forbidden(logits);
    return token;
  }
  take_finite(logits);
  if (mask_ != nullptr) mask_->on_logits(history, logits_);
  for (const auto& [token, bias] : options_.logit_bias) {
    if (token >= 0 && static_cast<size_t>(token) < logits_.size()) {
      logits_[static_cast<size_t>(token)] += bias;
    }
  }
  if (has_penalties()) penalise(history);
  if (mask_ != nullptr) mask_->apply(history, logits_);
  if (has_changes) take_finite(logits_);
  if (is_greedy) {
    const Token token = likeliest(logits_);
    if (token == kNoToken) throw_all_forbidden(logits);
    const Candidate only = {token, logits_[static_cast<size_t>(token)], 1.0f};
    if (mask_ != nullptr) mask_->on_choice(history, {&only, 1});
    return token;
  }
  narrow(logits_, options_, &candidates_);
  if (candidates_.empty()) throw_all_forbidden(logits);
  const float best = candidates_.front().logit;
  double sum = 0.0;
  for (Candidate& c : candidates_) {
    c.probability = std::exp((c.logit - best) / options_.temperature);
    sum += c.probability;
  }
  if (mask_ != nullptr) mask_->on_choice(history, candidates_);
  const double target = random_unit(options_.seed, history.size()) * sum;
  double running = 0.0;
  for (const Candidate& c : candidates_) {
    running += c.probability;
    if (running > target) return c.token;
  }
  return candidates_.back().token;
}

}  // namespace troika::engine
