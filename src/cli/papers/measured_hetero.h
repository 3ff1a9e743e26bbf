// Shows people and scripts what HeteroLLM's alternatives give on this machine.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "papers/hetero/measure_hetero.h"

namespace troika::cli {

void print_measured_hetero(const papers::HeteroMeasurement& measurement);
nlohmann::ordered_json measured_hetero_json(const papers::HeteroMeasurement& measurement);

}  // namespace troika::cli
