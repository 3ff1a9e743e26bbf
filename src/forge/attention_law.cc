#include "forge/attention_law.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "attention/choose/estimate.h"
#include "base/error.h"
#include "base/random.h"
#include "forge/random_key.h"
#include "plan/attention/attention_plan.h"

namespace troika::forge {
namespace {

using attention::kFirst;
using attention::kLocal;
using attention::kQueryStride;
using attention::kSampleStride;
using attention::kTileTokens;

// Planted shares are right only where prompts choose from the token on that the law has.
static_assert(kChoosesFrom == plan::PromptAttention::kUsualFrom);

constexpr size_t kSampledTiles = 16;
constexpr size_t kTried = 24;
constexpr double kLeastHeavy = 1.0 / 256;
constexpr double kRounding = 4096.0;
constexpr double kSpread = 0.5;

// Returns the share of heavy keys that is tried at a step: from kLeastHeavy to 1 by equal factors.
double tried_heavy(double step) {
  return std::pow(kLeastHeavy, 1.0 - step / static_cast<double>(kTried - 1));
}

// One tile of a prompt whose tokens are drawn.
class DrawnTile {
 public:
  DrawnTile(size_t begin, uint64_t key) : n_(begin) {
    looks_from_.fill(kTileTokens);
    for (size_t token = kTileTokens; token > 0;) {
      token -= kQueryStride;
      looks_from_[direction_of(random_bits(key, token))] = token;
    }
    for (size_t direction = 0; direction < kDirections; ++direction) {
      const uint64_t of_direction = random_bits(key, kTileTokens + direction);
      for (size_t p = 0; p < n_ + kTileTokens / 2; ++p) {
        const DrawnKey drawn = draw_key(of_direction, p);
        keys_[direction].push_back({drawn.place, kHeavyScore * std::cos(drawn.phase)});
      }
    }
  }

  // Returns how many positions the tile's tokens see, added up.
  double n_seen(double heavy) const {
    std::vector<size_t> from(n_, kTileTokens);
    for (size_t direction = 0; direction < kDirections; ++direction) {
      if (looks_from_[direction] < kTileTokens) choose(direction, heavy, &from);
    }
    double sum = 0;
    for (size_t p = kFirst; p < n_ - kLocal; ++p) {
      // A position comes with its neighbours, as far as those can be chosen.
      size_t first = from[p];
      if (p > kFirst) first = std::min(first, from[p - 1]);
      if (p + 1 < n_ - kLocal) first = std::min(first, from[p + 1]);
      sum += static_cast<double>(kTileTokens - first);
    }
    return sum + static_cast<double>(kTileTokens * (kFirst + kLocal)) + kOwn;
  }
  double n_all() const { return static_cast<double>(kTileTokens * n_) + kOwn; }

 private:
  static constexpr double kOwn = kTileTokens * (kTileTokens + 1) / 2.0;
  struct Key {
    double place, score;
  };

  void choose(size_t direction, double heavy, std::vector<size_t>* from) const {
    const std::vector<Key>& keys = keys_[direction];
    const auto weight = [&](size_t p) {
      return keys[p].place < heavy ? std::exp(keys[p].score) : 1.0;
    };
    // The sum of weights is estimated as choose/estimate.h says: from the first positions and those
    // close by, and samples of the others, of which the largest counts once.
    double sum = 0, sampled = 0, largest = 0;
    for (size_t p = 0; p < kFirst; ++p) sum += weight(p);
    for (size_t p = n_ - kLocal; p < keys.size(); ++p) sum += weight(p);
    for (size_t p = kSampleStride; p < n_ - kLocal; p += kSampleStride) {
      sampled += weight(p);
      largest = std::max(largest, weight(p));
    }
    sum += kSampleStride * (sampled - largest) + largest;
    const double least = plan::PromptAttention::kUsualAbove * sum / static_cast<double>(n_);
    for (size_t p = kFirst; p < n_ - kLocal; ++p) {
      if (weight(p) > least) (*from)[p] = std::min((*from)[p], looks_from_[direction]);
    }
  }

  size_t n_;
  std::array<size_t, kDirections> looks_from_;  // the first token that looks in a direction
  std::array<std::vector<Key>, kDirections> keys_;
};

}  // namespace

size_t direction_of(uint64_t bits) {
  const uint64_t eighth = bits >> 61;
  return eighth < 4 ? 0 : eighth < 6 ? 1 : eighth - 4;
}

DrawnKey draw_key(uint64_t key, uint64_t token) {
  return {random_unit(key, 2 * token), 2 * std::numbers::pi * random_unit(key, 2 * token + 1)};
}

ShareCurve::ShareCurve(int length, uint64_t seed) {
  TROIKA_ASSERT(length >= kChoosesFrom + 2 * static_cast<int>(kTileTokens));
  const uint64_t key = random_key(seed, "share of attention");
  const size_t n_tiles = (static_cast<size_t>(length) - kChoosesFrom) / kTileTokens;
  std::array<double, kTried> seen{};
  double all = 0;
  for (size_t i = 0; i < kSampledTiles; ++i) {
    const size_t tile = (2 * i + 1) * n_tiles / (2 * kSampledTiles);
    const DrawnTile drawn(kChoosesFrom + tile * kTileTokens, random_bits(key, i));
    for (size_t step = 0; step < kTried; ++step) {
      seen[step] += drawn.n_seen(tried_heavy(static_cast<double>(step)));
    }
    all += drawn.n_all();
  }
  // More heavy keys are kept by tendency only: how large the sum of weights is thought to be also
  // depends on which of them are samples.
  for (const double n : seen) {
    kept_.push_back(kept_.empty() ? n / all : std::max(kept_.back(), n / all));
  }
}

double ShareCurve::kept_of(double heavy) const {
  const double last = kTried - 1;
  const double at = std::clamp(last * (1.0 - std::log(heavy) / std::log(kLeastHeavy)), 0.0, last);
  const auto step = static_cast<size_t>(std::min(at, last - 1));
  const double part = at - static_cast<double>(step);
  return (1 - part) * kept_[step] + part * kept_[step + 1];
}

double ShareCurve::heavy_for(double kept) const {
  double low = kLeastHeavy, high = 1.0;
  for (int i = 0; i < 40; ++i) {
    const double middle = 0.5 * (low + high);
    (kept_of(middle) < kept ? low : high) = middle;
  }
  return std::round(kRounding * 0.5 * (low + high)) / kRounding;
}

std::array<double, kLevels> kept_by_levels(double mean, const ShareCurve& curve) {
  const double reach = std::min({kSpread * mean, curve.most() - mean, mean - curve.least()});
  return {mean - reach, mean, mean + reach};
}

std::vector<size_t> levels_of_blocks(size_t n_blocks) {
  std::vector<size_t> levels(n_blocks, 1);
  for (size_t i = 0; i + n_blocks % kLevels < n_blocks; ++i) levels[i] = i % kLevels;
  return levels;
}

}  // namespace troika::forge
