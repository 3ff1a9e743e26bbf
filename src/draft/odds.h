// How often guesses come true. Sources estimate chances. They are corrected here by what happened
// to guesses of the same source with about the same estimate.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace troika::draft {

class Odds {
 public:
  explicit Odds(int n_sources) : sources_(static_cast<size_t>(n_sources)) {}

  float corrected(int source, float chance) const;
  // Learns that a guess whose parent was right came true, or did not.
  void learn(int source, float chance, bool is_right);

 private:
  static constexpr int kBins = 8;
  struct Bin {
    float n_tried = 0.0f;  // counts guesses, recent ones more than old ones
    float n_right = 0.0f;
  };
  static size_t bin_of(float chance);
  std::vector<std::array<Bin, kBins>> sources_;
};

}  // namespace troika::draft
