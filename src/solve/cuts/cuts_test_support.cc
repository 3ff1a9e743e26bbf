#include "solve/cuts/cuts_test_support.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "base/random.h"
#include "model/architecture.h"
#include "schedule/graphs.h"
#include "solve/profile/op_shapes.h"

namespace troika::solve {

RandomTimes::RandomTimes(uint64_t seed, int n_lanes, const weights::Store& weights)
    : weights_(weights) {
  for (int lane = 0; lane < n_lanes; ++lane) {
    const auto pick = [&](uint64_t i, double least, double most) {
      const double share = random_unit(seed, static_cast<uint64_t>(lane) * 16 + i);
      return least * std::pow(most / least, share);
    };
    lanes_.push_back({pick(0, 0.1, 50.0), pick(1, 1e3, 1e5), pick(2, 1e2, 1e4),
                      std::exp2(std::floor(pick(3, 1.0, 7.0))), pick(4, 0.4, 1.0)});
  }
  handover_us_ = std::pow(10.0, 3.0 * random_unit(seed, 1000) - 1.0);
}

double RandomTimes::task_us(int lane, const lanes::Subgraph& subgraph, TaskShape shape, int) const {
  const LaneLaw& law = lanes_[static_cast<size_t>(lane)];
  double us = law.start_us;
  each_op(subgraph, shape.present(), [&](const plan::OpShape& op) {
    const double steps = std::ceil(op.n_tokens / law.stage);
    const double flops = plan::op_flops(op) / op.n_tokens * steps * law.stage;
    us += std::max(flops / law.flops_per_us, plan::op_bytes(op) / law.bytes_per_us);
  });
  return us;
}

double RandomTimes::shared_us(int lane, std::span<const int> lanes, const lanes::Subgraph& subgraph,
                              TaskShape shape, int) const {
  if (lanes.size() < 2) return 0.0;
  const LaneLaw& law = lanes_[static_cast<size_t>(lane)];
  double us = 0.0;
  each_op(subgraph, shape.present(), [&](const plan::OpShape& op) {
    us += plan::op_bytes(op) / (law.bytes_per_us * law.share_together);
  });
  return us;
}

void RandomTimes::each_op(const lanes::Subgraph& subgraph, plan::Shape shape,
                          const std::function<void(const plan::OpShape&)>& take) const {
  for (size_t i = 0; i < subgraph.ops.size(); ++i) {
    const auto op = shape_of(subgraph, i, weights_, tensor::Type::kF16, shape, shape.n_rows);
    if (op) take(*op);
  }
}

CutModel::CutModel(const char* name) : CutModel(model::get_known(name)) {}

CutModel::CutModel(const model::KnownModel& known)
    : hollow(known, "q8_0"),
      file(hollow.open()),
      blueprint(model::read(file)),
      weights(file, blueprint),
      subgraphs(schedule::cut_into_subgraphs(blueprint)) {}

const lanes::Subgraph& CutModel::named(std::string_view name) const {
  for (const lanes::Subgraph& subgraph : subgraphs) {
    if (name == subgraph.name) return subgraph;
  }
  throw std::out_of_range(std::string(name));
}

plan::Plan plan_with(int n_lanes) {
  plan::Plan plan;
  plan.lanes.assign(static_cast<size_t>(n_lanes), plan::PlannedLane());
  plan.step_shapes = {1, 8};
  plan.prompt_shapes = {32, 64, 128};
  plan.output_shapes = {1};
  return plan;
}

CutRequest cut_request_of(const plan::Plan& plan) {
  CutRequest request;
  request.place.shapes = plan.body_shapes();
  request.cuts.n_lanes = static_cast<int>(plan.lanes.size());
  return request;
}

}  // namespace troika::solve
