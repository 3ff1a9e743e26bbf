// Decides which weights stand with 16 rows side by side while an engine runs (tensor/strips.h).
// Products of one token read them as fast as rows of the file, products of more tokens faster.
#pragma once

#include "kernels/kernels.h"
#include "model/blueprint.h"
#include "plan/plan.h"
#include "prepare/weight_pages.h"
#include "weights/store.h"

namespace troika::prepare {

// Says whether products with whole numbers and panels are all that reads matrices by this plan.
bool reads_strips(const plan::Plan& plan);

// Returns the matrices that nothing but these kernels reads. An embedding table is read by rows
// only, and stays as it is unless it is the head too.
std::vector<model::WeightId> strip_matrices(const model::Blueprint& blueprint,
                                            const kernels::Table& kernels,
                                            const weights::Store& weights);

// Brings all weights that these kernels and this plan can read in strips into that order, in the
// copy that the process has of the file, and says so in `pages`. Does nothing where the file is
// mapped, nor with blocks that change their layout, which do it themselves. REQUIRES: from now on
// only executables that are built later read rows of the weights. The file's content key is taken
// before this, or by a plan that does not read strips.
void place_in_strips(const gguf::File& file, const model::Blueprint& blueprint,
                     const kernels::Table& kernels, const plan::Plan& plan, weights::Store* weights,
                     WeightPages* pages);

}  // namespace troika::prepare
