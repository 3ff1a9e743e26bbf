#include "tune/neurons/fit_predictor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/random.h"
#include "tensor/codec.h"
#include "tune/neurons/float_rows.h"

namespace troika::tune {
namespace {

// Subtracts from each column its mean.
Rows without_means(Rows x) {
  std::vector<double> means(x.k, 0.0);
  for (size_t t = 0; t < x.n; ++t) {
    for (size_t k = 0; k < x.k; ++k) means[k] += x.row(t)[k] / static_cast<double>(x.n);
  }
  for (size_t t = 0; t < x.n; ++t) {
    for (size_t k = 0; k < x.k; ++k) x.row(t)[k] -= static_cast<float>(means[k]);
  }
  return x;
}

// Says how inputs of a block vary about their mean: by the products of channels over the tokens of
// a text, and, for directions in which a short text says nothing, by some even variation.
class InputSpread {
 public:
  explicit InputSpread(Rows x) : x_(without_means(std::move(x))), by_channel_(transposed(x_)) {
    double squares = 0.0;
    for (const float value : x_.values) squares += double{value} * value;
    const auto n_values = static_cast<double>(std::max<size_t>(1, x_.values.size()));
    // Where all tokens are the same, the gate's own weights decide alone.
    even_ = squares > 0.0 ? static_cast<float>(kEvenShare * squares / n_values) : 1.0f;
    per_token_ = static_cast<float>((1.0 - kEvenShare) / static_cast<double>(x_.n));
  }

  // Returns each row of `of` times the matrix that says so: (width, width).
  Rows times(const kernels::Table& kernels, const Rows& of) const {
    Rows y = multiply_rows(kernels, multiply_rows(kernels, of, x_), by_channel_);
    for (size_t i = 0; i < y.values.size(); ++i) {
      y.values[i] = per_token_ * y.values[i] + even_ * of.values[i];
    }
    return y;
  }

 private:
  static constexpr double kEvenShare = 0.1;

  Rows x_, by_channel_;
  float even_ = 0.0f, per_token_ = 0.0f;
};

// Two matrices whose product is near to a gate: `in` is (rank, width), `out` (n_neurons, rank).
struct Factors {
  Rows in, out;
};

// Finds, by power iteration, the directions of inputs that say most about the gate's outputs. They
// are scaled and mixed until what inputs have of each varies alike, whatever they have of the
// others. Then the gate's products with the spread of inputs along them are the second factor.
Factors factors_of(const kernels::Table& kernels, const Rows& gate, const InputSpread& inputs,
                   size_t rank) {
  constexpr int kIterations = 3;
  const LevelRows by_neuron(kernels, gate), by_channel(kernels, transposed(gate));
  Rows directions(rank, gate.k);
  for (size_t i = 0; i < directions.values.size(); ++i) {
    directions.values[i] = static_cast<float>(random_unit(77, i) - 0.5);
  }
  for (int i = 0; i < kIterations; ++i) {
    directions = by_channel.times(by_neuron.times(inputs.times(kernels, directions)));
    orthonormalize(kernels, &directions);
  }
  const Rows spread = inputs.times(kernels, directions);
  const Rows apart = inverse_of_root(multiply_rows(kernels, spread, directions));
  return {multiply_rows(kernels, apart, transposed(directions)),
          transposed(by_neuron.times(multiply_rows(kernels, apart, transposed(spread))))};
}

// Returns what runs compute with.
auto activation_of(const LayerFit& fit) {
  switch (fit.rule.activation) {
    case model::Activation::kSilu:
      return fit.kernels.silu;
    case model::Activation::kGelu:
      return fit.kernels.gelu;
    case model::Activation::kRelu:
    case model::Activation::kDoubleRelu:
      break;
  }
  return fit.kernels.relu;
}

void activate(const LayerFit& fit, Rows* outputs) {
  activation_of(fit)(outputs->values.data(), outputs->values.data(), outputs->values.size());
}

bool is_live(const LiveRule& rule, float activated) {
  return rule.threshold > 0.0f ? !(std::fabs(activated) < rule.threshold) : activated != 0.0f;
}

// Computes scores with the matrices as they were written, which runs compute with.
class LayerScores {
 public:
  LayerScores(const weights::NeuronPredictor& predictor, uint64_t layer)
      : shape_(predictor.shape()),
        in_(decoded(shape_.type, predictor.layer(layer).in, shape_.in_row_bytes(), shape_.rank,
                    shape_.width)),
        out_(decoded(shape_.type, predictor.layer(layer).out, shape_.out_row_bytes(),
                     shape_.n_neurons, shape_.rank)) {}
  // Returns (tokens, n_neurons) scores.
  Rows of(const kernels::Table& kernels, const Rows& x) const {
    return multiply_rows(kernels, multiply_rows(kernels, x, in_), out_);
  }

 private:
  weights::PredictorShape shape_;
  Rows in_, out_;
};

// Has what scores of a neuron say of when it is live.
struct NeuronScores {
  std::vector<float> live;  // the scores of tokens at which it is live, the least first
  // Scores differ from the gate's outputs by `offset`, which is where outputs are 0, and by some
  // more for each token: usually by this error.
  double offset = 0.0, usual_error = 0.0;

