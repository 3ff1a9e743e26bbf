// Checks that any text is either refused with an Error, or is a phone or a stack (as the first byte
// says) whose constants lie in their ranges and say where they come from.
#include <cstdint>

#include "base/error.h"
#include "base/memory_file_test_support.h"
#include "plan/phones/phone.h"

namespace {

using namespace troika::plan;  // NOLINT(google-build-using-namespace)

// A stack that is like another keeps what is not said as it was.
void check(const std::vector<Field>& fields, bool has_all) {
  for (const Field& field : fields) {
    const Constant& constant = *field.constant;
    if (constant.source.empty() && !has_all) continue;
    TROIKA_ASSERT(constant.value >= field.least && constant.value <= field.most);
    TROIKA_ASSERT(source_kind(constant.source) != SourceKind::kUnknown);
    if (!constant.range) continue;
    TROIKA_ASSERT(constant.range->first >= field.least && constant.range->second <= field.most);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const troika::MemoryFile file;
  file.set(std::as_bytes(std::span(data, size)).subspan(1));
  try {
    if (data[0] % 2 == 0) {
      Phone phone = read_phone(file.path());
      check(phone.fields(), /*has_all=*/true);
    } else {
      Stack stack = read_stack(file.path());
      check(stack.fields(), stack.like.empty());
    }
  } catch (const troika::Error&) {
  }
  return 0;
}
