// A task's own bindings: what it binds for itself when it runs, beside what a pass binds for all of
// its tasks (Run).
#pragma once

#include <algorithm>
#include <vector>

#include "model/blueprint.h"
#include "weights/lease.h"
#include "weights/store.h"

namespace troika::lanes {

// Leases of weights that may go away between runs. Room for all of them is made together with the
// executable, so that runs allocate nothing. One thread at a time uses it.
class TaskBindings {
 public:
  // Adds the lease of one weight and returns its index. Called once for each weight, when the
  // executable is built.
  int add(model::WeightId weight) {
    wanted_.push_back(weight);
    leases_.emplace_back();
    return static_cast<int>(wanted_.size()) - 1;
  }
  bool empty() const { return wanted_.empty(); }
  // Returns the bindings of another run, which needs no leases.
  TaskBindings unbound() const {
    TaskBindings other;
    for (const model::WeightId weight : wanted_) other.add(weight);
    return other;
  }
  // Takes those leases that are not ready yet, and returns whether all are ready now. Never blocks;
  // may be called before the task is submitted.
  bool acquire(const weights::Store& store) {
    bool are_ready = true;
    for (size_t i = 0; i < wanted_.size(); ++i) {
      weights::Lease& lease = leases_[i];
      if (!lease.is_ready()) lease = store.acquire(wanted_[i]);
      are_ready = are_ready && lease.is_ready();
    }
    return are_ready;
  }
  void give_back() {
    for (weights::Lease& lease : leases_) lease = {};
  }
  const weights::Lease& lease(int index) const { return leases_[static_cast<size_t>(index)]; }

 private:
  std::vector<model::WeightId> wanted_;
  std::vector<weights::Lease> leases_;
};

}  // namespace troika::lanes
