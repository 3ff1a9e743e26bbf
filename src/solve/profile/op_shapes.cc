#include "solve/profile/op_shapes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/random.h"

namespace troika::solve {
namespace {

using model::OpKind;
using plan::OpShape;
using plan::Phase;
using plan::Shape;

constexpr Shape kPlanShapes[] = {{Phase::kStep, 1},    {Phase::kStep, 8},    {Phase::kStep, 32},
                                 {Phase::kStep, 64},   {Phase::kPrompt, 32}, {Phase::kPrompt, 128},
                                 {Phase::kPrompt, 512}};
constexpr int kMostOutputs = 64;
// Is the widest pass that the plots of one product show as a step.
constexpr int kStageSteps = 32;
constexpr int kContexts[] = {64, 512, 2048};
// An op with more operations says little more than a smaller one does.
constexpr double kMostFlops = 2e10;
constexpr double kMostGridFlops = 3e9;
constexpr double kMostGridAttentionFlops = 3e8;

OpShape linear(tensor::Type type, int n_rows, int k, Shape shape) {
  return {OpKind::kLinear, type, n_rows, k, shape.n_rows, 0, 0, shape.phase};
}

OpShape on_rows(OpKind op, int n_rows, int n_tokens, int head_dim = 0) {
  return {op, tensor::Type::kF32, n_rows, n_rows, n_tokens, 0, head_dim};
}

void add_attention(int q_width, int kv_width, int head_dim, tensor::Type kv_type, double most_flops,
                   std::set<OpShape>* shapes) {
  for (const auto& [phase, n] :
       {Shape{Phase::kStep, 1}, Shape{Phase::kStep, 32}, Shape{Phase::kPrompt, 32},
        Shape{Phase::kPrompt, 128}, Shape{Phase::kPrompt, 512}}) {
    for (const int past : kContexts) {
      const OpShape shape = {OpKind::kAttention, kv_type,  q_width, kv_width, n,
                             n + past,           head_dim, phase};
      if (plan::op_flops(shape) <= most_flops) shapes->insert(shape);
    }
  }
}

// Says whether rows may be logits, which are always computed in steps.
bool is_of_head(Shape shape) { return shape.phase == Phase::kStep && shape.n_rows <= kMostOutputs; }

// Puts one shape of each op and phase first, because without it nothing of its kind can be
// predicted; then products and attention, which decide how long a model takes; then the rest.
std::vector<OpShape> important_first(const std::set<OpShape>& shapes) {
  std::vector<OpShape> sorted(shapes.begin(), shapes.end());
  std::set<std::tuple<OpKind, tensor::Type, Phase>> seen;
  std::map<OpShape, int> rank;
  for (const OpShape& shape : sorted) {
    const bool is_first = seen.insert({shape.op, shape.type, shape.phase}).second;
    const bool is_dear = shape.op == OpKind::kLinear || shape.op == OpKind::kAttention;
    rank[shape] = is_first ? 0 : is_dear ? 1 : 2;
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const OpShape& a, const OpShape& b) { return rank[a] < rank[b]; });
  return sorted;
}

void shuffle(std::vector<OpShape>* shapes) {
  for (size_t i = shapes->size(); i > 1; --i) {
    std::swap((*shapes)[i - 1], (*shapes)[random_bits(17, i) % i]);
  }
}

// Sets the single product that stands for those of experts. It has the experts that some token
// takes, below each other, and each expert's share of the tokens. Every choice of experts is
// assumed to be equally likely.
void set_expert_product(const model::Blueprint& blueprint, const model::Op& op, int n_tokens,
                        OpShape* shape) {
  const model::Weight& all = blueprint.weights[static_cast<size_t>(op.weight)];
  const double n_experts = blueprint.n_experts, n_used = blueprint.n_experts_used;
  const double n_touched = n_experts * (1.0 - std::pow(1.0 - n_used / n_experts, n_tokens));
  const auto n_whole = std::max(1, static_cast<int>(std::lround(n_touched)));
  shape->op = OpKind::kLinear;
  shape->n_rows = all.n_rows / blueprint.n_experts * n_whole;
  shape->k = all.row_length;
  shape->n_tokens = std::max(1, static_cast<int>(std::lround(n_tokens * n_used / n_whole)));
}

// Returns the op that is measured in place of one that only some models have.
OpKind measured_kind(OpKind kind) {
  switch (kind) {
    case OpKind::kSoftCap:
    case OpKind::kRoute:
    case OpKind::kSigmoidGate:
      return OpKind::kActivate;
    case OpKind::kExpertSum:
      return OpKind::kAdd;
    default:
      return kind;
  }
}

// Lists square, wide and tall products, and sizes that are no powers of two, as models have them.
constexpr std::pair<int, int> kGridSizes[] = {
    {256, 256},
    {256, 2048},
    {2048, 256},
    {576, 1536},
    {1536, 512},
    {1000, 768},
    {768, 3072},
    {3072, 768},
    {1536, 1536},
    {2048, 2048},
    {1280, 3584},
    {4096, 1024},
    {1024, 4096},
    {5632, 2048},
    {2048, 5632},
    {3072, 3072},
    {8192, 2048},
    {2048, 8192},
    {4096, 4096},
    {512, 512},
    {320, 6144},
    {6144, 320},
    {12288, 1024},
    // The last two are shaped as heads of models are, in which a step of decoding spends a third of
    // its time.
    {32768, 1024},
    {65536, 896}};

}  // namespace

