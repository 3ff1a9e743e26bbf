#include "lanes/host/bound_ops.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "lanes/host/experts/expert_reads.h"
#include "lanes/host/neurons/neuron_ffn.h"
#include "lanes/host/sparse/head_parts.h"
#include "model/rope.h"

namespace troika::lanes {
namespace {

using model::OpKind;

BoundRope bind_rope(const model::Op& op, const model::Blueprint& blueprint) {
  const model::Rope& rope = blueprint.ropes[static_cast<size_t>(op.rope)];
  return {blueprint.head_dim, rope.n_dims, rope.is_half_split,
          model::first_pair_of(blueprint.ropes, op.rope),
          model::first_pair_of(blueprint.ropes, static_cast<int>(blueprint.ropes.size()))};
}

BoundAttention bind_attention(const Subgraph& subgraph, const model::Op& op, int output_width,
                              const Buffers& buffers, const Precision& precision) {
  const model::Blueprint& blueprint = *subgraph.blueprint;
  const int head_dim = blueprint.head_dim;
  if (static_cast<size_t>(head_dim) > kernels::kMaxHeadSize) {
    throw Error(
        fmt::format("The model's attention heads have {} elements, and at most {} are supported. "
                    "Use a model with shorter ones.",
                    head_dim, kernels::kMaxHeadSize));
  }
  const int n_group = output_width / (blueprint.n_kv_heads * head_dim);
  const Range heads = subgraph.slice.heads.within(blueprint.n_kv_heads);
  const plan::LayerAttention layer =
      plan::attention_of_layer(precision.attention, op.layer, output_width / head_dim, op.window);
  // Only attention that is a single task can leave heads out.
  for (const int head : subgraph.sparse.heads) TROIKA_ASSERT(!layer.is_left_out(head));
  return {head_dim,
          n_group,
          heads.begin,
          heads.end,
          plan::shares_keys(precision.prefill),
          layer,
          subgraph.role,
          subgraph.sparse.heads,
          key_heads_of(subgraph.sparse.heads, n_group),
          buffers.heads()};
}

// Narrows an op to the slice's tokens. The rows that a selection reads stay those of the whole
// batch.
void take_tokens(const Subgraph& subgraph, const Buffers& buffers, BoundOp* bound) {
  const auto first = static_cast<size_t>(subgraph.slice.tokens.begin);
  const model::Op& op = bound->op;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i] == model::kNone || op.kind == OpKind::kSelect) continue;
    bound->inputs[i] += first * static_cast<size_t>(buffers.width(op.inputs[i]));
  }
  bound->output += first * static_cast<size_t>(buffers.width(op.output));
}

// Binds what ops of all kinds have.
BoundOp bind_values(const Subgraph& subgraph, size_t index, const Buffers& buffers) {
  const model::Blueprint& blueprint = *subgraph.blueprint;
  BoundOp bound;
  const model::Op& op = bound.op = subgraph.ops[index];
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i] != model::kNone) bound.inputs[i] = buffers.view(op.inputs[i]).floats();
  }
  if (op.inputs[0] != model::kNone) bound.input_width = buffers.width(op.inputs[0]);
  bound.output = buffers.view(op.output).floats();
  bound.output_width = buffers.width(op.output);
  if (op.kind == OpKind::kExpertLinear) {
    bound.output_width /= blueprint.n_experts_used;
    if (op.takes_parts) bound.input_width /= blueprint.n_experts_used;
  }
  const Range columns = subgraph.slice.columns_of(index).within(bound.output_width);
  bound.first_column = columns.begin;
  bound.last_column = columns.end;
  bound.per_output = blueprint.values[static_cast<size_t>(op.output)].per_output;
  if (subgraph.slice.tokens.begin > 0) take_tokens(subgraph, buffers, &bound);
  return bound;
}

