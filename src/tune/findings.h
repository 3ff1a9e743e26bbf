// Writes what tuning keeps of its measurements as text, and reads it; cuts a text into halves.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "plan/json_fields.h"
#include "plan/plan.h"
#include "tune/proof/held_out.h"
#include "tune/proof/proof.h"

namespace troika::tune {

// Writes {"times": [{"tokens", "ms"}]}.
nlohmann::ordered_json to_json(const std::vector<PromptTime>& times);
std::vector<PromptTime> read_times(const plan::JsonFields& fields);

// Writes {"costs": [{"rows", "ms"}]}.
nlohmann::ordered_json to_json(const std::vector<plan::StepCost>& costs);
std::vector<plan::StepCost> read_costs(const plan::JsonFields& fields);

// Writes {"windows": [{"tokens": [{"nll", "divergence" where it was compared}]}]}.
nlohmann::ordered_json to_json(const std::vector<WindowLosses>& windows);
std::vector<WindowLosses> read_windows(const plan::JsonFields& fields);

// Returns both halves of a text, cut at a space.
std::pair<std::string, std::string> halves(const std::string& text);

}  // namespace troika::tune
