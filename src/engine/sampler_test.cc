#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "engine/scoring/logprobs.h"

namespace troika::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Returns options that switch everything off, so that tokens are drawn from the softmax as it is.
SamplerOptions plain() {
  SamplerOptions o;
  o.temperature = 1.0f;
  o.top_k = 0;
  o.top_p = 1.0f;
  o.min_p = 0.0f;
  return o;
}

SamplerOptions greedy() {
  SamplerOptions o;
  o.temperature = 0.0f;
  return o;
}

Token sample(const SamplerOptions& options, const std::vector<float>& logits,
             const std::vector<Token>& history = {}) {
  Sampler sampler(options);
  return sampler.sample(history, logits);
}

// Returns how often each token is chosen at n positions.
std::map<Token, int> frequencies(const SamplerOptions& options, const std::vector<float>& logits,
                                 int n = 4000) {
  Sampler sampler(options);
  std::vector<Token> history;
  std::map<Token, int> counts;
  for (int i = 0; i < n; ++i) {
    ++counts[sampler.sample(history, logits)];
    history.push_back(0);
  }
  return counts;
}

std::vector<float> logs(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

// Expects each share within five standard deviations of its binomial distribution.
void expect_shares(const std::map<Token, int>& counts, const std::vector<double>& shares, int n) {
  for (size_t token = 0; token < shares.size(); ++token) {
    const auto found = counts.find(static_cast<Token>(token));
    const double count = found == counts.end() ? 0 : found->second;
    const double p = shares[token];
    EXPECT_NEAR(count, n * p, 5 * std::sqrt(n * p * (1 - p)) + 1e-9) << "token " << token;
  }
}

TEST(Sampler, GreedyTakesTheFirstOfTheMostLikely) {
  EXPECT_EQ(sample(greedy(), {1, 3, 2, 3}), 1);
  EXPECT_EQ(sample(greedy(), {-5}), 0);
  EXPECT_EQ(sample(greedy(), {-kInfinity, -3e38f}), 1);
}

// A bias of nothing makes the sampler take the logits over, as penalties and masks do.
TEST(Sampler, GreedyIsTheSameWithAndWithoutACopy) {
  SamplerOptions with_copy = greedy();
  with_copy.logit_bias.emplace_back(0, 0.0F);
  const float kMost = std::numeric_limits<float>::max();
  for (const size_t n : {1, 16, 17, 4095, 4096, 4097, 8192, 20001}) {
    for (uint64_t seed = 0; seed < 40; ++seed) {
      std::vector<float> logits(n);
      for (size_t i = 0; i < n; ++i) {
        logits[i] = std::round(static_cast<float>(random_unit(seed, i)) * 30.0F);
        if (random_unit(seed + 100, i) < 0.1) logits[i] = i % 2 == 0 ? kNan : -kInfinity;
      }
      const auto at = static_cast<size_t>(random_unit(seed, n) * static_cast<double>(n));
      if (seed % 4 == 1) logits[at] = kInfinity;
      if (seed % 4 == 2) logits[at] = kMost;
      if (seed % 8 >= 4) logits[n - 1] = seed % 2 == 0 ? kInfinity : kMost;
      if (seed == 39) std::fill(logits.begin(), logits.end(), -kInfinity);
      if (seed == 39) logits[at] = -kMost;
      if (std::none_of(logits.begin(), logits.end(), [](float x) { return x > -kInfinity; })) {
        EXPECT_THROW(sample(greedy(), logits), Error);
        continue;
      }
      EXPECT_EQ(sample(greedy(), logits), sample(with_copy, logits)) << n << ", seed " << seed;
    }
  }
}

// Many of the logits are equal, and their numbers are no multiples of anything.
TEST(Sampler, TopKIsThatOfAllSorted) {
  for (const size_t n : {1, 15, 16, 17, 1000, 5003}) {
    std::vector<float> logits(n);
    for (size_t i = 0; i < n; ++i) {
      logits[i] = 0.25f * static_cast<float>(random_unit(7, static_cast<uint64_t>(i)) * 40 - 20);
      if (i % 3 == 0) logits[i] = std::round(logits[i]);
      if (i % 11 == 0) logits[i] = i % 2 == 0 ? kNan : -kInfinity;
    }
    std::vector<Token> sorted;
    for (size_t i = 0; i < n; ++i) {
      if (logits[i] > -kInfinity) sorted.push_back(static_cast<Token>(i));
    }
    std::stable_sort(sorted.begin(), sorted.end(), [&](Token a, Token b) {
      return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
    });
    for (const int k : {1, 2, 40, 100000}) {
      SamplerOptions o = plain();
      o.top_k = k;
      o.temperature = 1000.0f;  // makes all tokens about as likely
      if (sorted.empty()) {
        EXPECT_THROW(sample(o, logits), Error);
        continue;
      }
      const size_t n_kept = std::min(sorted.size(), static_cast<size_t>(k));
      const std::set<Token> allowed(sorted.begin(),
                                    sorted.begin() + static_cast<ptrdiff_t>(n_kept));
      const std::map<Token, int> counts = frequencies(o, logits, 1000);
      for (const auto& [token, count] : counts) {
        EXPECT_TRUE(allowed.contains(token)) << token << " of " << n << ", top " << k;
      }
      if (n_kept <= 40) {
        EXPECT_EQ(counts.size(), n_kept) << n << ", top " << k;
      }
    }
  }
}

// Keeps the tokens among which one was chosen.
class ChoiceRecorder : public LogitMask {
 public:
  void apply(std::span<const Token>, std::span<float>) override {}
  void on_choice(std::span<const Token>, std::span<const Candidate> choice) override {
    tokens.clear();
    for (const Candidate& c : choice) tokens.push_back(c.token);
  }
  std::vector<Token> tokens;
};

// Returns the tokens that options allow, the likeliest first, by sorting all of them.
std::vector<Token> allowed_of_all_sorted(const SamplerOptions& o, std::span<const float> logits) {
  std::vector<std::pair<float, Token>> sorted;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > -kInfinity) sorted.emplace_back(-logits[i], static_cast<Token>(i));
  }
  std::sort(sorted.begin(), sorted.end());
  if (o.top_k > 0) sorted.resize(std::min(sorted.size(), static_cast<size_t>(o.top_k)));
  const auto probability = [&](size_t i) { return std::exp(sorted[0].first - sorted[i].first); };
  double sum = 0.0, running = 0.0;
  for (size_t i = 0; i < sorted.size(); ++i) sum += probability(i);
  std::vector<Token> allowed;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i > 0 && (running >= o.top_p * sum || probability(i) < o.min_p)) break;
    running += probability(i);
    allowed.push_back(sorted[i].second);
  }
  return allowed;
}

