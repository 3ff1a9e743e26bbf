#include "tune/neurons/learn_predictor.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "engine/engine.h"
#include "prepare/side_files.h"
#include "tune/neurons/text_reading.h"
#include "weights/neurons/neurons.h"

namespace troika::tune {
namespace {

constexpr size_t kRankGranule = 32;  // the length of a block of the predictor's weights
constexpr size_t kLeastJudged = 32;

// Collects the inputs of the gates.
struct GateInputs : lanes::InputObserver {
  explicit GateInputs(const weights::Neurons& neurons) : samples(neurons.ffns().size()) {
    for (size_t i = 0; i < samples.size(); ++i) gates[neurons.ffns()[i].ffn.gate] = i;
  }
  void observe(const model::Op& op, const float* x, int n_rows, int width) override {
    const auto gate = gates.find(op.weight);
    if (gate == gates.end()) return;
    GateSamples& own = samples[gate->second];
    own.width = static_cast<size_t>(width);
    own.x.insert(own.x.end(), x, x + static_cast<size_t>(n_rows) * own.width);
  }

  std::map<model::WeightId, size_t> gates;
  std::vector<GateSamples> samples;
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

weights::PredictorShape shape_for(const PredictorOptions& options, const engine::Engine& engine) {
  const std::vector<weights::NeuronFfn>& ffns = engine.weights().neurons()->ffns();
  if (ffns.front().ffn.is_expert()) {
    throw UsageError(
        "‹predictor› is for blocks that every token takes, and the neurons of this model are those "
        "of experts. Leave it out.");
  }
  const weights::Matrix& gate = engine.weights().matrix(ffns.front().ffn.gate);
  const auto width = static_cast<size_t>(gate.row_length);
  for (const weights::NeuronFfn& ffn : ffns) {
    const weights::Matrix& other = engine.weights().matrix(ffn.ffn.gate);
    if (other.n_rows == gate.n_rows && other.row_length == gate.row_length) continue;
    throw UsageError(
        "The feed-forward blocks of this model differ in size, and a predictor is for blocks of "
        "one "
        "size.");
  }
  const size_t wanted = options.rank > 0 ? static_cast<size_t>(options.rank) : width / 4;
  const size_t rank = (wanted + kRankGranule - 1) / kRankGranule * kRankGranule;
  if (rank > width) {
    throw UsageError(
        fmt::format("‹predictor› {} makes no sense: a rank is at most the width of the model, {}.",
                    rank, width));
  }
  return {ffns.size(), static_cast<uint64_t>(gate.n_rows), width, rank, predictor_type(gate.type)};
}

void check_predictor_options(const PredictorOptions& options) {
  if (options.recall > 0.0 && options.recall <= 1.0) return;
  throw UsageError(
      fmt::format("‹recall› {:g} makes no sense; it is a percentage, more than 0 and at most 100.",
                  100 * options.recall));
}

// Returns the tokens to learn from. Throws Error for too few.
std::vector<text::Token> tokens_for(const PredictorOptions& options, const engine::Engine& engine) {
  std::vector<text::Token> tokens = engine.tokenizer().encode(options.text);
  tokens.resize(std::min(tokens.size(), options.most_tokens));
  if (tokens.size() < tokens.size() / 2 + tokens.size() / 4 + kLeastJudged) {
    throw Error(
        fmt::format("The text has {} tokens, too few to learn which neurons fire.", tokens.size()));
  }
  return tokens;
}

// Fits all layers: each thread takes the next one.
std::vector<PredictorQuality> fit_layers(const PredictorOptions& options,
                                         const engine::Engine& engine,
                                         const PredictorReport& counts,
                                         std::vector<GateSamples>* samples,
                                         weights::NeuronPredictor* predictor,
                                         const std::function<void(size_t)>& tell) {
  const std::vector<weights::NeuronFfn>& ffns = engine.weights().neurons()->ffns();
  std::vector<PredictorQuality> layers(ffns.size());
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;  // the first failure
  const auto fit_one = [&](size_t layer) {
    const weights::NeuronFfn& ffn = ffns[layer];
    const LayerFit fit = {engine.kernels().table,
                          engine.weights().matrix(ffn.ffn.gate),
                          {ffn.ffn.activation, ffn.threshold},
                          options.recall};
    layers[layer] = fit_predictor_layer(fit, (*samples)[layer], counts.n_directions,
                                        counts.n_scores, predictor, layer);
    (*samples)[layer] = {};
  };
  const auto work = [&](bool tells) {
    try {
      for (size_t layer = next++; layer < ffns.size(); layer = next++) {
        if (tells) tell(1 + layer);
        fit_one(layer);
      }
    } catch (...) {
      next = ffns.size();
      const std::lock_guard<std::mutex> lock(mutex);
      if (failure == nullptr) failure = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < engine.plan().n_threads(); ++i) others.emplace_back(work, false);
  work(true);
  for (std::thread& other : others) other.join();
  if (failure != nullptr) std::rethrow_exception(failure);
  return layers;
}

// Counts neurons that were predicted for each live one. Where none is live, nothing is read.
double predicted_per_live(const std::vector<PredictorQuality>& layers) {
  double predicted = 0.0, live = 0.0;
  for (const PredictorQuality& quality : layers) {
    predicted += quality.predicted;
    live += quality.live;
  }
  return live > 0.0 ? predicted / live : 1.0;
}

}  // namespace

void check_predictor(const PredictorOptions& options, const engine::Engine& engine) {
  check_predictor_options(options);
  (void)tokens_for(options, engine);
  (void)shape_for(options, engine);
}

PredictorReport learn_predictor(const PredictorOptions& options) {
  check_predictor_options(options);
  const RealClock clock;
  const double start_us = clock.now_us();
  auto engine = std::make_unique<engine::Engine>(exactly(options.engine));
  const std::vector<text::Token> tokens = tokens_for(options, *engine);
  PredictorReport report;
  report.n_directions = tokens.size() / 2;
  report.n_scores = tokens.size() / 4;
  const size_t behind = report.n_directions + report.n_scores;
  const weights::PredictorShape shape = shape_for(options, *engine);
  const size_t n_steps = shape.n_layers + 3;
  const auto tell = [&](size_t done) {
    if (options.progress) options.progress(done, n_steps);
  };
  tell(0);
  const weights::Neurons& neurons = *engine->weights().neurons();
  GateInputs inputs(neurons);
  // The text that judges is read at the end, from a beginning of its own.
  (void)read_tokens(*engine, std::span(tokens).first(behind), &inputs);
  const std::span<const text::Token> judging = std::span(tokens).subspan(behind);
  const Reading exact = read_tokens(*engine, judging, &inputs);
  report.n_judged = exact.n_tokens;
  report.perplexity = exact.perplexity();
  weights::NeuronPredictor predictor(shape, options.recall);
  report.layers = fit_layers(options, *engine, report, &inputs.samples, &predictor, tell);
  report.path = prepare::neuron_file_path("predictor", engine->file());
  report.bytes = predictor.bytes();
  report.rank = static_cast<int>(shape.rank);
  engine->file().check_intact();  // gates may have been read since the last pass looked
  predictor.set_predicted_per_live(predicted_per_live(report.layers));
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
