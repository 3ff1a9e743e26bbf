// Chooses the plan that an engine follows on this machine: the one that is given, one from a file,
// or one that is made.
#pragma once

#include <string>

#include "plan/ledger.h"
#include "plan/plan.h"
#include "prepare/open_model.h"
#include "prepare/options.h"

namespace troika::prepare {

struct ChosenPlan {
  plan::Plan plan;
  bool has_left_base = false;  // says that memory had no room for the plan to begin with
  plan::Ledger ledger;         // has what the plan is expected to take, which is not checked
  std::string note = {};       // says what may not hold of the plan; empty: nothing is known
};

// Throws Error for a file that is no plan for this model and machine, and where a context does not
// fit into memory; UsageError for options that do not go with the plan.
// REQUIRES: the options are for this machine.
ChosenPlan choose_plan(const Options& options, const OpenedModel& model);

}  // namespace troika::prepare
