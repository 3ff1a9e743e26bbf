#include "gguf/cursor.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/os_error.h"

namespace troika::gguf {

void Cursor::fail_at_end(std::string_view what) const {
  throw Error(fmt::format(
      "{}: the file ends at byte {}, inside of {}: it was cut short. Download or convert it again.",
      name_, bytes_.size(), quoted(what)));
}

}  // namespace troika::gguf
