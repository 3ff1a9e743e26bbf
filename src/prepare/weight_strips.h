// Which weights stand with 16 rows side by side while an engine runs (tensor/strips.h): products of
// one token read them as fast as the file's order, and those of several tokens faster.
#pragma once

#include "kernels/kernels.h"
#include "model/blueprint.h"
#include "plan/plan.h"
#include "prepare/weight_pages.h"
#include "weights/store.h"

namespace troika::prepare {

// Whether products with whole numbers and panels are all that reads matrices by this plan.
bool reads_strips(const plan::Plan& plan);

// Those that nothing but these kernels reads. An embedding table is read by rows only, and stays as
// it is unless it is the head too.
std::vector<model::WeightId> strip_matrices(const model::Blueprint& blueprint,
                                            const kernels::Table& kernels,
                                            const weights::Store& weights);

// Brings all weights that these kernels and this plan can read so into that order, in the copy that
// the process has of the file, and says so in `pages`. Does nothing where the file is mapped, and
// with blocks that change their layout, which do it themselves.
// REQUIRES: nobody reads rows of the weights any more but the executables that are built next. The
// file's content key is taken before, or by a plan that does not read strips.
void place_in_strips(const gguf::File& file, const model::Blueprint& blueprint,
                     const kernels::Table& kernels, const plan::Plan& plan, weights::Store* weights,
                     WeightPages* pages);

}  // namespace troika::prepare
