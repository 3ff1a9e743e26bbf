// What a lane is: something that runs one task at a time, and may take the next ones before a task
// has ended. It is a group of cores with its team of threads, an NPU, a GPU or the disk, real or
// virtual. The rest of the engine knows lanes only by this interface.
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
  uint32_t capabilities = 0;  // bits of Capability
  size_t memory_limit_bytes = SIZE_MAX;
  // How many tasks may be submitted before the first of them has ended. Where it is more than 1,
  // the lane is a queue, as `submit` says.
  int queue_depth = 1;
  // Says which device with which version of which driver it is, so that what was measured on
  // another one is not taken for its own; empty for cores and phones.
  std::string identity = {};
  // Says that what the lane has compiled is kept, so that it is built faster the next time.
  bool keeps_graphs = false;
};

// Names a feed-forward block that is computed by neuron, or an expert of one.
struct ObservedFfn {
  int index = 0;  // its number among all of them
  int layer = 0;
};

// Is shown the inputs of products and of attention before they are computed, by one thread of a
// lane at a time, in order to calibrate. Lanes that share the work show theirs at the same time.
// REQUIRES: no slices by tokens.
class InputObserver {
 public:
  virtual ~InputObserver() = default;
  // Is shown x, (n_rows, width), the input of an op.
  virtual void observe(const model::Op& op, const float* x, int n_rows, int width) = 0;
  // Is shown a prompt whose queries share keys, on cores: the queries of n_tokens consecutive
  // tokens that share a head of keys, and the positions that the last of them sees.
  virtual void observe_attention(const model::Op&, int /*key_head*/, const attention::Positions&,
                                 const attention::Queries&, size_t /*n_tokens*/) {}
  // Is shown x, (n_tokens, width), the input of a mixture that is computed by neuron, and the
  // experts of each token, (n_tokens, n_used).
  virtual void observe_mixture(int /*layer*/, const float* /*x*/, int /*n_tokens*/, int /*width*/,
                               std::span<const int> /*experts*/) {}
  // Is shown `activated`, (n_rows, width): the gate of a feed-forward block that is computed by
  // neuron, behind its activation. An expert is shown the tokens that take it.
  virtual void observe_gate(ObservedFfn, const float* /*activated*/, int /*n_rows*/,
                            int /*width*/) {}
};

// What a pass binds to the slots of its executables, beside the buffers they were built with.
struct Run {
  plan::Phase phase = plan::Phase::kStep;  // the phase that the executables were built for
  int n_tokens = 0;   // rows that are present, at most as many as the executables were built for
  int n_outputs = 0;  // counts the entries of `output_rows`
  std::span<const cache::Token> tokens;          // (n_tokens)
  const float* rope_cos = nullptr;               // (n_tokens, n_pairs)
  const float* rope_sin = nullptr;               // (n_tokens, n_pairs)
  std::span<const int> output_rows;              // (n_outputs): tokens whose logits are wanted
  std::span<const cache::Slot> slots;            // (n_tokens): where keys and values go
  std::span<const cache::VisibleSlots> visible;  // (n_tokens): the mask
  cache::KvCache* kv = nullptr;
  int buffer_set = 0;                  // which set of the executable's buffers the run uses
  std::span<const ReadRequest> reads;  // for a lane that reads
  InputObserver* observer = nullptr;
  // Cores of this machine that compute go to other threads now and then, see host/give_way.h.
  bool gives_way = false;
};

enum class Status : uint8_t { kPending, kDone, kFailed };

// Is told once by the lane when a submitted task has ended, which is all that the scheduler hears
// of it.
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
  // Returns what a run on a set of buffers binds for itself, so that leases can be taken before the
  // task is submitted; null where there is nothing to bind.
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
  // Returns the names of the equivalent arrangements in which the lane can compute the products of
  // such an executable (N8); empty where there is no choice. Results are the same to the bit.
  virtual std::span<const char* const> arrangements(plan::Shape) const { return {}; }
  // Returns the index of the arrangement that the subgraph asks for. Throws Error for one the lane
  // does not know.
  size_t arrangement_index(const Subgraph& subgraph, const model::Op& op, plan::Shape shape) const;
  // Builds a slice of a subgraph. Throws Error where the lane cannot run it. The arguments must
  // outlive the result.
  virtual std::unique_ptr<Executable> build(const Subgraph& subgraph, plan::Shape shape,
                                            const weights::Store& weights,
                                            const Buffers& buffers) = 0;
  // Runs an executable that this lane built. May return before the task has ended, or after it;
  // `completion` is told either way, by a thread of the lane or the calling one. Once it is told,
  // the task counts as finished: the completion may submit the next one before it returns.
  // REQUIRES: fewer tasks of this lane are unfinished than its queue_depth, and all that the task
  // waits for has ended; on a queue, it is enough that those of them that are tasks of this lane
  // have been submitted.
  //
  // A queue (queue_depth > 1) runs its tasks in the order in which they are submitted, each when
  // the one before has ended, and tells their completions in that order. REQUIRES of its `submit`:
  // it returns before it tells any completion, and waits for none; calls come one at a time, but
  // from any thread, and while a completion is being told. REQUIRES of the code that tells a
  // completion: it holds nothing that `submit` waits for, and may call `submit`. Where a driver
  // forbids this in its callbacks, a thread of the lane tells completions instead. Where a task
  // fails, the tasks behind it end, too, and their results do not count. The queue may run these
  // tasks on whatever the failed one left, so an executable of a queue stays inside its memory
  // whatever values it reads, or tell kFailed for them without running them.
  virtual void submit(const Executable& executable, const Run& run, Completion& completion) = 0;
  // Returns the cores to which a thread keeps while it submits tasks, because the lane works on it;
  // none where it may run anywhere.
  virtual std::span<const int> caller_cores() const { return {}; }
  // Returns the memory in which values must lie so that this lane can map them; null where they may
  // lie anywhere in this process.
  virtual Memory* memory() { return nullptr; }
  // Returns the bytes of memory that the lane's executables share, beside buffers and weights, when
  // the longest of them runs.
  virtual size_t held_bytes() const { return 0; }
  // Says why the last task that failed did so, as the end of a sentence; empty where the lane
  // cannot say.
  virtual std::string problem() const { return {}; }
  // Returns when the task whose end is being told began, by the machine's clock. Less than 0 means:
  // when it was submitted, or when the task before it ended, if that was later. REQUIRES: called
  // while that end is being told.
  virtual double started_us() const { return -1.0; }
  // Says what people should know of how the lane's executables were built; empty: nothing.
  virtual std::string note() const { return {}; }
};

}  // namespace troika::lanes
