#include "grammar/fuzz_reader_test_support.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  troika::grammar::fuzz_reader({reinterpret_cast<const char*>(data), size},
                               troika::grammar::Format::kJsonSchema);
  return 0;
}
