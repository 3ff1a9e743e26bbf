// Streams the experts of mixtures where memory has no room for all of them (P10). When the router
// has chosen, chosen experts that are not cached are read from the model's file, past the page
// cache. Experts that arrive first are computed first, with the same bits as experts in memory.
// While the disk is idle, experts that the next mixture may take are read ahead. A wrong guess
// costs a read.
//
// A prompt that takes many experts of a layer reads ahead those of the next layer. What it has read
// leaves the cache first, so that a prompt does not drive out what steps use.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/huge_pages.h"
#include "gguf/file.h"
#include "lanes/disk/disk_lane.h"
#include "model/blueprint.h"
#include "prepare/streaming/model_disk.h"
#include "prepare/streaming/page_reads.h"
#include "weights/expert_source.h"
#include "weights/neurons/neuron_cache.h"
#include "weights/store.h"

namespace troika::prepare {

// Says which products of mixtures are read by route.
struct RoutedExperts {
  const model::Blueprint& blueprint;
  const weights::Store& weights;
  std::vector<model::Mixture> mixtures;
  std::vector<model::WeightId> matrices;  // all that mixtures have, by route or by neuron
};
RoutedExperts all_of_experts(const model::Blueprint& blueprint, const weights::Store& weights);
// Returns the gates alone, where all else of experts is read by neuron (P3).
RoutedExperts gates_of_experts(const model::Blueprint& blueprint, const weights::Store& weights);

struct ExpertStreamOptions {
  size_t most_bytes = 0;  // limits the memory that bytes() counts
  DiskWay way = {};
};

class ExpertStream : public weights::ExpertSource {
 public:
  // Each expert that a layer took counts as a hit, a miss or a right guess.
  struct Counters {
    int64_t hits = 0;           // experts that were in memory
    int64_t misses = 0;         // experts that were read after the router had chosen
    int64_t right_guesses = 0;  // experts whose read ahead had begun
    int64_t wrong_guesses = 0;  // experts that were read ahead for nothing
    int64_t evictions = 0;
    uint64_t read_bytes = 0;
    double read_us = 0.0;  // the time in which at least one was read
    double wait_us = 0.0;  // the time that all workers together waited for experts
  };
  // A stretch of time in which experts of a layer were read.
  struct LayerReads {
    int layer = 0;
    double start_us = 0.0, end_us = 0.0;
  };
  // How weights divide a budget.
  struct Shares {
    size_t others = 0;  // the bytes that a WeightStream gets
    size_t experts = 0;
  };

  // least_bytes() is what weights need at least where these experts are streamed, and whole_bytes()
  // what they need if nothing makes room. What mixtures have beside these is not counted.
  static size_t least_bytes(const RoutedExperts& routed);
  static size_t whole_bytes(const RoutedExperts& routed);
  // Divides the bytes that weights get: experts get what the other weights leave. REQUIRES:
  // most_bytes is at least least_bytes().
  static Shares shares_of(size_t most_bytes, const RoutedExperts& routed);

  // Return the bytes of a place, which holds an expert, and how many of them so many bytes have.
  static size_t place_bytes(const RoutedExperts& routed);
  static int64_t n_places_within(size_t bytes, const RoutedExperts& routed);

  // REQUIRES: the store's matrices of experts lie in the file's map, most_bytes is of `shares_of`,
  // and the file outlives this. Throws Error where it cannot be opened again, or memory is short.
  ExpertStream(const ExpertStreamOptions& options, const RoutedExperts& routed,
               const gguf::File& file);
  // Waits for the reads under way.
  ~ExpertStream() override;

  // Lets the system give memory to all places now. It gives it with the first read to a place
  // else, which takes as long as several reads, and keeps all workers waiting. Returns false where
  // the system cannot. Reads may be under way.
  bool take_memory(int n_threads);
  // Says whether guesses are taken. It is called before executables are built. REQUIRES: the
  // routers stay in memory.
  void set_takes_guesses(bool takes_guesses) { takes_guesses_ = takes_guesses; }
  size_t bytes() const { return bytes_; }
  int64_t n_places() const { return cache_->n_slots(); }
  Counters counters() const;
  const lanes::DiskLane& disk() const { return *disk_; }
  // set_tracing() says whether times of reads are noted, and take_reads() returns those that ended
  // since its last call. Reads may be under way.
  void set_tracing(bool is_traced);
  std::vector<LayerReads> take_reads();
  // Returns a sentence for people about each thing that the disk could not be asked for.
  std::vector<std::string> notes() const { return disk_->notes(); }
  // Returns a text for people about what is kept and what is read.
  std::string text() const;

  bool takes_guesses() const override { return takes_guesses_; }
  void want(int mixture, std::span<const int32_t> experts, plan::Phase phase) override;
  // Names experts that this mixture may take. They are read once the mixture before has called
  // want().
  void guess(int mixture, std::span<const int32_t> experts) override;
  Rows take(Place place, int i) override;
  void finish(int mixture) override;
  WaitTimes waited() const override;
  std::optional<std::string> take_problem() override;

 private:
  using Held = weights::NeuronCache::Held;
  using Found = weights::NeuronCache::Found;
  static constexpr size_t kMostProducts = 3;

