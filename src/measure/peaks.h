// What this machine can do at best, measured now: what rates are fractions of.
#pragma once

#include <memory>
#include <string>

#include "base/cpu_features.h"

namespace troika::measure {

struct Peaks {
  double read_gb_s = 0.0;
  // Zero where the processor has no instruction for it. The names tell which was used.
  double int8_tops = 0.0;
  double bf16_tflops = 0.0;
  double f32_tflops = 0.0;
  std::string int8_name, bf16_name, f32_name;
};

// How fast so many threads read a buffer far larger than the last cache.
class ReadProbe {
 public:
  explicit ReadProbe(int n_threads);
  ~ReadProbe();

  // Reads it once (well under a tenth of a second): bytes per second / 1e9.
  double gb_s();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// With so many threads at once; takes a second or two. What memory reads is measured too, unless
// it is known already.
Peaks measure_peaks(int n_threads, double known_read_gb_s = 0.0);

}  // namespace troika::measure
