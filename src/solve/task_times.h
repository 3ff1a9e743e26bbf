// How long subgraphs take on lanes, from whatever source: the machine itself, or a profile of it.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "lanes/machine.h"
#include "solve/predict.h"

namespace troika::solve {

class TaskTimes {
 public:
  virtual ~TaskTimes() = default;
  // The last token sees `context` positions.
  virtual double task_us(int lane, const lanes::Subgraph& subgraph, plan::Shape shape,
                         int context) const = 0;
  virtual double handover_us(int from, int to) const = 0;
};

// Runs each task and reads the machine's clock: for machines whose time is modelled and whose lanes
// compute nothing.
class RunTimes : public TaskTimes {
 public:
  // Everything must outlive this.
  RunTimes(lanes::Machine& machine, const weights::Store& weights, const lanes::Buffers& buffers);
  double task_us(int lane, const lanes::Subgraph& subgraph, plan::Shape shape,
                 int context) const override;
  double handover_us(int from, int to) const override;

 private:
  lanes::Machine& machine_;
  const weights::Store& weights_;
  const lanes::Buffers& buffers_;
  mutable std::map<std::pair<int, int>, double> handovers_us_;
};

// From measurements of single ops.
class ProfileTimes : public TaskTimes {
 public:
  ProfileTimes(const plan::Profile& profile, const weights::Store& weights, tensor::Type kv_type);
  double task_us(int lane, const lanes::Subgraph& subgraph, plan::Shape shape,
                 int context) const override;
  double handover_us(int from, int to) const override;

 private:
  const plan::Profile& profile_;
  Predictor predictor_;
  const weights::Store& weights_;
  tensor::Type kv_type_;
};

}  // namespace troika::solve
