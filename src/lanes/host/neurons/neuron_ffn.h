// The product before the activation of a feed-forward block, the activation and the product behind
// it, by neuron (P1): of neurons whose activation is 0 nothing is read. One op in place of three.
//
// Neurons go in segments of 512. A segment's sum is computed by one worker; the sums are added in
// the order of the segments. So neither workers, nor the order in which segments are computed, nor
// the tokens that are computed together, change a bit.
#pragma once

#include <atomic>
#include <vector>

#include "lanes/host/bound_ops.h"
#include "weights/neurons/neurons.h"

namespace troika::lanes {

struct OpContext;

// Tokens whose partial sums are kept at the same time.
inline constexpr int kNeuronTokens = 8;

// Memory that the workers of a lane share, and that each has for itself; all executables use it.
class NeuronScratch {
 public:
  void reserve(const weights::NeuronFfn& ffn, int n_workers);
  size_t bytes() const;
  // Returns the bytes of that; `rank` is that of the predictor, 0 where there is none.
  static size_t bytes_for(size_t n_neurons, size_t n_outputs, int n_workers, size_t rank);

  // What a worker needs for a segment.
  struct Worker {
    weights::NeuronPlaces places[weights::kSegmentNeurons];  // of the segment's live neurons
    uint32_t own[weights::kSegmentNeurons];                  // those live for one token
    const std::byte* rows[weights::kSegmentNeurons];         // of these
    float up[weights::kSegmentNeurons];
    kernels::LiveColumn columns[weights::kSegmentNeurons];
  };

  std::vector<float> activated;  // (kNeuronTokens, n_neurons): of the gate
  std::vector<uint32_t> live;    // (n_neurons): of a group of tokens, each segment in its place
  std::vector<uint32_t> n_live;  // (segments)
  std::vector<float> parts;      // (kNeuronTokens, segments, n_outputs)
  std::vector<float> hidden;     // (kNeuronTokens, rank): of a predictor
  std::vector<std::byte> hidden_q8;
  std::vector<Worker> workers;
};

// Whether its gate is computed for those neurons only that a predictor names.
inline bool predicts(const weights::NeuronFfn& ffn) {
  return ffn.predictor != nullptr && !ffn.keeps_all;
}

// Whether the ops from this one on are such a block that is computed by neuron; null: not.
const weights::NeuronFfn* neuron_ffn_at(const Subgraph& subgraph, size_t index,
                                        const weights::Store& weights);
// Throws Error where the subgraph holds only a part of such a block.
void check_neuron_ffns(const Subgraph& subgraph, const weights::Store& weights);
void run_neuron_ffn(const BoundOp& bound, const OpContext& context, int index, int worker);

}  // namespace troika::lanes
