// Measures single ops and streams of reads through the interface of lanes: it sees a Machine and
// knows neither what its lanes are nor whether its time is real.
#pragma once

#include <memory>
#include <vector>

#include "base/huge_pages.h"
#include "lanes/machine.h"
#include "plan/plan.h"
#include "plan/profile.h"
#include "weights/store.h"

namespace troika::solve {

// Holds seeded blocks of one element type that serve as weights. Each matrix taken is another part
// of it, so that a weight is in no cache when its turn comes, as in a model far larger than caches.
class Arena {
 public:
  // `bytes` should be several times the last cache. The arena is empty before `prepare`.
  explicit Arena(size_t bytes);

  // Fills the arena with blocks of this type, unless they are there already.
  void prepare(tensor::Type type);
  // REQUIRES: the arena is prepared for this type, and the matrix fits.
  weights::Matrix take(tensor::Type type, int n_rows, int k);
  bool fits(const plan::OpShape& shape) const;
  // Reads all of the arena, so that little else is left in the caches.
  void sweep() const;
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  HugeBuffer data_;  // has huge pages, as loaded weights have
  size_t next_ = 0;
  int prepared_ = -1;  // a tensor::Type; -1: none
};

struct Patience {
  int n_warm = 1;  // counts runs that are not measured
  int least_runs = 3;
  int most_runs = 9;
  // The machine's time for the runs of one shape. When it is spent, no more runs begin beyond the
  // least number.
  double enough_us = 30'000.0;
  // Above 0, products of more tokens than decoding has are packed for int8, on pack_threads
  // threads.
  int pack_threads = 0;
  // Says that products read rows that stand side by side, as in the copy of a model. The content of
  // the blocks does not change the time.
  bool in_strips = false;
};

// Measures one op on one lane. Throws NotBuilt (one_op.h) where the lane cannot build it, Error
// where a run failed.
plan::OpTime measure_op(lanes::Machine& machine, int lane, const plan::OpShape& shape, Arena& arena,
                        const Patience& patience);

// Measures products in every arrangement that the lane names (N8), on machines whose lanes compute
// nothing: they need no weights and only one run.
std::vector<plan::OpTime> compare_arrangements(lanes::Machine& machine, int lane,
                                               const std::vector<plan::OpShape>& products);

// Measures a task that does next to nothing.
double measure_start_us(lanes::Machine& machine, int lane, Arena& arena);
// Measures how much longer it takes until the next task begins where it runs on the other lane than
// where it runs on the same one. The tasks are tiny, and the completion of each submits the next.
double measure_handover_us(lanes::Machine& machine, int from, int to);
// Measures lanes that read weights of this type at the same time: the rate of each while all of
// them read.
plan::ReadRate measure_bandwidth(lanes::Machine& machine, const std::vector<int>& lanes,
                                 tensor::Type type, Arena& arena);

}  // namespace troika::solve
