// Says where the weights of a single neuron lie, for products by neuron (P1). An op asks for them
// while it runs; memory that holds all of them answers, or a cache that reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace troika::weights {

// The neurons of a segment, by absolute index, give one partial sum. Partial sums are added in the
// order of segments, whoever computes them, and whenever.
inline constexpr int kSegmentNeurons = 512;
constexpr int n_segments(int n_neurons) {
  return (n_neurons + kSegmentNeurons - 1) / kSegmentNeurons;
}

// The parts of one neuron: its row of the product before the activation, as in the file, and its
// column of levels of the product behind it (kernels/columns.h). They may be at any address.
struct NeuronPlaces {
  const std::byte* up = nullptr;
  const std::byte* down = nullptr;
  const std::byte* gate = nullptr;  // the gate's row; null: gates are in memory elsewhere
};

// Several workers at once may call these functions, but for those that say otherwise. They do not
// throw.
class NeuronSource {
 public:
  virtual ~NeuronSource() = default;

  // Says whether the source wants to be told beforehand. Then one worker calls `begin_step` where a
  // step's tokens come to an FFN, and not for prompts. For each group of a few tokens it calls
  // `want` segment after segment, with the neurons that some token of the group needs, ascending;
  // other workers, and before the first `want` too, may ask for the group's segments meanwhile.
  virtual bool reads_ahead() const { return false; }
  virtual void begin_step(int /*n_tokens*/) {}
  virtual void want(int /*ffn*/, std::span<const uint32_t> /*neurons*/) {}
  // Returns the segment to compute as the i-th: the first whose neurons are there. May wait for
  // one. Each segment comes once.
  virtual int segment_of(int /*ffn*/, int i) { return i; }
  // Gives the places of neurons of one segment, ascending, which stay until `done`. May wait until
  // they are there.
  virtual void take(int ffn, int segment, std::span<const uint32_t> neurons,
                    NeuronPlaces* places) = 0;
  virtual void done(int /*ffn*/, int /*segment*/) {}
  // One worker calls this when all segments are done.
  virtual void finish(int /*ffn*/) {}
};

}  // namespace troika::weights
