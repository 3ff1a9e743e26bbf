// What was found where cuts of tensors were sought (H10): what each would save, or why there is
// none.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"
#include "solve/cuts/solve_cuts.h"

namespace troika::cli {

// A table; nothing where none were sought.
std::string cut_notes_text(const std::vector<solve::CutNote>& notes,
                           const std::vector<solve::LengthFound>& lengths, const plan::Plan& plan);

}  // namespace troika::cli