BoundOp bind(const Subgraph& subgraph, size_t index, const weights::Store& weights,
             const Buffers& buffers, const kernels::Table& kernels, const Precision& precision) {
  const model::Blueprint& blueprint = *subgraph.blueprint;
  BoundOp bound = bind_values(subgraph, index, buffers);
  const model::Op& op = bound.op;
  const auto vector_of = [&](model::WeightId id) {
    return id != model::kNone ? weights.vector(id) : nullptr;
  };
  switch (op.kind) {
    case OpKind::kEmbed:
      bound.own = BoundEmbedding{weights.matrix(op.weight)};
      break;
    case OpKind::kRmsNorm:
    case OpKind::kLayerNorm:
      bound.own = BoundNorm{vector_of(op.weight), vector_of(op.bias)};
      break;
    case OpKind::kRope:
      bound.own = bind_rope(op, blueprint);
      break;
    case OpKind::kAttention:
      bound.own = bind_attention(subgraph, op, bound.output_width, buffers, precision);
      break;
    case OpKind::kLinear:
      bound.own = bind_product(op, weights, kernels, precision);
      break;
    case OpKind::kExpertLinear:
      bound.own = bind_product(op, weights, kernels, precision);
      bound.product()->experts = experts_of_op(blueprint, op, weights);
      bound.product()->guess =
          bind_guess(blueprint, bound.product()->experts, weights, buffers, kernels);
      break;
    case OpKind::kRoute:
      bound.own = ExpertCounts{blueprint.n_experts, blueprint.n_experts_used};
      break;
    case OpKind::kExpertSum:
      bound.own = experts_of_op(blueprint, op, weights);
      break;
    case OpKind::kGate:
    case OpKind::kActivate:
    case OpKind::kAdd:
    case OpKind::kSelect:
    case OpKind::kSoftCap:
    case OpKind::kSigmoidGate:
      break;
  }
  return bound;
}

// Remembers which value stands prepared at hand, and in which form.
class PreparedInput {
 public:
  // Sets whether a product must prepare its input itself.
  void place(BoundOp* bound) {
    const model::Op& op = bound->op;
    BoundProduct* const product = bound->product();
    if (product != nullptr && prepared_row_bytes(*bound) > 0) {
      const bool is_in_parts = op.kind == OpKind::kExpertLinear;
      product->prepares_input = op.inputs[0] != value_ || product->form != form_ ||
                                product->spread_token != spread_token_ ||
                                product->turned_from != turned_from_ || is_in_parts != is_in_parts_;
      value_ = op.inputs[0];
      form_ = product->form;
      spread_token_ = product->spread_token;
      turned_from_ = product->turned_from;
      is_in_parts_ = is_in_parts;
    }
    if (op.output == value_) value_ = model::kNone;
  }

 private:
  model::ValueId value_ = model::kNone;
  InputForm form_ = InputForm::kFloat;
  kernels::SpreadToken* spread_token_ = nullptr;
  size_t turned_from_ = 0;
  bool is_in_parts_ = false;
};

// Remembers what may be under way on other workers when a worker reaches an op.
class Meetings {
 public:
  // Sets where the workers meet. Ops that go row by row need no meeting: each worker goes on with
  // what it has made itself. Products need all of their input, and make what other workers need.
  void place(BoundOp* bound) {
    const BoundProduct* const product = bound->product();
    if (product != nullptr && product->neurons != nullptr) {
      bound->meets_before = true;  // the op reads what the product before it makes
      clear();
      products_.push_back({bound->op.inputs[0], bound->op.output});
    } else if (bound->op.kind == OpKind::kLinear) {
      // A product that goes by rows prepares its input; then the workers meet within the product.
      const bool by_rows = product->prepares_input;
      bound->meets_before = by_rows ? needed_by_rows(*bound) : needed_by_product(*bound);
      if (by_rows || bound->meets_before) clear();
      products_.push_back({bound->op.inputs[0], bound->op.output});
    } else if (bound->op.kind == OpKind::kExpertLinear) {
      // The op's rows are those of all workers, in another order.
      bound->meets_before =
          product->prepares_input ? by_rows_ || !products_.empty() : needed_by_product(*bound);
      if (product->prepares_input || bound->meets_before) clear();
      products_.push_back({bound->op.inputs[0], bound->op.output});
    } else if (bound->op.kind == OpKind::kAttention) {
      bound->meets_before = by_rows_ || !products_.empty();
      clear();
      products_.push_back({bound->op.inputs[0], bound->op.output});
    } else {
      bound->meets_before = needed_by_rows(*bound);
      if (bound->meets_before) clear();
      by_rows_ = true;
      per_output_ = bound->per_output;
    }
  }

