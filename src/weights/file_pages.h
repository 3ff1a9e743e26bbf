// What writers of side files share: parts that begin at whole pages, so that reads past the page
// cache may take the pages around them, and what is said of a disk that refuses.
#pragma once

#include <cstdint>
#include <exception>
#include <new>
#include <string_view>

namespace troika {

class AtomicFile;

}  // namespace troika

namespace troika::weights {

inline constexpr uint64_t kFilePage = 4096;

constexpr uint64_t page_below(uint64_t at) { return at / kFilePage * kFilePage; }
constexpr uint64_t page_above(uint64_t at) { return page_below(at + kFilePage - 1); }

void pad_to_page(AtomicFile& file);

// Throws Error that says of a disk which has refused that `what` takes file_bytes there, and
// `way_out`, how to do without it.
[[noreturn]] void refuse_disk(const std::exception& error, uint64_t file_bytes,
                              std::string_view what, std::string_view way_out);

// Does something that the disk may refuse, and calls refuse_disk() where it does. What else goes
// wrong while a file is made is not the disk's fault.
template <typename Step>
void write_step(uint64_t file_bytes, std::string_view what, std::string_view way_out,
                const Step& step) {
  try {
    step();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    refuse_disk(error, file_bytes, what, way_out);
  }
}

}  // namespace troika::weights
