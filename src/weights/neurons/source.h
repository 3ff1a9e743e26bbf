// Where the weights of a single neuron lie, for products by neuron (P1). What asks for them is an
// op while it runs; what answers is memory that holds all of them, or a cache that reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace troika::weights {

// Neurons of a feed-forward block whose product is one partial sum, by absolute index. Partial sums
// are added in order of the segments, whoever computes them, and whenever.
inline constexpr int kSegmentNeurons = 512;
constexpr int n_segments(int n_neurons) {
  return (n_neurons + kSegmentNeurons - 1) / kSegmentNeurons;
}

// The parts of one neuron: its row of the product before the activation, as in the file, and its
// column of levels of the product behind it (kernels/columns.h). At any address.
struct NeuronPlaces {
  const std::byte* up = nullptr;
  const std::byte* down = nullptr;
  const std::byte* gate = nullptr;  // its row of the gate; null: that is in memory elsewhere
};

// Functions may be called by several workers at once, but for those that say otherwise. They do not
// throw.
class NeuronSource {
 public:
  virtual ~NeuronSource() = default;

  // Whether it is to be told beforehand. Then `want` is called for each group of tokens by one
  // worker, segment after segment, with the neurons that some token of the group needs, ascending.
  virtual bool reads_ahead() const { return false; }
  virtual void want(int /*ffn*/, std::span<const uint32_t> /*neurons*/) {}
  // The segment that is to be computed as the i-th: the first whose neurons are there. May wait for
  // one. Each segment comes once.
  virtual int segment_of(int /*ffn*/, int i) { return i; }
  // The places of neurons of one segment, ascending, which stay until `done`. May wait until they
  // are there.
  virtual void take(int ffn, int segment, std::span<const uint32_t> neurons,
                    NeuronPlaces* places) = 0;
  virtual void done(int /*ffn*/, int /*segment*/) {}
  // One worker calls it when all segments are done.
  virtual void finish(int /*ffn*/) {}
};

}  // namespace troika::weights
