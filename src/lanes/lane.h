// What a lane is: something that runs one task at a time. A group of cores with its team of
// threads, later an NPU, a GPU, the disk, real or virtual. The rest of the engine sees no more of
// it than this.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/kv_cache.h"
#include "lanes/read_request.h"
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
};

// Told of the inputs of products before they are computed, by one thread at a time: to calibrate.
class InputObserver {
 public:
  virtual ~InputObserver() = default;
  // x  // (n_rows, width)
  virtual void observe(const model::Op& op, const float* x, int n_rows, int width) = 0;
};

// What one run binds to the slots of an executable, beside the buffers it was built with.
struct Run {
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

 protected:
  explicit Executable(int n_tokens) : n_tokens_(n_tokens) {}

 private:
  int n_tokens_;
};

class Lane {
 public:
  virtual ~Lane() = default;
  virtual const LaneInfo& info() const = 0;
  // Names of the equivalent shapes in which it can compute products of so many tokens (N8); empty
  // where there is no choice. Results are the same to the bit.
  virtual std::span<const char* const> layouts(int /*n_tokens*/) const { return {}; }
  // The index of the shape that the subgraph asks for. Throws Error for one the lane does not know.
  size_t layout_index(const Subgraph& subgraph, const model::Op& op, int n_tokens) const;
  // Throws Error where the lane cannot run such a subgraph. The arguments must outlive the result.
  virtual std::unique_ptr<Executable> build(const Subgraph& subgraph, int n_tokens,
                                            const weights::Store& weights,
                                            const Buffers& buffers) = 0;
  // Runs an executable that this lane built. May return before the task has ended, or after it;
  // `completion` is told either way, by a thread of the lane or the calling one.
  // REQUIRES: no other task of this lane is unfinished.
  virtual void submit(const Executable& executable, const Run& run, Completion& completion) = 0;
  // Why the last task that failed did so, as the end of a sentence; empty where the lane cannot
  // say.
  virtual std::string problem() const { return {}; }
};

}  // namespace troika::lanes