 private:
  struct Product {
    model::ValueId input, output;
  };

  bool needed_by_rows(const BoundOp& bound) const {
    if (!products_.empty()) return true;
    return by_rows_ && (bound.op.kind == OpKind::kSelect || bound.per_output != per_output_);
  }
  // Says whether an op touches values of products that may be under way. Products that run side by
  // side may not touch each other's values.
  bool needed_by_product(const BoundOp& bound) const {
    const model::ValueId input = bound.op.inputs[0], output = bound.op.output;
    return by_rows_ || std::any_of(products_.begin(), products_.end(), [&](const Product& other) {
             return other.output == output || other.output == input || other.input == output;
           });
  }
  void clear() {
    by_rows_ = false;
    products_.clear();
  }

  bool by_rows_ = false;
  bool per_output_ = false;
  std::vector<Product> products_;
};

// Binds the parts of products with outliers. An extraction brings one activation into its form for
// all products behind it.
std::vector<BoundOp> bind_outlier_parts(const Subgraph& subgraph, const weights::Store& weights,
                                        const Buffers& buffers, const kernels::Table& kernels,
                                        const Precision& precision) {
  std::vector<BoundOp> ops;
  const size_t n_ops = subgraph.role == Role::kExtract ? 1 : subgraph.ops.size();
  for (size_t i = 0; i < n_ops; ++i) {
    BoundOp bound = bind(subgraph, i, weights, buffers, kernels, precision);
    BoundProduct* const product = bound.product();
    TROIKA_ASSERT(product != nullptr && product->form == InputForm::kInt8 &&
                  product->int8_rule.takes_outliers());
    product->outliers = {subgraph.role, buffers.shadow(), weights.channels_of(bound.op.weight)};
    TROIKA_ASSERT(product->outliers.areas != nullptr && product->outliers.channels != nullptr);
    ops.push_back(bound);
  }
  return ops;
}

// Binds the product with the gate's rows that a predictor chooses; it takes its input in the form
// of `up`'s.
NeuronGate bind_gate(const BoundProduct& up, const weights::NeuronFfn& ffn,
                     const weights::Store& weights, const kernels::Table& kernels) {
  NeuronGate gate;
  gate.matrix = weights.matrix(ffn.ffn.gate);
  const tensor::Type type = ffn.predictor->shape().type;
  gate.f32 = kernels::find(kernels.matmul_f32, gate.matrix.type);
  gate.predictor_f32 = kernels::find(kernels.matmul_f32, type);
  if (up.form == InputForm::kFloat) return gate;
  gate.q8 = kernels::find(kernels.matmul_q8, gate.matrix.type);
  gate.predictor_q8 = kernels::find(kernels.matmul_q8, type);
  TROIKA_ASSERT(gate.q8 != nullptr && gate.predictor_q8 != nullptr);
  return gate;
}

