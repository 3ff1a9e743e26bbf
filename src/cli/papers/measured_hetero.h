// What HeteroLLM's alternatives come to on this machine, for people and for scripts.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "papers/hetero/measure_hetero.h"

namespace troika::cli {

void print_measured_hetero(const papers::HeteroMeasurement& measurement);
nlohmann::ordered_json measured_hetero_json(const papers::HeteroMeasurement& measurement);

}  // namespace troika::cli
