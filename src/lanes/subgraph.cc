#include "lanes/subgraph.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_text.h"
#include "base/cache_line.h"
#include "base/error.h"

namespace troika::lanes {

bool Subgraph::is_head() const {
  return blueprint->values[static_cast<size_t>(ops.front().output)].per_output;
}

std::string_view Subgraph::arrangement_of(const model::Op& op, plan::Shape shape) const {
  const model::Weight& weight = blueprint->weights[static_cast<size_t>(op.weight)];
  for (const plan::ProductArrangement& choice : arrangements) {
    if (choice.n_rows == weight.n_rows && choice.k == weight.row_length && choice.shape == shape) {
      return choice.arrangement;
    }
  }
  return {};
}

Buffers::Buffers(const model::Blueprint& blueprint, int most_tokens, int most_outputs,
                 bool has_values, int n_sets, Memory* memory)
    : memory_(memory != nullptr ? memory : &plain_), n_sets_(n_sets) {
  TROIKA_ASSERT(n_sets >= 1);
  size_t total = 0;
  for (const model::Value& value : blueprint.values) {
    const auto id = static_cast<model::ValueId>(offsets_.size());
    const int all_rows = value.per_output ? most_outputs : most_tokens;
    const int n_rows = has_values || id == blueprint.logits ? all_rows : 0;
    offsets_.push_back(total);
    total += whole_lines_of_floats(static_cast<size_t>(n_rows) * static_cast<size_t>(value.width));
    widths_.push_back(value.width);
  }
  set_stride_ = has_values ? total : 0;
  n_floats_ = total + set_stride_ * static_cast<size_t>(n_sets - 1) + kFloatsOfLine;
  storage_ = memory_->allocate(n_floats_ * sizeof(float));
  if (storage_ == nullptr) {
    const std::string most = memory_->most_bytes() >= bytes()
                                 ? ""
                                 : fmt::format(" (a device gives {} at most at once)",
                                               bytes_text(memory_->most_bytes()));
    throw Error(
        fmt::format("No memory for {} of buffers, {} set{} of them{}. Use shorter parts of prompts "
                    "(‹chunk›), keep fewer of them in flight, or use a smaller model.",
                    bytes_text(bytes()), n_sets, n_sets == 1 ? "" : "s", most));
  }
  const auto address = reinterpret_cast<uintptr_t>(storage_);
  first_offset_bytes_ = (kCacheLineBytes - address % kCacheLineBytes) % kCacheLineBytes;
}

Buffers::~Buffers() {
  if (storage_ != nullptr) memory_->free(storage_);
}

View Buffers::view(model::ValueId id, int set) const {
  const auto index = static_cast<size_t>(id);
  const size_t offset = first_offset_bytes_ +
                        (offsets_[index] + set_stride_ * static_cast<size_t>(set)) * sizeof(float);
  return {storage_ + offset};
}

size_t Buffers::bytes_for(const model::Blueprint& blueprint, int most_tokens, int most_outputs,
                          int n_sets) {
  size_t n_floats = 0;
  for (const model::Value& value : blueprint.values) {
    const int n_rows = value.per_output ? most_outputs : most_tokens;
    n_floats +=
        whole_lines_of_floats(static_cast<size_t>(n_rows) * static_cast<size_t>(value.width));
  }
  return (n_floats * static_cast<size_t>(n_sets) + kFloatsOfLine) * sizeof(float);
}

void Buffers::add_heads(int n_heads, int most_tokens, int context) {
  TROIKA_ASSERT(heads_ == nullptr);
  heads_ = std::make_unique<HeadAreas>(n_heads, most_tokens, context, n_sets_);
}

void Buffers::add_shadow(const weights::Channels& channels, int most_tokens) {
  shadow_ = std::make_unique<ShadowAreas>(channels, most_tokens, n_sets_);
}

}  // namespace troika::lanes
