// Checks that any text is either refused with an Error, or is a profile that stays what it is when
// it is written and read again.
#include <cstdint>

#include "base/error.h"
#include "plan/profile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace troika::plan;  // NOLINT(google-build-using-namespace)
  Profile profile;
  try {
    profile = profile_from_json({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const troika::Error&) {
    return 0;
  }
  const std::string written = profile_to_json(profile);
  TROIKA_ASSERT(profile_to_json(profile_from_json(written, "written")) == written);
  for (const OpTime& time : profile.ops) {
    TROIKA_ASSERT(profile.find(time.lane, time.shape) != nullptr);
    TROIKA_ASSERT(op_bytes(time.shape) >= 0 && op_flops(time.shape) >= 0);
  }
  return 0;
}
