// The plain versions of products by neuron (kernels/columns.h).
#pragma once

#include "kernels/columns.h"

namespace troika::kernels::reference {

// Returns the level of a column for one output, or the weight where the form has no planes.
float column_level(ColumnForm form, const std::byte* levels, size_t output);
// Returns what the planes say of an output in a group: scale and minimum; 1 and 0 where there are
// no planes.
float column_scale(ColumnForm form, const ColumnPlanes& planes, size_t group, size_t output);
float column_minimum(const ColumnPlanes& planes, size_t group, size_t output);

void add_columns(ColumnForm form, const ColumnPlanes& planes, std::span<const LiveColumn> live,
                 size_t first, size_t last, float* y);

template <ColumnForm kForm>
void add_columns(const ColumnPlanes& planes, std::span<const LiveColumn> live, size_t first,
                 size_t last, float* y) {
  add_columns(kForm, planes, live, first, last, y);
}

}  // namespace troika::kernels::reference
