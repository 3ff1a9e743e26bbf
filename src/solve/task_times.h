// How long subgraphs and pieces of them take on lanes, from whatever source: the machine itself, or
// a profile of it.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "lanes/machine.h"
#include "schedule/cut/piece.h"
#include "solve/predict.h"

namespace troika::solve {

class TaskTimes {
 public:
  virtual ~TaskTimes() = default;
  // The last token sees `context` positions. The subgraph may be a slice.
  virtual double task_us(int lane, const lanes::Subgraph& subgraph, plan::Shape shape,
                         int context) const = 0;
  virtual double handover_us(int from, int to) const = 0;
  // The least that such a task takes while these lanes, in ascending order, all read.
  virtual double shared_us(int /*lane*/, std::span<const int> /*lanes*/,
                           const lanes::Subgraph& /*subgraph*/, plan::Shape /*shape*/,
                           int /*context*/) const {
    return 0.0;
  }
  // A subgraph as pieces, from when the `home` lane has what they read to when it has what they
  // make. Here each lane takes its pieces in their order, as soon as what they wait for has ended
  // and was handed over; those that wait for the same on several lanes share the bus.
  virtual double pieces_us(std::span<const schedule::Piece> pieces, int home, plan::Shape shape,
                           int context) const;
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
  // As the scheduler runs them, one such subgraph behind another.
  double pieces_us(std::span<const schedule::Piece> pieces, int home, plan::Shape shape,
                   int context) const override;

 private:
  lanes::Machine& machine_;
  const weights::Store& weights_;
  const lanes::Buffers& buffers_;
  mutable std::map<std::pair<int, int>, double> handovers_us_;
};

// Lanes rest behind each task, so that they are busy for no more than a share of the time (H14):
// what others find for such a lane takes so much longer.
class CappedTimes : public TaskTimes {
 public:
  // `times` and `lanes` must outlive this.
  CappedTimes(const TaskTimes& times, std::span<const plan::HostLane> lanes)
      : times_(times), lanes_(lanes) {}
  double task_us(int lane, const lanes::Subgraph& subgraph, plan::Shape shape,
                 int context) const override {
    return times_.task_us(lane, subgraph, shape, context) /
           lanes_[static_cast<size_t>(lane)].busy_share();
  }
  double handover_us(int from, int to) const override { return times_.handover_us(from, to); }
  double shared_us(int lane, std::span<const int> lanes, const lanes::Subgraph& subgraph,
                   plan::Shape shape, int context) const override {
    return times_.shared_us(lane, lanes, subgraph, shape, context) /
           lanes_[static_cast<size_t>(lane)].busy_share();
  }
  double pieces_us(std::span<const schedule::Piece> pieces, int home, plan::Shape shape,
                   int context) const override;

 private:
  const TaskTimes& times_;
  std::span<const plan::HostLane> lanes_;
};

// From measurements of single ops. What a lane refuses takes for ever.
class ProfileTimes : public TaskTimes {
 public:
  ProfileTimes(const plan::Profile& profile, const weights::Store& weights, tensor::Type kv_type);
  double task_us(int lane, const lanes::Subgraph& subgraph, plan::Shape shape,
                 int context) const override;
  double handover_us(int from, int to) const override;
  double shared_us(int lane, std::span<const int> lanes, const lanes::Subgraph& subgraph,
                   plan::Shape shape, int context) const override;

 private:
  const plan::Profile& profile_;
  Predictor predictor_;
  const weights::Store& weights_;
  tensor::Type kv_type_;
};

}  // namespace troika::solve
