// Random weights whose feed-forward neurons fire by a stated law (PowerInfer-2's statistics without
// its weights): how often each neuron of a block is live, and how much the live sets of successive
// tokens have in common. Such models show that a mechanism is exact, and how many bytes, reads and
// seconds it takes under a stated law. Their hits in a cache, and what they say, tell nothing about
// real models.
//
// The construction. 32 channels of the residual stream are the same constant for every token:
// nothing is ever added to them, and the head does not read them. A row of the gate holds minus a
// threshold there, and random weights elsewhere, so that it is positive with the neuron's
// frequency. What blocks add is small, so that each block sees about the token's own embedding,
// which consists of a part of its topic and a part of its own. The head prefers tokens of the same
// topic, so that sampled text stays in a topic for some time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/threads/team.h"
#include "gguf/writer.h"
#include "model/known.h"
#include "tensor/type.h"

namespace troika::forge {

struct SparsityLaw {
  double live = 0.0;  // the mean share of neurons that are live for a token; 0: nothing is planted
  // The correlation of the inputs of tokens of one topic, from 0 to less than 1.
  double overlap = 0.0;
  // f(q) = min(most, c * q^-alpha) for the neuron at place q of 0 to 1. `most` is 0.98, and 0.8 of
  // that where both factors have ReLU, because the second one fires with 0.8.
  double alpha = 0.7;

  bool is_planted() const { return live > 0.0; }
};

// Returns how often each of n neurons is live, the most frequent first. `is_double`: both factors,
// gate and up, have ReLU.
std::vector<double> live_frequencies(const SparsityLaw& law, size_t n, bool is_double);
// Returns the value above which a normal number of mean 0 and variance 1 lies with this
// probability.
double normal_quantile_above(double probability);

class SparsityPlanter {
 public:
  // Throws UsageError for a law that makes no sense, or for a model whose blocks have no ReLU gate.
  SparsityPlanter(const SparsityLaw& law, const model::KnownModel& model, uint64_t seed);

  // Writes a tensor that the law changes, row after row. Returns false for a tensor that it does
  // not change. Throws UsageError for an element type that cannot hold the law's thresholds.
  bool write(const model::KnownTensor& tensor, tensor::Type type, gguf::Writer& writer, Team& team,
             const std::function<void(uint64_t bytes)>& report) const;

 private:
  // Makes a row of encoded elements.
  using MakeRow = std::function<void(uint64_t row, std::byte* out)>;
  MakeRow gate_rows(const model::KnownTensor& tensor, tensor::Type type, bool is_up) const;
  MakeRow inner_rows(const model::KnownTensor& tensor, tensor::Type type) const;
  MakeRow embedding_rows(const model::KnownTensor& tensor, tensor::Type type) const;
  MakeRow head_rows(const model::KnownTensor& tensor, tensor::Type type) const;

  SparsityLaw law_;
  uint64_t seed_;
  bool is_double_;                   // whether both factors, gate and up, have ReLU
  std::vector<double> frequencies_;  // by neuron, the most frequent first
};

// Counts the topics. Tokens t and t + kPlantedTopics * i have the same topic.
inline constexpr uint64_t kPlantedTopics = 16;

}  // namespace troika::forge
