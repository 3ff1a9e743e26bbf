// What writers of side files share: parts that begin at whole pages, so that reads past the page
// cache may take the pages around them, and what is said of a disk that refuses.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <new>
#include <string_view>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"

namespace troika::weights {

inline constexpr uint64_t kFilePage = 4096;

constexpr uint64_t page_below(uint64_t at) { return at / kFilePage * kFilePage; }
constexpr uint64_t page_above(uint64_t at) { return page_below(at + kFilePage - 1); }

inline void pad_to_page(AtomicFile& file) {
  const std::vector<std::byte> zeros(page_above(file.bytes_written()) - file.bytes_written());
  if (!zeros.empty()) file.write(zeros);
}

// Does something that the disk may refuse, and says then that `what` takes file_bytes there, and
// `way_out`, how to do without it. What else goes wrong while a file is made is not the disk's
// fault.
template <typename Step>
void write_step(uint64_t file_bytes, std::string_view what, std::string_view way_out,
                const Step& step) {
  try {
    step();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(fmt::format("{} {} take {:.1f} MB there; {}.", error.what(), what,
                            1e-6 * static_cast<double>(file_bytes), way_out));
  }
}

}  // namespace troika::weights
