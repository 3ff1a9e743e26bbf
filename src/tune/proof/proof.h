// Says what a class of prompts loses against another one on a text, how sure that is, and whether
// it is little enough to be taken unasked.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace troika::tune {

struct Loss {
  size_t n_tokens = 0;
  double share = 0.0;  // a share of perplexity: 0.002 is 0.2 % more
  double error = 0.0;  // the standard error of `share`
};

// Two views of the same loss (decision 79). `text` is the loss on the tokens that stand in the
// text: it needs no assumption, and varies much. `expected` is the loss on all tokens, each as
// likely as a more exact class says: it varies little.
struct PromptLoss {
  Loss text;
  Loss expected;
};

// Counts the tokens of a text that had a chance to contradict before a small loss is believed: some
// tokens alone may agree by luck.
inline constexpr size_t kLeastProofTokens = 768;

enum class LossVerdict { kUnsure, kLittle, kTooMuch };

// A class is proven if it loses at most kMostLoss of perplexity, and with two standard errors on
// top at most kMostDoubtfulLoss.
inline constexpr double kMostLoss = 0.005;
inline constexpr double kMostDoubtfulLoss = 0.01;

// Compares the negative log likelihoods of the same tokens in both classes: their differences vary
// far less than the likelihoods do. REQUIRES: there are as many of one as of the other, two at
// least.
Loss loss_between(const std::vector<double>& usual, const std::vector<double>& other);

bool is_proven(const Loss& loss);

// Returns the mean of differences in nats, as a share of perplexity. Neighbours are alike, so the
// error is computed from the means of several successive ones, where there are enough of them.
// REQUIRES: there are two differences at least.
Loss mean_loss(const std::vector<double>& differences);

// Counts the standard errors with which a verdict is sure. It is high because a text is looked at
// several times, for several methods.
inline constexpr double kSure = 3.0;

// kLittle: the expected loss is at most `most` for sure, and the text, which has kLeastProofTokens
// tokens or more, does not contradict.
// kTooMuch: one of both losses is more for sure.
LossVerdict verdict_of(const PromptLoss& loss, double most);
// Says whether nothing was decided because the text has fewer than kLeastProofTokens tokens.
bool is_too_short(const PromptLoss& loss, double most);
const char* verdict_text(LossVerdict verdict);

// Returns a text as "+0.12 % (standard error 0.05 %)".
std::string loss_text(const Loss& loss);
// Returns "+0.12 % expected (standard error 0.02 %), +0.31 % on the text (standard error 0.40 %)".
std::string loss_text(const PromptLoss& loss);

// The best time of a prompt of n_tokens tokens.
struct PromptTime {
  int n_tokens = 0;
  double ms = 0.0;

  bool operator==(const PromptTime&) const = default;
};

// Returns how many times as fast `times` are as `other`: the geometric mean over all lengths.
// REQUIRES: the same lengths in both.
double times_as_fast(const std::vector<PromptTime>& times, const std::vector<PromptTime>& other);

// A plan that is faster by a smaller factor is not taken: it would replace the usual plan for
// nothing.
inline constexpr double kClearlyFaster = 1.03;

}  // namespace troika::tune
