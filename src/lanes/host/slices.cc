#include "lanes/host/slices.h"

#include <fmt/format.h>

#include "base/error.h"
#include "model/rope.h"

namespace troika::lanes {
namespace {

using model::OpKind;

// Says whether each column of the output can be computed without the others.
bool has_free_columns(OpKind kind) {
  return kind == OpKind::kLinear || kind == OpKind::kGate || kind == OpKind::kActivate ||
         kind == OpKind::kAdd || kind == OpKind::kSoftCap;
}

[[noreturn]] void refuse(const Subgraph& subgraph, const LaneInfo& info, const char* what) {
  throw Error(
      fmt::format("The lane '{}' cannot compute {} of '{}'. Leave that cut out of the plan.",
                  info.name, what, subgraph.name));
}

}  // namespace

void check_slice(const Subgraph& subgraph, const LaneInfo& info) {
  const Slice& slice = subgraph.slice;
  if (slice.is_all()) return;
  if (subgraph.role != Role::kWhole) refuse(subgraph, info, "a slice of the outliers' tasks");
  TROIKA_ASSERT(slice.columns.empty() || slice.columns.size() == subgraph.ops.size());
  for (size_t i = 0; i < subgraph.ops.size(); ++i) {
    const OpKind kind = subgraph.ops[i].kind;
    const Range columns = slice.columns_of(i);
    if (!columns.is_all() && !has_free_columns(kind)) refuse(subgraph, info, "some of the columns");
    TROIKA_ASSERT(columns.begin % Slice::kRowGranularity == 0);
    if (!slice.heads.is_all() && kind != OpKind::kAttention) refuse(subgraph, info, "some heads");
    // Later tokens see keys and values of earlier tokens, which another executable would have to
    // store.
    if (!slice.tokens.is_all() && kind == OpKind::kAttention) refuse(subgraph, info, "some tokens");
  }
}

TokenSlice::TokenSlice(const Subgraph& subgraph) : tokens_(subgraph.slice.tokens) {
  const model::Blueprint& blueprint = *subgraph.blueprint;
  const model::ValueId output = subgraph.ops.front().output;
  per_output_ = blueprint.values[static_cast<size_t>(output)].per_output;
  n_pairs_ = static_cast<size_t>(
      model::first_pair_of(blueprint.ropes, static_cast<int>(blueprint.ropes.size())));
}

Run TokenSlice::of(const Run& run) const {
  Run own = run;
  const Range rows = tokens_.within(per_output_ ? run.n_outputs : run.n_tokens);
  const auto first = static_cast<size_t>(rows.begin), n = static_cast<size_t>(rows.size());
  if (per_output_) {
    own.n_outputs = rows.size();
    own.output_rows = run.output_rows.subspan(first, n);
    return own;
  }
  own.n_tokens = rows.size();
  if (!run.tokens.empty()) own.tokens = run.tokens.subspan(first, n);
  if (!run.slots.empty()) own.slots = run.slots.subspan(first, n);
  if (!run.visible.empty()) own.visible = run.visible.subspan(first, n);
  if (run.rope_cos != nullptr) own.rope_cos = run.rope_cos + first * n_pairs_;
  if (run.rope_sin != nullptr) own.rope_sin = run.rope_sin + first * n_pairs_;
  return own;
}

}  // namespace troika::lanes
