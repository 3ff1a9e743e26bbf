// Chooses and makes the neurons of feed-forward blocks that are computed densely, as tasks of their
// own (P1, P3): those that fired most often in the text of 'troika neurons'.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "kernels/kernels.h"
#include "model/gated_ffns.h"
#include "plan/plan.h"
#include "prepare/open_model.h"
#include "prepare/options.h"

namespace troika::prepare {

// Refuses a plan that computes hot neurons apart, of a model whose neurons are those of experts.
void check_hot(const plan::Plan& plan, const model::Blueprint& blueprint);

// Returns what is known of the hot neurons that are asked for, for a plan that begins with such
// blocks, on a lane that is not chosen yet; none: no plan that is made can have any. Throws
// UsageError where nobody has counted which neurons are hot.
std::optional<plan::FfnHot> asked_hot(const Options& options, const OpenedModel& model,
                                      const plan::FfnPlan& begun);

// Makes the plan's hot neurons from the store's matrices, and gives them to the store. Where these
// lie in the map of the file, forgets the pages that were read. Returns a note. Throws Error where
// others are hot by now than those that the plan was made for.
std::string place_hot(const kernels::Table& kernels, const plan::Plan& plan,
                      std::span<const model::GatedFfn> ffns, bool is_mapped, OpenedModel* model);

}  // namespace troika::prepare