// Returns rows of logits in which few or many tokens are likely, some with many equals. In the last
// one, sums of halves are exact.
std::vector<std::vector<float>> rows_of_many_kinds(size_t n) {
  std::vector<std::vector<float>> rows;
  for (const float width : {0.5f, 8.0f, 40.0f}) {
    for (const float step : {0.0f, 0.25f, 2.0f}) {
      std::vector<float> row(n);
      for (size_t i = 0; i < n; ++i) {
        const auto at = static_cast<uint64_t>(i);
        row[i] = width * static_cast<float>(random_unit(1, at) + random_unit(2, at) - 1.0);
        if (step > 0.0f) row[i] = step * std::round(row[i] / step);
        if (i % 17 == 3) row[i] = -kInfinity;
      }
      rows.push_back(std::move(row));
    }
  }
  rows.emplace_back(n, 1.5f);
  return rows;
}

TEST(Sampler, TheChoiceIsThatOfAllSorted) {
  for (const size_t n : {2, 256, 257, 3000, 20000}) {
    for (const std::vector<float>& logits : rows_of_many_kinds(n)) {
      for (const int top_k : {0, 40, 256, 257, 2000}) {
        for (const float top_p : {1.0f, 0.95f, 0.5f, 1e-6f}) {
          for (const float min_p : {0.0f, 1e-6f, 0.05f, 0.7f}) {
            SamplerOptions o = plain();
            o.top_k = top_k, o.top_p = top_p, o.min_p = min_p;
            ChoiceRecorder recorder;
            Sampler(o, &recorder).sample({}, logits);
            EXPECT_TRUE(recorder.tokens == allowed_of_all_sorted(o, logits))
                << n << ", top-k " << top_k << ", top-p " << top_p << ", min-p " << min_p;
          }
        }
      }
    }
  }
}

