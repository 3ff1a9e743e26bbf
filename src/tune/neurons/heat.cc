#include "tune/neurons/heat.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/session.h"
#include "prepare/side_files.h"
#include "tune/neurons/text_reading.h"
#include "weights/neurons/neurons.h"

namespace troika::tune {
namespace {

constexpr size_t kLeastCounted = 64;

// Counts live neurons: it knows the FFN of each layer, and below which magnitude neurons are dead.
struct HeatCounts : lanes::InputObserver {
  HeatCounts(const weights::Neurons& neurons, weights::NeuronHeat* heat)
      : neurons(neurons), heat(heat), before(neurons.ffns().size()) {}
  // Says that the next token has none before it.
  void begin() {
    for (std::vector<uint8_t>& live : before) live.clear();
  }

  void observe(const model::Op&, const float*, int, int) override {}
  void observe_gate(int layer, const float* activated, int n_rows, int width) override {
    const auto ffn = std::find_if(
        neurons.ffns().begin(), neurons.ffns().end(),
        [&](const weights::NeuronFfn& candidate) { return candidate.ffn.layer == layer; });
    if (ffn == neurons.ffns().end()) return;
    const std::span<uint32_t> counts = heat->counts(static_cast<uint64_t>(ffn->index));
    std::vector<uint8_t>& was_live = before[static_cast<size_t>(ffn->index)];
    if (ffn->index == 0) n_seen += static_cast<size_t>(n_rows);
    for (int row = 0; row < n_rows; ++row) {
      const bool is_first = was_live.empty();
      was_live.resize(static_cast<size_t>(width));
      n_pairs += !is_first && ffn->index == 0;
      for (size_t i = 0; i < was_live.size(); ++i) {
        const float value = std::fabs(*activated++);
        const bool is_live = ffn->threshold > 0 ? !(value < ffn->threshold) : value != 0.0f;
        counts[i] += is_live;
        n_again += !is_first && is_live && was_live[i] != 0;
        was_live[i] = is_live;
      }
    }
  }

  const weights::Neurons& neurons;
  weights::NeuronHeat* heat;
  std::vector<std::vector<uint8_t>> before;  // by FFN, which neurons were live at the token before
  uint64_t n_pairs = 0, n_again = 0;
  size_t n_seen = 0;  // counts tokens
};

}  // namespace

HeatReport measure_heat(const HeatOptions& options) {
  engine::Engine engine(reading_options(options.engine, plan::FfnForm::kByNeuron));
  if (options.made) options.made(engine);
  std::vector<text::Token> tokens = engine.tokenizer().encode(options.text);
  tokens.resize(std::min(tokens.size(), options.most_tokens));
  if (tokens.size() < kLeastCounted) {
    throw Error(
        fmt::format("The text has {} tokens, too few to count which neurons fire; give one "
                    "of {} or more.",
                    tokens.size(), kLeastCounted));
  }
  const weights::Neurons& neurons = *engine.weights().neurons();
  size_t n_neurons = 0;
  for (const weights::NeuronFfn& ffn : neurons.ffns()) {
    n_neurons = std::max(n_neurons, ffn.layout.n_neurons);
  }
  HeatReport report;
  report.heat = weights::NeuronHeat(neurons.ffns().size(), n_neurons);
  HeatCounts counts(neurons, &report.heat);
  for (size_t first = 0; first < tokens.size(); first += kReadTogether) {
    if (options.progress) options.progress(first, tokens.size());
    engine::Session session(engine);
    engine::Watch watch;
    watch.inputs = &counts;
    session.watch(watch);
    counts.begin();
    session.prefill(
        std::span(tokens).subspan(first, std::min<size_t>(kReadTogether, tokens.size() - first)));
  }
  if (options.progress) options.progress(tokens.size(), tokens.size());
  TROIKA_ASSERT(counts.n_seen == tokens.size());  // else some token did not go by neuron
  report.heat.set_tokens(tokens.size());
  report.heat.set_again(counts.n_pairs, counts.n_again);
  report.path = prepare::neuron_file_path("heat", engine.file());
  weights::write_heat(report.path, prepare::neuron_key(engine.file(), engine.plan().ffn.thresholds),
                      report.heat);
  return report;
}

}  // namespace troika::tune
