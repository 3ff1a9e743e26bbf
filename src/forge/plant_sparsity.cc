#include "forge/plant_sparsity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "forge/random_key.h"
#include "forge/random_normal.h"
#include "forge/row_stream.h"
#include "plan/neurons/firing_law.h"
#include "tensor/codec.h"

namespace troika::forge {
namespace {

using model::KnownTensor;
using tensor::Type;

// Counts the constant channels, and is the length of the pieces of which rows consist.
constexpr size_t kBlock = 32;
constexpr double kMostFrequent = plan::FiringLaw{}.most;
// Where both factors have ReLU, the second factor is above 0 for this share of the tokens.
constexpr double kUpFrequency = 0.8;
// This share of a row lies in a space of a quarter of the width, in which each group of four
// channels counts as one. A predictor of low rank finds it there.
constexpr double kLowRank = 0.9;
// Says how much a block adds to a channel, in parts of the embedding's standard deviation.
constexpr double kAdded = 0.02;
// Says how strongly the head prefers tokens of the same topic.
constexpr double kTopicLogit = 6.0;

// A store of encoded blocks of 32 elements, of which rows are put together.
struct Pieces {
  size_t bytes = 0;  // the bytes of one piece
  std::vector<std::byte> store;

  static constexpr uint64_t kCount = 8192;

