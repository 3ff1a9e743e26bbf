#include "tune/neurons/learn_predictor.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>

#include "base/bytes_text.h"
#include "base/cache_folder.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/system.h"
#include "base/threads/team.h"
#include "engine/engine.h"
#include "prepare/side_files.h"
#include "tune/neurons/text_reading.h"
#include "weights/neurons/neurons.h"

namespace troika::tune {
namespace {

constexpr size_t kRankGranule = 32;  // the length of a block of the predictor's weights
constexpr size_t kLeastJudged = 32;

// Has the inputs of a block that every token takes, or those of a mixture.
struct InputSamples {
  size_t n_tokens() const { return x.size() / width; }
  // Returns the inputs of n tokens, and of a mixture those of them that take the expert.
  Rows rows(size_t first, size_t n, int expert) const;
  // Returns all of them where too few take the expert to tell anything.
  Rows enough_rows(size_t first, size_t n, int expert) const;

  std::vector<float> x;  // (n_tokens, width)
  size_t width = 1;
  std::vector<int> experts;  // (n_tokens, n_used); empty: there are none
};

Rows InputSamples::rows(size_t first, size_t n, int expert) const {
  const size_t n_used = experts.size() / std::max<size_t>(n_tokens(), 1);
  std::vector<size_t> tokens;
  for (size_t t = first; t < first + n; ++t) {
    const std::span<const int> own = std::span(experts).subspan(t * n_used, n_used);
    if (own.empty() || std::find(own.begin(), own.end(), expert) != own.end()) tokens.push_back(t);
  }
  Rows rows(tokens.size(), width);
  for (size_t i = 0; i < tokens.size(); ++i) std::copy_n(&x[tokens[i] * width], width, rows.row(i));
  return rows;
}

Rows InputSamples::enough_rows(size_t first, size_t n, int expert) const {
  constexpr size_t kLeast = 16;
  Rows own = rows(first, n, expert);
  return own.n >= kLeast ? own : rows_of(std::span(x).subspan(first * width, n * width), width);
}

// Collects the inputs of the gates.
struct GateInputs : lanes::InputObserver {
  GateInputs(const weights::Neurons& neurons, size_t n_tokens)
      : most_tokens(n_tokens),
        n_experts(static_cast<size_t>(neurons.ffns().front().ffn.n_experts)),
        samples(neurons.ffns().size() / n_experts) {
    for (size_t i = 0; i < samples.size(); ++i) {
      const model::GatedFfn& ffn = neurons.ffns()[i * n_experts].ffn;
      if (ffn.is_expert()) {
        mixtures[ffn.layer] = i;
      } else {
        gates[ffn.gate] = i;
      }
    }
  }
  void observe(const model::Op& op, const float* x, int n_rows, int width) override {
    const auto gate = gates.find(op.weight);
    if (gate != gates.end()) add(&samples[gate->second], x, n_rows, width);
  }
  void observe_mixture(int layer, const float* x, int n_tokens, int width,
                       std::span<const int> experts) override {
    const auto mixture = mixtures.find(layer);
    if (mixture == mixtures.end()) return;
    InputSamples& own = samples[mixture->second];
    add(&own, x, n_tokens, width);
    own.experts.insert(own.experts.end(), experts.begin(), experts.end());
  }
  void add(InputSamples* own, const float* x, int n_rows, int width) const {
    own->width = static_cast<size_t>(width);
    own->x.reserve(most_tokens * own->width);  // a vector that grows takes up to three times that
    own->x.insert(own->x.end(), x, x + static_cast<size_t>(n_rows) * own->width);
  }
  // Returns what one of the neurons' FFNs is fitted to.
  BlockInputs of_ffn(size_t ffn, size_t n_varying, size_t n_scored) const {
    const InputSamples& own = samples[ffn / n_experts];
    const auto expert = static_cast<int>(ffn % n_experts);
    const size_t behind = n_varying + n_scored;
    // Each expert of a mixture sees too few tokens to say how its inputs vary.
    return {rows_of(std::span(own.x).first(n_varying * own.width), own.width),
            own.enough_rows(n_varying, n_scored, expert),
            own.rows(behind, own.n_tokens() - behind, expert)};
  }

