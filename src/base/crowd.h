// How many workers of a team should take part when other programs want the cores too. A worker that
// is not running keeps all others waiting at every barrier, for as long as the system lets it wait:
// on a crowded machine fewer workers are many times faster.
#pragma once

namespace troika {

class Crowd {
 public:
  explicit Crowd(int n_workers) : n_workers_(n_workers), n_active_(n_workers) {}

  // Says how many work in the next run.
  int n_active() const { return n_active_; }

  // What a run with n_active() workers took, and how long its workers together slept while they
  // waited for each other.
  void record(double run_us, double slept_us);

 private:
  const int n_workers_;
  int n_active_;
  int n_quiet_ = 0;        // runs since the number changed
  int patience_ = 8;       // quiet runs before one more worker is tried
  bool is_trial_ = false;  // a worker was added a moment ago
};

}  // namespace troika
