#include "solve/predict_pass.h"

#include "schedule/graphs.h"
#include "solve/op_shapes.h"

namespace troika::solve {

double predict_pass_us(const Predictor& predictor, int lane, const model::Blueprint& blueprint,
                       const weights::Store& weights, const PassShape& pass) {
  double us = 0.0;
  for (const lanes::Subgraph& subgraph : schedule::cut_into_subgraphs(blueprint)) {
    us += predictor.start_us(lane);
    for (const model::Op& op : subgraph.ops) {
      const bool per_output = blueprint.values[static_cast<size_t>(op.output)].per_output;
      const int n = per_output ? pass.n_outputs : pass.n_tokens;
      us +=
          predictor.added_us(lane, shape_of(blueprint, op, weights, pass.kv_type, n, pass.context));
    }
  }
  return us;
}

}  // namespace troika::solve
