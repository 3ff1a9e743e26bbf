// Feed-forward blocks by neuron where memory has no room for all neurons (P1, P5, P6): of those
// that live, the ones that are in no cache are read from the side file of bundles, past the page
// cache, while others compute. What comes first is computed first; bits are those of neurons in
// memory. What cannot be read there is read from the model's own file.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/huge_pages.h"
#include "base/progress.h"
#include "lanes/disk/disk_lane.h"
#include "prepare/options.h"
#include "prepare/streaming/model_neurons.h"
#include "prepare/streaming/staging.h"
#include "weights/neurons/bundle_file.h"
#include "weights/neurons/heat.h"
#include "weights/neurons/neuron_cache.h"
#include "weights/neurons/neuron_form.h"
#include "weights/neurons/neurons.h"

namespace troika::prepare {

struct NeuronStreamOptions {
  std::string path;  // of the side file
  uint64_t model_key = 0;
  size_t most_bytes = 0;  // of memory, as `bytes` counts it
  NeuronPipeline pipeline = NeuronPipeline::kCluster;
  // Which neurons are hot; null: nobody knows. Those are read at the start, as many as there are
  // places, and this share of the places is theirs for good.
  const weights::NeuronHeat* heat = nullptr;
  double pinned_share = 0.0;
  bool keeps_neurons = true;  // false: each layer reads all it needs
  int n_threads = 1;          // that make the side file
  // Bundles that stand no further apart are read together; none: as is measured at the start.
  std::optional<uint64_t> gap_bytes;
  bool may_use_io_uring = true;
  decltype(lanes::DiskOptions::spoil) spoil = {};
  ProgressFunction progress = {};
};

class NeuronStream : public weights::Neurons, private weights::NeuronSource {
 public:
  struct Counters {
    weights::NeuronCache::Counters cache;
    int64_t n_reads = 0;  // requests: neighbours share one
    uint64_t read_bytes = 0;
    double read_us = 0.0;      // while at least one was read
    double wait_us = 0.0;      // in which workers stood still for them, all together
    int64_t n_from_model = 0;  // neurons that their bundles did not give
  };

  // A time in which neurons of a layer were read.
  struct LayerReads {
    int layer = 0;
    double start_us = 0.0, end_us = 0.0;
  };

  // The least that `most_bytes` may be: what is resident, and a cache of two segments.
  static size_t least_bytes(std::span<const model::GatedFfn> ffns, const weights::Store& weights);
  // What it uses where there is room for all neurons.
  static size_t most_bytes(std::span<const model::GatedFfn> ffns, const weights::Store& weights);

  // Opens the side file, or makes it of the store's matrices, which are read again only where it
  // fails. Throws Error where it cannot be written, or memory is short. REQUIRES: most_bytes >=
  // least_bytes(), rows as in the file, whose map outlives this.
  NeuronStream(const NeuronStreamOptions& options, std::span<const model::GatedFfn> ffns,
               const weights::Store& weights);
  // Waits for the reads under way.
  ~NeuronStream() override;

  size_t bytes() const override;
  // Why neurons were read from the model's own file, which is slow, and what to do; empty where
  // none was.
  std::string problem() const;

  const weights::BundleFile& file() const { return *file_; }
  const weights::NeuronCache& cache() const { return *cache_; }
  uint64_t gap_bytes() const { return gap_bytes_; }
  Counters counters() const;
  // Whether such times are noted; what was noted since the last call. Not while something computes.
  void set_tracing(bool is_traced) { is_traced_ = is_traced; }
  std::vector<LayerReads> take_reads() { return std::exchange(traced_, {}); }
  // For people: what is kept and what is read.
  std::string text() const;

 private:
  using Held = weights::NeuronCache::Held;
  // kWanted: not all of its neurons have places yet. kHanded: to a worker.
  enum class State : uint8_t { kNothing, kWanted, kReading, kReady, kHanded };
  struct Missing {
    size_t index = 0;                   // of the segment's neurons
    uint64_t rank = 0;                  // where its bundle stands
    const std::byte* bundle = nullptr;  // where it is read to
  };
  struct Segment : lanes::Completion {
    void finished(lanes::Status status) override { owner->end(this, status); }
    NeuronStream* owner = nullptr;
    State state = State::kNothing;
    std::span<const uint32_t> neurons;
    std::vector<Held> held;        // of the first of them
    std::vector<Missing> missing;  // of these, what is read
    std::vector<lanes::ReadRequest> reads;
    std::vector<ModelNeurons::Wanted> lost;  // what the reads did not bring
    Staging::Piece staging;
    bool has_failed = false;
  };

  bool reads_ahead() const override { return true; }
  void want(int ffn, std::span<const uint32_t> neurons) override;
  int segment_of(int ffn, int i) override;
  void take(int ffn, int segment, std::span<const uint32_t> neurons,
            weights::NeuronPlaces* places) override;
  void done(int ffn, int segment) override;
  void finish(int ffn) override;

  // Reads the hottest neurons to their places. Once, before anything is asked for.
  void read_hottest();
  std::span<const uint32_t> read_first(uint64_t layer, std::span<const uint32_t> places);
  void make_ranks();
  void make_cache();
  void open_disk();
  void choose_gap();
  // All REQUIRE the mutex.
  void begin_segments();
  bool acquire_neurons(Segment* segment);
  bool begin_reads(Segment* segment);
  int next_ready() const;
  void note(std::string problem);

  void end(Segment* segment, lanes::Status status);
  // Puts what was read in its place. `lost` has room for all: what it holds then has other bundles
  // than the side file had when it was made, or none.
  void assemble(const Segment& segment, int ffn, std::vector<ModelNeurons::Wanted>* lost) const;
  // Whether a bundle is what it was when the side file was made.
  bool has_check(uint64_t layer, uint64_t rank, const std::byte* bundle) const {
    return weights::bundle_check({bundle, file_->layout().shape().bundle_bytes}) ==
           file_->tables().checks(layer)[rank];
  }
  uint64_t rank(int ffn, uint32_t neuron) const {
    return ranks_[static_cast<size_t>(ffn) * file_->layout().shape().n_neurons + neuron];
  }
  std::byte* place(int64_t slot) const {
    return places_.get() + static_cast<size_t>(slot) * place_bytes_;
  }

  NeuronStreamOptions options_;
  std::vector<weights::NeuronForm> forms_;  // by FFN
  size_t place_bytes_ = 0;                  // of the largest
  std::unique_ptr<weights::BundleFile> file_;
  uint64_t gap_bytes_ = 0;
  std::vector<uint32_t> ranks_;  // (FFNs, neurons): where a neuron's bundle stands
  std::unique_ptr<weights::NeuronCache> cache_;
  PageBuffer places_;  // (slots, place_bytes_)
  ModelNeurons model_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int ffn_ = 0;  // at work
  std::vector<Segment> segments_;
  size_t n_wanted_ = 0;  // segments of the FFN at work
  size_t n_begun_ = 0;   // of these
  int n_reading_ = 0;    // segments
  double read_start_us_ = 0.0;
  std::string problem_;
  bool is_traced_ = false;
  std::vector<LayerReads> traced_;
  Counters counters_;
  Staging staging_;
  std::unique_ptr<lanes::DiskLane> disk_;  // the last members: they wait for their reads
  std::unique_ptr<lanes::Executable> read_;
};

}  // namespace troika::prepare
