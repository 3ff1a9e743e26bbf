// Experts of mixtures where memory has no room for all of them (P10): when the router has spoken,
// those that are in no cache are read from the model's file, past the page cache. Those that come
// first are computed first; bits are those of experts in memory. While the disk has nothing else to
// do, experts that the next mixture may take are read ahead: a wrong guess costs reads.
//
// A prompt that takes nearly all experts of a layer reads them in order, and the next layer's
// ahead. What it brings makes room first, so that a scan does not drive out what steps use.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/huge_pages.h"
#include "gguf/file.h"
#include "lanes/disk/disk_lane.h"
#include "model/blueprint.h"
#include "prepare/streaming/page_reads.h"
#include "weights/expert_source.h"
#include "weights/neurons/neuron_cache.h"
#include "weights/store.h"

namespace troika::prepare {

struct ExpertStreamOptions {
  size_t most_bytes = 0;  // of memory, as `bytes` counts it
  bool may_use_io_uring = true;
  decltype(lanes::DiskOptions::spoil) spoil = {};
};

class ExpertStream : public weights::ExpertSource {
 public:
  // An expert that a layer took is one of the first three.
  struct Counters {
    int64_t hits = 0;           // in memory
    int64_t misses = 0;         // read when the router had spoken
    int64_t right_guesses = 0;  // read ahead, or about to be
    int64_t wrong_guesses = 0;  // read ahead for nothing
    int64_t evictions = 0;
    uint64_t read_bytes = 0;
    double read_us = 0.0;  // while at least one was read
    double wait_us = 0.0;  // in which workers stood still for them, all together
  };
  // How weights divide a budget.
  struct Shares {
    size_t others = 0;  // what a WeightStream gets
    size_t experts = 0;
  };

  // What weights need at least where experts are read by route.
  static size_t least_bytes(const model::Blueprint& blueprint, const weights::Store& weights);
  // Experts have what the others leave of what weights get. REQUIRES: at least `least_bytes`.
  static Shares shares_of(size_t most_bytes, const model::Blueprint& blueprint,
                          const weights::Store& weights);

  // REQUIRES: the store's matrices of experts lie in the file's map, most_bytes is of `shares_of`,
  // and the file outlives this. Throws Error where it cannot be opened again, or memory is short.
  ExpertStream(const ExpertStreamOptions& options, const model::Blueprint& blueprint,
               const gguf::File& file, const weights::Store& weights);
  // Waits for the reads under way.
  ~ExpertStream() override;

  // Before executables are built. REQUIRES: the routers stay in memory.
  void set_takes_guesses(bool takes_guesses) { takes_guesses_ = takes_guesses; }
  size_t bytes() const { return bytes_; }
  int64_t n_places() const { return cache_->n_slots(); }
  Counters counters() const;
  // For people: what is kept and what is read.
  std::string text() const;

  bool takes_guesses() const override { return takes_guesses_; }
  void want(int mixture, std::span<const int32_t> experts) override;
  // Waits for `want` of the mixture before.
  void guess(int mixture, std::span<const int32_t> experts) override;
  Rows take(Place place, int i) override;
  void finish(int mixture) override;
  std::string take_problem() override;

 private:
  using Held = weights::NeuronCache::Held;
  using Found = weights::NeuronCache::Found;
  static constexpr size_t kMostProducts = 3;

  // What a place in memory is made of.
  struct Layout {
    int n_mixtures = 0;
    int n_experts = 0;
    std::array<size_t, kMostProducts> offsets = {};  // of rooms in a place
    size_t place_bytes = 0;
    size_t n_requests = 0;  // of an expert at most
    // All that so many places take.
    size_t bytes_for(uint64_t n_places) const;
    weights::NeuronCacheShape cache_shape() const;
  };
  static Layout layout_of(const model::Blueprint& blueprint, const weights::Store& weights);

  // The rows of one product of an expert, read to their room.
  struct Part : lanes::Completion {
    void finished(lanes::Status status) override { owner->end(this, status); }
    ExpertStream* owner = nullptr;
    int64_t place = 0;
    FilePart file;
    bool is_there = false;
    std::vector<lanes::ReadRequest> reads;
  };
  // A place in memory and what is read to it.
  struct Slot {
    std::array<Part, kMostProducts> parts;
    Held read_as;           // what the cache was told of its reading
    int n_coming = 0;       // parts
    int n_left_behind = 0;  // leases of guesses that went while it was read
    bool has_failed = false;
    bool is_wanted = false;  // and being read
    bool was_guessed = false;
    bool is_new = false;  // read for the mixture at work, or ahead
  };
  struct Guess {
    int expert = 0;
    Held held;
  };

  void make_cache(uint64_t n_places);
  Slot& slot_of(const Held& held) { return slots_[static_cast<size_t>(held.slot)]; }
  std::byte* room(int64_t place, int product) const {
    return memory_.get() + static_cast<size_t>(place) * layout_.place_bytes +
           layout_.offsets[static_cast<size_t>(product)];
  }
  FilePart part_of(int mixture, int product, int expert) const;
  size_t n_products(int mixture) const {
    return mixtures()[static_cast<size_t>(mixture)].products.size();
  }

  // These REQUIRE the mutex.
  void hold(int expert, std::unique_lock<std::mutex>* lock);
  void begin(const Held& held, int mixture, int expert);
  void submit(Slot* slot, int product);
  void read_ahead();
  bool give_back_guesses();
  void end_guesses();
  void leave(std::unique_lock<std::mutex>* lock);
  void settle(Slot* slot);
  int32_t next_there(int product) const;

  int32_t choose(Place place, int i);
  void end(Part* part, lanes::Status status);

  const gguf::File& file_;
  Layout layout_;
  std::vector<std::vector<FilePart>> files_;  // by mixture and product: of all experts
  size_t bytes_ = 0;
  bool takes_guesses_ = true;
  std::unique_ptr<weights::NeuronCache> cache_;
  PageBuffer memory_;  // (places, place_bytes)

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  // The mixture at work, and of its experts which are wanted, with their leases.
  int mixture_ = model::kNone;
  bool is_begun_ = false;     // all that it wants has leases
  bool is_in_order_ = false;  // it wants nearly all
  std::vector<int32_t> wanted_;
  std::vector<bool> is_wanted_;              // by expert
  std::vector<Held> held_;                   // by expert
  std::vector<int64_t> missing_;             // their places
  std::vector<std::atomic<int32_t>> order_;  // (products, experts): what comes as the i-th
  std::vector<bool> is_chosen_;              // (products, experts)
  // What is guessed of the next one.
  int guessed_mixture_ = model::kNone;
  std::vector<int32_t> named_;
  size_t n_named_begun_ = 0;
  std::vector<Guess> guesses_;  // that have places
  bool is_stopped_ = false;
  int n_reading_ = 0;  // experts
  int n_wanted_reading_ = 0;
  double read_start_us_ = 0.0;
  uint64_t n_reads_ = 0;
  Counters counters_;
  std::string problem_;
  std::atomic<bool> has_problem_ = false;
  std::unique_ptr<lanes::DiskLane> disk_;  // the last members: they wait for their reads
  std::unique_ptr<lanes::Executable> read_;
};

}  // namespace troika::prepare
