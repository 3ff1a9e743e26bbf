// Computes a feed-forward block by neuron (P1): the product before the activation, the activation
// and the product behind it are one op instead of three, and nothing is read of neurons whose
// activation is 0.
//
// Neurons are computed in segments of 512. One worker computes a segment's sum, and the sums are
// added in the order of the segments. So neither the number of workers, nor the order in which they
// compute segments, nor the tokens that are computed together, change a bit.
#pragma once

#include <atomic>
#include <vector>

#include "lanes/host/bound_ops.h"
#include "weights/neurons/neurons.h"

namespace troika::lanes {

struct OpContext;

// Memory for the workers of a lane: some of it they share, some each has for itself. All
// executables of the lane use it in turn.
class NeuronScratch {
 public:
  // Says of which size blocks are that use the memory.
  struct Shape {
    size_t n_neurons = 0;
    size_t n_outputs = 0;
    size_t n_blocks = 1;  // counts those that are computed together
    size_t rank = 0;      // the predictor's rank; 0: there is none
  };

  void reserve(const weights::NeuronFfn& ffn, int n_workers);
  size_t bytes() const;
  // Returns the bytes that such memory takes.
  static size_t bytes_for(const Shape& shape, int n_workers);

  // What a worker needs for a segment.
  struct Worker {
    weights::NeuronPlaces
        places[weights::kSegmentNeurons];             // the places of the segment's live neurons
    uint32_t own[weights::kSegmentNeurons];           // the neurons that are live for one token
    const std::byte* rows[weights::kSegmentNeurons];  // the rows of these neurons
    float up[weights::kSegmentNeurons];
    kernels::LiveColumn columns[weights::kSegmentNeurons];
  };

  std::vector<float> activated;  // (kBatchTokens, n_neurons): the gate's values, activated
  std::vector<uint32_t> live;    // (n_blocks, n_neurons): live for a group of tokens, by segment
  std::vector<uint32_t> n_live;  // (n_blocks, segments)
  std::vector<float> parts;      // (kBatchTokens, segments, n_outputs)
  std::vector<float> hidden;     // (kBatchTokens, rank): what a predictor's first matrix makes
  std::vector<std::byte> hidden_q8;
  std::vector<Worker> workers;
};

// Says whether the gate is computed only for those neurons that a predictor names.
inline bool predicts(const weights::NeuronFfn& ffn) {
  return ffn.predictor != nullptr && !ffn.keeps_all;
}

// Returns the feed-forward block that begins with the op `index` and is computed by neuron; null if
// none does.
const weights::NeuronFfn* neuron_ffn_at(const Subgraph& subgraph, size_t index,
                                        const weights::Store& weights);
// Throws Error if the subgraph holds only a part of a block that is computed by neuron.
void check_neuron_ffns(const Subgraph& subgraph, const weights::Store& weights);
void run_neuron_ffn(const BoundOp& bound, const OpContext& context, int index, int worker);
// Computes the experts that tokens take. As many as have few tokens go together, so that reads of
// one are under way while another one is computed.
void run_neuron_experts(const BoundOp& bound, const OpContext& context, int index, int worker);

}  // namespace troika::lanes