// Says whether an op is a gate whose rows are computed by the block that follows.
bool is_predicted_gate(const Subgraph& subgraph, size_t index, const weights::Store& weights) {
  const model::Op& op = subgraph.ops[index];
  const bool is_product = op.kind == OpKind::kLinear || op.kind == OpKind::kExpertLinear;
  if (!is_product || weights.neurons() == nullptr) return false;
  for (size_t i = index + 1; i < subgraph.ops.size(); ++i) {
    const weights::NeuronFfn* const ffn = neuron_ffn_at(subgraph, i, weights);
    if (ffn != nullptr && ffn->ffn.gate == op.weight && predicts(*ffn)) {
      return subgraph.ops[i].inputs[0] == op.inputs[0];
    }
  }
  return false;
}

// Binds three ops as one, which reads the gate beside its input and writes what the last of the
// three writes.
BoundOp bind_neurons(const Subgraph& subgraph, size_t index, const weights::NeuronFfn& ffn,
                     const weights::Store& weights, const Buffers& buffers,
                     const kernels::Table& kernels, const Precision& precision) {
  BoundOp bound = bind(subgraph, index, weights, buffers, kernels, precision);
  const BoundOp activation = bind_values(subgraph, index + 1, buffers);
  const BoundOp down = bind_values(subgraph, index + 2, buffers);
  // Experts have their routes as the second input.
  const size_t of_gate = ffn.ffn.is_expert() ? 2 : 1;
  bound.op.inputs[of_gate] = activation.op.inputs[0];
  bound.inputs[of_gate] = activation.inputs[0];
  bound.op.output = down.op.output;
  bound.output = down.output;
  bound.output_width = down.output_width;
  bound.last_column = down.last_column;
  BoundProduct* const product = bound.product();
  product->take_rows();  // rows of single neurons are multiplied
  TROIKA_ASSERT(product->form == InputForm::kFloat || product->form == InputForm::kQ8);
  product->neurons = &ffn;
  if (predicts(ffn)) product->gate = bind_gate(*product, ffn, weights, kernels);
  return bound;
}

}  // namespace

size_t prepared_row_bytes(const BoundOp& bound) {
  const BoundProduct& product = bound.as<BoundProduct>();
  const auto k = static_cast<size_t>(bound.input_width);
  const bool is_gathered = bound.op.kind == OpKind::kExpertLinear && !bound.op.takes_parts;
  return product.form == InputForm::kFloat && is_gathered ? k * sizeof(float)
                                                          : form_bytes(product.form, k);
}

std::vector<BoundOp> bind_ops(const Subgraph& subgraph, const weights::Store& weights,
                              const Buffers& buffers, const kernels::Table& kernels,
                              const Precision& precision) {
  const bool is_of_attention = subgraph.role == Role::kStore || is_of_heads(subgraph.role);
  TROIKA_ASSERT(!is_of_attention || (subgraph.is_dynamic() && buffers.heads() != nullptr));
  if (subgraph.role != Role::kWhole && !is_of_attention) {
    return bind_outlier_parts(subgraph, weights, buffers, kernels, precision);
  }
  std::vector<BoundOp> ops;
  PreparedInput prepared;
  Meetings meetings;
  // Steps go by neuron, and so do prompts that are computed as steps are. Other prompts read the
  // matrices.
  const bool is_by_neuron = precision.prefill == plan::Prefill::kSame;
  if (is_by_neuron) check_neuron_ffns(subgraph, weights);
  for (size_t i = 0; i < subgraph.ops.size(); ++i) {
    if (is_by_neuron && is_predicted_gate(subgraph, i, weights)) continue;
    const weights::NeuronFfn* const ffn =
        is_by_neuron ? neuron_ffn_at(subgraph, i, weights) : nullptr;
    BoundOp bound = ffn != nullptr
                        ? bind_neurons(subgraph, i, *ffn, weights, buffers, kernels, precision)
                        : bind(subgraph, i, weights, buffers, kernels, precision);
    if (ffn != nullptr) i += 2;
    prepared.place(&bound);
    meetings.place(&bound);
    ops.push_back(bound);
  }
  return ops;
}

}  // namespace troika::lanes
