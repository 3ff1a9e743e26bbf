// Blocks of a model that is larger than its memory, read while others compute (P10). Some blocks
// are kept; the others are read in the order in which passes need them, some before they are
// needed, into a few slots of memory that they share. Each has the same slot every time: addresses
// never change, and kernels read a streamed block as any other, with equal bits.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/huge_pages.h"
#include "base/progress.h"
#include "gguf/file.h"
#include "lanes/disk/disk_lane.h"
#include "model/blueprint.h"
#include "prepare/streaming/page_reads.h"
#include "schedule/runner.h"
#include "weights/store.h"

namespace troika::prepare {

class ExpertStream;
class NeuronStream;

class WeightStream : public schedule::LayoutWatch {
 public:
  struct Counters {
    int64_t n_blocks = 0;  // that were read while passes ran
    uint64_t read_bytes = 0;
    double read_us = 0.0;  // while at least one was read
    double wait_us = 0.0;  // in which passes stood still for them
  };

  // Matrices that products read elsewhere.
  using Elsewhere = std::span<const model::WeightId>;

  // What weights need at least where all blocks but those at work are streamed; and where none is.
  static size_t least_bytes(const model::Blueprint& blueprint, const weights::Store& weights,
                            Elsewhere elsewhere = {});
  static size_t whole_bytes(const model::Blueprint& blueprint, const weights::Store& weights,
                            Elsewhere elsewhere = {});

  // At most so many bytes of weights are in memory. Moves the store's matrices of blocks to where
  // they will be; nobody may read them but in passes that tell of each block before. All must
  // outlive this. REQUIRES: the store's matrices lie in the file's map, nothing was built of them,
  // and most_bytes >= least_bytes(). Throws Error where the file cannot be opened again, or memory
  // is short.
  WeightStream(const model::Blueprint& blueprint, const gguf::File& file, size_t most_bytes,
               weights::Store* weights, Elsewhere elsewhere = {});
  // Waits for the reads under way.
  ~WeightStream() override;

  // What reads the neurons of blocks that are computed by neuron: it is asked after each pass.
  void set_neurons(NeuronStream* neurons) { neurons_ = neurons; }
  const NeuronStream* neurons() const { return neurons_; }
  // What reads the experts of mixtures, and is there as long as this.
  void set_experts(const ExpertStream* experts) { experts_ = experts; }
  const ExpertStream* experts() const { return experts_; }

  // Reads what is kept. Once, first. Throws Error.
  void load_kept(const ProgressFunction& progress);

  // By the thread that holds the pass mutex. Waits until the block is in memory, and has the next
  // ones read. Throws Error where it cannot be read.
  void before_block(int block, plan::Phase phase, int n_tokens) override;
  void after_blocks() override;
  void after_pass() override;
  void plan_prompt(int /*n_tokens*/, int /*chunk*/, bool /*is_first*/) override {}
  // Reads of blocks have that row, and those of neurons the one behind it.
  void set_trace(Trace* trace, int row) override;

  int n_blocks() const { return static_cast<int>(blocks_.size()) - 1; }
  int n_streamed() const { return static_cast<int>(order_.size()); }
  // That weights have in memory at most.
  size_t most_bytes() const { return kept_bytes_ + shared_bytes_; }
  uint64_t bytes_per_pass() const;
  Counters counters() const;
  // For people: what is kept and what is read.
  std::string text() const;

 private:
  enum class State : uint8_t { kKept, kAbsent, kReading, kReady, kFailed };
  struct Block : lanes::Completion {
    void finished(lanes::Status status) override { owner->end(this, status); }
    WeightStream* owner = nullptr;
    State state = State::kKept;
    size_t slot = 0;
    size_t bytes = 0;                     // of memory
    double start_us = 0.0, end_us = 0.0;  // of its last read
    std::vector<FilePart> parts;
    std::vector<lanes::ReadRequest> reads;
  };
  struct Slot {
    PageBuffer memory;
    bool is_taken = false;
  };

  void find_parts(const model::Blueprint& blueprint, const weights::Store& weights,
                  const gguf::File& file, Elsewhere elsewhere);
  void choose_kept(size_t most_bytes);
  void place(Block* block, weights::Store* weights);
  // All REQUIRE the mutex.
  void begin(Block* block);
  void read_ahead();
  void forget(Block* block);
  void start_again_at(int block, std::unique_lock<std::mutex>* lock);

  void end(Block* block, lanes::Status status);

  const gguf::File& file_;
  NeuronStream* neurons_ = nullptr;
  const ExpertStream* experts_ = nullptr;
  Trace* trace_ = nullptr;
  int trace_row_ = 0;
  bool is_prompt_ = false;                      // the pass at work
  std::vector<std::unique_ptr<Block>> blocks_;  // behind the last one, what stands in none
  std::vector<int> order_;                      // those that are streamed
  std::vector<Slot> slots_;                     // first those that they share
  size_t n_shared_ = 0;                         // of slots_
  size_t mapped_bytes_ = 0;                     // of weights that stay in the map
  size_t kept_bytes_ = 0;                       // of these and of all blocks that are kept
  size_t shared_bytes_ = 0;                     // of the slots that the others share

  mutable std::mutex mutex_;
  std::condition_variable ended_;
  size_t next_ = 0;          // of order_, to be read
  bool is_stopped_ = false;  // nothing new is read
  int n_reading_ = 0;
  int current_ = -1;  // the block at work
  uint64_t n_reads_ = 0;
  double read_start_us_ = 0.0;
  Counters counters_;
  lanes::DiskLane disk_;  // the last member: it waits for its reads
  std::unique_ptr<lanes::Executable> read_;
};

}  // namespace troika::prepare
