#include "model/hot_ffns.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/error.h"

namespace troika::model {
namespace {

// Adds what hot neurons have to a copy of the model.
class HotBuilder {
 public:
  explicit HotBuilder(const Blueprint& model) : model_(model) {
    hot_.blueprint = model;
    hot_.blueprint.ops.clear();
    hot_.blueprint.predictors.clear();
  }

  void add(const GatedFfn& ffn, int n_hot) {
    const size_t down = find_product(ffn.down), up = down - 2;
    const size_t gate = find_product(ffn.gate);
    HotFfn hot;
    hot.whole = ffn;
    Op op = model_.ops[gate];
    op.weight = hot.gate = weight("gate", ffn.layer, n_hot, ffn.gate);
    op.output = value("hot_gate", n_hot);
    hot.ops.push_back(op);
    op = model_.ops[up];
    op.weight = hot.up = weight("up", ffn.layer, n_hot, ffn.up);
    op.output = value("hot_up", n_hot);
    hot.ops.push_back(op);
    op = model_.ops[up + 1];
    op.inputs = {hot.ops[0].output, hot.ops[1].output, kNone};
    op.output = value("hot_activated", n_hot);
    hot.ops.push_back(op);
    const Op& whole = model_.ops[down];
    op = whole;
    op.weight = hot.down = last_weight(ffn, n_hot);
    op.inputs[0] = hot.ops[2].output;
    op.output = value("hot_sum", model_.values[static_cast<size_t>(whole.output)].width);
    hot.ops.push_back(op);
    hot.join = join(down, op.output);
    hot_.blueprint.ops.insert(hot_.blueprint.ops.end(), hot.ops.begin(), hot.ops.end());
    hot_.ffns.push_back(std::move(hot));
  }

  HotBlueprint take() { return std::move(hot_); }

 private:
  size_t find_product(WeightId weight) const {
    const auto at = std::find_if(model_.ops.begin(), model_.ops.end(), [&](const Op& op) {
      return op.kind == OpKind::kLinear && op.weight == weight;
    });
    TROIKA_ASSERT(at != model_.ops.end());
    return static_cast<size_t>(at - model_.ops.begin());
  }

  // Returns a value of this width; blocks use it again.
  ValueId value(const std::string& name, int width) {
    const auto next = static_cast<ValueId>(hot_.blueprint.values.size());
    const auto [at, is_new] = values_.try_emplace({name, width}, next);
    if (is_new) hot_.blueprint.values.push_back({name, width, false});
    return at->second;
  }

  WeightId add_weight(const std::string& name, int layer, int n_rows, int row_length) {
    const std::string whole = "blk." + std::to_string(layer) + ".hot_" + name + ".weight";
    hot_.blueprint.weights.push_back({whole, 0, n_rows, row_length, n_rows});
    return static_cast<WeightId>(hot_.blueprint.weights.size() - 1);
  }
  WeightId weight(const std::string& name, int layer, int n_hot, WeightId of) {
    return add_weight(name, layer, n_hot, model_.weights[static_cast<size_t>(of)].row_length);
  }
  WeightId last_weight(const GatedFfn& ffn, int n_hot) {
    return add_weight("down", ffn.layer, model_.weights[static_cast<size_t>(ffn.down)].n_rows,
                      n_hot);
  }

  // Returns what follows a block's last product in its layer, behind the sum of both parts.
  std::vector<Op> join(size_t down, ValueId hot_sum) const {
    const Op& product = model_.ops[down];
    Op add;
    add.kind = OpKind::kAdd;
    add.layer = product.layer;
    add.inputs = {product.output, hot_sum, kNone};
    add.output = product.output;
    std::vector<Op> ops = {add};
    for (size_t i = down + 1; i < model_.ops.size(); ++i) {
      if (model_.ops[i].layer != product.layer) break;
      ops.push_back(model_.ops[i]);
    }
    return ops;
  }

  const Blueprint& model_;
  HotBlueprint hot_;
  std::map<std::pair<std::string, int>, ValueId> values_;
};

}  // namespace

HotBlueprint with_hot_neurons(const Blueprint& model, std::span<const GatedFfn> ffns,
                              std::span<const int> n_hot) {
  TROIKA_ASSERT(ffns.size() == n_hot.size());
  HotBuilder builder(model);
  for (size_t i = 0; i < ffns.size(); ++i) builder.add(ffns[i], n_hot[i]);
  return builder.take();
}

}  // namespace troika::model