  size_t most_tokens;
  size_t n_experts;
  std::map<model::WeightId, size_t> gates;
  std::map<int, size_t> mixtures;  // by layer
  std::vector<InputSamples> samples;
};

prepare::Options exactly(const prepare::Options& asked) {
  prepare::Options options = reading_options(asked, plan::FfnForm::kByNeuron);
  options.memory.limit_bytes = 0;
  options.memory.load = prepare::Load::kMap;  // keeps rows as in the file
  return options;
}

// Returns the type of the predictor's weights. It has blocks, so that scores cost little beside the
// gate.
tensor::Type predictor_type(tensor::Type of_gate) {
  return of_gate == tensor::Type::kQ4_0 ? tensor::Type::kQ4_0 : tensor::Type::kQ8_0;
}

weights::Matrix gate_of(const engine::Engine& engine, const weights::NeuronFfn& ffn) {
  return weights::rows_of(engine.weights(), ffn.ffn.gate, ffn.ffn);
}

weights::PredictorShape shape_for(const PredictorOptions& options, const engine::Engine& engine) {
  const std::vector<weights::NeuronFfn>& ffns = engine.weights().neurons()->ffns();
  const weights::Matrix gate = gate_of(engine, ffns.front());
  const auto width = static_cast<size_t>(gate.row_length);
  for (const weights::NeuronFfn& ffn : ffns) {
    const weights::Matrix other = gate_of(engine, ffn);
    if (other.n_rows == gate.n_rows && other.row_length == gate.row_length) continue;
    throw UsageError(
        "The feed-forward blocks of this model differ in size, and a predictor is for blocks of "
        "one size.");
  }
  const size_t wanted = options.rank > 0 ? static_cast<size_t>(options.rank) : width / 4;
  const size_t rank = (wanted + kRankGranule - 1) / kRankGranule * kRankGranule;
  if (rank > width) {
    throw UsageError(
        fmt::format("‹predictor› {} makes no sense: a rank is at most the width of the model, {}.",
                    wanted, width));
  }
  return {ffns.size(), static_cast<uint64_t>(gate.n_rows), width, rank, predictor_type(gate.type)};
}

// Returns the tokens to learn from. Throws Error for too few.
std::vector<text::Token> tokens_for(const PredictorOptions& options, const engine::Engine& engine) {
  std::vector<text::Token> tokens = engine.tokenizer().encode(options.text);
  const bool is_cut = tokens.size() > options.most_tokens;
  if (is_cut) tokens.resize(options.most_tokens);
  if (tokens.size() >= tokens.size() / 2 + tokens.size() / 4 + kLeastJudged) return tokens;
  // A quarter of so many is enough, however the other parts are rounded.
  constexpr size_t kEnough = 4 * kLeastJudged;
  if (is_cut) {
    throw UsageError(
        fmt::format("‹tokens› {} are too few to learn which neurons fire; use {} or more.",
                    tokens.size(), kEnough));
  }
  throw Error(fmt::format(
      "The text has {} tokens, too few to learn which neurons fire; give one of {} or more.",
      tokens.size(), kEnough));
}

// What learning takes beside the model, in bytes.
struct LearningMemory {
  size_t shared = 0;      // the predictor, and the inputs of all blocks
  size_t per_worker = 0;  // whoever fits a block: its gate as floats, its inputs and its outputs
};

LearningMemory learning_memory(const weights::PredictorShape& shape, size_t n_experts,
                               size_t n_tokens) {
  const size_t inputs = n_tokens * shape.width * sizeof(float);
  const size_t gate = shape.n_neurons * shape.width * sizeof(float);
  LearningMemory memory;
  memory.shared = shape.n_layers * shape.layer_bytes() + shape.n_layers / n_experts * inputs;
  // The gate lies there twice while its columns become levels, beside the levels of its rows. Half
  // of the inputs are there twice. A quarter of the outputs is there as scores, exact, activated,
  // and sorted by neuron.
  memory.per_worker = 3 * gate + 2 * inputs + n_tokens * shape.n_neurons * sizeof(float);
  return memory;
}

// Returns how many threads have room to fit blocks, of as many as the engine has. Throws Error
// where none has.
int n_workers_for(const PredictorOptions& options, const engine::Engine& engine, size_t n_tokens) {
  const std::vector<weights::NeuronFfn>& ffns = engine.weights().neurons()->ffns();
  const auto n_experts = static_cast<size_t>(ffns.front().ffn.n_experts);
  const LearningMemory memory = learning_memory(shape_for(options, engine), n_experts, n_tokens);
  const size_t free = options.free_bytes.value_or(available_memory_bytes());
  const size_t least = memory.shared + memory.per_worker;
  if (free < least) {
    throw Error(fmt::format(
        "Learning a predictor from {} tokens takes {} beside the model, and {} of memory are "
        "free. Use fewer ‹tokens›, or end other programs.",
        n_tokens, bytes_text(least), bytes_text(free)));
  }
  const size_t most = (free - memory.shared) / memory.per_worker;
  return static_cast<int>(std::min(most, static_cast<size_t>(engine.plan().n_threads())));
}

// Fits all FFNs: each of n_workers threads takes the next one. Returns what each is worth.
std::vector<PredictorCounts> fit_all(const PredictorOptions& options, const engine::Engine& engine,
                                     int n_workers, const PredictorReport& counts,
                                     const GateInputs& inputs, weights::NeuronPredictor* predictor,
                                     const std::function<void(size_t)>& tell) {
  const std::vector<weights::NeuronFfn>& ffns = engine.weights().neurons()->ffns();
  std::vector<PredictorCounts> fitted(ffns.size());
  std::atomic<size_t> next = 0;
  const auto fit_one = [&](size_t i) {
    const weights::NeuronFfn& ffn = ffns[i];
    const LayerFit fit = {engine.kernels().table,
                          gate_of(engine, ffn),
                          {ffn.ffn.activation, ffn.threshold},
                          options.recall};
    fitted[i] = fit_predictor_layer(fit, inputs.of_ffn(i, counts.n_directions, counts.n_scores),
                                    predictor, i);
  };
  Team team(n_workers);
  team.run([&](int worker) {
    try {
      for (size_t i = next++; i < ffns.size(); i = next++) {
        if (worker == 0) tell(1 + i);
        fit_one(i);
      }
    } catch (...) {
      next = ffns.size();  // the others need not go on
      throw;
    }
  });
  return fitted;
}

// Says for each layer what its blocks are worth, and for each live neuron how many are predicted.
void judge(const std::vector<PredictorCounts>& fitted, const weights::Neurons& neurons,
           size_t n_experts, PredictorReport* report, weights::NeuronPredictor* predictor) {
  PredictorCounts all;
  for (size_t first = 0; first < fitted.size(); first += n_experts) {
    PredictorCounts layer;
    for (size_t i = first; i < first + n_experts; ++i) layer.add(fitted[i]);
    report->layers.push_back({layer.quality(), neurons.ffns()[first].ffn.layer});
    all.add(layer);
  }
  // Where none is live, nothing is read.
  predictor->set_predicted_per_live(all.live > 0.0 ? all.predicted / all.live : 1.0);
}

}  // namespace

void check_predictor_options(const PredictorOptions& options) {
  if (options.engine.memory.limit_bytes > 0) {
    throw UsageError(
        "‹memory› cannot hold while a predictor is learned: all weights are read, and what a text "
        "gives to every block stays in memory. Count with ‹memory›, and learn without it.");
  }
  if (options.recall > 0.0 && options.recall <= 1.0) return;
  throw UsageError(
      fmt::format("‹recall› {:g} makes no sense; it is a percentage, more than 0 and at most 100.",
                  100 * options.recall));
}

void check_predictor(const PredictorOptions& options, const engine::Engine& engine) {
  check_predictor_options(options);
  (void)n_workers_for(options, engine, tokens_for(options, engine).size());
  check_kept_file(prepare::neuron_file_path("predictor", engine.file()));
}

PredictorReport learn_predictor(const PredictorOptions& options) {
  check_predictor_options(options);
  const RealClock clock;
  const double start_us = clock.now_us();
  auto engine = std::make_unique<engine::Engine>(exactly(options.engine));
  check_predictor(options, *engine);
  const std::vector<text::Token> tokens = tokens_for(options, *engine);
  PredictorReport report;
  report.n_directions = tokens.size() / 2;
  report.n_scores = tokens.size() / 4;
  const size_t behind = report.n_directions + report.n_scores;
  const weights::PredictorShape shape = shape_for(options, *engine);
  const int n_workers = n_workers_for(options, *engine, tokens.size());
  const size_t n_steps = shape.n_layers + 3;
  const auto tell = [&](size_t done) {
    if (options.progress) options.progress(done, n_steps);
  };
  tell(0);
  const weights::Neurons& neurons = *engine->weights().neurons();
  GateInputs inputs(neurons, tokens.size());
  // The text that judges is read at the end, from a beginning of its own.
  (void)read_tokens(*engine, std::span(tokens).first(behind), &inputs);
  const std::span<const text::Token> judging = std::span(tokens).subspan(behind);
  const Reading exact = read_tokens(*engine, judging, &inputs);
  report.n_judged = exact.n_tokens;
  report.perplexity = exact.perplexity();
  weights::NeuronPredictor predictor(shape, options.recall);
  judge(fit_all(options, *engine, n_workers, report, inputs, &predictor, tell), neurons,
        inputs.n_experts, &report, &predictor);
  inputs.samples.clear();  // the engine that predicts needs memory too
  report.path = prepare::neuron_file_path("predictor", engine->file());
  report.bytes = predictor.bytes();
  report.rank = static_cast<int>(shape.rank);
  engine->file().check_intact();  // gates may have been read since the last pass looked
  predictor.write(report.path, prepare::neuron_key(engine->file(), engine->plan().ffn.thresholds));
  tell(1 + shape.n_layers);
  engine.reset();  // a second one beside it would take its memory again
  prepare::Options predicting = exactly(options.engine);
  predicting.ffn.has_predictor = predicting.ffn.may_predict = true;
  engine::Engine sparse(predicting);
  const Reading predicted = read_tokens(sparse, judging, nullptr);
  report.predicted_perplexity = predicted.perplexity();
  report.agreement = agreement(exact, predicted);
  tell(n_steps);
  report.seconds = 1e-6 * (clock.now_us() - start_us);
  return report;
}

}  // namespace troika::tune
