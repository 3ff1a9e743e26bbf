// Says where the weights of a single neuron lie, for products by neuron (P1). An op asks for them
// while it runs; memory that holds all of them answers, or a cache that reads them.
#pragma once

#include <algorithm>
#include <atomic>
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

// Counts the tokens that are computed together, as a batch. Their blocks are no more than that:
// some tokens of one block, or of several experts of a mixture.
inline constexpr int kBatchTokens = 8;
// Returns how many blocks a batch has at most, where a mixture has so many experts; 1: none.
constexpr int most_blocks_of_batch(int n_experts) { return std::min(kBatchTokens, n_experts); }

// Says what of a part's neurons is in memory when a worker takes it.
enum class TakenPart : uint8_t {
  kWhole,
  // Some neurons have their gate alone. The worker computes the gates and calls `tell_live`.
  kGates,
  // The rest of the neurons whose gates fired. Their gates were computed when the part came before.
  kRest,
};

// Several workers at once may call these functions, but for those that say otherwise. They do not
// throw.
class NeuronSource {
 public:
  virtual ~NeuronSource() = default;

  // Says whether the source wants to be told beforehand. Then one worker calls `begin_step` where a
  // step's tokens come to an FFN, or `begin_prompt` where a prompt's do. For each batch of a few
  // tokens it calls `begin_batch`, and then `want` part after part, with the neurons that some
  // token needs, ascending. A part is a segment of one of the batch's FFNs: all of the first, then
  // those of the next. Other workers, and before the first `want` too, may ask for parts meanwhile.
  virtual bool reads_ahead() const { return false; }
  virtual void begin_step(int /*n_tokens*/) {}
  virtual void begin_prompt() {}
  virtual void begin_batch(int /*n_parts*/) {}
  virtual void want(int /*ffn*/, std::span<const uint32_t> /*neurons*/) {}
  // Returns the next part to compute: the first whose neurons are there. May wait for one. Each
  // part of the batch comes once, or twice if its gates come first; kNoPart: there are no more.
  // Only a source that is told beforehand is asked; else parts may come in any order.
  static constexpr int kNoPart = -1;
  virtual int next_part() { return kNoPart; }
  // Gives the places of a part's neurons, ascending, which stay until `done`. May wait until they
  // are there.
  virtual TakenPart take(int ffn, int part, std::span<const uint32_t> neurons,
                         NeuronPlaces* places) = 0;
  // Tells which of these neurons some token needs after all, ascending. Returns whether they are
  // there, so that the worker goes on with the part; else it comes again.
  virtual bool tell_live(int /*part*/, std::span<const uint32_t> /*live*/) { return true; }
  virtual void done(int /*part*/) {}
  // One worker calls this when all parts are done.
  virtual void finish() {}

  // Sums over tokens and their blocks how many neurons there are, of how many the gate was computed
  // because a predictor named them, and how many were computed.
  struct Computed {
    int64_t n_neurons = 0;
    int64_t n_gates = 0;
    int64_t n_live = 0;
  };
  void count(const Computed& more) {
    n_neurons_.fetch_add(more.n_neurons, std::memory_order_relaxed);
    n_gates_.fetch_add(more.n_gates, std::memory_order_relaxed);
    n_live_.fetch_add(more.n_live, std::memory_order_relaxed);
  }
  Computed computed() const {
    return {n_neurons_.load(std::memory_order_relaxed), n_gates_.load(std::memory_order_relaxed),
            n_live_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<int64_t> n_neurons_{0};
  std::atomic<int64_t> n_gates_{0};
  std::atomic<int64_t> n_live_{0};
};

}  // namespace troika::weights
