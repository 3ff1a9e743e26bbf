#include "lanes/head_areas.h"

#include <fmt/format.h>

#include "base/error.h"

namespace troika::lanes {
namespace {

constexpr size_t kLineFloats = 16;  // a cache line

size_t stride_of(int context) {
  return (static_cast<size_t>(context) + kLineFloats - 1) / kLineFloats * kLineFloats;
}

}  // namespace

size_t HeadAreas::bytes_for(int n_heads, int most_tokens, int context, int n_sets) {
  return static_cast<size_t>(n_heads) * static_cast<size_t>(most_tokens) * stride_of(context) *
         static_cast<size_t>(n_sets) * sizeof(float);
}

HeadAreas::HeadAreas(int n_heads, int most_tokens, int context, int n_sets)
    : n_heads_(static_cast<size_t>(n_heads)),
      n_tokens_(static_cast<size_t>(most_tokens)),
      stride_(stride_of(context)),
      bytes_(bytes_for(n_heads, most_tokens, context, n_sets)),
      // The system zeroes this memory and backs a page when it is first touched.
      storage_(static_cast<std::byte*>(std::calloc(bytes_, 1))) {
  if (storage_ != nullptr) return;
  throw Error(fmt::format(
      "No memory for {} bytes of scores that heads hand on, {} sets of them. Keep fewer chunks in "
      "flight, use a smaller ‹chunk› or ‹context›, or leave ‹attention-lanes› out.",
      bytes_, n_sets));
}

}  // namespace troika::lanes
