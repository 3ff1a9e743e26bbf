#include "tune/neurons/sparsity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "model/gated_ffns.h"
#include "tune/neurons/text_reading.h"

namespace troika::tune {
namespace {

using text::Token;

// Gathers magnitudes of the gate's activations, by block. All of them would be gigabytes for a
// large model, so some are drawn if there are more than `most` of a block.
struct GateMagnitudes : lanes::InputObserver {
  GateMagnitudes(size_t n_layers, size_t n_tokens, size_t most)
      : n_tokens(n_tokens), most(most), of_layer(n_layers), n_seen(n_layers) {}

  void observe(const model::Op&, const float*, int, int) override {}
  void observe_gate(lanes::ObservedFfn ffn, const float* activated, int n_rows,
                    int width) override {
    const size_t n = static_cast<size_t>(n_rows) * static_cast<size_t>(width);
    std::vector<float>& own = of_layer[static_cast<size_t>(ffn.layer)];
    size_t& seen = n_seen[static_cast<size_t>(ffn.layer)];
    int shift = 0;
    while ((n_tokens * static_cast<size_t>(width)) >> shift > most) ++shift;
    const uint64_t mask = (uint64_t{1} << shift) - 1;
    for (size_t i = 0; i < n; ++i, ++seen) {
      if (mask != 0 && (random_bits(static_cast<uint64_t>(ffn.layer), seen) & mask) != 0) continue;
      const float magnitude = std::fabs(activated[i]);
      // What is no number stays live, and has a place in the order.
      own.push_back(std::isnan(magnitude) ? std::numeric_limits<float>::infinity() : magnitude);
    }
  }

  size_t n_tokens, most;
  std::vector<std::vector<float>> of_layer;
  std::vector<size_t> n_seen;  // by layer
};

// Counts how many activations were live at thresholds.
struct GateCounts : lanes::InputObserver {
  explicit GateCounts(const std::vector<float>& thresholds) : thresholds(thresholds) {}

  void observe(const model::Op&, const float*, int, int) override {}
  void observe_gate(lanes::ObservedFfn ffn, const float* activated, int n_rows,
                    int width) override {
    const size_t n = static_cast<size_t>(n_rows) * static_cast<size_t>(width);
    const float threshold = thresholds[static_cast<size_t>(ffn.layer)];
    n_all += n;
    for (size_t i = 0; i < n; ++i) n_live += !(std::fabs(activated[i]) < threshold);
  }

  const std::vector<float>& thresholds;
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
  std::optional<engine::Engine> engine(
      std::in_place, reading_options(options.engine, plan::FfnForm::kEveryNeuron));
  if (options.made) options.made(*engine);
  std::vector<Token> tokens = engine->tokenizer().encode(options.text);
  tokens.resize(std::min(tokens.size(), options.most_tokens));
  if (tokens.size() < size_t{kLeastSparsityTokens}) {
    throw Error(fmt::format("The text has {} tokens, too few to find thresholds; give {} or more.",
                            tokens.size(), kLeastSparsityTokens));
  }
  const std::span<const Token> all = tokens;
  const size_t half = tokens.size() / 2, n_steps = options.kept.size() + 2;
  const auto tell = [&](size_t done) {
    if (options.progress) options.progress(done, n_steps);
  };
  tell(0);
  const bool is_mixture = engine->weights().neurons()->ffns().front().ffn.is_expert();
  const int n_used = is_mixture ? engine->blueprint().n_experts_used : 1;
  GateMagnitudes magnitudes(static_cast<size_t>(engine->blueprint().n_layers),
                            half * static_cast<size_t>(n_used), options.most_magnitudes);
  SparsityReport report;
  report.n_found = read_tokens(*engine, all.first(half), &magnitudes).n_read;
  tell(1);
  const Reading judge = read_tokens(*engine, all.subspan(half), nullptr);
  report.n_measured = judge.n_tokens;
  report.perplexity = judge.perplexity();
  const plan::Plan plan = engine->plan();
  engine.reset();  // its memory is for the next ones
  for (const double kept : options.kept) {
    tell(report.rows.size() + 2);
    SparsityRow row;
    row.kept = kept;
    row.thresholds = thresholds_for(kept, &magnitudes.of_layer);
    row.plan = plan;
    row.plan.ffn = {plan::FfnForm::kByNeuron, row.thresholds};
    // The plan says all, and options that would take the place of what it says are left out.
    prepare::Options own = reading_options(options.engine, plan::FfnForm::kByNeuron);
    own.ffn.form.reset();
    own.plan = {};
    own.plan.exact = row.plan;
    engine::Engine sparse(own);
    GateCounts counts(row.thresholds);
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
