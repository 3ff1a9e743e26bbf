// The memory in which the tasks of a head of sparse attention hand results to each other (S6): the
// estimate writes the scores of its queries, the selection puts the positions that a query keeps in
// place of its scores, and the exact part reads these positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace troika::lanes {

// Has one area for each set of buffers. The tasks of a chunk work on one block after the other, so
// a block may overwrite what belongs to the block before.
class HeadAreas {
 public:
  // Makes room for n_heads heads of queries, and for tokens that see at most `context` positions.
  // Memory is taken when it is first written. Throws Error where the system has no such address
  // space.
  HeadAreas(int n_heads, int most_tokens, int context, int n_sets);

  // Returns how many bytes are touched when a prompt fills the context.
  static size_t bytes_for(int n_heads, int most_tokens, int context, int n_sets);
  size_t bytes() const { return bytes_; }

  // Returns the scores, (context), of the query of token `token` of the run.
  float* scores(int set, int head, size_t token) const {
    const size_t row =
        (static_cast<size_t>(set) * n_heads_ + static_cast<size_t>(head)) * n_tokens_;
    return reinterpret_cast<float*>(storage_.get()) + (row + token) * stride_;
  }
  uint32_t* chosen(int set, int head, size_t token) const {
    return reinterpret_cast<uint32_t*>(scores(set, head, token));
  }
  size_t stride() const { return stride_; }  // counts floats from one token to the next

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  size_t n_heads_;
  size_t n_tokens_;
  size_t stride_;
  size_t bytes_;
  std::unique_ptr<std::byte, Free> storage_;
};

}  // namespace troika::lanes
