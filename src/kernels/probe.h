// Loops that find out what this processor can do at best: what measured rates are fractions of.
// They are in no table, because nothing computes with them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu_features.h"

namespace troika::kernels {

// Operations (a multiplication and an addition are two) of `turns` turns of a loop that stays in
// registers. A turn takes from ten to a few hundred cycles.
using OperationsProbe = double(size_t turns);

// The fastest way of this processor for each. Null where it has no instruction for it.
struct Probes {
  // Reads so many bytes and returns something made of all of them.
  uint64_t (*read)(const std::byte* from, size_t bytes) = nullptr;
  OperationsProbe* int8 = nullptr;
  OperationsProbe* bf16 = nullptr;
  OperationsProbe* f32 = nullptr;
  const char* int8_name = "";  // "amx", "avx512_vnni", ...
  const char* bf16_name = "";
  const char* f32_name = "";
};

// `without_matrix`: vector instructions only, also where there is a matrix unit.
Probes choose_probes(CpuFeatures available, bool without_matrix = false);

}  // namespace troika::kernels
