// Loops that find out what this processor can do at best: measured rates are given as fractions of
// these. No table has them, because nothing computes with them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu_features.h"

namespace troika::kernels {

// Runs `turns` turns of a loop that stays in registers, and returns the number of operations (a
// multiplication and an addition are two). A turn takes from ten to a few hundred cycles.
using OperationsProbe = double(size_t turns);

// The fastest way of this processor to do each thing. Null where it has no instruction for that.
struct Probes {
  // Reads all bytes, and returns something made of them.
  uint64_t (*read)(const std::byte* from, size_t bytes) = nullptr;
  OperationsProbe* int8 = nullptr;
  OperationsProbe* bf16 = nullptr;
  OperationsProbe* f32 = nullptr;
  const char* int8_name = "";  // such as "amx" or "avx512_vnni"
  const char* bf16_name = "";
  const char* f32_name = "";
};

// Chooses the probes. `without_matrix`: only vector instructions are used, even where there is a
// matrix unit.
Probes choose_probes(CpuFeatures available, bool without_matrix = false);

}  // namespace troika::kernels