TEST(Sampler, FrequenciesAreTheProbabilities) {
  const std::vector<double> p = {0.5, 0.25, 0.15, 0.1};
  expect_shares(frequencies(plain(), logs(p)), p, 4000);
  SamplerOptions hot = plain();
  hot.temperature = 2.0f;
  std::vector<double> root;
  double sum = 0;
  for (const double x : p) sum += std::sqrt(x);
  for (const double x : p) root.push_back(std::sqrt(x) / sum);
  expect_shares(frequencies(hot, logs(p)), root, 4000);
}

TEST(Sampler, SmallestTemperaturesAreNearlyGreedy) {
  SamplerOptions cold = plain();
  for (const float temperature : {1e-3f, 1e-30f, 1e-45f}) {
    cold.temperature = temperature;
    EXPECT_EQ(frequencies(cold, {1, 3, 2}, 50), (std::map<Token, int>{{1, 50}}));
  }
}

TEST(Sampler, TopKLeavesTheKMostLikely) {
  const std::vector<double> p = {0.1, 0.4, 0.2, 0.3};
  SamplerOptions o = plain();
  o.top_k = 2;
  expect_shares(frequencies(o, logs(p)), {0, 4.0 / 7, 0, 3.0 / 7}, 4000);
  o.top_k = 1;
  expect_shares(frequencies(o, logs(p), 50), {0, 1, 0, 0}, 50);
  for (const int all : {0, 4, 1000}) {
    o.top_k = all;
    expect_shares(frequencies(o, logs(p)), p, 4000);
  }
  o.top_k = 2;  // takes the first ones of equals
  expect_shares(frequencies(o, {1, 1, 1}), {0.5, 0.5, 0}, 4000);
}

TEST(Sampler, TopPLeavesTheFewestThatReachTheShare) {
  const std::vector<double> p = {0.1, 0.4, 0.2, 0.3};
  SamplerOptions o = plain();
  o.top_p = 0.65f;
  expect_shares(frequencies(o, logs(p)), {0, 4.0 / 7, 0, 3.0 / 7}, 4000);
  o.top_p = 0.75f;
  expect_shares(frequencies(o, logs(p)), {0, 4.0 / 9, 2.0 / 9, 3.0 / 9}, 4000);
  o.top_p = 1e-6f;  // leaves at least one
  expect_shares(frequencies(o, logs(p), 50), {0, 1, 0, 0}, 50);
}

TEST(Sampler, MinPIsAShareOfTheBest) {
  const std::vector<double> p = {0.1, 0.4, 0.2, 0.3};
  SamplerOptions o = plain();
  o.min_p = 0.6f;
  expect_shares(frequencies(o, logs(p)), {0, 4.0 / 7, 0, 3.0 / 7}, 4000);
  o.min_p = 0.99f;
  expect_shares(frequencies(o, logs(p), 50), {0, 1, 0, 0}, 50);
}

TEST(Sampler, PenaltiesTouchWhatWasSeenLately) {
  SamplerOptions o = greedy();
  o.repetition_penalty = 2.0f;
  EXPECT_EQ(sample(o, {4, 3, 1}, {0}), 1);    // 4 / 2 < 3
  EXPECT_EQ(sample(o, {-1, -3}, {0}), 0);     // -1 * 2 > -3
  EXPECT_EQ(sample(o, {-1, -1.5f}, {0}), 1);  // -1 * 2 < -1.5
  o = greedy();
  o.frequency_penalty = 1.0f;
  EXPECT_EQ(sample(o, {4, 2.5f}, {0}), 0);
  EXPECT_EQ(sample(o, {4, 2.5f}, {0, 0}), 1);
  o = greedy();
  o.presence_penalty = 1.0f;
  EXPECT_EQ(sample(o, {4, 2.5f}, {0, 0, 0}), 0);
  EXPECT_EQ(sample(o, {4, 3.5f}, {0}), 1);
}

