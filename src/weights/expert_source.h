// Where the rows of experts lie that are not all in memory (P10): products of a mixture ask for
// them while they run, after its router has spoken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/mixtures.h"
#include "plan/shape.h"

namespace troika::weights {

// Functions do not throw. Those of one mixture follow each other: `want`, then `take` for each of
// its products, then `finish`.
class ExpertSource {
 public:
  // A product of experts: of which mixture, and which of its products it is.
  struct Place {
    int mixture = 0;
    int product = 0;
  };
  // Rows as they stand in the file, at any address.
  struct Rows {
    int expert = 0;
    const std::byte* data = nullptr;
  };

  explicit ExpertSource(std::vector<model::Mixture> mixtures) : mixtures_(std::move(mixtures)) {}
  virtual ~ExpertSource() = default;

  const std::vector<model::Mixture>& mixtures() const { return mixtures_; }
  std::optional<Place> find(model::WeightId id) const;

  // Whether it is worth while to call `guess`.
  virtual bool takes_guesses() const = 0;
  // By one worker, before any other asks for rows: these experts, ascending, are needed in a pass
  // of this phase.
  virtual void want(int mixture, std::span<const int32_t> experts, plan::Phase phase) = 0;
  // By one worker, behind `want` of the mixture before: these may be needed, the likeliest first.
  virtual void guess(int mixture, std::span<const int32_t> experts) = 0;
  // The one of the wanted experts that is to be computed as the i-th for this product: the first
  // whose rows are there. May wait. By several workers at once; all are told the same.
  virtual Rows take(Place place, int i) = 0;
  // By one worker, when all products have been computed.
  virtual void finish(int mixture) = 0;
  // For how long workers have waited for rows until now, all together.
  virtual double waited_us() const = 0;
  // Why rows that were taken since the last call are not those of the model; nothing: they are.
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
