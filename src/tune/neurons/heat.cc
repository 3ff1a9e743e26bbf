#include "tune/neurons/heat.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/cache_folder.h"
#include "base/error.h"
#include "engine/session.h"
#include "prepare/side_files.h"
#include "tune/neurons/text_reading.h"
#include "weights/neurons/neurons.h"

namespace troika::tune {
namespace {

// Behind each part of the text the model writes so many tokens. Both fit the shortest contexts.
constexpr int kWritten = 32;
constexpr int kReadBeforeWriting = kReadTogether - kWritten - 1;

// Counts how soon what tokens use is used again.
class ReuseCounts {
 public:
  explicit ReuseCounts(size_t n) : last_(n) {}
  // Forgets what was used.
  void begin() {
    end_token();
    std::fill(last_.begin(), last_.end(), 0);
    token_ = 0;
  }
  void begin_token() {
    end_token();
    ++token_;
  }
  // Is called at most once for each thing and token.
  void use(size_t i) {
    const size_t distance = token_ - last_[i];
    if (last_[i] > 0 && distance <= kMost) ++n_at_distance_[distance - 1];
    ++n_used_;
    last_[i] = static_cast<uint32_t>(token_);
  }
  const weights::NeuronHeat::Reuse& counted() {
    begin();
    return counted_;
  }

 private:
  static constexpr size_t kMost = weights::NeuronHeat::Reuse::kMostTokens;

  void end_token() {
    uint64_t n_again = 0;
    for (size_t n = 1; n <= kMost && n < token_; ++n) {
      n_again += n_at_distance_[n - 1];
      counted_.within[n - 1].n += n_used_;
      counted_.within[n - 1].n_again += n_again;
    }
    n_at_distance_ = {};
    n_used_ = 0;
  }

  std::vector<uint32_t> last_;  // the token that used it last; 0: none did
  size_t token_ = 0;            // the number of the token at work, from 1
  std::array<uint64_t, kMost> n_at_distance_ = {};
  uint64_t n_used_ = 0;
  weights::NeuronHeat::Reuse counted_;
};

// Counts how often each neuron is live in a text, and how soon it is so again in what the model
// writes.
class HeatCounts : public lanes::InputObserver {
 public:
  HeatCounts(const weights::Neurons& neurons, HeatReport* report)
      : neurons_(neurons),
        report_(*report),
        reuse_(neurons.ffns().size() * report->heat.n_neurons()),
        experts_reuse_(neurons.ffns().size()) {}
  // Says whether the model writes from now on; the first token that it writes has none before it.
  void begin(bool writes) {
    is_writing_ = writes;
    reuse_.begin();
    experts_reuse_.begin();
  }
  // Enters what was counted of the tokens that the model wrote.
  void enter_reuse() { report_.heat.set_reuse(reuse_.counted(), experts_reuse_.counted()); }
  size_t n_written() const { return n_written_; }

  void observe(const model::Op&, const float*, int, int) override {}
  void observe_mixture(int layer, const float*, int n_tokens, int, std::span<const int>) override {
    if (layer == neurons_.ffns().front().ffn.layer) begin_tokens(n_tokens);
  }
  void observe_gate(lanes::ObservedFfn shown, const float* activated, int n_rows,
                    int width) override {
    const auto index = static_cast<size_t>(shown.index);
    const weights::NeuronFfn& ffn = neurons_.ffns()[index];
    const bool is_expert = ffn.ffn.is_expert();
    if (index == 0 && !is_expert) begin_tokens(n_rows);
    const auto is_live = [&](float value) {
      const float magnitude = std::fabs(value);
      return ffn.threshold > 0 ? !(magnitude < ffn.threshold) : magnitude != 0.0f;
    };
    const auto n = static_cast<size_t>(width);
    if (is_writing_) {
      if (is_expert) experts_reuse_.use(index);
      for (size_t i = 0; i < n; ++i) {
        if (is_live(activated[i])) reuse_.use(index * report_.heat.n_neurons() + i);
      }
      return;
    }
    report_.blocks[index].n_tokens += static_cast<uint64_t>(n_rows);
    const std::span<uint32_t> counts = report_.heat.counts(index);
    for (int row = 0; row < n_rows; ++row, activated += n) {
      for (size_t i = 0; i < n; ++i) counts[i] += is_live(activated[i]);
    }
  }

 private:
  void begin_tokens(int n) {
    if (!is_writing_) return;
    TROIKA_ASSERT(n == 1);
    reuse_.begin_token();
    experts_reuse_.begin_token();
    ++n_written_;
  }

  const weights::Neurons& neurons_;
  HeatReport& report_;
  bool is_writing_ = false;
  ReuseCounts reuse_;          // by FFN and neuron
  ReuseCounts experts_reuse_;  // by FFN
  size_t n_written_ = 0;       // counts tokens
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
  if (tokens.size() < size_t{kLeastHeatTokens}) {
    throw Error(
        fmt::format("The text has {} tokens, too few to count which neurons fire; give one "
                    "of {} or more.",
                    tokens.size(), kLeastHeatTokens));
  }
  const bool is_kept = options.engine.memory.has_side_files;
  const std::string path = is_kept ? prepare::neuron_file_path("heat", engine.file()) : "";
  if (is_kept) check_kept_file(path);
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
    counts.begin(true);
    write_on(session);
    report.n_written += kWritten;
  }
  if (options.progress) options.progress(tokens.size(), tokens.size());
  // Otherwise some token did not go by neuron.
  TROIKA_ASSERT(is_mixture || report.blocks.front().n_tokens == tokens.size());
  TROIKA_ASSERT(counts.n_written() == report.n_written);
  report.heat.set_tokens(tokens.size());
  counts.enter_reuse();
  report.path = path;
  if (!is_kept) return report;
  try {
    const uint64_t key = prepare::neuron_key(engine.file(), engine.plan().ffn.thresholds);
    weights::write_heat(report.path, key, report.heat);
  } catch (const Error& error) {  // the disk may have become full
    report.problem = error.what();
  }
  return report;
}

}  // namespace troika::tune
