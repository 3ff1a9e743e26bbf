#include "lanes/subgraph.h"

#include <algorithm>

namespace troika::lanes {
namespace {

constexpr size_t kAlignmentFloats = 16;  // a cache line

}  // namespace

std::string_view Subgraph::layout_of(const model::Op& op, int n_tokens) const {
  const model::Weight& weight = blueprint->weights[static_cast<size_t>(op.weight)];
  for (const plan::ProductLayout& choice : layouts) {
    if (choice.n_rows == weight.n_rows && choice.k == weight.row_length &&
        choice.n_tokens == n_tokens) {
      return choice.layout;
    }
  }
  return {};
}

Buffers::Buffers(const model::Blueprint& blueprint, int most_tokens, int most_outputs,
                 bool has_values) {
  std::vector<size_t> offsets;
  size_t total = 0;
  for (const model::Value& value : blueprint.values) {
    const auto id = static_cast<model::ValueId>(offsets.size());
    const int all_rows = value.per_output ? most_outputs : most_tokens;
    const int n_rows = has_values || id == blueprint.logits ? all_rows : 0;
    offsets.push_back(total);
    const size_t floats = static_cast<size_t>(n_rows) * static_cast<size_t>(value.width);
    total += (floats + kAlignmentFloats - 1) / kAlignmentFloats * kAlignmentFloats;
    widths_.push_back(value.width);
  }
  storage_.resize(total + kAlignmentFloats);
  auto address = reinterpret_cast<uintptr_t>(storage_.data());
  const size_t skip = (64 - address % 64) % 64 / sizeof(float);
  for (const size_t offset : offsets) values_.push_back(storage_.data() + skip + offset);
}

}  // namespace troika::lanes
