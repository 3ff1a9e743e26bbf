// Shows people and scripts what llm.npu gives on this machine.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/engine.h"
#include "papers/npu/measure_npu.h"

namespace troika::cli {

void print_measured_npu(const papers::NpuMeasurement& measurement);
nlohmann::ordered_json measured_npu_json(const papers::NpuMeasurement& measurement);

// Says where outliers were computed: "123 outliers, 95.0 % in columns in memory, ..."; empty where
// there are none.
std::string outliers_text(const engine::Engine& engine);
nlohmann::ordered_json outliers_json(const engine::Engine& engine);

}  // namespace troika::cli
