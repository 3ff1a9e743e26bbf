// Streams the neurons of feed-forward blocks where memory has no room for all of them (P1, P5, P6).
// Live neurons that are not cached are read from the side file of bundles, past the page cache,
// while others are computed. While the disk has nothing else to do, neurons of the next layer are
// read ahead (P2). Neurons that arrive first are computed first, with the same bits as
// neurons in memory. Where a predictor says who may fire, a neuron's gate can be read before the
// rest, which is then read only if the gate fires (P7, K30). Neurons that the side file does not
// give are read from the model's own file.
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
#include "prepare/streaming/model_disk.h"
#include "prepare/streaming/neurons/model_neurons.h"
#include "prepare/streaming/neurons/neuron_ahead.h"
#include "prepare/streaming/neurons/staging.h"
#include "weights/neurons/bundle_file.h"
#include "weights/neurons/heat.h"
#include "weights/neurons/hot_neurons.h"
#include "weights/neurons/neuron_cache.h"
#include "weights/neurons/neuron_form.h"
#include "weights/neurons/neurons.h"

namespace troika::prepare {

struct NeuronStreamOptions {
  std::string path;  // the side file
  uint64_t model_key = 0;
  // The model's file, in which the weights are mapped: what is read there is given back at once.
  // Null: it stays. It must outlive the stream.
  const gguf::File* model = nullptr;
  size_t most_bytes = 0;  // limits the memory that bytes() counts
  ReadPipeline pipeline = ReadPipeline::kCluster;
  // Says in how many requests steps read a neuron. Where a gate lies in no page of its own, it is
  // one whatever this says. REQUIRES: kTwice goes with kCluster.
  BundleReads reads = BundleReads::kOnce;
  // Says which neurons are hot; null where nobody knows. The hottest are read at the start, as many
  // as there are places, and keep `pinned_share` of the places for good, by the number of tokens in
  // a step: the first share is for one token, the last one for more. Prompts change no share.
  const weights::NeuronHeat* heat = nullptr;
  std::vector<double> pinned_share = {};
  // Says which neurons another task computes: nobody asks for these. Null: none. It must outlive
  // the stream.
  const weights::HotNeurons* hot = nullptr;
  bool keeps_last_steps = true;  // see NeuronCacheOptions::keeps_last_steps
  bool keeps_neurons = true;     // if false, each layer reads all it needs
  // Says whether neurons of the next layer are read before it asks: all of them where tokens need
  // most of a layer, and else the hottest.
  bool reads_ahead = false;
  bool reads_hottest_ahead = false;
  int n_threads = 1;  // the threads that make the side file
  // Bundles that stand no further apart are read together. If it is not given, it is measured at
  // the start.
  std::optional<uint64_t> gap_bytes;
  DiskWay way = {.depth = 128};
  ProgressFunction progress = {};
};

class NeuronStream : public weights::Neurons, private weights::NeuronSource {
 public:
  struct Counters {
    weights::NeuronCache::Counters cache;
    NeuronAhead::Counters ahead;  // a part of the reads
    int64_t n_reads = 0;          // counts requests; neighbours share one
    uint64_t read_bytes = 0;
    double read_us = 0.0;      // the time in which at least one was read that was asked for
    double wait_us = 0.0;      // the time that all workers together waited
    int64_t n_from_model = 0;  // counts neurons whose bundles could not be used
    int64_t n_gates = 0;       // counts neurons whose gate was read before the rest
    int64_t n_rests = 0;       // counts neurons of which only the rest was read
  };

  // A stretch of time in which neurons of a layer were read.
  struct LayerReads {
    int layer = 0;
    double start_us = 0.0, end_us = 0.0;
    bool is_ahead = false;  // says that nobody had asked for them
  };

  // Returns the least that `most_bytes` may be: the resident bytes, and a cache of two segments.
  static size_t least_bytes(std::span<const model::GatedFfn> ffns, const weights::Store& weights);
  // Returns the bytes that a stream uses where there is room for all neurons that it may be asked
  // for: hot ones are computed apart.
  static size_t most_bytes(std::span<const model::GatedFfn> ffns, const weights::Store& weights,
                           int64_t n_hot);

  // Opens the side file, or makes it from the store's matrices. Later the matrices are read only
  // where the side file fails. Throws Error if the side file cannot be written, or if memory is
  // short. REQUIRES: most_bytes >= least_bytes(), and the store's rows lie in the file's map, which
  // outlives this.
  NeuronStream(const NeuronStreamOptions& options, std::span<const model::GatedFfn> ffns,
               const weights::Store& weights);
  // Waits for the reads under way.
  ~NeuronStream() override;