OpShape shape_of(const model::Blueprint& blueprint, const model::Op& op,
                 const weights::Store& weights, tensor::Type kv_type, Shape built, int context) {
  const int n_tokens = built.n_rows;
  const auto width = [&](model::ValueId id) {
    return id == model::kNone ? 1 : blueprint.values[static_cast<size_t>(id)].width;
  };
  OpShape shape;
  shape.op = measured_kind(op.kind);
  shape.n_rows = width(op.output);
  shape.k = width(op.inputs[0]);
  shape.n_tokens = n_tokens;
  if (op.kind == OpKind::kExpertLinear) {
    shape.type = weights.matrix(op.weight).type;
    set_expert_product(blueprint, op, n_tokens, &shape);
  } else if (op.kind == OpKind::kLinear || op.kind == OpKind::kEmbed) {
    shape.type = weights.matrix(op.weight).type;
    if (op.kind == OpKind::kEmbed) shape.k = shape.n_rows;
  } else if (op.kind == OpKind::kAttention) {
    shape.type = kv_type;
    shape.k = width(op.inputs[1]);
    // A chunk sees at most what stands before it in the window, and itself.
    shape.context = std::max(context, n_tokens);
    if (op.window > 0) shape.context = std::min(shape.context, op.window + n_tokens);
    shape.head_dim = blueprint.head_dim;
  } else if (op.kind == OpKind::kRope) {
    shape.head_dim = blueprint.head_dim;
  }
  if (plan::depends_on_phase(shape.op)) shape.phase = built.phase;
  return shape;
}

std::optional<OpShape> shape_of(const lanes::Subgraph& subgraph, size_t index,
                                const weights::Store& weights, tensor::Type kv_type, Shape built,
                                int context) {
  const model::Op& op = subgraph.ops[index];
  const lanes::Slice& slice = subgraph.slice;
  const int n_present = slice.tokens.within(built.n_rows).size();
  if (n_present == 0) return std::nullopt;
  OpShape shape = shape_of(*subgraph.blueprint, op, weights, kv_type, built, context);
  if (!slice.tokens.is_all()) {
    const Shape part = {built.phase, n_present};
    shape = shape_of(*subgraph.blueprint, op, weights, kv_type, part, context);
  }
  if (op.kind == OpKind::kAttention && !slice.heads.is_all()) {
    const int n_heads = subgraph.blueprint->n_kv_heads;
    const int n_here = slice.heads.within(n_heads).size();
    shape.n_rows = shape.n_rows / n_heads * n_here;
    shape.k = shape.k / n_heads * n_here;
  } else if (!slice.columns_of(index).is_all()) {
    const bool is_by_element = shape.n_rows == shape.k && op.kind != OpKind::kLinear;
    shape.n_rows = slice.columns_of(index).within(shape.n_rows).size();
    if (is_by_element) shape.k = shape.n_rows;
  }
  if (shape.n_rows == 0) return std::nullopt;
  return shape;
}

