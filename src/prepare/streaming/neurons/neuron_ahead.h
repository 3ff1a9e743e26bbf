// Holds bundles that were read before anybody asked for them (P2, P6: 4.1.1, 4.4). While a layer is
// computed and the disk has nothing else to do, bundles of the next layer come to memory that is
// for this alone. So what is read ahead takes no neuron's place in the cache, and what nobody asks
// for is forgotten. A batch is what is read of one segment.
//
// There is memory for two layers: while one is computed from what was read ahead, the other comes.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/huge_pages.h"
#include "lanes/disk/disk_lane.h"
#include "weights/neurons/bundle_layout.h"
#include "weights/neurons/source.h"

namespace troika::prepare {

class NeuronAhead;

struct AheadBatch : lanes::Completion {
  enum class State : uint8_t { kNothing, kReading, kRead, kFailed };
  void finished(lanes::Status status) override;

  NeuronAhead* owner = nullptr;
  int ffn = 0;
  State state = State::kNothing;
  std::vector<lanes::ReadRequest> reads;  // they ascend
  uint64_t bytes = 0;                     // what they read
  // Marks the neurons that were chosen, by their places in the segment, until they are asked for.
  std::bitset<weights::kSegmentNeurons> unused;
  double start_us = 0.0;
};

// All functions but the constructor REQUIRE that one thread at a time calls them.
class NeuronAhead {
 public:
  struct Counters {
    uint64_t read_bytes = 0;
    int64_t n_neurons = 0;  // counts neurons that were chosen to be read ahead
    int64_t n_used = 0;     // counts those of them that were asked for
    int64_t n_for_nothing() const { return n_neurons - n_used; }
  };
  using WhenEnded = std::function<void(AheadBatch* batch, lanes::Status status)>;

  // Returns the bytes of bundles that are read ahead of a layer, where `spare_bytes` are left
  // beside what neurons must have: 0 where that is too little to be worth it. bytes_for() says what
  // such memory takes in all, lists included, which is at most an eighth of `spare_bytes`.
  static uint64_t layer_bytes(const weights::BundleLayout& layout, uint64_t spare_bytes);
  static uint64_t bytes_for(const weights::BundleLayout& layout, uint64_t layer_bytes);

  // A thread of the disk calls `ended`. The layout must outlive this. Throws std::bad_alloc.
  NeuronAhead(const weights::BundleLayout& layout, uint64_t layer_bytes, WhenEnded ended);

  // Forgets what was read of all other layers than these.
  void keep(int ffn, int next);
  // Returns the next batch of the layer, whose reads the caller submits: of the first n_places
  // places of a segment those that are wanted. Returns null where all segments have had their turn,
  // or there is no room. REQUIRES: no batch is being read.
  AheadBatch* begin(int ffn, uint64_t n_places, uint64_t gap_bytes,
                    const std::function<bool(uint64_t place)>& is_wanted);
  // Tells how a batch has ended.
  void end(AheadBatch* batch, bool is_read);
  // Returns the segment's batch if it was read, or is being read now; else null.
  AheadBatch* find(int ffn, size_t segment);
  // Returns where the bundle of this place in the layer is, or will be when the batch has ended;
  // null if the batch has none. It stays until `keep` forgets the layer.
  const std::byte* use(AheadBatch* batch, uint64_t place);

  bool is_reading() const { return is_reading_; }
  uint64_t bytes() const { return bytes_for(layout_, layer_bytes_); }
  const Counters& counters() const { return counters_; }

 private:
  friend struct AheadBatch;
  static constexpr int kNoFfn = -1;
  struct Layer {
    int ffn = kNoFfn;
    std::byte* memory = nullptr;
    uint64_t n_used_bytes = 0;
    size_t n_begun = 0;  // counts segments that had their turn
    std::vector<AheadBatch> batches;
  };

  Layer* layer_of(int ffn);
  Layer* layer_for(int ffn);
  bool is_reading_to(const Layer& layer) const;

  const weights::BundleLayout& layout_;
  uint64_t layer_bytes_;
  WhenEnded ended_;
  PageBuffer memory_;
  std::array<Layer, 2> layers_;
  bool is_reading_ = false;
  Counters counters_;
};

}  // namespace troika::prepare
