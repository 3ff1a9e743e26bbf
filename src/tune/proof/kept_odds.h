// Keeps which tokens one class of prompts expects at some positions of a text, and says how far
// another class is from that.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "measure/evaluate.h"

namespace troika::tune {

// Keeps every token's log likelihood at each kept position, in half precision: 2 bytes a token.
class KeptOdds {
 public:
  explicit KeptOdds(const kernels::Table& table) : exp_(table.exp) {}

  void keep(const measure::Prediction& prediction);
  size_t size() const { return rows_.size(); }
  static size_t bytes_of_row(size_t n_vocab) { return n_vocab * sizeof(uint16_t); }

  // Returns what the class of `prediction` is expected to lose at that position, in nats, if tokens
  // follow as likely as the kept class says: KL(kept || other). It is never negative, and 0 for the
  // same odds but for rounding. REQUIRES: the position was kept, of the same model.
  double divergence(size_t position, const measure::Prediction& prediction);

 private:
  void (*exp_)(const float* x, float* y, size_t n);
  std::vector<std::vector<uint16_t>> rows_;
  std::vector<float> kept_, odds_;  // hold one row: logarithms, and their exponentials
};

}  // namespace troika::tune
