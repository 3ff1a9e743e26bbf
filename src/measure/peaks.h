// Measures what this machine can do at best: rates are given as fractions of these peaks.
#pragma once

#include <memory>
#include <string>

#include "base/cpu_features.h"

namespace troika::measure {

struct Peaks {
  double read_gb_s = 0.0;  // 0 where no memory was left for a buffer larger than the last cache
  // A peak is 0 where the processor has no instruction for it. The name says which instruction was
  // used.
  double int8_tops = 0.0;
  double bf16_tflops = 0.0;
  double f32_tflops = 0.0;
  std::string int8_name, bf16_name, f32_name;
};

// Measures how fast n_threads threads read a buffer far larger than the last cache.
class ReadProbe {
 public:
  explicit ReadProbe(int n_threads);
  ~ReadProbe();

  // Says whether there was memory for the buffer.
  bool has_room() const;
  // Reads the buffer once, which takes a fifth of a second at 10 GB/s. Returns bytes per second /
  // 1e9. REQUIRES: has_room().
  double gb_s();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Measures the peaks with n_threads threads at once, in a second or two. The read rate of memory is
// measured, too, unless it is known already.
Peaks measure_peaks(int n_threads, double known_read_gb_s = 0.0);

}  // namespace troika::measure
