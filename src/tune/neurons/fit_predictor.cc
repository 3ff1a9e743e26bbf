#include "tune/neurons/fit_predictor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/random.h"
#include "tensor/codec.h"

namespace troika::tune {
namespace {

// Rows of floats, side by side.
struct Rows {
  Rows(size_t n, size_t k) : n(n), k(k), values(n * k) {}
  float* row(size_t i) { return values.data() + i * k; }
  const float* row(size_t i) const { return values.data() + i * k; }

  size_t n, k;
  std::vector<float> values;
};

// Returns (a.n, b.n): the products of each row of a with each row of b.
Rows multiply_rows(const kernels::Table& kernels, const Rows& a, const Rows& b) {
  Rows y(a.n, b.n);
  const kernels::MatmulWeight weight = {reinterpret_cast<const std::byte*>(b.values.data()),
                                        b.k * sizeof(float), b.k, 0, b.n};
  kernels::find(kernels.matmul_f32, tensor::Type::kF32)(weight, a.n, a.values.data(), a.k,
                                                        y.values.data(), b.n);
  return y;
}

Rows transposed(const Rows& a) {
  Rows t(a.k, a.n);
  for (size_t i = 0; i < a.n; ++i) {
    for (size_t j = 0; j < a.k; ++j) t.row(j)[i] = a.row(i)[j];
  }
  return t;
}

Rows rows_of(std::span<const float> values, size_t k) {
  Rows rows(values.size() / k, k);
  std::copy(values.begin(), values.end(), rows.values.begin());
  return rows;
}

Rows decoded(tensor::Type type, const std::byte* data, size_t row_bytes, size_t n, size_t k) {
  Rows rows(n, k);
  for (size_t i = 0; i < n; ++i) tensor::dequantize_row(type, data + i * row_bytes, rows.row(i), k);
  return rows;
}

// Makes rows orthonormal, one after the other. A row that depends on those before becomes 0.
void orthonormalize_one_by_one(Rows* rows) {
  for (size_t i = 0; i < rows->n; ++i) {
    float* const own = rows->row(i);
    double before = 0.0, after = 0.0;
    for (size_t k = 0; k < rows->k; ++k) before += double{own[k]} * own[k];
    for (int round = 0; round < 2; ++round) {  // the second round takes away rounding of the first
      for (size_t j = 0; j < i; ++j) {
        const float* const other = rows->row(j);
        double dot = 0.0;
        for (size_t k = 0; k < rows->k; ++k) dot += double{own[k]} * other[k];
        const auto factor = static_cast<float>(dot);
        for (size_t k = 0; k < rows->k; ++k) own[k] -= factor * other[k];
      }
    }
    for (size_t k = 0; k < rows->k; ++k) after += double{own[k]} * own[k];
    const bool is_new = after > 1e-10 * before && after > 0.0;
    const float scale = is_new ? static_cast<float>(1.0 / std::sqrt(after)) : 0.0f;
    for (size_t k = 0; k < rows->k; ++k) own[k] *= scale;
  }
}

// Makes all rows orthonormal, some together, so that most of the work is products of matrices.
void orthonormalize(const kernels::Table& kernels, Rows* rows) {
  constexpr size_t kTogether = 32;
  Rows done(0, rows->k);
  for (size_t first = 0; first < rows->n; first += kTogether) {
    const size_t n = std::min(kTogether, rows->n - first);
    Rows own = rows_of({rows->row(first), n * rows->k}, rows->k);
    for (int round = 0; round < 2 && done.n > 0; ++round) {
      const Rows shares = multiply_rows(kernels, own, done);                 // (n, done)
      const Rows within = multiply_rows(kernels, shares, transposed(done));  // (n, k)
      for (size_t i = 0; i < own.values.size(); ++i) own.values[i] -= within.values[i];
    }
    orthonormalize_one_by_one(&own);
    done.values.insert(done.values.end(), own.values.begin(), own.values.end());
    done.n += n;
  }
  *rows = std::move(done);
}

// Returns (rank, n_neurons): orthonormal rows that span the leading directions of outputs (tokens,
// n_neurons), by power iteration on what tokens have in common.
Rows leading_directions(const kernels::Table& kernels, const Rows& outputs, size_t rank) {
  constexpr int kIterations = 4;
  const Rows common = multiply_rows(kernels, outputs, outputs);  // (tokens, tokens)
  Rows mix(rank, outputs.n);
  for (size_t i = 0; i < mix.values.size(); ++i) {
    mix.values[i] = static_cast<float>(random_unit(77, i) - 0.5);
  }
  for (int i = 0; i < kIterations; ++i) {
    orthonormalize(kernels, &mix);
    mix = multiply_rows(kernels, mix, common);
  }
  orthonormalize(kernels, &mix);
  Rows directions = multiply_rows(kernels, mix, transposed(outputs));
  orthonormalize(kernels, &directions);
  return directions;
}

void activate(const LayerFit& fit, Rows* outputs) {
  for (float& y : outputs->values) {
    switch (fit.rule.activation) {
      case model::Activation::kRelu:
      case model::Activation::kDoubleRelu:
        y = std::max(y, 0.0f);
        break;
      case model::Activation::kSilu:
        y = y / (1.0f + std::exp(-y));
        break;
      case model::Activation::kGelu:
        y = 0.5f * y * (1.0f + std::erf(y * 0.70710678f));
        break;
    }
  }
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

// Returns the score that the wanted share of a neuron's live tokens exceeds. For a neuron that was
// hardly ever live it is minus twice the usual error of scores, so that it is predicted where its
// score comes near to 0.
float threshold_of(const std::vector<float>& live_scores, double error_squares, size_t n_tokens,
                   double recall) {
  constexpr size_t kFew = 8;
  if (live_scores.size() < kFew) {
    return static_cast<float>(-2.0 * std::sqrt(error_squares / static_cast<double>(n_tokens)));
  }
  std::vector<float> scores = live_scores;
  std::sort(scores.begin(), scores.end());
  const auto place = static_cast<size_t>((1.0 - recall) * static_cast<double>(scores.size()));
  return std::nextafter(scores[std::min(place, scores.size() - 1)],
                        -std::numeric_limits<float>::infinity());
}

void choose_thresholds(const LayerFit& fit, const Rows& gate, const Rows& x,
                       const LayerScores& scores, float* thresholds) {
  const Rows score = scores.of(fit.kernels, x);
  const Rows output = multiply_rows(fit.kernels, x, gate);
  Rows activated = output;
  activate(fit, &activated);
  for (size_t i = 0; i < gate.n; ++i) {
    std::vector<float> live;
    double squares = 0.0;
    for (size_t t = 0; t < x.n; ++t) {
      const double error = double{score.row(t)[i]} - output.row(t)[i];
      squares += error * error;
      if (is_live(fit.rule, activated.row(t)[i])) live.push_back(score.row(t)[i]);
    }
    thresholds[i] = threshold_of(live, squares, x.n, fit.recall);
  }
}

PredictorQuality quality_of(const LayerFit& fit, const Rows& gate, const Rows& x,
                            const LayerScores& scores, const float* thresholds) {
  const Rows score = scores.of(fit.kernels, x);
  Rows activated = multiply_rows(fit.kernels, x, gate);
  activate(fit, &activated);
  double n_live = 0, n_predicted = 0, n_found = 0, mass = 0, found_mass = 0;
  for (size_t t = 0; t < x.n; ++t) {
    for (size_t i = 0; i < gate.n; ++i) {
      const float value = activated.row(t)[i];
      const bool live = is_live(fit.rule, value), predicted = score.row(t)[i] > thresholds[i];
      n_predicted += predicted;
      if (!live) continue;
      ++n_live;
      mass += std::fabs(value);
      n_found += predicted;
      found_mass += predicted ? std::fabs(value) : 0.0f;
    }
  }
  const double n_all = std::max(1.0, static_cast<double>(x.n * gate.n));
  return {n_live / n_all, n_predicted / n_all, n_live > 0 ? n_found / n_live : 1.0,
          mass > 0 ? found_mass / mass : 1.0};
}

}  // namespace

PredictorQuality fit_predictor_layer(const LayerFit& fit, const GateSamples& samples,
                                     size_t n_directions, size_t n_scores,
                                     weights::NeuronPredictor* predictor, uint64_t layer) {
  const weights::PredictorShape& shape = predictor->shape();
  const weights::NeuronPredictor::Layer out = predictor->layer(layer);
  const Rows gate = decoded(fit.gate.type, fit.gate.data, fit.gate.row_bytes,
                            static_cast<size_t>(fit.gate.n_rows), samples.width);
  const Rows first = rows_of(samples.rows(0, n_directions), samples.width);
  const Rows directions =
      leading_directions(fit.kernels, multiply_rows(fit.kernels, first, gate), shape.rank);
  const Rows in = multiply_rows(fit.kernels, directions, transposed(gate));  // (rank, width)
  for (size_t i = 0; i < in.n; ++i) {
    tensor::quantize_row(shape.type, in.row(i), out.in + i * shape.in_row_bytes(), in.k);
  }
  const Rows back = transposed(directions);  // (n_neurons, rank)
  for (size_t i = 0; i < back.n; ++i) {
    tensor::quantize_row(shape.type, back.row(i), out.out + i * shape.out_row_bytes(), back.k);
  }
  const LayerScores scores(*predictor, layer);
  choose_thresholds(fit, gate, rows_of(samples.rows(n_directions, n_scores), samples.width), scores,
                    out.thresholds);
  const size_t behind = n_directions + n_scores;
  return quality_of(fit, gate,
                    rows_of(samples.rows(behind, samples.n_tokens() - behind), samples.width),
                    scores, out.thresholds);
}

}  // namespace troika::tune
