// Time as tasks see it: the time of this machine, or of a virtual one.
#pragma once

#include <chrono>

#include "base/units.h"

namespace troika {

class Clock {
 public:
  virtual ~Clock() = default;
  // Returns the time since some fixed moment; it never goes back.
  virtual double now_us() const = 0;
};

class RealClock : public Clock {
 public:
  double now_us() const override {
    return std::chrono::duration<double, std::micro>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

// Returns this machine's own time since `start`, for work that no virtual machine does.
inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
inline double ms_since(std::chrono::steady_clock::time_point start) {
  return kMsPerS * seconds_since(start);
}

}  // namespace troika
