#include "solve/profile/one_op.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"

namespace troika::solve {
namespace {

using model::OpKind;

std::vector<float> seeded_floats(size_t n, float centre) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) {
    values[i] = centre + static_cast<float>(random_unit(7, i) - 0.5);
  }
  return values;
}

}  // namespace

OneOp::OneOp(const lanes::Machine& machine, const plan::OpShape& shape,
             const std::vector<weights::Matrix>& matrices, int pack_threads, bool has_values)
    : shape_(shape), memory_(lanes::owned_memory(machine)) {
  model::Blueprint& b = blueprint_;
  b.architecture = "one-op";
  b.n_layers = 1;
  b.width = shape.k;
  b.head_dim = std::max(1, shape.head_dim);
  b.n_heads = std::max(1, shape.n_rows / b.head_dim);
  b.n_kv_heads = std::max(1, shape.k / b.head_dim);
  b.n_vocab = shape.op == OpKind::kEmbed ? matrices.front().n_rows : 1;
  b.trained_context = std::max(shape.context, shape.n_tokens);
  b.ropes.front().n_dims = b.head_dim;
  b.ropes.front().is_half_split = true;
  add_variants(add_values(), matrices);
  for (const model::Op& op : b.ops) {
    subgraphs_.push_back({&b, std::span(&op, 1), model::op_kind_name(shape.op)});
  }
  if (pack_threads > 0 && shape.op == OpKind::kLinear) {
    weights_->pack_int8(weights::prompt_matrices(b), pack_threads);
  }
  buffers_ =
      std::make_unique<lanes::Buffers>(b, shape.n_tokens, shape.n_tokens, has_values, 1, memory_);
  if (has_values) fill_inputs();
  add_positions();
  if (shape.op == OpKind::kAttention) add_attention();
}

// Adds inputs and output. Returns the op without its weights.
model::Op OneOp::add_values() {
  model::Blueprint& b = blueprint_;
  const bool is_attention = shape_.op == OpKind::kAttention;
  const bool has_two = shape_.op == OpKind::kGate || shape_.op == OpKind::kAdd;
  model::Op op;
  op.kind = shape_.op;
  op.layer = 0;
  op.scale = is_attention ? 1.0f / std::sqrt(static_cast<float>(b.head_dim)) : 1.0f;
  op.eps = 1e-5f;
  if (op.kind == OpKind::kRope) op.n_heads = b.n_heads;
  const int n_inputs = shape_.op == OpKind::kEmbed ? 0 : is_attention ? 3 : has_two ? 2 : 1;
  for (int i = 0; i < n_inputs; ++i) {
    op.inputs[static_cast<size_t>(i)] = i;
    b.values.push_back({.name = "in",
                        .width = is_attention && i == 0 ? shape_.n_rows : shape_.k,
                        .per_output = false});
  }
  op.output = static_cast<model::ValueId>(b.values.size());
  b.values.push_back(
      {.name = "out", .width = shape_.n_rows, .per_output = shape_.op == OpKind::kSelect});
  if (shape_.op == OpKind::kRope) op.output = op.inputs[0];  // rotation works in place
  return op;
}

void OneOp::add_variants(const model::Op& op, const std::vector<weights::Matrix>& matrices) {
  std::vector<weights::StoredWeight> constants;
  const auto add = [&](const char* name, const weights::Matrix& matrix, std::vector<float> vector) {
    const int n_rows = vector.empty() ? matrix.n_rows : 1;
    const int length = vector.empty() ? matrix.row_length : static_cast<int>(vector.size());
    blueprint_.weights.push_back({name, 0, n_rows, length, n_rows});
    constants.push_back({matrix, std::move(vector)});
    return static_cast<model::WeightId>(constants.size() - 1);
  };
  const auto width = static_cast<size_t>(shape_.k);
  for (const weights::Matrix& matrix : matrices) {
    model::Op variant = op;
    if (op.kind == OpKind::kLinear || op.kind == OpKind::kEmbed) {
      variant.weight = add("matrix", matrix, {});
    } else if (op.kind == OpKind::kRmsNorm || op.kind == OpKind::kLayerNorm) {
      variant.weight = add("factors", {}, seeded_floats(width, 1.0f));
    }
    if (op.kind == OpKind::kLayerNorm)
      variant.bias = add("offsets", {}, seeded_floats(width, 0.0f));
    blueprint_.ops.push_back(variant);
  }
  weights_ = std::make_unique<weights::Store>(blueprint_, std::move(constants));
}

