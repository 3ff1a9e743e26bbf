#include "lanes/lane.h"

#include <fmt/format.h>

#include "base/error.h"

namespace troika::lanes {

size_t Lane::arrangement_index(const Subgraph& subgraph, const model::Op& op,
                               plan::Shape shape) const {
  const std::string_view wanted = subgraph.arrangement_of(op, shape);
  if (wanted.empty()) return 0;
  const std::span<const char* const> known = arrangements(shape);
  for (size_t i = 0; i < known.size(); ++i) {
    if (wanted == known[i]) return i;
  }
  throw Error(fmt::format(
      "The plan wants a product of {} tokens in the arrangement '{}', which the lane '{}' does "
      "not know; it knows {}. Make the plan again with 'troika plan'.",
      shape.n_rows, wanted, info().name,
      known.empty() ? std::string("only one") : fmt::format("{}", fmt::join(known, ", "))));
}

}  // namespace troika::lanes
