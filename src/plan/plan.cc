#include "plan/plan.h"

#include <fmt/format.h>

#include "base/error.h"

namespace troika::plan {

const char* activations_name(Activations activations) {
  return activations == Activations::kF32 ? "f32" : "q8";
}

Activations activations_from_name(std::string_view name) {
  if (name == "f32") return Activations::kF32;
  if (name == "q8") return Activations::kQ8;
  throw UsageError(fmt::format("'{}' is no form of activations. Known are f32 and q8.", name));
}

}  // namespace troika::plan