void OneOp::fill_inputs() {
  // A prime length, so that rows differ.
  const std::vector<float> pattern = seeded_floats(4099, 0.0f);
  for (size_t id = 0; id + 1 < blueprint_.values.size(); ++id) {
    const size_t n =
        static_cast<size_t>(shape_.n_tokens) * static_cast<size_t>(blueprint_.values[id].width);
    float* input = buffers_->view(static_cast<model::ValueId>(id)).floats();
    for (size_t at = 0; at < n; at += pattern.size()) {
      std::copy_n(pattern.begin(), std::min(pattern.size(), n - at), input + at);
    }
  }
}

void OneOp::add_positions() {
  const auto n = static_cast<size_t>(shape_.n_tokens);
  for (size_t i = 0; i < n; ++i) {
    tokens_.push_back(
        static_cast<cache::Token>(random_bits(5, i) % static_cast<uint64_t>(blueprint_.n_vocab)));
    output_rows_.push_back(static_cast<int>(i));
  }
  run_.phase = shape_.phase;
  run_.n_tokens = shape_.n_tokens;
  run_.n_outputs = shape_.n_tokens;
  run_.tokens = tokens_;
  run_.output_rows = output_rows_;
  const size_t n_pairs = static_cast<size_t>(blueprint_.head_dim) / 2;
  cosines_.assign(n * n_pairs, 0.8f);
  sines_.assign(n * n_pairs, 0.6f);
  run_.rope_cos = cosines_.data();
  run_.rope_sin = sines_.data();
}

// Puts the tokens before the batch into the cache, with zeros as keys and values.
void OneOp::add_attention() {
  TROIKA_ASSERT(shape_.context >= shape_.n_tokens);
  kv_ = std::make_unique<cache::KvCache>(
      cache::KvShape{1, blueprint_.n_kv_heads, blueprint_.head_dim, shape_.type, shape_.context},
      lanes::pieces_of(memory_));
  const cache::SequenceId sequence = kv_->open();
  const std::vector<cache::Token> all(static_cast<size_t>(shape_.context), 0);
  const int n_past = shape_.context - shape_.n_tokens;
  if (n_past > 0) {
    cache::Batch past;
    cache::PlacedBatch at;
    past.add_chain(std::span(all).first(static_cast<size_t>(n_past)), 0, sequence);
    kv_->place(past, &at);
    const size_t row_bytes = kv_->shape().head_bytes();
    for (const cache::Slot slot : at.slots) {
      for (int head = 0; head < blueprint_.n_kv_heads; ++head) {
        // Zero is a valid number in every type, and no kernel is faster for it.
        std::fill_n(kv_->key_row(0, slot, head), row_bytes, std::byte{0});
        std::fill_n(kv_->value_row(0, slot, head), row_bytes, std::byte{0});
      }
    }
    kv_->keep_all(past, at);
  }
  batch_.add_chain(std::span(all).first(static_cast<size_t>(shape_.n_tokens)), n_past, sequence);
  kv_->place(batch_, &placed_);
  run_.slots = placed_.slots;
  run_.visible = placed_.visible;
  run_.kv = kv_.get();
}

std::unique_ptr<lanes::Executable> OneOp::build(lanes::Lane& lane, size_t variant,
                                                const std::string& arrangement) {
  const plan::Shape shape = {run_.phase, shape_.n_tokens};
  const plan::ProductArrangement choice = {0, shape_.n_rows, shape_.k, shape, arrangement};
  lanes::Subgraph subgraph = subgraphs_[variant];
  subgraph.arrangements = {&choice, 1};
  try {
    return lane.build(subgraph, shape, *weights_, *buffers_);
  } catch (const Error& error) {
    if (plan::depends_on_phase(shape_.op) || shape.phase == plan::Phase::kPrompt) {
      throw NotBuilt(error.what());
    }
  }
  run_.phase = plan::Phase::kPrompt;
  return build(lane, variant, arrangement);
}

}  // namespace troika::solve