  size_t bytes() const override;
  WaitTimes waited() const override;
  // Says why neurons were read from the model's own file, which is slow, and what to do. Empty if
  // none were.
  std::string problem() const;

  const weights::BundleFile& file() const { return *file_; }
  const weights::NeuronCache& cache() const { return *cache_; }
  uint64_t gap_bytes() const { return gap_bytes_; }
  // Says whether steps read gates before the rest of their neurons.
  bool reads_gates_first() const { return reads_gates_first_; }
  const lanes::DiskLane& disk() const { return *disk_; }
  // Returns sentences on what the disk could not be asked for, and on what memory had no room for.
  std::vector<std::string> notes() const;
  // Says whether somebody has counted which neurons are hot.
  bool knows_heat() const { return knows_heat_; }
  // Returns the bytes for neurons that are read ahead, a part of bytes(); 0: none are.
  uint64_t ahead_bytes() const { return ahead_ != nullptr ? ahead_->bytes() : 0; }
  Counters counters() const;
  // set_tracing() says whether times of reads are noted, and take_reads() returns those that ended
  // since its last call.
  void set_tracing(bool is_traced);
  std::vector<LayerReads> take_reads();
  // Returns a text for people about what is kept and what is read.
  std::string text() const;

 private:
  using Held = weights::NeuronCache::Held;
  // A wanted part has neurons without places. A handed one was given to a worker. One that wants
  // the rest has neurons whose gates fire, and whose other weights nobody reads yet.
  enum class State : uint8_t { kNothing, kWanted, kReading, kReady, kHanded, kWantsRest };
  struct Missing {
    size_t index = 0;                   // the neuron's number in its part
    uint64_t rank = 0;                  // where the neuron's bundle stands
    const std::byte* bundle = nullptr;  // where the bundle, or its rest, is read to
    bool is_whole = true;               // says that more than the gate's pages is read, or was read
    bool is_ahead = false;              // says that the part's batch ahead brings it
  };
  // A segment of an FFN of the batch at work.
  struct Part : lanes::Completion {
    void finished(lanes::Status status) override { owner->end(this, status); }
    NeuronStream* owner = nullptr;
    int ffn = 0;
    int segment = 0;
    State state = State::kNothing;
    weights::TakenPart stage = weights::TakenPart::kWhole;  // says as what it is taken next
    std::span<const uint32_t> neurons;
    std::vector<Held> held;        // leases of the first of these neurons
    std::vector<Missing> missing;  // those of `held` that are read
    std::vector<lanes::ReadRequest> reads;
    std::vector<ModelNeurons::Wanted> lost;  // neurons that the reads did not bring
    Staging::Loan staging;
    int n_awaited = 0;            // counts what must end first: its own reads, and those ahead
    bool has_failed = false;      // says so of its own reads
    AheadBatch* ahead = nullptr;  // null: it has nothing of what was read ahead
  };

  // Returns the bytes of all memory but the places of neurons, for n_slots places that are all
  // pinned.
  static uint64_t fixed_bytes(const weights::BundleShape& shape, int n_experts, size_t place_bytes,
                              uint64_t n_slots);

  bool reads_ahead() const override { return true; }
  void begin_step(int n_tokens) override;
  void begin_prompt() override;
  void begin_batch(int n_parts) override;
  void want(int ffn, std::span<const uint32_t> neurons) override;
  int next_part() override;
  weights::TakenPart take(int ffn, int part, std::span<const uint32_t> neurons,
                          weights::NeuronPlaces* places) override;
  bool tell_live(int part, std::span<const uint32_t> live) override;
  void done(int part) override;
  void finish() override;

  // Names a neuron of an FFN as the cache does. The experts of a mixture are one group of it, as
  // other blocks are each: a step takes some of them, and what it does not take is the first to
  // make room.
  weights::NeuronId cached(weights::NeuronId of_ffn) const {
    const auto n_neurons = static_cast<int>(file_->layout().shape().n_neurons);
    return {of_ffn.group / n_experts_, of_ffn.group % n_experts_ * n_neurons + of_ffn.neuron};
  }
  // Says whether another task computes the neuron at this place.
  bool is_hot(weights::NeuronId id) const;
  // Returns how many neurons somebody may ask for.
  uint64_t n_askable() const;
  // Returns the n hottest neurons that somebody may ask for.
  std::vector<weights::NeuronId> hottest(uint64_t n) const;
  // Reads the hottest neurons to their places. It is called once, before anything is asked for.
  void read_hottest();
  std::span<const uint32_t> read_first(uint64_t layer, std::span<const uint32_t> places);
  void make_ranks();
  void make_cache();
  void choose_pins(uint64_t n_slots, weights::NeuronCacheOptions* how);
  void open_disk();
  void choose_gap();
  // These functions REQUIRE that the mutex is held.
  void begin_parts();
  bool acquire_neurons(Part* part);
  bool begin_reads(Part* part);
  bool begin_rest(Part* part);
  void begin_waiting(Part* part, uint64_t read_bytes);
  void arrived(Part* part);
  void note_reads(const LayerReads& reads);
  uint64_t n_places_ahead() const;
  void read_ahead();
  // Says whether all parts of the batch at work were asked for.
  bool is_told() const { return n_wanted_ > 0 && n_wanted_ == n_parts_; }
  int next_ready() const;
  // Says whether no part of the batch at work will be handed to a worker any more.
  bool is_all_handed() const { return n_parts_ > 0 && n_last_handed_ == n_parts_; }
  void note(std::string problem);

