// Makes the record: what is compared, and its rows.
#pragma once

#include <functional>
#include <string>

#include "bench/record/ratios.h"
#include "kernels/choose.h"
#include "kernels/probe.h"

namespace troika::bench {

struct Row {
  std::string kernels;  // "avx512"
  std::string what;     // "Q4_0, 4 tokens, from memory"
  Ratio ratio;
};

struct Recorder {
  const kernels::Kernels& kernels;
  const kernels::Probes& probes;
  std::string name;
  int n_pairs;
  std::function<void(const Row&)> add;
};

// Records products of each block format with 1, 4, 8 and 32 tokens, weights from memory and from
// the second-level cache. The reference reads the same number of bytes from memory.
void record_products(const Recorder& recorder);

// Records attention of one token for head sizes, cache types, heads and lengths of context. The
// reference reads the same keys and values.
void record_attention(const Recorder& recorder);

// Reads a stretch of memory and uses what it read, so that no compiler leaves the reading out.
void read(const kernels::Probes& probes, const std::byte* from, size_t bytes);

}  // namespace troika::bench