std::vector<OpShape> model_shapes(const model::Blueprint& blueprint, const weights::Store& weights,
                                  tensor::Type kv_type) {
  std::set<OpShape> shapes;
  for (const model::Op& op : blueprint.ops) {
    if (op.kind == OpKind::kAttention) {
      const OpShape shape = shape_of(blueprint, op, weights, kv_type, {}, 1);
      add_attention(shape.n_rows, shape.k, shape.head_dim, kv_type, kMostFlops, &shapes);
      continue;
    }
    const bool per_output = blueprint.values[static_cast<size_t>(op.output)].per_output;
    for (const Shape& built : kPlanShapes) {
      if (per_output && !is_of_head(built)) continue;
      const OpShape shape = shape_of(blueprint, op, weights, kv_type, built, built.n_rows);
      if (plan::op_flops(shape) <= kMostFlops) shapes.insert(shape);
    }
  }
  return important_first(shapes);
}

std::vector<OpShape> model_shapes(const model::KnownModel& model, tensor::Type type,
                                  tensor::Type kv_type) {
  std::set<OpShape> shapes;
  const auto block = static_cast<uint64_t>(tensor::type_info(type).block_length);
  const auto add_matrix = [&](int n_rows, int k, bool per_output) {
    for (const Shape& built : kPlanShapes) {
      if (per_output && !is_of_head(built)) continue;
      if (static_cast<uint64_t>(k) % block != 0) continue;
      const OpShape shape = linear(type, n_rows, k, built);
      if (plan::op_flops(shape) <= kMostFlops) shapes.insert(shape);
    }
  };
  for (const model::KnownTensor& tensor : model::known_tensors(model)) {
    const bool is_matrix =
        tensor.role == model::TensorRole::kMatrix || tensor.role == model::TensorRole::kInnerMatrix;
    if (!is_matrix || tensor.shape.size() < 2) continue;
    add_matrix(static_cast<int>(tensor.shape[1]), static_cast<int>(tensor.shape[0]),
               tensor.name == "output.weight");
  }
  const auto width = static_cast<int>(model.width);
  const auto head_dim = static_cast<int>(model.head_dim);
  const auto q_width = static_cast<int>(model.query_width());
  if (model.tied_embeddings) add_matrix(static_cast<int>(model.n_vocab), width, true);
  for (const auto& [phase, n] : kPlanShapes) {
    shapes.insert(on_rows(OpKind::kRmsNorm, width, n));
    shapes.insert(on_rows(OpKind::kAdd, width, n));
    shapes.insert(on_rows(OpKind::kGate, static_cast<int>(model.ffn_width), n));
    shapes.insert(on_rows(OpKind::kRope, q_width, n, head_dim));
  }
  add_attention(q_width, static_cast<int>(model.kv_width()), head_dim, kv_type, kMostFlops,
                &shapes);
  return important_first(shapes);
}

std::vector<OpShape> part_shapes(const std::vector<OpShape>& shapes) {
  constexpr int kGranule = lanes::Slice::kRowGranularity;
  std::vector<OpShape> parts;
  for (const OpShape& shape : shapes) {
    for (int quarters = 1; shape.op == OpKind::kLinear && quarters < 4; ++quarters) {
      OpShape part = shape;
      part.n_rows = shape.n_rows / kGranule * quarters / 4 * kGranule;
      if (part.n_rows > 0) parts.push_back(part);
    }
  }
  return parts;
}