  // Lets go of the mutex while it submits.
  void submit_begun(std::unique_lock<std::mutex>* lock);
  void end(Part* part, lanes::Status status);
  void end_ahead(AheadBatch* batch, lanes::Status status);
  // Puts what was read in its place, and lists as lost what has other bundles than the side file
  // had when it was made, or none.
  void assemble(Part* part);
  bool assemble(const Part& part, const Missing& one) const;
  // Says whether a bundle, or one of its pieces, has the bytes that it had when the side file was
  // made.
  bool has_check(uint64_t layer, uint64_t rank, const std::byte* bundle) const;
  bool has_check(uint64_t layer, uint64_t rank, uint64_t piece, const std::byte* bytes) const {
    return weights::bundle_check({bytes, file_->layout().piece(piece).bytes}) ==
           file_->tables().check(layer, rank, piece);
  }
  uint64_t rank(int ffn, uint32_t neuron) const {
    return ranks_[static_cast<size_t>(ffn) * file_->layout().shape().n_neurons + neuron];
  }
  std::byte* place(int64_t slot) const {
    return places_.get() + static_cast<size_t>(slot) * place_bytes_;
  }

  NeuronStreamOptions options_;
  int n_experts_ = 1;                       // counts the FFNs of a mixture; 1: there is none
  std::vector<weights::NeuronForm> forms_;  // by FFN
  size_t place_bytes_ = 0;                  // the bytes of the largest neuron
  std::unique_ptr<weights::BundleFile> file_;
  uint64_t gap_bytes_ = 0;
  std::vector<uint32_t> ranks_;  // (FFNs, neurons): where a neuron's bundle stands
  std::unique_ptr<weights::NeuronCache> cache_;
  PageBuffer places_;  // (slots, place_bytes_)
  // (slots): 1 says that a place has all of its neuron, 0 that it has the gate. A slot's word
  // belongs to whoever holds its neuron.
  std::vector<uint8_t> is_whole_;
  bool reads_gates_first_ = false;
  ModelNeurons model_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int ffn_ = 0;                // the FFN at work, of several the last one asked for
  bool is_step_begun_ = true;  // says that the next FFN to be asked for is of a new step
  bool is_prompt_ = false;
  int n_step_tokens_ = 1;               // counts those that the cache's shares are for
  std::unique_ptr<NeuronAhead> ahead_;  // null: nothing is read ahead
  std::vector<std::string> notes_;      // say what memory had no room for
  bool knows_heat_ = false;             // says that the first places of segments are the hottest
  uint64_t n_live_ = 0;                 // counts the neurons that the batch at work needs
  bool is_stopped_ = false;             // says that nothing more is read ahead
  std::vector<Part> parts_;
  std::vector<Part*> unsubmitted_;  // those whose reads nobody has submitted yet
  size_t n_parts_ = 0;              // counts the parts of the batch at work
  size_t n_wanted_ = 0;             // counts those of them that were asked for
  size_t n_begun_ = 0;              // counts those of them that have begun
  size_t n_last_handed_ = 0;        // counts those of them that no worker is handed again
  int n_untold_ = 0;                // counts parts begun of whose neurons it is not known who fires
  int n_wanting_rest_ = 0;          // counts parts in that state
  int n_reading_ = 0;               // counts parts
  double read_start_us_ = 0.0;
  std::string problem_;
  bool is_traced_ = false;
  double traced_until_us_ = 0.0;
  std::vector<LayerReads> traced_;
  Counters counters_;
  WaitClock waits_;
  Staging staging_;
  std::unique_ptr<lanes::DiskLane> disk_;  // the last members: they wait for their reads
  std::unique_ptr<lanes::Executable> read_;
};

}  // namespace troika::prepare