TEST(Sampler, ThePenaltyWindowForgets) {
  SamplerOptions o = greedy();
  o.presence_penalty = 2.0f;
  o.penalty_window = 2;
  EXPECT_EQ(sample(o, {4, 3, 0}, {0, 2}), 1);
  EXPECT_EQ(sample(o, {4, 3, 0}, {0, 2, 2}), 0);
  o.penalty_window = -1;
  EXPECT_EQ(sample(o, {4, 3, 0}, {0, 2, 2}), 1);
  o.penalty_window = 0;
  EXPECT_EQ(sample(o, {4, 3, 0}, {0}), 0);
  // Tokens that the logits do not have are ignored.
  o.penalty_window = -1;
  EXPECT_EQ(sample(o, {4, 3}, {-1, 7}), 0);
}

TEST(Sampler, LogitBiasMovesTokens) {
  SamplerOptions o = greedy();
  o.logit_bias = {{2, 5.0f}, {99, 100.0f}, {-1, 100.0f}};
  EXPECT_EQ(sample(o, {4, 3, 0}), 2);
  o.logit_bias = {{0, -kInfinity}};
  EXPECT_EQ(sample(o, {4, 3, 0}), 1);
  o = plain();
  o.logit_bias = {{0, -kInfinity}};
  expect_shares(frequencies(o, logs({0.5, 0.25, 0.25})), {0, 0.5, 0.5}, 4000);
  o.logit_bias = {{2, kInfinity}};
  expect_shares(frequencies(o, {4, 3, 0}, 50), {0, 0, 1}, 50);
}