std::vector<OpShape> product_shapes(const model::Blueprint& blueprint,
                                    const weights::Store& weights,
                                    const std::vector<Shape>& built) {
  std::set<OpShape> shapes;
  for (const model::Op& op : blueprint.ops) {
    if (op.kind != OpKind::kLinear) continue;
    if (blueprint.values[static_cast<size_t>(op.output)].per_output) continue;
    const weights::Matrix& matrix = weights.matrix(op.weight);
    for (const Shape& shape : built) {
      shapes.insert(linear(matrix.type, matrix.n_rows, matrix.row_length, shape));
    }
  }
  return {shapes.begin(), shapes.end()};
}

std::vector<OpShape> stage_shapes(tensor::Type type) {
  std::vector<OpShape> shapes;
  for (const int n :
       {1,  2,  3,  4,  5,  6,  7,  8,  10, 12, 14,  16,  17,  20,  24,  28,  31,  32,  33,  36,
        40, 44, 48, 49, 56, 63, 64, 65, 80, 96, 112, 128, 129, 160, 192, 256, 257, 320, 384, 512}) {
    const Phase phase = n <= kStageSteps ? Phase::kStep : Phase::kPrompt;
    shapes.push_back(linear(type, kStageRows, kStageRows, {phase, n}));
  }
  shuffle(&shapes);
  return shapes;
}

std::vector<OpShape> order_shapes(tensor::Type type) {
  std::vector<OpShape> shapes;
  for (int n_rows = 64; n_rows <= kOrderElements / 256; n_rows *= 2) {
    for (const Shape& shape :
         {Shape{Phase::kStep, 1}, Shape{Phase::kStep, 32}, Shape{Phase::kPrompt, 128}}) {
      shapes.push_back(linear(type, n_rows, kOrderElements / n_rows, shape));
    }
  }
  shuffle(&shapes);
  return shapes;
}

std::vector<OpShape> grid_shapes(tensor::Type type, tensor::Type kv_type) {
  std::set<OpShape> shapes;
  for (const auto& size : kGridSizes) {
    // The sizes have names because the function below reads them.
    const int n_rows = size.first, k = size.second;
    if (k % static_cast<int>(tensor::type_info(type).block_length) != 0) continue;
    const auto add = [&](Phase phase, std::initializer_list<int> counts) {
      for (const int n : counts) {
        const OpShape shape = linear(type, n_rows, k, {phase, n});
        if (plan::op_flops(shape) <= kMostGridFlops) shapes.insert(shape);
      }
    };
    add(Phase::kStep, {1, 2, 4, 8, 13, 16, 32, 64});
    add(Phase::kPrompt, {32, 50, 64, 128, 200, 256, 512});
  }
  for (const int width : {512, 1024, 1536, 2048, 4096, 8192}) {
    for (const int n : {1, 8, 32, 128, 512}) {
      for (const OpKind op :
           {OpKind::kRmsNorm, OpKind::kLayerNorm, OpKind::kGate, OpKind::kActivate, OpKind::kAdd}) {
        shapes.insert(on_rows(op, width, n));
      }
      shapes.insert(on_rows(OpKind::kRope, width, n, 64));
      if (n <= kMostOutputs) shapes.insert(on_rows(OpKind::kSelect, width, n));
      if (width % 1024 == 0) shapes.insert({OpKind::kEmbed, type, width, width, n, 0, 0});
    }
  }
  constexpr std::pair<int, int> kAttentionWidths[] = {
      {512, 512},   {512, 128},  {768, 768},   {1024, 256}, {1536, 256},
      {1024, 1024}, {2048, 512}, {2048, 2048}, {576, 192},  {896, 128}};
  for (const auto& [q_width, kv_width] : kAttentionWidths) {
    add_attention(q_width, kv_width, 64, kv_type, kMostGridAttentionFlops, &shapes);
  }
  std::vector<OpShape> list(shapes.begin(), shapes.end());
  shuffle(&list);
  return list;
}

}  // namespace troika::solve
