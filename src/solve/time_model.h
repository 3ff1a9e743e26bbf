// Says how long subgraphs and pieces of them take on lanes: by the machine itself, or by a profile
// of it.
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

// What a task runs: an executable, and how many of its rows are present. Most lanes compute the
// rows that are present; lanes of static graphs compute all that the executable was built for.
struct TaskShape {
  TaskShape(plan::Shape shape)  // NOLINT: converts, because all rows are present in most tasks
      : built(shape), n_present(shape.n_rows) {}
  TaskShape(plan::Shape shape, int n_rows) : built(shape), n_present(n_rows) {}

  plan::Shape present() const { return {built.phase, n_present}; }

  plan::Shape built;
  int n_present;
};

class TimeModel {
 public:
  virtual ~TimeModel() = default;
  // Returns the time of a subgraph, which may be a slice. The last token sees `context` positions.
  virtual double task_us(int lane, const lanes::Subgraph& subgraph, TaskShape shape,
                         int context) const = 0;
  virtual double handover_us(int from, int to) const = 0;
  // Returns the least time of such a task while these lanes, in ascending order, all read.
  virtual double shared_us(int /*lane*/, std::span<const int> /*lanes*/,
                           const lanes::Subgraph& /*subgraph*/, TaskShape /*shape*/,
                           int /*context*/) const {
    return 0.0;
  }
  // Returns the time of a subgraph as pieces, from when the `home` lane has what they read to when
  // it has what they make. In this class each lane takes its pieces in their order, as soon as what
  // they wait for has ended and was handed over. Pieces on several lanes that wait for the same
  // ones share the bus.
  virtual double pieces_us(std::span<const schedule::Piece> pieces, int home, TaskShape shape,
                           int context) const;
};

// Runs each task and reads the machine's clock: for machines whose time is modelled and whose lanes
// compute nothing.
class RunTimes : public TimeModel {
 public:
  // All arguments must outlive this.
  RunTimes(lanes::Machine& machine, const weights::Store& weights, const lanes::Buffers& buffers);
  double task_us(int lane, const lanes::Subgraph& subgraph, TaskShape shape,
                 int context) const override;
  double handover_us(int from, int to) const override;
  // Runs the pieces as the scheduler does, one such subgraph behind another.
  double pieces_us(std::span<const schedule::Piece> pieces, int home, TaskShape shape,
                   int context) const override;

 private:
  lanes::Machine& machine_;
  const weights::Store& weights_;
  const lanes::Buffers& buffers_;
  mutable std::map<std::pair<int, int>, double> handovers_us_;
};

// Lets lanes rest after each task, so that they are busy for no more than a share of the time
// (H14). The times that another source has for such a lane become longer by that.
class CappedTimes : public TimeModel {
 public:
  // `times` and `lanes` must outlive this.
  CappedTimes(const TimeModel& times, std::span<const plan::PlannedLane> lanes)
      : times_(times), lanes_(lanes) {}
  double task_us(int lane, const lanes::Subgraph& subgraph, TaskShape shape,
                 int context) const override {
    return times_.task_us(lane, subgraph, shape, context) /
           lanes_[static_cast<size_t>(lane)].busy_share();
  }
  double handover_us(int from, int to) const override { return times_.handover_us(from, to); }
  double shared_us(int lane, std::span<const int> lanes, const lanes::Subgraph& subgraph,
                   TaskShape shape, int context) const override {
    return times_.shared_us(lane, lanes, subgraph, shape, context) /
           lanes_[static_cast<size_t>(lane)].busy_share();
  }
  double pieces_us(std::span<const schedule::Piece> pieces, int home, TaskShape shape,
                   int context) const override;

 private:
  const TimeModel& times_;
  std::span<const plan::PlannedLane> lanes_;
};

// Says whether executables of a lane compute every row that they were built for.
bool has_fixed_shapes(const plan::PlannedLane& lane);

// Takes times from measurements of single ops. What a lane refuses takes for ever.
class ProfileTimes : public TimeModel {
 public:
  // The profile, the weights and the lanes, which are the first of the profile, must outlive this.
  ProfileTimes(const plan::Profile& profile, std::span<const plan::PlannedLane> lanes,
               const weights::Store& weights, tensor::Type kv_type);
  double task_us(int lane, const lanes::Subgraph& subgraph, TaskShape shape,
                 int context) const override;
  double handover_us(int from, int to) const override;
  double shared_us(int lane, std::span<const int> lanes, const lanes::Subgraph& subgraph,
                   TaskShape shape, int context) const override;

 private:
  plan::Shape computed(int lane, const lanes::Subgraph& subgraph, TaskShape shape) const;
  double shared_gb_s(int lane, std::span<const int> lanes) const;

  const plan::Profile& profile_;
  std::span<const plan::PlannedLane> lanes_;
  CostPredictor predictor_;
  const weights::Store& weights_;
  tensor::Type kv_type_;
};

}  // namespace troika::solve
