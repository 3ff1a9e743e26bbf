// What this machine can do at best, measured now: what rates are fractions of.
#pragma once

#include <string>

#include "base/cpu_features.h"

namespace troika::engine {

struct Peaks {
  double read_gb_s = 0.0;
  // Zero where the processor has no instruction for it. The names tell which was used.
  double int8_tops = 0.0;
  double bf16_tflops = 0.0;
  double f32_tflops = 0.0;
  std::string int8_name, bf16_name, f32_name;
};

// With so many threads at once; takes a second or two.
Peaks measure_peaks(int n_threads);

// Bytes per second / 1e9 that so many threads read from a buffer far larger than the last cache,
// the median of a few runs.
double measure_read_gb_s(int n_threads);

}  // namespace troika::engine
