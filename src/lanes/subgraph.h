// Consecutive ops that one lane runs as one prebuilt unit, and what they are built from.
#pragma once

#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "model/blueprint.h"
#include "plan/plan.h"
#include "weights/store.h"

namespace troika::lanes {

// What of the ops a task computes (N4).
enum class Role : uint8_t {
  kWhole,
  kShadow,  // of products: what their outlier channels add
  kSum,     // adds that to what the products came to without them
};

struct Subgraph {
  const model::Blueprint* blueprint;
  std::span<const model::Op> ops;
  const char* name = "";  // "embed", "qkv", "attention", "ffn", "head": for people
  Role role = Role::kWhole;
  // The plan's, of the lane that builds it.
  std::span<const plan::ProductLayout> layouts = {};

  // Static: its shape depends on the number of tokens only, so chunks share its executable.
  bool is_dynamic() const { return ops.size() == 1 && ops.front().is_dynamic(); }
  int block() const { return ops.front().layer; }
  // Of a product; empty: the lane's first one.
  std::string_view layout_of(const model::Op& op, int n_tokens) const;
};

// The floats behind the values of a blueprint, for the longest shape. Executables are bound to
// these buffers when they are built, and to one of several sets of them when they run: each chunk
// in flight has a set of its own. Memory is taken when it is first written.
class Buffers {
 public:
  // Rows for values per token, and for values per wanted output. Without `has_values` there is no
  // storage but for the logits, and all sets are one: for lanes that compute nothing. Throws Error
  // where the system has no such address space.
  Buffers(const model::Blueprint& blueprint, int most_tokens, int most_outputs,
          bool has_values = true, int n_sets = 1);

  // (rows, width), of the first set
  float* value(model::ValueId id) const { return values_[static_cast<size_t>(id)]; }
  // The same value of set i lies i strides behind.
  size_t set_stride() const { return set_stride_; }  // floats
  int n_sets() const { return n_sets_; }
  int width(model::ValueId id) const { return widths_[static_cast<size_t>(id)]; }
  size_t bytes() const { return n_floats_ * sizeof(float); }

 private:
  struct Free {
    void operator()(float* floats) const { std::free(floats); }
  };
  std::unique_ptr<float, Free> storage_;
  size_t n_floats_ = 0;
  size_t set_stride_ = 0;
  int n_sets_;
  std::vector<float*> values_;
  std::vector<int> widths_;
};

}  // namespace troika::lanes
