#include "model/linear_inputs.h"

#include <map>

namespace troika::model {

std::vector<LinearInput> linear_inputs(const Blueprint& blueprint) {
  std::vector<LinearInput> inputs;
  // Holds values that have not changed since a product has read them.
  std::map<ValueId, size_t> open;
  for (const Op& op : blueprint.ops) {
    const bool is_prompt = !blueprint.values[static_cast<size_t>(op.output)].per_output;
    if (op.kind == OpKind::kLinear && is_prompt && !op.keeps_float) {
      const ValueId value = op.inputs[0];
      if (!open.contains(value)) {
        open[value] = inputs.size();
        inputs.push_back({blueprint.weights[static_cast<size_t>(op.weight)].name,
                          {},
                          op.layer,
                          blueprint.values[static_cast<size_t>(value)].width});
      }
      inputs[open[value]].weights.push_back(op.weight);
    }
    if (op.is_dynamic()) open.clear();
    open.erase(op.output);
  }
  return inputs;
}

}  // namespace troika::model
