// Checks that any text is either refused with an Error, or is a config.json of which a file is
// planned whose tensors all have a name, a size and something to be made of.
#include <cstdint>
#include <set>
#include <string_view>

#include "base/error.h"
#include "convert/family.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace troika::convert;  // NOLINT(google-build-using-namespace)
  try {
    const Json json = parse_json({reinterpret_cast<const char*>(data), size}, "fuzz");
    const ConversionPlan plan = plan_model(json, "fuzz");
    TROIKA_ASSERT(!plan.architecture.empty() && plan.n_vocab > 0 && !plan.tensors.empty());
    std::set<std::string_view> names;
    for (const PlannedTensor& tensor : plan.tensors) {
      TROIKA_ASSERT(names.insert(tensor.name).second);
      TROIKA_ASSERT(!tensor.source.empty() || !tensor.values.empty());
      for (const uint64_t length : tensor.shape) TROIKA_ASSERT(length > 0);
    }
  } catch (const troika::Error&) {
  }
  return 0;
}
