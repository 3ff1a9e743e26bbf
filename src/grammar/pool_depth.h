// Keeps recursion over expressions within the stack.
#pragma once

#include "grammar/limits.h"

namespace troika::grammar {

class DepthGuard {
 public:
  explicit DepthGuard(int* depth) : depth_(depth) {
    if (*depth >= kMost) {
      throw TooLarge(
          "The grammar nests too deeply, or has texts that are too long and too much alike.");
    }
    ++*depth;
  }
  ~DepthGuard() { --*depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  static constexpr int kMost = 1500;
  int* depth_;
};

}  // namespace troika::grammar
