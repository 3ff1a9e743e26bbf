// Plans of the known families, one function for each; family.cc has the table that names them.
#pragma once

#include "convert/family.h"

namespace troika::convert {

void plan_llama(const Config& config, ConversionPlan* plan);
void plan_qwen2(const Config& config, ConversionPlan* plan);
void plan_qwen3(const Config& config, ConversionPlan* plan);
void plan_gemma(const Config& config, ConversionPlan* plan);
void plan_gemma2(const Config& config, ConversionPlan* plan);
void plan_gemma3(const Config& config, ConversionPlan* plan);
void plan_phi2(const Config& config, ConversionPlan* plan);
void plan_phi3(const Config& config, ConversionPlan* plan);

}  // namespace troika::convert
