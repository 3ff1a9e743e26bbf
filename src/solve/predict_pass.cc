#include "solve/predict_pass.h"

#include <algorithm>

#include "schedule/cut/plan_cuts.h"
#include "schedule/graphs.h"
#include "solve/profile/op_shapes.h"

namespace troika::solve {
namespace {

// Returns the time of the subgraphs in order, whole or as the plan divides them, with a handover
// wherever the home lane changes. Absent rows cost something on lanes that compute every row of an
// executable, which `times` knows.
double chunk_us(const TimeModel& times, const plan::Plan& plan, const model::Blueprint& blueprint,
                plan::Shape rows, int context, bool with_head) {
  const plan::Shape shape = plan.body_shape(rows.phase, rows.n_rows);
  double us = 0.0;
  int before = -1;
  for (const lanes::Subgraph& subgraph : schedule::cut_into_subgraphs(blueprint, plan.splits)) {
    const bool is_of_head = subgraph.is_head();
    if (is_of_head && !with_head) continue;
    const plan::Shape built = is_of_head ? plan::Shape() : shape;
    const TaskShape task = is_of_head ? TaskShape(built) : TaskShape(built, rows.n_rows);
    const int lane = plan.lane_of(subgraph.name, built, subgraph.block());
    schedule::RangeCut parts = schedule::range_cut_of(plan, subgraph, built);
    us += parts.empty() ? times.task_us(lane, subgraph, task, context)
                        : times.pieces_us(schedule::lower(subgraph, {lane, std::move(parts)}), lane,
                                          task, context);
    if (before >= 0 && before != lane) us += times.handover_us(before, lane);
    before = lane;
  }
  return us;
}

}  // namespace

double predict_pass_us(const CostPredictor& predictor, int lane, const model::Blueprint& blueprint,
                       const weights::Store& weights, const PassShape& pass) {
  double us = 0.0;
  for (const lanes::Subgraph& subgraph : schedule::cut_into_subgraphs(blueprint)) {
    us += predictor.start_us(lane);
    for (const model::Op& op : subgraph.ops) {
      const bool per_output = blueprint.values[static_cast<size_t>(op.output)].per_output;
      const int n = per_output ? pass.n_outputs : pass.n_tokens;
      const plan::Shape shape = {per_output ? plan::Phase::kStep : pass.phase, n};
      us += predictor.added_us(lane,
                               shape_of(blueprint, op, weights, pass.kv_type, shape, pass.context));
    }
  }
  return us;
}

double predict_prompt_us(const TimeModel& times, const plan::Plan& plan,
                         const model::Blueprint& blueprint, int n_tokens) {
  double us = 0.0;
  for (int done = 0; done < n_tokens;) {
    const plan::Shape part = plan.prompt_chunk(done, n_tokens);
    done += part.n_rows;
    us += chunk_us(times, plan, blueprint, part, done, done == n_tokens);
  }
  return us;
}

double predict_step_us(const TimeModel& times, const plan::Plan& plan,
                       const model::Blueprint& blueprint, int context) {
  return chunk_us(times, plan, blueprint, {}, context, true);
}

}  // namespace troika::solve
