// Measures how large each input of a model's products is over a text.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace troika::measure {

// Returns the mean magnitudes of each product's columns, by the name of its matrix, over the first
// tokens of a text, in float. Throws Error for a model that cannot be run.
std::map<std::string, std::vector<double>> measure_input_use(const std::string& model,
                                                             const std::string& text,
                                                             size_t most_tokens);

}  // namespace troika::measure
