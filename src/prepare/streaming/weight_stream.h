// Streams the blocks of a model that is larger than its memory: parts of blocks are read while
// others compute (P10). Some parts are kept (weight_parts.h). The others share a few slots of
// memory, and are read ahead in the order in which passes need them. Each part has the same slot
// every time, so addresses never change, and kernels read a streamed part like any other, with
// equal bits.
//
// Where steps read single neurons of the feed-forward blocks, prompts need their matrices as a
// whole (P2). A second stream has these alone, and reads them for passes of prompts only.
//
// The table of which passes read single rows stays in the file's map. Its pages are given back
// before they become many.
//
// Kept parts are brought into the order that kernels like best (tensor/strips.h). The others stay
// as they are in the file; products of many tokens turn their rows on the way.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/huge_pages.h"
#include "base/progress.h"
#include "gguf/file.h"
#include "lanes/disk/disk_lane.h"
#include "model/blueprint.h"
#include "prepare/streaming/model_disk.h"
#include "prepare/streaming/page_reads.h"
#include "prepare/streaming/weight_parts.h"
#include "schedule/runner.h"
#include "weights/store.h"

namespace troika::prepare {

class ExpertStream;
class NeuronStream;

// Matrices whose rows kernels can read 16 side by side in all passes.
struct StripMatrices {
  std::span<const model::WeightId> ids;
  int n_threads = 1;  // how many threads bring kept parts into that order
};

class WeightStream : public schedule::PromptWatch {
 public:
  struct Counters {
    int64_t n_parts = 0;  // counts parts that were read while passes ran
    uint64_t read_bytes = 0;
    double read_us = 0.0;  // the time in which at least one was read
    double wait_us = 0.0;  // the time that passes waited for parts
  };

  // least_bytes() is what weights need if all parts take turns, and whole_bytes() what they need if
  // none does.
  static size_t least_bytes(const model::Blueprint& blueprint, const weights::Store& weights,
                            const StreamedWeights& which = {});
  static size_t whole_bytes(const model::Blueprint& blueprint, const weights::Store& weights,
                            const StreamedWeights& which = {});

  // Keeps at most `most_bytes` of weights in memory. Points the store's matrices of blocks to where
  // they will be; only passes that call before_block() first may read them. All arguments must
  // outlive this. REQUIRES: the store's matrices lie in the file's map, nothing was built of them,
  // and most_bytes >= least_bytes(). Throws Error if the file cannot be opened again, or memory is
  // short.
  WeightStream(const model::Blueprint& blueprint, const gguf::File& file, size_t most_bytes,
               weights::Store* weights, const StreamedWeights& which = {},
               const StripMatrices& strips = {}, const DiskWay& way = {});
  // Waits for the reads under way.
  ~WeightStream() override;

  // Sets the stream of neurons of blocks that are computed by neuron. It is asked after each pass.
  void set_neurons(NeuronStream* neurons) { neurons_ = neurons; }
  const NeuronStream* neurons() const { return neurons_; }
  // Sets the stream of experts of mixtures, which must outlive this.
  void set_experts(ExpertStream* experts) { experts_ = experts; }
  const ExpertStream* experts() const { return experts_; }
  // Sets the stream of what prompts alone need, which must outlive this.
  void set_prompts(WeightStream* prompts) { prompts_ = prompts; }
  const WeightStream* prompts() const { return prompts_; }

  // Reads the parts that are kept, and brings them into the order that passes read. It is called
  // once, before all else and before executables are built. Throws Error.
  void load_kept(const ProgressFunction& progress);

  // Waits until the block is in memory, and begins to read the next ones. One thread at a time
  // calls it, during a pass; on several lanes that is a worker of the lane that comes to the block
  // first. Throws Error if the block cannot be read.
  void before_block(int block, plan::Phase phase, int n_tokens,
                    const schedule::RowsBeside& rows) override;
  void after_blocks(const schedule::RowsBeside& rows) override;
  // Records the reads of neurons or experts, which have the row behind that of blocks.
  void after_pass(const schedule::RowsBeside& rows) override;
  // Lets the next part of a prompt find its first blocks in memory too.
  void plan_prompt(int n_tokens, int chunk, bool is_first) override;

