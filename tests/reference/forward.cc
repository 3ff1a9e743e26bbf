#include "tests/reference/forward.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace troika::reference {
namespace {

// Rounds every 32 numbers to whole multiples of a 127th of the largest of them.
Vector round_to_eight_bits(Vector x) {
  for (size_t begin = 0; begin < x.size(); begin += 32) {
    const size_t end = std::min(begin + 32, x.size());
    double largest = 0;
    for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(x[i]));
    if (largest == 0) continue;
    for (size_t i = begin; i < end; ++i) x[i] = std::round(x[i] * 127 / largest) * largest / 127;
  }
  return x;
}

// There are four sums, because each addition to a single sum would wait for the one before.
double dot(const double* a, const double* b, size_t n) {
  double sums[4] = {};
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    sums[0] += a[i] * b[i];
    sums[1] += a[i + 1] * b[i + 1];
    sums[2] += a[i + 2] * b[i + 2];
    sums[3] += a[i + 3] * b[i + 3];
  }
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

Vector multiply(const Model& model, const Linear& linear, Vector x) {
  if (model.eight_bit_activations && linear.is_block_format) x = round_to_eight_bits(x);
  const size_t n_out = linear.weight.size() / x.size();
  Vector y(n_out);
  for (size_t row = 0; row < n_out; ++row) {
    const double bias = linear.bias.empty() ? 0 : linear.bias[row];
    y[row] = bias + dot(&linear.weight[row * x.size()], x.data(), x.size());
  }
  return y;
}

void add_to(Vector& x, const Vector& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

Vector normalize(const Model& model, const Norm& norm, const Vector& x) {
  double mean = 0;
  if (model.layer_norm) {
    for (double value : x) mean += value / x.size();
  }
  double variance = 0;
  for (double value : x) variance += (value - mean) * (value - mean) / x.size();
  Vector y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = (x[i] - mean) / std::sqrt(variance + model.norm_epsilon) * norm.weight[i];
    if (!norm.bias.empty()) y[i] += norm.bias[i];
  }
  return y;
}

// Normalizes every head of x by itself, with the same weights.
void normalize_heads(const Model& model, const Vector& weight, Vector& x) {
  if (weight.empty()) return;
  for (size_t head = 0; head < x.size(); head += model.head_dim) {
    double square = 0;
    for (size_t i = 0; i < model.head_dim; ++i) square += x[head + i] * x[head + i];
    const double root = std::sqrt(square / model.head_dim + model.norm_epsilon);
    for (size_t i = 0; i < model.head_dim; ++i) x[head + i] *= weight[i] / root;
  }
}

double soft_cap(double x, double cap) { return cap == 0 ? x : cap * std::tanh(x / cap); }

// Rotates every head of x in place.
void rotate(const Model& model, const Rope& rope, size_t position, Vector& x) {
  const size_t n_pairs = rope.frequencies.size();
  for (size_t head = 0; head < x.size(); head += model.head_dim) {
    for (size_t j = 0; j < n_pairs; ++j) {
      double& a = x[head + (model.rope_halves ? j : 2 * j)];
      double& b = x[head + (model.rope_halves ? j + n_pairs : 2 * j + 1)];
      const double angle = position * rope.frequencies[j];
      const double cosine = rope.magnitude * std::cos(angle);
      const double sine = rope.magnitude * std::sin(angle);
      const double turned_a = a * cosine - b * sine;
      b = a * sine + b * cosine;
      a = turned_a;
    }
  }
}

void softmax(Vector& x) {
  const double maximum = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (double& value : x) sum += value = std::exp(value - maximum);
  for (double& value : x) value /= sum;
}

double activate(const std::string& name, double x) {
  if (name == "silu") return x / (1 + std::exp(-x));
  if (name == "relu") return std::max(0.0, x);
  if (name == "gelu") {  // is computed by the approximation with tanh
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  throw std::runtime_error("unknown activation " + name);
}

}  // namespace

Sequence::Sequence(const Model& model)
    : model_(model), keys_(model.n_layers), values_(model.n_layers) {
  for (const Layer& layer : model.layers) expert_uses_.emplace_back(layer.experts.size());
}

Vector Sequence::attention(size_t index, const Vector& x) {
  const Layer& layer = model_.layers[index];
  const size_t head_dim = model_.head_dim;
  const size_t q_length = model_.n_heads * head_dim, kv_length = model_.n_kv_heads * head_dim;
  Vector q, k, v;
  if (layer.qkv.weight.empty()) {
    q = multiply(model_, layer.q, x);
    k = multiply(model_, layer.k, x);
    v = multiply(model_, layer.v, x);
  } else {
    const Vector all = multiply(model_, layer.qkv, x);
    q.assign(all.begin(), all.begin() + q_length);
    k.assign(all.begin() + q_length, all.begin() + q_length + kv_length);
    v.assign(all.begin() + q_length + kv_length, all.end());
  }
  normalize_heads(model_, layer.q_norm, q);
  normalize_heads(model_, layer.k_norm, k);
  rotate(model_, layer.rope, position_, q);
  rotate(model_, layer.rope, position_, k);
  keys_[index].push_back(k);
  values_[index].push_back(v);

  const size_t seen = layer.window == 0 ? position_ + 1 : std::min(layer.window, position_ + 1);
  const size_t first = position_ + 1 - seen;
  Vector result(q_length);
  for (size_t head = 0; head < model_.n_heads; ++head) {
    // Several neighbouring query heads share one head of keys and values.
    const size_t q_begin = head * head_dim;
    const size_t kv_begin = head / (model_.n_heads / model_.n_kv_heads) * head_dim;
    Vector weights(seen);
    for (size_t j = 0; j < seen; ++j) {
      for (size_t i = 0; i < head_dim; ++i) {
        weights[j] += q[q_begin + i] * keys_[index][first + j][kv_begin + i];
      }
      weights[j] = soft_cap(weights[j] * model_.attention_scale, model_.attention_cap);
    }
    softmax(weights);
    for (size_t j = 0; j < seen; ++j) {
      for (size_t i = 0; i < head_dim; ++i) {
        result[q_begin + i] += weights[j] * values_[index][first + j][kv_begin + i];
      }
    }
  }
  return multiply(model_, layer.attention_output, result);
}

