// What a class of prompts loses against another one on a text, how sure that is, and whether it is
// little enough to be taken unasked.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace troika::tune {

struct Loss {
  size_t n_tokens = 0;
  double share = 0.0;  // of perplexity: 0.002 is 0.2 % more
  double error = 0.0;  // one standard error of it
};

// Two views of the same loss (decision 79). The tokens that stand in a text tell it without any
// assumption, and vary much; what a more exact class holds for likely there tells it for all tokens
// at once, and varies little.
struct PromptLoss {
  Loss text;
  Loss expected;
};

enum class Verdict { kUnsure, kLittle, kTooMuch };

// A class may lose so much perplexity, and with two standard errors more so much.
inline constexpr double kMostLoss = 0.005;
inline constexpr double kMostDoubtfulLoss = 0.01;

// Compares the negative log likelihoods of the same tokens in both classes: differences vary far
// less than they do. REQUIRES: as many of one as of the other, two at least.
Loss loss_between(const std::vector<double>& usual, const std::vector<double>& other);

bool is_proven(const Loss& loss);

// The mean of differences in nats, as a share of perplexity. Neighbours are alike, so that the
// error is that of the means of `n_together` successive ones. REQUIRES: two of those at least.
Loss mean_loss(const std::vector<double>& differences, size_t n_together);

// With so many standard errors something is sure: a text is looked at several times, and several
// methods are.
inline constexpr double kSure = 3.0;

// Little: the expected loss is at most `most` for sure, and the text does not contradict. Too much:
// one of both is more for sure.
Verdict verdict_of(const PromptLoss& loss, double most);
const char* verdict_text(Verdict verdict);

// "+0.12 % (standard error 0.05 %)".
std::string loss_text(const Loss& loss);
// "+0.12 % expected (standard error 0.02 %), +0.31 % on the text (standard error 0.40 %)".
std::string loss_text(const PromptLoss& loss);

// What a prompt of so many tokens took at best.
struct PromptTime {
  int n_tokens = 0;
  double ms = 0.0;

  bool operator==(const PromptTime&) const = default;
};

// How many times as fast `times` are as `other`: the geometric mean over all lengths. REQUIRES: the
// same lengths in both.
double times_as_fast(const std::vector<PromptTime>& times, const std::vector<PromptTime>& other);

// What is not plainly better is not taken: it would be more than the usual for nothing.
inline constexpr double kClearlyFaster = 1.03;

}  // namespace troika::tune