class Forbid : public LogitMask {
 public:
  explicit Forbid(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  void apply(std::span<const Token> history, std::span<float> logits) override {
    last_length = history.size();
    for (const Token token : tokens_) logits[static_cast<size_t>(token)] = -kInfinity;
  }
  size_t last_length = 0;

 private:
  std::vector<Token> tokens_;
};

TEST(Sampler, TheMaskForbids) {
  Forbid mask({0, 2});
  for (const SamplerOptions& options : {greedy(), plain()}) {
    Sampler sampler(options, &mask);
    for (int i = 0; i < 20; ++i) {
      const std::vector<Token> history(static_cast<size_t>(i), 0);
      EXPECT_EQ(sampler.sample(history, std::vector<float>{9, 1, 8}), 1);
      EXPECT_EQ(mask.last_length, static_cast<size_t>(i));
    }
  }
}

TEST(Sampler, ForbiddingEveryTokenIsAnError) {
  Forbid mask({0, 1, 2});
  for (const SamplerOptions& options : {greedy(), plain()}) {
    Sampler sampler(options, &mask);
    EXPECT_THROW(sampler.sample({}, std::vector<float>{9, 1, 8}), Error);
    EXPECT_THROW(sample(options, {kNan, -kInfinity}), Error);
    EXPECT_THROW(sample(options, {}), Error);
  }
}

// The longer rows are read many logits at a time, with a rest that is read one by one.
TEST(Sampler, TheFirstOfTheLikeliestIsChosenWhereverItStands) {
  for (size_t n : {1u, 15u, 16u, 17u, 40u, 67u}) {
    for (size_t at = 0; at < n; ++at) {
      std::vector<float> logits(n, kNan);
      for (size_t i = 0; i < n; i += 3) logits[i] = -1.0f - static_cast<float>(i);
      logits[at] = 2.0f;
      EXPECT_EQ(sample(greedy(), logits), static_cast<int>(at)) << n;
      logits.back() = kInfinity;
      EXPECT_EQ(sample(greedy(), logits), static_cast<int>(n) - 1) << n;
      logits[at] = kInfinity;
      EXPECT_EQ(sample(greedy(), logits), static_cast<int>(at)) << n;
    }
  }
}

TEST(Sampler, WhatIsNoNumberIsNeverChosen) {
  EXPECT_EQ(sample(greedy(), {kNan, 1, kNan, 2}), 3);
  expect_shares(frequencies(plain(), {kNan, 1, kNan, 1}), {0, 0.5, 0, 0.5}, 4000);
  EXPECT_EQ(sample(greedy(), {1, kInfinity, 2}), 1);
  expect_shares(frequencies(plain(), {1, kInfinity, -3e38f}, 50), {0, 1, 0}, 50);
}

TEST(Sampler, D3_RandomnessDependsOnSeedAndPositionAlone) {
  const std::vector<float> logits(50, 0.0f);
  SamplerOptions o = plain();
  o.seed = 7;
  Sampler forwards(o), backwards(o);
  std::vector<Token> there, back;
  for (size_t i = 0; i < 40; ++i) {
    there.push_back(forwards.sample(std::vector<Token>(i, 3), logits));
    back.insert(back.begin(), backwards.sample(std::vector<Token>(39 - i, 4), logits));
  }
  EXPECT_EQ(there, back);
  o.seed = 8;
  Sampler other(o);
  int n_same = 0;
  for (size_t i = 0; i < 40; ++i)
    n_same += other.sample(std::vector<Token>(i, 3), logits) == there[i];
  EXPECT_LT(n_same, 15);
  EXPECT_GT(std::set<Token>(there.begin(), there.end()).size(), 15u);
}

TEST(Sampler, SenselessValuesAreWrongUsage) {
  const auto rejects = [](auto change) {
    SamplerOptions o;
    change(o);
    EXPECT_THROW(Sampler{o}, UsageError);
  };
  rejects([](SamplerOptions& o) { o.temperature = -1; });
  rejects([](SamplerOptions& o) { o.temperature = kNan; });
  rejects([](SamplerOptions& o) { o.temperature = kInfinity; });
  rejects([](SamplerOptions& o) { o.top_k = -1; });
  rejects([](SamplerOptions& o) { o.top_p = 0; });
  rejects([](SamplerOptions& o) { o.top_p = 1.5f; });
  rejects([](SamplerOptions& o) { o.top_p = kNan; });
  rejects([](SamplerOptions& o) { o.min_p = 1; });
  rejects([](SamplerOptions& o) { o.min_p = -0.1f; });
  rejects([](SamplerOptions& o) { o.repetition_penalty = 0; });
  rejects([](SamplerOptions& o) { o.frequency_penalty = kNan; });
  rejects([](SamplerOptions& o) { o.presence_penalty = kInfinity; });
  rejects([](SamplerOptions& o) { o.penalty_window = -2; });
  rejects([](SamplerOptions& o) { o.logit_bias = {{1, kNan}}; });
}

// What is reported is what the model holds likely, whatever a request adds to it.
TEST(Sampling, BiasesAndPenaltiesDoNotChangeTheReportedLikelihood) {
  SamplerOptions o = greedy();
  o.logit_bias = {{1, 100.0f}};
  o.presence_penalty = 2.0f;
  LogprobRecorder recorder(1, 2, nullptr);
  Sampler sampler(o, &recorder);
  const std::vector<Token> history = {0};
  const Token token = sampler.sample(history, logs({0.75, 0.25}));
  ASSERT_EQ(token, 1);
  const TokenLogprobs reported = recorder.take(token);
  EXPECT_NEAR(reported.taken.logprob, std::log(0.25), 1e-5);
  ASSERT_EQ(reported.top.size(), 2u);
  EXPECT_EQ(reported.top[0].token, 0);
  EXPECT_NEAR(reported.top[0].logprob, std::log(0.75), 1e-5);
}

}  // namespace
}  // namespace troika::engine
