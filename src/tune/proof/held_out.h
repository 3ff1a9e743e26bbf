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
  std::vector<double> nll;         // what each token cost that stands there, in nats
  std::vector<double> divergence;  // at some positions, from the most exact class
};

class HeldOut {
 public:
  // Whether what was read so far is enough; none: everything is read.
  using Enough = std::function<bool(const std::vector<WindowLosses>& windows)>;

  // At most so many windows are read. `exact` is the class that says what may follow. All must
  // outlive this.
  HeldOut(const prepare::Options& options, const plan::Plan& exact, const std::string& text,
          size_t n_windows, const measure::StageFunction& stage);

  // The most exact class runs with the first one that is read, and is itself read for nothing.
  // Throws Error for a text that is too short.
  std::vector<WindowLosses> read(const std::string& name, const plan::Plan& plan,
                                 const Enough& is_enough);

  static constexpr int kWindow = 512;  // tokens that are predicted together
  static constexpr size_t kEvery = 4;  // of the positions, each such one is compared in all tokens

 private:
  template <typename Visit>
  std::vector<WindowLosses> run(const std::string& name, const plan::Plan& plan,
                                const Enough& is_enough, const Visit& divergence_of);

  const prepare::Options& options_;
  const plan::Plan& exact_;
  const std::string& text_;
  size_t n_windows_;
  const measure::StageFunction& stage_;
  std::unique_ptr<KeptOdds> odds_;  // of the exact class; null until it has run
  std::vector<WindowLosses> of_exact_;
};

// What `other` loses against `usual` in those windows that it has read. REQUIRES: it has read one,
// and `usual` as many at least.
PromptLoss loss_between(const std::vector<WindowLosses>& usual,
                        const std::vector<WindowLosses>& other);

}  // namespace troika::tune
