// What a lane is: something that runs one task at a time, and may take the next ones before it has
// ended. A group of cores with its team of
// threads, later an NPU, a GPU, the disk, real or virtual. The rest of the engine sees no more of
// it than this.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attention/positions.h"
#include "cache/kv_cache.h"
#include "lanes/bindings.h"
#include "lanes/memory.h"
#include "lanes/read_request.h"
#include "lanes/slice.h"
#include "lanes/subgraph.h"

namespace troika::lanes {

enum Capability : uint32_t {
  kVector = 1u << 0,
  kInt8Matrix = 1u << 1,
  kBf16Matrix = 1u << 2,
  kRead = 1u << 3,
};

struct LaneInfo {
  std::string name;
  std::vector<int> cores;  // empty: not bound to certain cores
  int n_threads = 1;
  uint32_t capabilities = 0;  // of Capability
  size_t memory_limit_bytes = SIZE_MAX;
  // How many tasks may be submitted before the first of them has ended. More than 1: the lane is a
  // queue, as `submit` says.
  int queue_depth = 1;
};

// Told of the inputs of products and of attention before they are computed, by one thread at a
// time: to calibrate. REQUIRES: no slices by tokens.
class InputObserver {
 public:
  virtual ~InputObserver() = default;
  // x  // (n_rows, width)
  virtual void observe(const model::Op& op, const float* x, int n_rows, int width) = 0;
  // On cores, of a prompt whose queries share keys: the queries of n_tokens that follow each other
  // and share a head of keys, and the positions that the last of them sees.
  virtual void observe_attention(const model::Op&, int /*key_head*/, const attention::Positions&,
                                 const attention::Queries&, size_t /*n_tokens*/) {}
  // What the gate of a feed-forward block that is computed by neuron came to, behind its
  // activation.
  // activated  // (n_rows, width)
  virtual void observe_gate(int /*layer*/, const float* /*activated*/, int /*n_rows*/,
                            int /*width*/) {}
};

// What a pass binds to the slots of its executables, beside the buffers they were built with.
struct Run {
  plan::Phase phase = plan::Phase::kStep;        // of the executables
  int n_tokens = 0;                              // rows present, <= those it was built for
  int n_outputs = 0;                             // rows of `output_rows`
  std::span<const cache::Token> tokens;          // (n_tokens)
  const float* rope_cos = nullptr;               // (n_tokens, n_pairs)
  const float* rope_sin = nullptr;               // (n_tokens, n_pairs)
  std::span<const int> output_rows;              // (n_outputs): tokens whose logits are wanted
  std::span<const cache::Slot> slots;            // (n_tokens): where keys and values go
  std::span<const cache::VisibleSlots> visible;  // (n_tokens): the mask
  cache::KvCache* kv = nullptr;
  int buffer_set = 0;                  // of the buffers that the executable was built with
  std::span<const ReadRequest> reads;  // of a lane that reads
  std::span<const IndexList> lists;    // what Slice::list names
  InputObserver* observer = nullptr;
};

enum class Status : uint8_t { kPending, kDone, kFailed };

// Told once by the lane when a submitted task has ended. The scheduler does not know what time
// is: this is all it hears.
class Completion {
 public:
  virtual ~Completion() = default;
  virtual void finished(Status status) = 0;
};

// A subgraph built for a number of tokens. Its constants and buffers are fixed.
class Executable {
 public:
  virtual ~Executable() = default;
  int n_tokens() const { return n_tokens_; }
  // What a run on a set of buffers binds for itself, so that leases can be taken before the task is
  // submitted; null where that is nothing.
  virtual TaskBindings* bindings(int /*buffer_set*/) const { return nullptr; }

 protected:
  explicit Executable(int n_tokens) : n_tokens_(n_tokens) {}

 private:
  int n_tokens_;
};

class Lane {
 public:
  virtual ~Lane() = default;
  virtual const LaneInfo& info() const = 0;
  // Names of the equivalent arrangements in which it can compute the products of such an executable
  // (N8); empty where there is no choice. Results are the same to the bit.
  virtual std::span<const char* const> arrangements(plan::Shape) const { return {}; }
  // The index of the arrangement that the subgraph asks for. Throws Error for one the lane does not
  // know.
  size_t arrangement_index(const Subgraph& subgraph, const model::Op& op, plan::Shape shape) const;
  // Throws Error where the lane cannot run such a subgraph, or such a slice of it. The arguments
  // must outlive the result.
  virtual std::unique_ptr<Executable> build(const Subgraph& subgraph, plan::Shape shape,
                                            const weights::Store& weights,
                                            const Buffers& buffers) = 0;
  // Runs an executable that this lane built. May return before the task has ended, or after it;
  // `completion` is told either way, by a thread of the lane or the calling one. From then on the
  // task is not unfinished any more: the completion may submit the next one before it returns.
  // REQUIRES: fewer tasks of this lane are unfinished than its queue_depth, and all that the task
  // waits for has ended; on a queue, what of it is a task of this lane has been submitted.
  //
  // A queue (queue_depth > 1) runs its tasks in the order in which they are submitted, each when
  // the one before has ended, and tells their completions in that order.
  // REQUIRES of its `submit`: it returns before it tells any completion, and waits for none; calls
  // come one at a time, but from any thread, and while a completion is being told.
  // REQUIRES of what tells a completion: it holds nothing that `submit` waits for, and may call it.
  // Where a driver allows that to no callback of its own, a thread of the lane tells instead.
  // Where a task fails, those behind it end too, and what they come to does not count. The queue
  // may run them on whatever the failed one left, so an executable of a queue stays inside its
  // memory whatever values it reads, or tell kFailed for them without running them.
  virtual void submit(const Executable& executable, const Run& run, Completion& completion) = 0;
  // Where values must lie so that this lane can map them; null: anywhere in this process.
  virtual Memory* memory() { return nullptr; }
  // Memory of its own that its executables share, beside buffers and weights: what is touched when
  // the longest of them runs.
  virtual size_t held_bytes() const { return 0; }
  // Why the last task that failed did so, as the end of a sentence; empty where the lane cannot
  // say.
  virtual std::string problem() const { return {}; }
  // When the task whose end is being told began, by the machine's clock; less than 0: when it was
  // submitted, or the one before it had ended. REQUIRES: called while that end is being told.
  virtual double started_us() const { return -1.0; }
  // What people should know of how its executables were built; empty: nothing.
  virtual std::string note() const { return {}; }
};

}  // namespace troika::lanes
