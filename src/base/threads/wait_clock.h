// Adds up how long workers wait for something that is no core, as for a disk.
#pragma once

namespace troika {

struct WaitTimes {
  double all_us = 0.0;   // of all who waited, together
  double some_us = 0.0;  // in which somebody waited

  // Returns for how long the others of n workers had nobody to work with, since `before`.
  double others_us(const WaitTimes& before, int n_workers) const {
    return (some_us - before.some_us) * n_workers - (all_us - before.all_us);
  }
};

// Whoever uses it holds one mutex, and tells it the time in microseconds.
class WaitClock {
 public:
  void begin(double now_us) { count(now_us, 1); }
  void end(double now_us) { count(now_us, -1); }
  // Returns the times until the last call.
  const WaitTimes& times() const { return times_; }

 private:
  void count(double now_us, int change) {
    const double us = now_us - last_us_;
    times_.all_us += n_waiting_ * us;
    if (n_waiting_ > 0) times_.some_us += us;
    n_waiting_ += change;
    last_us_ = now_us;
  }

  WaitTimes times_;
  int n_waiting_ = 0;
  double last_us_ = 0.0;
};

}  // namespace troika
