#include "base/bytes_text.h"

#include <fmt/format.h>

namespace troika {

std::string bytes_text(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= 1'000'000'000) return fmt::format("{:.2f} GB", value * 1e-9);
  if (bytes >= 1'000'000) return fmt::format("{:.1f} MB", value * 1e-6);
  return fmt::format("{:.1f} KB", value * 1e-3);
}

}  // namespace troika
