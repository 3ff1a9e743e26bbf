// Consecutive ops that one lane runs as one prebuilt unit, and what they are built from.
#pragma once

#include <span>

#include <string_view>

#include "model/blueprint.h"
#include "plan/plan.h"
#include "weights/store.h"

namespace troika::lanes {

struct Subgraph {
  const model::Blueprint* blueprint;
  std::span<const model::Op> ops;
  const char* name = "";  // "embed", "qkv", "attention", "ffn", "head": for people
  // The plan's, of the lane that builds it.
  std::span<const plan::ProductLayout> layouts = {};

  // Static: its shape depends on the number of tokens only, so chunks share its executable.
  bool is_dynamic() const { return ops.size() == 1 && ops.front().is_dynamic(); }
  int block() const { return ops.front().layer; }
  // Of a product; empty: the lane's first one.
  std::string_view layout_of(const model::Op& op, int n_tokens) const;
};

// The floats behind the values of a blueprint, for the longest shape. Executables are bound to
// these buffers when they are built.
class Buffers {
 public:
  // Rows for values per token, and for values per wanted output. Without `has_values` there is no
  // storage but for the logits: for lanes that compute nothing.
  Buffers(const model::Blueprint& blueprint, int most_tokens, int most_outputs,
          bool has_values = true);

  // (rows, width)
  float* value(model::ValueId id) const { return values_[static_cast<size_t>(id)]; }
  int width(model::ValueId id) const { return widths_[static_cast<size_t>(id)]; }
  size_t bytes() const { return storage_.size() * sizeof(float); }

 private:
  std::vector<float> storage_;
  std::vector<float*> values_;
  std::vector<int> widths_;
};

}  // namespace troika::lanes
