#include "convert/family.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/os_error.h"
#include "convert/families.h"

namespace troika::convert {
namespace {

struct Family {
  std::string_view class_name;  // the name in "architectures" of config.json
  void (*plan)(const Config& config, ConversionPlan* plan);
};

constexpr Family kFamilies[] = {
    {"LlamaForCausalLM", plan_llama},   {"LLaMAForCausalLM", plan_llama},
    {"MistralForCausalLM", plan_llama}, {"Qwen2ForCausalLM", plan_qwen2},
    {"Qwen3ForCausalLM", plan_qwen3},   {"GemmaForCausalLM", plan_gemma},
    {"Gemma2ForCausalLM", plan_gemma2}, {"Gemma3ForCausalLM", plan_gemma3},
    {"PhiForCausalLM", plan_phi2},      {"Phi3ForCausalLM", plan_phi3},
};

std::string class_of(const Config& config) {
  const Json* classes = member(config.json(), "architectures");
  if (classes == nullptr || !classes->is_array() || classes->empty() ||
      !classes->front().is_string()) {
    config.fail("'architectures' does not name the class of the model");
  }
  return classes->front().get<std::string>();
}

}  // namespace

std::string known_classes() {
  std::string names;
  for (const Family& family : kFamilies) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", family.class_name);
  }
  return names;
}

ConversionPlan plan_model(const Json& json, const std::string& path) {
  const Config config(json, path);
  const std::string name = class_of(config);
  if (member(json, "quantization_config") != nullptr) {
    throw Error(fmt::format(
        "{}: the weights are quantised already ('quantization_config'); take the model as it was "
        "before that.",
        path));
  }
  for (const Family& family : kFamilies) {
    if (family.class_name != name) continue;
    ConversionPlan plan;
    family.plan(config, &plan);
    return plan;
  }
  throw Error(fmt::format("{}: models of the class {} cannot be converted; known are {}.", path,
                          troika::quoted(name), known_classes()));
}

}  // namespace troika::convert
