#include "tune/proof/proof.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "base/error.h"

namespace troika::tune {
namespace {

// Counts successive differences that give one mean, for the error of the whole mean.
constexpr size_t kTogether = 8;

}  // namespace

Loss loss_between(const std::vector<double>& usual, const std::vector<double>& other) {
  TROIKA_ASSERT(usual.size() == other.size() && usual.size() >= 2);
  std::vector<double> differences;
  differences.reserve(usual.size());
  for (size_t i = 0; i < usual.size(); ++i) differences.push_back(other[i] - usual[i]);
  return mean_loss(differences);
}

Loss mean_loss(const std::vector<double>& differences) {
  TROIKA_ASSERT(differences.size() >= 2);
  // The mean of few groups tells little about their error, so few differences are not grouped.
  const size_t n_together = differences.size() >= kTogether * kTogether ? kTogether : 1;
  std::vector<double> means;
  for (size_t begin = 0; begin + n_together <= differences.size(); begin += n_together) {
    const auto first = differences.begin() + static_cast<std::ptrdiff_t>(begin);
    means.push_back(std::accumulate(first, first + static_cast<std::ptrdiff_t>(n_together), 0.0) /
                    static_cast<double>(n_together));
  }
  const auto n = static_cast<double>(means.size());
  const double mean_of_groups = std::accumulate(means.begin(), means.end(), 0.0) / n;
  double squares = 0.0;
  for (const double of_some : means) {
    squares += (of_some - mean_of_groups) * (of_some - mean_of_groups);
  }
  const double mean = std::accumulate(differences.begin(), differences.end(), 0.0) /
                      static_cast<double>(differences.size());
  const double ratio = std::exp(mean);
  return {differences.size(), ratio - 1.0, ratio * std::sqrt(squares / (n - 1.0) / n)};
}

bool is_proven(const Loss& loss) {
  // The comparison is written so that a loss that is not a number is not proven.
  return loss.share <= kMostLoss && loss.share + 2.0 * loss.error <= kMostDoubtfulLoss;
}

LossVerdict verdict_of(const PromptLoss& loss, double most) {
  const auto least = [](const Loss& of_one) { return of_one.share - kSure * of_one.error; };
  if (least(loss.expected) > most || least(loss.text) > most) return LossVerdict::kTooMuch;
  // The comparison is written so that a loss that is not a number is not proven.
  const bool is_little =
      loss.expected.share + kSure * loss.expected.error <= most && std::isfinite(least(loss.text));
  return is_little && loss.text.n_tokens >= kLeastProofTokens ? LossVerdict::kLittle
                                                              : LossVerdict::kUnsure;
}

bool is_too_short(const PromptLoss& loss, double most) {
  return loss.text.n_tokens < kLeastProofTokens && verdict_of(loss, most) == LossVerdict::kUnsure;
}

const char* verdict_text(LossVerdict verdict) {
  constexpr const char* kTexts[] = {"not sure", "little enough", "too much"};
  return kTexts[static_cast<size_t>(verdict)];
}

std::string loss_text(const PromptLoss& loss) {
  return fmt::format(
      "{:+.2f} % expected (standard error {:.2f} %), {:+.2f} % on the text (standard error {:.2f} "
      "%)",
      100 * loss.expected.share, 100 * loss.expected.error, 100 * loss.text.share,
      100 * loss.text.error);
}

std::string loss_text(const Loss& loss) {
  return fmt::format("{:+.2f} % (standard error {:.2f} %)", 100 * loss.share, 100 * loss.error);
}

double times_as_fast(const std::vector<PromptTime>& times, const std::vector<PromptTime>& other) {
  TROIKA_ASSERT(times.size() == other.size() && !times.empty());
  double sum = 0.0;
  for (size_t i = 0; i < times.size(); ++i) {
    TROIKA_ASSERT(times[i].n_tokens == other[i].n_tokens);
    sum += std::log(other[i].ms / times[i].ms);
  }
  return std::exp(sum / static_cast<double>(times.size()));
}

}  // namespace troika::tune
