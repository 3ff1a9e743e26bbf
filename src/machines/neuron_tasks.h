// A feed-forward part that goes by neurons, as tasks (P1–P6): which of them wait for which, and on
// which lanes they run. Tasks of a segment with nothing to do end at once, so that a pass has the
// same tasks for every token.
#pragma once

#include <vector>

#include "lanes/virtual/neurons/neuron_work.h"
#include "schedule/graphs.h"
#include "schedule/policy.h"

namespace troika::machines {

struct NeuronLanes {
  int cpu = 0;
  int npu = -1;  // -1: there is none
  int flash = 1;
};

class NeuronTasks : public schedule::FfnTasks {
 public:
  // The work must outlive this object and the tasks.
  NeuronTasks(const lanes::NeuronWork& work, NeuronLanes lanes) : work_(work), lanes_(lanes) {}

  std::vector<schedule::Task> in_place(int block, plan::Shape shape,
                                       const schedule::FfnPlace& place) const override;
  std::vector<schedule::Task> before(int block, plan::Shape shape,
                                     const schedule::FfnPlace& place) const override;

 private:
  const lanes::NeuronWork& work_;
  NeuronLanes lanes_;
};

// A policy by which each lane takes the first ready task: what waits for a read holds nothing else
// up.
class FirstReady : public schedule::Policy {
 public:
  int choose(const schedule::Situation& situation) override { return situation.ready.front(); }
};

}  // namespace troika::machines
