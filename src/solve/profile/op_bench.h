// Measures single ops and streams of reads through the door of lanes: it sees a Machine and knows
// neither what its lanes are nor whether its time is real.
#pragma once

#include <memory>
#include <vector>

#include "base/huge_pages.h"
#include "lanes/machine.h"
#include "plan/plan.h"
#include "plan/profile.h"
#include "weights/store.h"

namespace troika::solve {

// Seeded blocks of one element type that stand in for weights. Each matrix taken is another part of
// it, so that a weight lies in no cache when its turn comes, as in a model far larger than caches.
class Arena {
 public:
  // `bytes` should be several times the last cache. Not filled before `prepare`.
  explicit Arena(size_t bytes);

  // Fills it with blocks of this type, unless they are there already.
  void prepare(tensor::Type type);
  // REQUIRES: prepared for this type, and the matrix fits.
  weights::Matrix take(tensor::Type type, int n_rows, int k);
  bool fits(const plan::OpShape& shape) const;
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  HugeBuffer data_;  // as weights lie that were loaded
  size_t next_ = 0;
  int prepared_ = -1;  // of tensor::Type
};

struct Patience {
  int n_warm = 1;  // not counted
  int least_runs = 3;
  int most_runs = 9;
  // How much of the machine's time the runs of one shape may take: beyond the least number of runs
  // no more are begun when they have taken so long.
  double enough_us = 30'000.0;
  // Above 0, products of more tokens than decoding has are packed for int8, on so many threads.
  int pack_threads = 0;
  // Products read rows that stand side by side, as the copy of a model has them. What the blocks
  // say makes no difference to the time.
  bool in_strips = false;
};

// One op on one lane. Throws NotBuilt (one_op.h) where the lane cannot build it, Error where a run
// failed.
plan::OpTime measure_op(lanes::Machine& machine, int lane, const plan::OpShape& shape, Arena& arena,
                        const Patience& patience);

// Products in every arrangement that the lane names (N8), on machines whose lanes compute nothing:
// no weights are needed, and one run tells.
std::vector<plan::OpTime> compare_arrangements(lanes::Machine& machine, int lane,
                                               const std::vector<plan::OpShape>& products);

// A task that does next to nothing.
double measure_start_us(lanes::Machine& machine, int lane, Arena& arena);
// By how much longer it takes until the next task begins where it runs on the other lane than where
// it runs on the same: tiny tasks, each submitted by the completion of the one before.
double measure_handover_us(lanes::Machine& machine, int from, int to);
// Lanes that read weights of this type at the same time: the rate of each while all of them read.
plan::ReadRate measure_bandwidth(lanes::Machine& machine, const std::vector<int>& lanes,
                                 tensor::Type type, Arena& arena);

}  // namespace troika::solve
