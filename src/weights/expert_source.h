// Hands out the rows of experts where they are not all in memory (P10). The products of a mixture
// ask for them while they run, after its router has chosen the experts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/threads/wait_clock.h"
#include "model/mixtures.h"
#include "plan/shape.h"

namespace troika::weights {

// A pass calls the functions of a mixture in this order: `want`, then `take` for each of its
// products, then `finish`. No function throws.
class ExpertSource {
 public:
  // Names a product of experts by its mixture and its place among the mixture's products.
  struct Place {
    int mixture = 0;
    int product = 0;
  };
  // The rows of one expert as they stand in the file. Their address need not be aligned.
  struct Rows {
    int expert = 0;
    const std::byte* data = nullptr;
  };

  explicit ExpertSource(std::vector<model::Mixture> mixtures) : mixtures_(std::move(mixtures)) {}
  virtual ~ExpertSource() = default;

  const std::vector<model::Mixture>& mixtures() const { return mixtures_; }
  // Returns nothing where the weight belongs to no mixture.
  std::optional<Place> find(model::WeightId id) const;

  // Says whether it is worth while to call `guess`.
  virtual bool takes_guesses() const = 0;
  // Tells the source that a pass of this phase needs these experts, in ascending order. One worker
  // calls it before any worker asks for rows.
  virtual void want(int mixture, std::span<const int32_t> experts, plan::Phase phase) = 0;
  // Tells the source that these experts may be needed soon, the likeliest first. One worker calls
  // it after `want` of the mixture before.
  virtual void guess(int mixture, std::span<const int32_t> experts) = 0;
  // Returns the expert that this product computes as its i-th, which is the first of the wanted
  // ones whose rows are there, and its rows. It may wait. Several workers may call it at once, and
  // all are told the same.
  virtual Rows take(Place place, int i) = 0;
  // Ends the use of the mixture's rows. One worker calls it when all products have been computed.
  virtual void finish(int mixture) = 0;
  // Returns how long workers have waited until now, for rows or for each other's calls.
  virtual WaitTimes waited() const = 0;
  // Says why rows that were taken since the last call are not those of the model. It returns
  // nothing where they are.
  virtual std::optional<std::string> take_problem() = 0;

 private:
  std::vector<model::Mixture> mixtures_;
};

inline std::optional<ExpertSource::Place> ExpertSource::find(model::WeightId id) const {
  for (size_t m = 0; m < mixtures_.size(); ++m) {
    const std::vector<model::WeightId>& products = mixtures_[m].products;
    for (size_t p = 0; p < products.size(); ++p) {
      if (products[p] == id) return Place{static_cast<int>(m), static_cast<int>(p)};
    }
  }
  return std::nullopt;
}

}  // namespace troika::weights
