#include "draft/top_tokens.h"

#include <algorithm>
#include <limits>

namespace troika::draft {
namespace {

constexpr size_t kBlock = 128;
constexpr size_t kElements = 16;
constexpr float kLowest = -std::numeric_limits<float>::infinity();

// Returns the largest value of a block. It has no branches, so that the compiler takes several
// values at a time; not-a-number loses every comparison.
float largest_of_block(const float* x) {
  float elements[kElements];
  for (size_t i = 0; i < kElements; ++i) elements[i] = kLowest;
  for (size_t begin = 0; begin < kBlock; begin += kElements) {
    for (size_t i = 0; i < kElements; ++i) {
      elements[i] = x[begin + i] > elements[i] ? x[begin + i] : elements[i];
    }
  }
  float largest = elements[0];
  for (size_t i = 1; i < kElements; ++i) largest = elements[i] > largest ? elements[i] : largest;
  return largest;
}

}  // namespace

size_t find_top_tokens(std::span<const float> logits, std::span<TopToken> top) {
  size_t n = 0;
  float least = kLowest;  // a full list takes in logits above this only
  if (top.empty()) return 0;
  const auto look_at = [&](size_t i) {
    const float value = logits[i];
    if (!(n < top.size() ? value >= kLowest : value > least)) return;
    if (n < top.size()) ++n;
    size_t place = n - 1;
    for (; place > 0 && top[place - 1].logit < value; --place) top[place] = top[place - 1];
    top[place] = {static_cast<Token>(i), value};
    if (n == top.size()) least = top[n - 1].logit;
  };
  size_t begin = 0;
  for (; begin + kBlock <= logits.size(); begin += kBlock) {
    if (n == top.size() && !(largest_of_block(logits.data() + begin) > least)) continue;
    for (size_t i = begin; i < begin + kBlock; ++i) look_at(i);
  }
  for (; begin < logits.size(); ++begin) look_at(begin);
  return n;
}

}  // namespace troika::draft