Vector Sequence::feed_forward(const FeedForward& ffn, const Vector& x) {
  Vector up = multiply(model_, ffn.up, x);
  const bool both = model_.activation == "drelu";
  const std::string activation = both ? "relu" : model_.activation;
  if (both) {
    for (double& value : up) value = activate(activation, value);
  }
  Vector hidden = ffn.gate.weight.empty() ? up : multiply(model_, ffn.gate, x);
  for (size_t i = 0; i < hidden.size(); ++i) {
    hidden[i] = activate(activation, hidden[i]);
    if (!ffn.gate.weight.empty() && both) hidden[i] *= up[i];
    n_active_ += hidden[i] != 0;
    if (!ffn.gate.weight.empty() && !both) hidden[i] *= up[i];
  }
  n_neurons_ += hidden.size();
  return multiply(model_, ffn.down, hidden);
}

// Adds up the experts to which the router gives the largest probabilities, each weighed by its own.
Vector Sequence::mixture(size_t index, const Vector& x) {
  const Layer& layer = model_.layers[index];
  Vector shares = multiply(model_, layer.router, x);
  softmax(shares);
  std::vector<std::pair<double, size_t>> ranking;
  for (size_t i = 0; i < shares.size(); ++i) ranking.push_back({-shares[i], i});
  std::sort(ranking.begin(), ranking.end());
  ranking.resize(model_.n_experts_used);
  double sum = 0;
  for (const auto& chosen : ranking) sum += shares[chosen.second];
  Vector result(x.size());
  for (const auto& chosen : ranking) {
    double share = shares[chosen.second] * model_.share_scale;
    if (model_.normalize_shares) share /= sum;
    ++expert_uses_[index][chosen.second];
    const Vector part = feed_forward(layer.experts[chosen.second], x);
    for (size_t i = 0; i < result.size(); ++i) result[i] += share * part[i];
  }
  if (!layer.shared.up.weight.empty()) {
    const Vector part = feed_forward(layer.shared, x);
    double share = 1;
    if (!layer.shared_share.weight.empty()) {
      share = 1 / (1 + std::exp(-multiply(model_, layer.shared_share, x)[0]));
    }
    for (size_t i = 0; i < result.size(); ++i) result[i] += share * part[i];
  }
  return result;
}

Vector Sequence::next(int token) {
  if (token < 0 || static_cast<size_t>(token) >= model_.vocabulary) {
    throw std::runtime_error("a token outside the vocabulary");
  }
  const auto row = model_.embedding.begin() + token * model_.width;
  Vector x(row, row + model_.width);
  for (double& value : x) value *= model_.embedding_scale;

  for (size_t i = 0; i < model_.n_layers; ++i) {
    const Layer& layer = model_.layers[i];
    const Vector input = normalize(model_, layer.attention_norm, x);
    Vector attended = attention(i, input);
    if (!layer.attention_post_norm.weight.empty()) {
      attended = normalize(model_, layer.attention_post_norm, attended);
    }
    add_to(x, attended);
    const Vector ffn_input = model_.parallel_ffn ? input : normalize(model_, layer.ffn_norm, x);
    Vector fed = layer.experts.empty() ? feed_forward(layer.ffn, ffn_input) : mixture(i, ffn_input);
    if (!layer.ffn_post_norm.weight.empty()) fed = normalize(model_, layer.ffn_post_norm, fed);
    add_to(x, fed);
  }
  ++position_;
  Vector logits = multiply(model_, model_.output, normalize(model_, model_.output_norm, x));
  for (double& logit : logits) logit = soft_cap(logit, model_.logit_cap);
  return logits;
}

std::vector<Vector> forward(const Model& model, const std::vector<int>& tokens) {
  Sequence sequence(model);
  std::vector<Vector> logits;
  for (int token : tokens) logits.push_back(sequence.next(token));
  return logits;
}

int largest(const Vector& logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

std::vector<int> greedy(const Model& model, const std::vector<int>& prompt, size_t n_tokens) {
  Sequence sequence(model);
  Vector logits;
  for (int token : prompt) logits = sequence.next(token);
  std::vector<int> generated;
  while (generated.size() < n_tokens) {
    generated.push_back(largest(logits));
    logits = sequence.next(generated.back());
  }
  return generated;
}

double negative_log_likelihood(const Vector& logits, int token) {
  Vector probabilities = logits;
  softmax(probabilities);
  return -std::log(probabilities[token]);
}

double relative_error(const std::vector<Vector>& a, const std::vector<Vector>& b) {
  if (a.size() != b.size()) throw std::runtime_error("different numbers of positions");
  double difference = 0, size = 0;
  for (size_t position = 0; position < b.size(); ++position) {
    if (a[position].size() != b[position].size())
      throw std::runtime_error("different vocabularies");
    for (size_t i = 0; i < b[position].size(); ++i) {
      const double delta = std::abs(a[position][i] - b[position][i]);
      if (std::isnan(delta)) return delta;  // NaN fails every bound
      difference = std::max(difference, delta);
      size = std::max(size, std::abs(b[position][i]));
    }
  }
  return difference / size;
}

}  // namespace troika::reference
