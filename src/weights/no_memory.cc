#include "weights/no_memory.h"

#include <fmt/format.h>

namespace troika::weights {

Error no_memory(size_t bytes, const std::string& of_what) {
  return Error(fmt::format("There is no memory for {:.1f} MB {}", 1e-6 * static_cast<double>(bytes),
                           of_what));
}

}  // namespace troika::weights
