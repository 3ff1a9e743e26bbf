// Collects what the model says after positions of a prompt, for drafts (D2).
#pragma once

#include <vector>

#include "draft/calibrated.h"
#include "engine/session.h"

namespace troika::engine {

class PromptLogits : public PromptObserver {
 public:
  // `coverage` is the percentage of positions that are looked at. They are spread evenly, because
  // nobody knows before the answer comes which positions it will come back to.
  explicit PromptLogits(int coverage) : coverage_(coverage) {}

  bool wants(int position) const override;
  void see(int position, std::span<const float> logits) override;
  void took(double ms) override { ms_ += ms; }
  // Takes over what another collector with the same coverage has seen of the same prompt.
  void share(const PromptLogits& other) { likely_ = other.likely_; }

  const std::vector<draft::LikelyNext>& likely() const { return likely_; }
  double ms() const { return ms_; }

 private:
  int coverage_;
  double ms_ = 0.0;
  std::vector<draft::LikelyNext> likely_;
};

}  // namespace troika::engine
