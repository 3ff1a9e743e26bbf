// Reads a text that nothing was calibrated with in several classes of prompts, and compares what
// they predict.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "measure/profile_here.h"
#include "plan/plan.h"
#include "prepare/options.h"
#include "tune/proof/kept_odds.h"
#include "tune/proof/proof.h"

namespace troika::tune {

// What a class of prompts made of one window of a text.
struct WindowLosses {
  std::vector<double> nll;         // the cost, in nats, of each token that stands in the text
  std::vector<double> divergence;  // the distance from the most exact class at some positions
};

class HeldOut {
 public:
  // Says whether what was read so far is enough; none: everything is read.
  using Enough = std::function<bool(const std::vector<WindowLosses>& windows)>;

  // Reads at most n_windows windows. `exact` is the class that says what may follow. All arguments
  // must outlive this.
  HeldOut(const prepare::Options& options, const plan::Plan& exact, const std::string& text,
          size_t n_windows, const measure::StageFunction& stage);

  // Reads the text in a class. The most exact class is read together with the first one, so that
  // reading it costs nothing later. Throws Error for a text that is too short.
  std::vector<WindowLosses> read(const std::string& name, const plan::Plan& plan,
                                 const Enough& is_enough);

  static constexpr int kWindow = 512;  // counts tokens that are predicted together
  // Counts the windows that have kLeastProofTokens predicted tokens, where a text is long enough.
  static constexpr size_t kLeastWindows = kLeastProofTokens / (kWindow - 1) + 1;
  // Each kEvery-th position is compared in all tokens.
  static constexpr size_t kEvery = 4;

 private:
  template <typename Visit>
  std::vector<WindowLosses> run(const std::string& name, const plan::Plan& plan,
                                const Enough& is_enough, const Visit& divergence_of);

  const prepare::Options& options_;
  const plan::Plan& exact_;
  const std::string& text_;
  size_t n_windows_;
  const measure::StageFunction& stage_;
  std::unique_ptr<KeptOdds> odds_;  // the odds of the exact class; null until it has run
  std::vector<WindowLosses> of_exact_;
};

// Returns what `other` loses against `usual` in the windows that `other` has read. REQUIRES:
// `other` has read one, and `usual` as many at least.
PromptLoss loss_between(const std::vector<WindowLosses>& usual,
                        const std::vector<WindowLosses>& other);

}  // namespace troika::tune