  template <typename Element>
  Pieces(Type type, Element element) : bytes(tensor::row_bytes(type, kBlock)) {
    store.resize(kCount * bytes);
    for (uint64_t i = 0; i < kCount; ++i) {
      float values[kBlock];
      for (size_t j = 0; j < kBlock; ++j) values[j] = element(i, j);
      tensor::quantize_row(type, values, store.data() + i * bytes, kBlock);
    }
  }
  // Writes pieces [first, last) of a row.
  void fill(uint64_t key, uint64_t row, size_t first, size_t last, std::byte* out) const {
    const uint64_t of_row = random_bits(key, row);
    for (size_t i = first; i < last; ++i) {
      const uint64_t choice = random_bits(of_row, i) % kCount;
      std::memcpy(out + i * bytes, store.data() + choice * bytes, bytes);
    }
  }
};

// Says whether a tensor is this one of a block, or of the experts of one.
bool is_part(const std::string& name, const std::string& part) {
  return name.ends_with("." + part + ".weight") || name.ends_with("." + part + "_exps.weight");
}

// Returns how many rows there are, those of all experts together.
uint64_t n_rows_of(const KnownTensor& tensor) {
  return tensor.shape[1] * (tensor.shape.size() > 2 ? tensor.shape[2] : 1);
}

void check_type(Type type, const KnownTensor& tensor) {
  const size_t block = tensor::type_info(type).block_length;
  if (tensor::is_float(type) || (block == kBlock && type != Type::kMXFP4)) return;
  throw UsageError(
      fmt::format("{} would be {}, whose blocks cannot hold the thresholds of planted neurons. Use "
                  "‹type› q4_0, q8_0 or f16.",
                  tensor.name, tensor::type_name(type)));
}

}  // namespace

double normal_quantile_above(double probability) {
  double low = -8.0, high = 8.0;
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (0.5 * std::erfc(middle / std::sqrt(2.0)) > probability ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

std::vector<double> live_frequencies(const SparsityLaw& law, size_t n, bool is_double) {
  const double most = kMostFrequent * (is_double ? kUpFrequency : 1.0);
  return plan::firing_shares({.live_share = law.live, .power = law.alpha, .most = most},
                             static_cast<int>(n));
}

SparsityPlanter::SparsityPlanter(const SparsityLaw& law, const model::KnownModel& model,
                                 uint64_t seed)
    : law_(law), seed_(seed), is_double_(model.activation == "drelu") {
  // Where both factors have ReLU, a neuron cannot be live more often than the second factor allows.
  const double most = is_double_ ? 0.6 : 0.9;
  if (!(law.live > 0.0 && law.live <= most)) {
    throw UsageError(fmt::format(
        "‹plant-sparsity› {:g} makes no sense; it is the share of live neurons, more than 0 and at "
        "most {:g} for this model.",
        law.live, most));
  }
  if (!(law.overlap >= 0.0 && law.overlap < 1.0)) {
    throw UsageError(fmt::format(
        "‹overlap› {:g} makes no sense; it is a correlation, 0 to less than 1.", law.overlap));
  }
  if ((model.activation != "relu" && !is_double_) || model.tied_embeddings ||
      model.width % kBlock != 0 || model.ffn_width % kBlock != 0) {
    throw UsageError(
        fmt::format("Sparsity can be planted in models with ReLU and a head of their own, such as "
                    "bamboo-7b, turbosparse-mixtral-47b and tiny-bamboo; {} is none.",
                    model.name));
  }
  TROIKA_ASSERT(model.expert_width == 0);  // experts are as wide as ffn_width says
  frequencies_ = live_frequencies(law, model.ffn_width, is_double_);
}

// Makes rows that hold minus a threshold on the constant channels, and elsewhere weights that are
// normal with a variance of 1 together.
SparsityPlanter::MakeRow SparsityPlanter::gate_rows(const KnownTensor& tensor, Type type,
                                                    bool is_up) const {
  const size_t width = tensor.shape[0];
  const size_t n = tensor.shape[1], n_rows = n_rows_of(tensor);
  const uint64_t key = random_key(seed_, tensor.name);
  const double spread = 1.0 / std::sqrt(static_cast<double>(width - kBlock));
  const uint64_t signs = random_key(seed_, "planted signs");
  const auto pieces = std::make_shared<Pieces>(type, [&](uint64_t i, size_t j) {
    const uint64_t group = random_key(i, "planted pieces");
    const double tied = random_normal(group, j / 4) * (random_bits(signs, j) % 2 == 0 ? 1 : -1);
    const double own = random_normal(group, kBlock + j);
    return static_cast<float>(spread *
                              (std::sqrt(kLowRank) * tied + std::sqrt(1.0 - kLowRank) * own));
  });
  // Gives neurons their frequencies in random order, those of each expert in its own.
  auto order = std::make_shared<std::vector<size_t>>(n_rows);
  const uint64_t shuffle = random_key(key, "order");
  for (size_t first = 0; first < n_rows; first += n) {
    size_t* const own = order->data() + first;
    std::iota(own, own + n, size_t{0});
    for (size_t i = n; i-- > 1;) std::swap(own[i], own[random_bits(shuffle, first + i) % (i + 1)]);
  }
  return [=, this](uint64_t row, std::byte* out) {
    double frequency = kUpFrequency;
    if (!is_up) {
      frequency = frequencies_[(*order)[row]] / (is_double_ ? kUpFrequency : 1.0);
    }
    const double threshold = normal_quantile_above(frequency);
    float first[kBlock];
    std::fill_n(first, kBlock, static_cast<float>(-threshold / kBlock));
    tensor::quantize_row(type, first, out, kBlock);
    pieces->fill(key, row, 1, width / kBlock, out);
  };
}

// Makes rows that add nothing to the constant channels, and little to the others.
SparsityPlanter::MakeRow SparsityPlanter::inner_rows(const KnownTensor& tensor, Type type) const {
  const size_t k = tensor.shape[0];
  const uint64_t key = random_key(seed_, tensor.name);
  // The activations of live neurons have a mean square of about a half.
  const bool is_down = is_part(tensor.name, "ffn_down");
  const double n_terms = static_cast<double>(k) * (is_down ? 0.5 * law_.live : 1.0);
  const double spread = kAdded / std::sqrt(n_terms);
  const auto pieces = std::make_shared<Pieces>(type, [&](uint64_t i, size_t j) {
    return static_cast<float>(spread) * random_normal(random_key(i, "inner pieces"), j);
  });
  const uint64_t n_outputs = tensor.shape[1];
  return [=](uint64_t row, std::byte* out) {
    if (row % n_outputs >= kBlock) {
      pieces->fill(key, row, 0, k / kBlock, out);
      return;
    }
    const std::vector<float> zeros(k);
    tensor::quantize_row(type, zeros.data(), out, k);
  };
}

SparsityPlanter::MakeRow SparsityPlanter::embedding_rows(const KnownTensor& tensor,
                                                         Type type) const {
  const size_t width = tensor.shape[0];
  const uint64_t own_key = random_key(seed_, tensor.name);
  const uint64_t topic_key = random_key(seed_, "topics");
  const auto of_topic = static_cast<float>(std::sqrt(law_.overlap));
  const auto of_own = static_cast<float>(std::sqrt(1.0 - law_.overlap));
  return [=](uint64_t row, std::byte* out) {
    std::vector<float> x(width, 1.0f);
    const uint64_t topic = row % kPlantedTopics;
    for (size_t i = kBlock; i < width; ++i) {
      x[i] = of_topic * random_normal(topic_key, topic * width + i) +
             of_own * random_normal(own_key, row * width + i);
    }
    tensor::quantize_row(type, x.data(), out, width);
  };
}

SparsityPlanter::MakeRow SparsityPlanter::head_rows(const KnownTensor& tensor, Type type) const {
  const size_t width = tensor.shape[0];
  const uint64_t topic_key = random_key(seed_, "topics");
  // The topic of a token stands in its embedding with the root of the overlap.
  const double n = static_cast<double>(width - kBlock);
  const double factor = law_.overlap > 0.0 ? kTopicLogit / (n * std::sqrt(law_.overlap)) : 0.0;
  return [=](uint64_t row, std::byte* out) {
    std::vector<float> x(width);
    const uint64_t topic = row % kPlantedTopics;
    for (size_t i = kBlock; i < width; ++i) {
      x[i] = static_cast<float>(factor) * random_normal(topic_key, topic * width + i);
    }
    tensor::quantize_row(type, x.data(), out, width);
  };
}

bool SparsityPlanter::write(const KnownTensor& tensor, Type type, gguf::Writer& writer, Team& team,
                            const std::function<void(uint64_t bytes)>& report) const {
  MakeRow make;
  const bool is_gate = is_part(tensor.name, "ffn_gate");
  if (tensor.role == model::TensorRole::kNorm) {
    const std::vector<float> ones(tensor.shape[0], 1.0f);
    writer.write(std::as_bytes(std::span(ones)));
    report(ones.size() * sizeof(float));
    return true;
  }
  if (is_gate || is_part(tensor.name, "ffn_up")) {
    const bool is_law = is_gate || is_double_;
    if (!is_law) return false;
    check_type(type, tensor);
    make = gate_rows(tensor, type, !is_gate);
  } else if (is_part(tensor.name, "attn_output") || is_part(tensor.name, "ffn_down")) {
    check_type(type, tensor);
    make = inner_rows(tensor, type);
  } else if (tensor.role == model::TensorRole::kEmbedding) {
    check_type(type, tensor);
    make = embedding_rows(tensor, type);
  } else if (tensor.name == "output.weight") {
    make = head_rows(tensor, type);
  } else {
    return false;
  }
  stream_single_rows(writer, team, n_rows_of(tensor), tensor::row_bytes(type, tensor.shape[0]),
                     make, report);
  return true;
}

}  // namespace troika::forge
