// How many workers of a team should take part when other programs want the cores too. A worker that
// is not running keeps all others waiting at every barrier, for as long as the system lets it wait:
// on a crowded machine fewer workers are many times faster.
#pragma once

namespace troika {

class Crowd {
 public:
  explicit Crowd(int n_workers) : n_workers_(n_workers), n_active_(n_workers) {}

  // Returns how many workers work in the next run.
  int n_active() const { return n_active_; }

  // Takes what a run with n_active() workers took, and how long its workers slept, all together,
  // while they waited for each other.
  void record(double run_us, double slept_us);

 private:
  const int n_workers_;
  int n_active_;
  int n_quiet_ = 0;        // counts runs since n_active_ changed
  int patience_ = 8;       // counts the quiet runs before one more worker is tried
  bool is_trial_ = false;  // a worker was just added
};

}  // namespace troika