  // Says how places lie in memory, each of which holds one expert.
  struct Places {
    int n_mixtures = 0;
    int n_experts = 0;
    std::array<size_t, kMostProducts> offsets =
        {};  // where a place's rooms begin, one for each product
    size_t place_bytes = 0;
    size_t n_requests = 0;  // the most requests that one expert takes
    bool has_gates_alone = false;
    uint64_t n_all() const {
      return static_cast<uint64_t>(n_experts) * static_cast<uint64_t>(n_mixtures);
    }
    // Returns all the bytes that n_places places take, and how many take no more than `bytes`.
    size_t bytes_for(uint64_t n_places) const;
    uint64_t n_within(size_t bytes) const;
    weights::NeuronCacheShape cache_shape() const;
  };
  static Places places_of(const RoutedExperts& routed);

  // The rows of one product of an expert, which are read to the product's room.
  struct ProductRead : lanes::Completion {
    void finished(lanes::Status status) override { owner->end(this, status); }
    ExpertStream* owner = nullptr;
    int64_t place = 0;
    FileRange file;
    bool is_there = false;
    std::vector<lanes::ReadRequest> reads;
  };
  // A place in memory and the reads that fill it.
  struct ExpertPlace {
    std::array<ProductRead, kMostProducts> parts;
    Held read_as;           // the lease of the cache under which it is read
    int mixture = 0;        // whose expert it is
    int n_coming = 0;       // counts parts that are being read
    int n_left_behind = 0;  // counts guesses' leases dropped while it was read
    bool has_failed = false;
    std::string problem;     // why it has failed
    bool is_wanted = false;  // says that it is wanted and being read
    bool was_guessed = false;
    bool is_new = false;  // says that nothing but scans has used it since it was read
  };
  struct Guess {
    int expert = 0;
    Held held;
  };

  enum class Ahead : uint8_t {
    kRouter,  // its router names them, as far as it is known
    kHeat,    // a prompt takes many: those that were taken most often come first
    kSure,    // a prompt takes nearly all
  };

  void make_cache(uint64_t n_places);
  void reserve_reads();
  ExpertPlace& slot_of(const Held& held) { return slots_[static_cast<size_t>(held.slot)]; }
  std::byte* room(int64_t place, int product) const {
    return memory_.get() + static_cast<size_t>(place) * places_.place_bytes +
           places_.offsets[static_cast<size_t>(product)];
  }
  FileRange part_of(int mixture, int product, int expert) const;
  size_t n_products(int mixture) const {
    return mixtures()[static_cast<size_t>(mixture)].products.size();
  }

  // These functions REQUIRE that the mutex is held. The first two give it up until something
  // changes. wait() waits for experts, which the counters tell of.
  void wait(std::unique_lock<std::mutex>* lock);
  void wait_for_others(std::unique_lock<std::mutex>* lock);
  void hold(int expert, std::unique_lock<std::mutex>* lock);
  void begin(const Held& held, int mixture, int expert);
  void submit(ExpertPlace* slot, int product);
  void name_next(plan::Phase phase);
  bool may_read_ahead() const;
  void read_ahead();
  bool give_back_guesses();
  void end_guesses();
  void leave(std::unique_lock<std::mutex>* lock);
  void settle(ExpertPlace* slot);
  void note_end(int mixture, double now_us);
  int32_t next_there(int product) const;

  int32_t choose(Place place, int i);
  void end(ProductRead* part, lanes::Status status);

  const gguf::File& file_;
  Places places_;
  std::vector<std::vector<FileRange>> files_;  // by mixture and product: the rows of all experts
  size_t bytes_ = 0;
  bool takes_guesses_ = true;
  std::unique_ptr<weights::NeuronCache> cache_;
  PageBuffer memory_;  // (places, place_bytes)

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ExpertPlace> slots_;
  // The mixture at work, and which of its experts are wanted, with their leases.
  int mixture_ = model::kNone;
  bool is_begun_ = false;  // says that all experts it wants have leases
  bool is_scan_ = false;   // says that a prompt wants more experts than there are places for
  std::vector<int32_t> wanted_;
  std::vector<bool> is_wanted_;   // by expert
  std::vector<Held> held_;        // by expert
  std::vector<int64_t> missing_;  // the places of experts that are still to come
  std::vector<std::atomic<int32_t>>
      order_;                    // (products, experts): the expert that comes as the i-th
  std::vector<bool> is_chosen_;  // (products, experts)
  std::vector<uint32_t> heat_;   // (mixtures, experts): how many passes have taken an expert
  // What is guessed about the next mixture, and who says so.
  Ahead ahead_ = Ahead::kRouter;
  int guessed_mixture_ = model::kNone;
  std::vector<int32_t> named_;
  size_t n_named_begun_ = 0;
  std::vector<Guess> guesses_;  // the guessed experts that have places
  bool is_stopped_ = false;
  int n_reading_ = 0;  // counts experts
  int n_wanted_reading_ = 0;
  double read_start_us_ = 0.0;
  double counted_until_us_ = 0.0;  // is how far read_us counts the reads under way
  std::vector<int> n_reading_of_;  // by mixture: counts its experts among them
  bool is_traced_ = false;
  std::vector<LayerReads> traced_;
  double traced_until_us_ = 0.0;
  Counters counters_;
  WaitClock waits_;
  std::string problem_;  // why the first wanted expert that failed could not be read
  std::atomic<bool> has_problem_ = false;
  std::unique_ptr<lanes::DiskLane> disk_;  // the last members: they wait for their reads
  std::unique_ptr<lanes::Executable> read_;
};

}  // namespace troika::prepare