  int n_parts() const { return static_cast<int>(parts_.size()) - 1; }
  int n_streamed() const { return static_cast<int>(order_.size()); }
  // Returns the most bytes that weights have in memory.
  size_t most_bytes() const {
    return kept_bytes_ + shared_bytes_ + (prompts_ != nullptr ? prompts_->most_bytes() : 0);
  }
  uint64_t bytes_per_pass() const;
  Counters counters() const;
  // Returns the disk that this stream alone reads from: whoever shows how it was asked looks there.
  const lanes::DiskLane& disk() const { return disk_; }
  // Returns a sentence for people about each thing that the disk could not be asked for.
  std::vector<std::string> notes() const { return disk_.notes(); }
  // Returns a text for people about what is kept and what is read.
  std::string text() const;

 private:
  enum class State : uint8_t { kKept, kAbsent, kReading, kReady, kFailed };
  struct Part;
  // One matrix of a part.
  struct StreamedMatrix : lanes::Completion {
    void finished(lanes::Status status) override { part->owner->end(this, status); }
    Part* part = nullptr;
    std::vector<model::WeightId> ids;  // the weights that begin where it does
    FileRange from;
    std::byte* to = nullptr;  // the place of its first row
    std::vector<lanes::ReadRequest> reads;
  };
  struct Part {
    WeightStream* owner = nullptr;
    int block = 0;
    State state = State::kKept;
    std::string problem;  // says why its last read failed; empty: it did not
    size_t slot = 0;
    size_t bytes = 0;                     // the bytes of its memory
    size_t n_matrices_left = 0;           // counts the matrices that are not read yet
    double start_us = 0.0, end_us = 0.0;  // the times of its last read
    std::vector<std::unique_ptr<StreamedMatrix>> matrices;
  };
  struct PartRoom {
    PageBuffer memory;
    bool is_taken = false;
  };

  void add_part(const WeightPart& planned);
  void name_weights(const model::Blueprint& blueprint, const weights::Store& weights);
  void make_slots(const Turns& turns);
  void choose_strips(const StripMatrices& strips);
  void place(Part* part, weights::Store* weights);
  void reserve_reads();
  // These functions REQUIRE that the mutex is held.
  void begin(Part* part);
  void read_ahead();
  void forget(Part* part);
  void forget_block(int block);
  void count_table_rows(int n_rows);
  void start_again_at(int block, std::unique_lock<std::mutex>* lock);
  void wait_for(int block, std::span<Part* const> wanted, std::unique_lock<std::mutex>* lock);

  void end(StreamedMatrix* streamed, lanes::Status status);

  const gguf::File& file_;
  NeuronStream* neurons_ = nullptr;
  ExpertStream* experts_ = nullptr;
  WeightStream* prompts_ = nullptr;
  bool is_for_prompts_;
  bool is_prompt_ = false;                    // says that the pass at work is of a prompt
  std::vector<std::unique_ptr<Part>> parts_;  // the last holds weights of no block
  std::vector<size_t> order_;                 // the parts that take turns
  std::vector<std::vector<Part*>> turning_;   // the same by block
  std::vector<PartRoom> slots_;               // the shared slots come first
  std::optional<FileRange> table_;            // of which memory holds few rows
  int n_table_rows_ = 0;                      // counts its rows that were read
  size_t kept_bytes_ = 0;                     // counts the bytes of weights that take no turns
  size_t shared_bytes_ = 0;                   // counts the bytes of the shared slots

  mutable std::mutex mutex_;
  std::condition_variable ended_;
  size_t next_ = 0;          // where in order_ the next read is
  size_t n_left_ = 0;        // for prompts, counts the reads that the pass at work has before it
  int n_more_passes_ = 0;    // counts passes of the same prompt behind it
  bool is_stopped_ = false;  // says that no more reads begin
  int n_reading_ = 0;
  int current_ = -1;  // the block at work
  double traced_until_us_ = 0.0;
  double read_start_us_ = 0.0;  // or when the last of several reads ended
  Counters counters_;
  weights::Store& weights_;
  int n_threads_;
  std::vector<model::WeightId> kept_in_strips_;
  lanes::DiskLane disk_;  // the last member: it waits for its reads
  std::unique_ptr<lanes::Executable> read_;
};

}  // namespace troika::prepare
