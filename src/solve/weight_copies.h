// Numbers the copies of a model's weights that lanes hold, so that each counts once (N9).
#pragma once

#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

#include "lanes/subgraph.h"
#include "lanes/weight_forms.h"
#include "plan/plan.h"
#include "weights/store.h"

namespace troika::solve {

class WeightCopies {
 public:
  // `weights` and `lanes` must outlive this.
  WeightCopies(const weights::Store& weights, const std::vector<plan::PlannedLane>& lanes,
               plan::Prefill prefill, plan::Activations activations)
      : weights_(weights), lanes_(lanes), prefill_(prefill), activations_(activations) {}

  // Returns the copies with which a lane runs a subgraph in executables of a shape. A part counts
  // as the whole.
  std::vector<int> of(int lane, const lanes::Subgraph& subgraph, plan::Shape shape);
  size_t bytes(int copy) const { return bytes_[static_cast<size_t>(copy)]; }

 private:
  using Key = std::tuple<const std::byte*, lanes::WeightForm::Kind, int>;  // with its tokens

  const weights::Store& weights_;
  const std::vector<plan::PlannedLane>& lanes_;
  plan::Prefill prefill_;
  plan::Activations activations_;
  std::map<Key, int> numbers_;
  std::vector<size_t> bytes_;
};

}  // namespace troika::solve