  // Says whether there are too few to tell where the least of them lie.
  bool are_few() const { return live.size() < 8; }
  // Returns the score that the wanted share of them exceeds. REQUIRES: there are some.
  float exceeded_by(double recall) const {
    const auto place = static_cast<size_t>((1.0 - recall) * static_cast<double>(live.size()));
    return live[std::min(place, live.size() - 1)];
  }
};

// Returns how many usual errors below its offset a neuron is to be predicted that was hardly ever
// live. It is what half of those neurons need for this recall of which just enough scores are
// known.
double errors_below_offset(const std::vector<NeuronScores>& neurons, double recall) {
  constexpr double kWithoutOthers = 2.0;
  constexpr size_t kMostScores = 16;  // with more, a neuron is too unlike those with few
  constexpr size_t kFewestNeurons = 16;
  std::vector<double> others;
  for (const NeuronScores& own : neurons) {
    if (own.are_few() || own.live.size() > kMostScores || own.usual_error <= 0.0) continue;
    others.push_back((own.offset - own.exceeded_by(recall)) / own.usual_error);
  }
  if (others.size() < kFewestNeurons) return kWithoutOthers;
  const auto middle = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
  std::nth_element(others.begin(), middle, others.end());
  return std::clamp(*middle, 0.0, kWithoutOthers);
}

void choose_thresholds(const LayerFit& fit, const Rows& gate, const Rows& x,
                       const LayerScores& scores, float* thresholds) {
  const Rows score = scores.of(fit.kernels, x);
  const Rows output = multiply_rows(fit.kernels, x, gate);
  Rows activated = output;
  activate(fit, &activated);
  std::vector<NeuronScores> neurons(gate.n);
  for (size_t i = 0; i < gate.n; ++i) {
    double sum = 0.0, squares = 0.0;
    for (size_t t = 0; t < x.n; ++t) {
      const double error = double{score.row(t)[i]} - output.row(t)[i];
      sum += error;
      squares += error * error;
      const bool is_known = !std::isnan(score.row(t)[i]);
      if (is_known && is_live(fit.rule, activated.row(t)[i])) {
        neurons[i].live.push_back(score.row(t)[i]);
      }
    }
    std::sort(neurons[i].live.begin(), neurons[i].live.end());
    const auto n = static_cast<double>(x.n);
    neurons[i].offset = sum / n;
    neurons[i].usual_error = std::sqrt(std::max(0.0, squares / n - sum / n * (sum / n)));
  }
  const double n_below = errors_below_offset(neurons, fit.recall);
  for (size_t i = 0; i < gate.n; ++i) {
    const NeuronScores& own = neurons[i];
    // Scores are to be larger than the threshold.
    thresholds[i] = own.are_few() ? static_cast<float>(own.offset - n_below * own.usual_error)
                                  : std::nextafter(own.exceeded_by(fit.recall),
                                                   -std::numeric_limits<float>::infinity());
  }
}

PredictorCounts counts_of(const LayerFit& fit, const Rows& gate, const Rows& x,
                          const LayerScores& scores, const float* thresholds) {
  const Rows score = scores.of(fit.kernels, x);
  Rows activated = multiply_rows(fit.kernels, x, gate);
  activate(fit, &activated);
  PredictorCounts counts;
  counts.all = static_cast<double>(x.n * gate.n);
  for (size_t t = 0; t < x.n; ++t) {
    for (size_t i = 0; i < gate.n; ++i) {
      const float value = activated.row(t)[i];
      const bool live = is_live(fit.rule, value), predicted = score.row(t)[i] > thresholds[i];
      counts.predicted += predicted;
      if (!live) continue;
      counts.live += 1.0;
      counts.mass += std::fabs(value);
      counts.found += predicted;
      counts.found_mass += predicted ? std::fabs(value) : 0.0f;
    }
  }
  return counts;
}

void write_rows(tensor::Type type, const Rows& rows, std::byte* bytes, size_t row_bytes) {
  for (size_t i = 0; i < rows.n; ++i) {
    tensor::quantize_row(type, rows.row(i), bytes + i * row_bytes, rows.k);
  }
}

}  // namespace

void PredictorCounts::add(const PredictorCounts& other) {
  all += other.all;
  live += other.live;
  predicted += other.predicted;
  found += other.found;
  mass += other.mass;
  found_mass += other.found_mass;
}

PredictorQuality PredictorCounts::quality() const {
  const double n = std::max(1.0, all);
  return {live / n, predicted / n, live > 0.0 ? found / live : 1.0,
          mass > 0.0 ? found_mass / mass : 1.0};
}

PredictorCounts fit_predictor_layer(const LayerFit& fit, BlockInputs inputs,
                                    weights::NeuronPredictor* predictor, uint64_t layer) {
  const weights::PredictorShape& shape = predictor->shape();
  const weights::NeuronPredictor::Layer out = predictor->layer(layer);
  const Rows gate = decoded(fit.gate.type, fit.gate.data, fit.gate.row_bytes,
                            static_cast<size_t>(fit.gate.n_rows), shape.width);
  const InputSpread spread(std::move(inputs.varying));
  const Factors factors = factors_of(fit.kernels, gate, spread, shape.rank);
  write_rows(shape.type, factors.in, out.in, shape.in_row_bytes());
  write_rows(shape.type, factors.out, out.out, shape.out_row_bytes());
  const LayerScores scores(*predictor, layer);
  choose_thresholds(fit, gate, inputs.scored, scores, out.thresholds);
  return counts_of(fit, gate, inputs.judged, scores, out.thresholds);
}

}  // namespace troika::tune
