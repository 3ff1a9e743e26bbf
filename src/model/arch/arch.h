// Declares one function for each architecture; each family has a file of its own.
#pragma once

#include "model/blueprint.h"
#include "model/metadata.h"

namespace troika::model::arch {

Blueprint bamboo(const Metadata& metadata);
Blueprint gemma(const Metadata& metadata);
Blueprint gemma2(const Metadata& metadata);
Blueprint gemma3(const Metadata& metadata);
Blueprint internlm2(const Metadata& metadata);
Blueprint llama(const Metadata& metadata);
Blueprint phi2(const Metadata& metadata);
Blueprint phi3(const Metadata& metadata);
Blueprint phonelm(const Metadata& metadata);
Blueprint qwen2(const Metadata& metadata);
Blueprint qwen2moe(const Metadata& metadata);
Blueprint qwen3(const Metadata& metadata);
Blueprint qwen3moe(const Metadata& metadata);

}  // namespace troika::model::arch
