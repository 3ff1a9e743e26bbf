// Writes what tuning keeps of its measurements as text, and reads it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "plan/json_fields.h"
#include "plan/plan.h"
#include "tune/proof/held_out.h"
#include "tune/proof/proof.h"

namespace troika::tune {

// Writes {"times": [{"tokens", "ms"}]}.
nlohmann::ordered_json to_json(const std::vector<PromptTime>& times);
// Throws Error unless the times are those of prompts of these lengths, in this order.
std::vector<PromptTime> read_times(const plan::JsonFields& fields, const std::vector<int>& lengths);

// Writes {"costs": [{"rows", "ms"}]}.
nlohmann::ordered_json to_json(const std::vector<plan::StepCost>& costs);
std::vector<plan::StepCost> read_costs(const plan::JsonFields& fields);

// Writes {"windows": [{"tokens": [{"nll", "divergence" where it was compared}]}]}.
nlohmann::ordered_json to_json(const std::vector<WindowLosses>& windows);
// Throws Error unless there are two compared tokens at least, and each window has as many tokens as
// that of `usual`, where it is there.
std::vector<WindowLosses> read_windows(const plan::JsonFields& fields,
                                       const std::vector<WindowLosses>* usual = nullptr);

}  // namespace troika::tune
