// Shows what was found where cuts of tensors were searched for (H10): what each cut would save, or
// why there is none.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"
#include "solve/cuts/solve_cuts.h"

namespace troika::cli {

// Returns a table; empty where no cuts were searched for.
std::string cut_notes_text(const std::vector<solve::CutNote>& notes,
                           const std::vector<solve::LengthFound>& lengths, const plan::Plan& plan);

}  // namespace troika::cli
