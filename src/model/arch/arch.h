// One function for each architecture, each in a file of its own.
#pragma once

#include "model/blueprint.h"
#include "model/metadata.h"

namespace troika::model::arch {

Blueprint gemma(const Metadata& metadata);
Blueprint llama(const Metadata& metadata);
Blueprint phi2(const Metadata& metadata);
Blueprint qwen2(const Metadata& metadata);
// Shapes are right, for planning and timing; no lane's results have been compared with another
// program's yet.
Blueprint bamboo(const Metadata& metadata);
Blueprint internlm2(const Metadata& metadata);
Blueprint phonelm(const Metadata& metadata);
Blueprint qwen3(const Metadata& metadata);

}  // namespace troika::model::arch
