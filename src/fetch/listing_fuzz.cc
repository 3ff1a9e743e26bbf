// Checks that any bytes are either refused with an Error, or are a list of files that stay below
// their folder. Then any name must mean one model or get an Error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "fetch/listing.h"
#include "fetch/name.h"
#include "fetch/url.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace troika::fetch;  // NOLINT(google-build-using-namespace)
  static uint64_t sum = 0;        // keeps the compiler from dropping the reads
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  sum += next_page(text).size() + origin_of(text).size() + percent_encoded(text).size();
  sum += parse_content_range(text).has_value();
  Listing listing;
  try {
    add_page(text, "fuzz", &listing);
  } catch (const troika::Error&) {
    return 0;
  }
  for (const HubFile& file : listing.files) {
    if (!is_safe_path(file.path)) std::abort();
  }
  const std::vector<HubModel> models = models_of(listing.files);
  for (const char* quant : {"", "Q4_K_M", "a"}) {
    try {
      const HubModel& model = choose_model(models, quant, "fuzz", listing.left_out);
      if (model.files.empty() || !model.is_complete) std::abort();
      sum += model.bytes();
    } catch (const troika::Error&) {
    }
  }
  return 0;
}
