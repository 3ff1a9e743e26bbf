#include "tune/sparsity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/gated_ffns.h"
#include "tune/neurons/text_reading.h"

namespace troika::tune {
namespace {

using text::Token;

constexpr size_t kLeastText = 256;

// Gathers magnitudes of the gate's activations, by block, and counts how many were live at
// thresholds.
struct GateStatistics : lanes::InputObserver {
  // With thresholds it counts, without them it gathers.
  GateStatistics(const engine::Engine& engine, const std::vector<float>* thresholds)
      : thresholds(thresholds), magnitudes(static_cast<size_t>(engine.blueprint().n_layers)) {}

  void observe(const model::Op&, const float*, int, int) override {}
  void observe_gate(int layer, const float* activated, int n_rows, int width) override {
    const size_t n = static_cast<size_t>(n_rows) * static_cast<size_t>(width);
    if (thresholds == nullptr) {
      std::vector<float>& own = magnitudes[static_cast<size_t>(layer)];
      for (size_t i = 0; i < n; ++i) own.push_back(std::fabs(activated[i]));
      return;
    }
    const float threshold = (*thresholds)[static_cast<size_t>(layer)];
    n_all += n;
    for (size_t i = 0; i < n; ++i) n_live += !(std::fabs(activated[i]) < threshold);
  }

  const std::vector<float>* thresholds;
  std::vector<std::vector<float>> magnitudes;
  size_t n_all = 0, n_live = 0;
};

// Returns the quantiles that leave the share `kept` of neurons live.
std::vector<float> thresholds_for(double kept, std::vector<std::vector<float>>* magnitudes) {
  std::vector<float> thresholds;
  for (std::vector<float>& of_layer : *magnitudes) {
    constexpr float kLeast = 1e-30f;  // keeps every neuron that is not 0
    const auto place = static_cast<size_t>((1.0 - kept) * static_cast<double>(of_layer.size()));
    if (place == 0 || of_layer.empty()) {
      thresholds.push_back(kLeast);
      continue;
    }
    const auto at = of_layer.begin() + static_cast<ptrdiff_t>(std::min(place, of_layer.size() - 1));
    std::nth_element(of_layer.begin(), at, of_layer.end());
    thresholds.push_back(std::max(kLeast, *at));
  }
  return thresholds;
}

void check_kept(const SparsityOptions& options) {
  for (const double kept : options.kept) {
    if (kept > 0.0 && kept <= 1.0) continue;
    throw UsageError(
        fmt::format("‹keep› {:g} makes no sense; it is a percentage, more than 0 and at most 100.",
                    100 * kept));
  }
}

}  // namespace

SparsityReport measure_sparsity(const SparsityOptions& options) {
  check_kept(options);
  engine::Engine engine(reading_options(options.engine, plan::FfnForm::kEveryNeuron));
  std::vector<Token> tokens = engine.tokenizer().encode(options.text);
  tokens.resize(std::min(tokens.size(), options.most_tokens));
  if (tokens.size() < kLeastText) {
    throw Error(
        fmt::format("The text has {} tokens, too few to find thresholds; give one of {} or "
                    "more.",
                    tokens.size(), kLeastText));
  }
  const std::span<const Token> all = tokens;
  const size_t half = tokens.size() / 2, n_steps = options.kept.size() + 2;
  const auto tell = [&](size_t done) {
    if (options.progress) options.progress(done, n_steps);
  };
  tell(0);
  GateStatistics statistics(engine, nullptr);
  SparsityReport report;
  report.n_found = read_tokens(engine, all.first(half), &statistics).n_tokens + 1;
  tell(1);
  const Reading judge = read_tokens(engine, all.subspan(half), nullptr);
  report.n_measured = judge.n_tokens;
  report.perplexity = judge.perplexity();
  for (const double kept : options.kept) {
    tell(report.rows.size() + 2);
    SparsityRow row;
    row.kept = kept;
    row.thresholds = thresholds_for(kept, &statistics.magnitudes);
    row.plan = engine.plan();
    row.plan.ffn = {plan::FfnForm::kByNeuron, row.thresholds};
    prepare::Options own = options.engine;
    own.plan = {};
    own.plan.exact = row.plan;
    engine::Engine sparse(own);
    GateStatistics counts(sparse, &row.thresholds);
    const Reading reading = read_tokens(sparse, all.subspan(half), &counts);
    row.live = static_cast<double>(counts.n_live) / static_cast<double>(counts.n_all);
    row.perplexity = reading.perplexity();
    row.agreement = agreement(judge, reading);
    report.rows.push_back(std::move(row));
  }
  tell(n_steps);
  return report;
}

}  // namespace troika::tune
