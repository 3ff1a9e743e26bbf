#include "lanes/host/scratch.h"

#include <algorithm>

#include "lanes/host/attention/attention_tiles.h"
#include "lanes/host/attention/prompt_attention.h"
#include "lanes/host/experts/expert_reads.h"
#include "lanes/host/neurons/neuron_ffn.h"
#include "lanes/host/own_rows.h"
#include "lanes/host/products.h"
#include "lanes/host/sparse/head_parts.h"
#include "lanes/host/sparse/sparse_attention.h"

namespace troika::lanes {
namespace {

// Returns the bytes of the largest form in which a row of the product's input may be wanted.
size_t most_form_bytes(plan::Activations activations, plan::Prefill prefill, size_t k) {
  const bool is_q8 = activations == plan::Activations::kQ8 || prefill == plan::Prefill::kQ8;
  size_t bytes = is_q8 ? form_bytes(InputForm::kSpread, k) : 0;
  if (plan::shares_keys(prefill)) {
    bytes = std::max(bytes, form_bytes(InputForm::kBf16, k));
  }
  if (prefill == plan::Prefill::kInt8) {
    bytes = std::max(bytes, form_bytes(InputForm::kInt8, k));
  }
  return bytes;
}

// Returns the bytes that each worker needs for rows that it brings side by side, whatever the type
// of the weights.
size_t turned_bytes(const plan::Plan& plan, const model::Blueprint& blueprint) {
  const bool is_q8 =
      plan.activations == plan::Activations::kQ8 || plan.prefill == plan::Prefill::kQ8;
  if (!is_q8) return 0;
  size_t bytes = 0;
  for (const model::Weight& weight : blueprint.weights) {
    // No type of blocks takes more bytes for a row than Q8_0.
    const size_t row_bytes = static_cast<size_t>(weight.row_length) * 34 / 32;
    const size_t all_bytes = row_bytes * static_cast<size_t>(weight.n_rows);
    bytes = std::max({bytes, std::min(all_bytes, kMostTurnedBytes),
                      std::min(all_bytes, kernels::kStripRows * row_bytes)});
  }
  return bytes;
}

// Returns the bytes that each worker needs for weights that it unpacks or turns, or for queries,
// keys and values where attention has many tokens.
size_t unpacking_bytes(const plan::Plan& plan, const model::Blueprint& blueprint,
                       size_t longest_row) {
  const size_t turned = turned_bytes(plan, blueprint);
  if (!plan::shares_keys(plan.prefill)) {
    return std::max(turned, attention_tile_bytes(blueprint.head_dim, plan.most_rows()));
  }
  const int n_group = blueprint.n_heads / std::max(blueprint.n_kv_heads, 1);
  BoundAttention attention = {.head_dim = blueprint.head_dim,
                              .n_group = std::max(n_group, 1),
                              .first_head = 0,
                              .last_head = blueprint.n_kv_heads,
                              .shares_keys = true};
  size_t bytes = std::max({turned, kStretchBytes, prompt_attention_bytes(attention)});
  if (plan.prefill == plan::Prefill::kInt8) {
    bytes = std::max({bytes, kMostUnpackedBytes, kernels::int8_strip_bytes(longest_row)});
  }
  if (!plan.attention.is_sparse()) return bytes;
  attention.sparse = plan::attention_of_layer(plan.attention, 0, 0, 0);
  return std::max(bytes, sparse_attention_bytes(attention));
}

size_t neuron_bytes(const model::Blueprint& blueprint, const plan::Plan& plan, int n_workers) {
  if (!plan.ffn.is_by_neuron()) return 0;
  size_t bytes = 0;
  for (const model::GatedFfn& ffn : model::neuron_ffns(blueprint)) {
    const model::Weight& down = blueprint.weights[static_cast<size_t>(ffn.down)];
    bytes = std::max(bytes, NeuronScratch::bytes_for(
                                {static_cast<size_t>(down.row_length),
                                 static_cast<size_t>(down.n_rows / ffn.n_experts),
                                 static_cast<size_t>(weights::most_blocks_of_batch(ffn.n_experts)),
                                 static_cast<size_t>(plan.ffn.predictor.rank)},
                                n_workers));
  }
  return bytes;
}

}  // namespace

size_t host_scratch_bytes(const model::Blueprint& blueprint, const plan::PlannedLane& lane,
                          const plan::Plan& plan, bool guesses_experts) {
  const int most_tokens = plan.most_rows();
  const auto n_tokens = static_cast<size_t>(most_tokens);
  const auto n_workers = static_cast<size_t>(lane.n_threads);
  size_t prepared = 0, longest_row = 0;
  for (const model::Op& op : blueprint.ops) {
    const bool is_expert = op.kind == model::OpKind::kExpertLinear;
    if (op.kind != model::OpKind::kLinear && !is_expert) continue;
    const auto k =
        static_cast<size_t>(blueprint.weights[static_cast<size_t>(op.weight)].row_length);
    size_t row_bytes = most_form_bytes(plan.activations, plan.prefill, k);
    if (is_expert) row_bytes = std::max(row_bytes, k * sizeof(float));
    const size_t n_rows =
        n_tokens * static_cast<size_t>(is_expert ? std::max(blueprint.n_experts_used, 1) : 1);
    prepared = std::max(prepared, n_rows * row_bytes);
    longest_row = std::max(longest_row, k);
  }
  // The tables say which token takes which expert.
  const size_t routes =
      blueprint.n_experts > 0
          ? sizeof(int32_t) * (2 * static_cast<size_t>(blueprint.n_experts) + 1 +
                               2 * n_tokens * static_cast<size_t>(blueprint.n_experts_used))
          : 0;
  size_t n_floats = longest_row;
  if (guesses_experts) {
    n_floats = std::max(n_floats, guess_floats(static_cast<size_t>(blueprint.width),
                                               static_cast<size_t>(blueprint.n_experts)));
  }
  const size_t row_bytes = most_form_bytes(plan.activations, plan.prefill, longest_row);
  const size_t own_rows = n_workers > 1 ? most_own_row_bytes(blueprint, row_bytes) : 0;
  return prepared + neuron_bytes(blueprint, plan, lane.n_threads) +
         n_workers * (unpacking_bytes(plan, blueprint, longest_row) + own_rows + routes +
                      n_floats * sizeof(float));
}

size_t head_list_bytes(const model::Blueprint& blueprint, const plan::Plan& plan, int lane,
                       size_t n_positions) {
  const plan::PromptAttention& attention = plan.attention;
  size_t bytes = 0;
  for (const Role role : {Role::kEstimate, Role::kSelect}) {
    const size_t part = role == Role::kEstimate ? 0 : 1;
    if (!attention.has_head_lanes() || attention.head_lanes[part] != lane) continue;
    const BoundAttention bound = {.head_dim = blueprint.head_dim,
                                  .n_group = 1,
                                  .first_head = 0,
                                  .last_head = blueprint.n_kv_heads,
                                  .shares_keys = true,
                                  .role = role};
    bytes = std::max(bytes, head_list_bytes(bound, n_positions));
  }
  return bytes * static_cast<size_t>(plan.lanes[static_cast<size_t>(lane)].n_threads);
}

}  // namespace troika::lanes
