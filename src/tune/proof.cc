#include "tune/proof.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"

namespace troika::tune {

Loss loss_between(const std::vector<double>& usual, const std::vector<double>& other) {
  TROIKA_ASSERT(usual.size() == other.size() && usual.size() >= 2);
  const auto n = static_cast<double>(usual.size());
  double sum = 0.0, squares = 0.0;
  for (size_t i = 0; i < usual.size(); ++i) sum += other[i] - usual[i];
  const double mean = sum / n;
  for (size_t i = 0; i < usual.size(); ++i) {
    const double off = other[i] - usual[i] - mean;
    squares += off * off;
  }
  const double ratio = std::exp(mean);
  return {usual.size(), ratio - 1.0, ratio * std::sqrt(squares / (n - 1.0) / n)};
}

bool is_proven(const Loss& loss) {
  // Written so that what is no number is not proven.
  return loss.share <= kMostLoss && loss.share + 2.0 * loss.error <= kMostDoubtfulLoss;
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
