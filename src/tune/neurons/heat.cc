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
// Behind each part of the text the model writes so many tokens. Both fit the shortest contexts.
constexpr int kWritten = 32;
constexpr int kReadBeforeWriting = kReadTogether - kWritten - 1;

// Counts how often each neuron is live in a text, and how many stay live in what the model writes.
struct HeatCounts : lanes::InputObserver {
  HeatCounts(const weights::Neurons& neurons, HeatReport* report)
      : neurons(neurons), report(*report), before(neurons.ffns().size()) {}
  // Says whether the model writes from now on; the first token that it writes has none before it.
  void begin(bool writes) {
    is_writing = writes;
    for (std::vector<uint8_t>& live : before) live.clear();
  }

  void observe(const model::Op&, const float*, int, int) override {}
  void observe_gate(lanes::ObservedFfn shown, const float* activated, int n_rows,
                    int width) override {
    const weights::NeuronFfn& ffn = neurons.ffns()[static_cast<size_t>(shown.index)];
    const auto is_live = [&](float value) {
      const float magnitude = std::fabs(value);
      return ffn.threshold > 0 ? !(magnitude < ffn.threshold) : magnitude != 0.0f;
    };
    const auto n = static_cast<size_t>(width);
    if (ffn.index == 0 && is_writing) n_written += static_cast<size_t>(n_rows);
    if (!is_writing) report.blocks[ffn.index].n_tokens += static_cast<uint64_t>(n_rows);
    for (int row = 0; row < n_rows; ++row, activated += n) {
      if (is_writing) {
        follow({activated, n}, is_live, &before[static_cast<size_t>(ffn.index)]);
        continue;
      }
      const std::span<uint32_t> counts = report.heat.counts(static_cast<uint64_t>(ffn.index));
      for (size_t i = 0; i < n; ++i) counts[i] += is_live(activated[i]);
    }
  }

  template <typename IsLive>
  void follow(std::span<const float> activated, const IsLive& is_live,
              std::vector<uint8_t>* was_live) {
    was_live->resize(activated.size());  // with zeros, at the first token
    for (size_t i = 0; i < activated.size(); ++i) {
      const bool was = (*was_live)[i] != 0, is = is_live(activated[i]);
      n_followed += was;
      n_again += was && is;
      (*was_live)[i] = is;
    }
  }

  const weights::Neurons& neurons;
  HeatReport& report;
  bool is_writing = false;
  std::vector<std::vector<uint8_t>> before;  // by FFN, which neurons were live at the token before
  uint64_t n_followed = 0, n_again = 0;
  size_t n_written = 0;  // counts tokens
};

// Lets the model go on writing, as `run` does without options, but past the end of its text.
void write_on(engine::Session& session) {
  engine::Sampler sampler({});
  for (int i = 0; i < kWritten; ++i) session.next(sampler);
  (void)session.logits();  // computes the last one
}

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
  const bool is_mixture = neurons.ffns().front().ffn.is_expert();
  HeatReport report;
  for (const weights::NeuronFfn& ffn : neurons.ffns()) report.blocks.push_back({ffn.ffn.layer});
  report.heat = weights::NeuronHeat(neurons.ffns().size(), n_neurons);
  HeatCounts counts(neurons, &report);
  for (size_t first = 0; first < tokens.size(); first += kReadBeforeWriting) {
    if (options.progress) options.progress(first, tokens.size());
    engine::Session session(engine);
    engine::Watch watch;
    watch.inputs = &counts;
    session.watch(watch);
    counts.begin(false);
    session.prefill(std::span(tokens).subspan(
        first, std::min<size_t>(kReadBeforeWriting, tokens.size() - first)));
    // The next token need not take the same expert, and then says nothing of its neurons.
    if (is_mixture) continue;
    counts.begin(true);
    write_on(session);
    report.n_written += kWritten;
  }
  if (options.progress) options.progress(tokens.size(), tokens.size());
  // Otherwise some token did not go by neuron.
  TROIKA_ASSERT(is_mixture || report.blocks.front().n_tokens == tokens.size());
  TROIKA_ASSERT(counts.n_written == report.n_written);
  report.heat.set_tokens(tokens.size());
  report.heat.set_again(counts.n_followed, counts.n_again);
  report.path = prepare::neuron_file_path("heat", engine.file());
  weights::write_heat(report.path, prepare::neuron_key(engine.file(), engine.plan().ffn.thresholds),
                      report.heat);
  return report;
}

}  // namespace troika::tune
