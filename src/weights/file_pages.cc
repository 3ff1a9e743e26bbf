#include "weights/file_pages.h"

#include <fmt/format.h>

#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"

namespace troika::weights {

void pad_to_page(AtomicFile& file) {
  const std::vector<std::byte> zeros(page_above(file.bytes_written()) - file.bytes_written());
  if (!zeros.empty()) file.write(zeros);
}

void refuse_disk(const std::exception& error, uint64_t file_bytes, std::string_view what,
                 std::string_view way_out) {
  throw Error(fmt::format("{} {} take {:.1f} MB there; {}.", error.what(), what,
                          1e-6 * static_cast<double>(file_bytes), way_out));
}

}  // namespace troika::weights
