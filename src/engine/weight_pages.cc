#include "engine/weight_pages.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/huge_pages.h"
#include "base/mapped_file.h"
#include "base/system.h"
#include "base/team.h"

namespace troika::engine {
namespace {

// A smaller file stays in the caches, where the size of pages matters less.
constexpr size_t kLeastBytes = size_t{32} << 20;

constexpr double kMb = 1e6;

size_t mapped_bytes(const gguf::File& file) {
  size_t bytes = 0;
  for (const gguf::File::Part& part : file.parts()) {
    if (part.map != nullptr) bytes += part.bytes.size();
  }
  return bytes;
}

WeightPages copy(const gguf::File& file) {
  Team team(usable_cores());  // what the engine is to use of them does not matter yet
  const RealClock clock;
  const double start_us = clock.now_us();
  size_t bytes = 0, huge = 0;
  for (const gguf::File::Part& part : file.parts()) {
    bytes += part.map->copy_into_memory(team);
    huge += huge_bytes_within(part.bytes.data(), part.bytes.size());
  }
  WeightPages pages;
  pages.seconds = 1e-6 * (clock.now_us() - start_us);
  pages.is_copied = bytes > 0;
  pages.text = fmt::format(
      "{:.0f} MB copied into memory in {:.2f} s, {:.0f} MB of them in huge "
      "pages",
      bytes / kMb, pages.seconds, huge / kMb);
  if (bytes < mapped_bytes(file)) pages.text += "; no memory for the rest, which stays mapped";
  return pages;
}

}  // namespace

WeightPages place_weights(const Options& options, gguf::File& file) {
  const bool is_auto = options.load == "auto";
  if (!is_auto && options.load != "map" && options.load != "copy") {
    throw UsageError(fmt::format("--load {}: there are auto, map and copy.", options.load));
  }
  const size_t bytes = mapped_bytes(file);
  if (bytes == 0) return {false, "given in memory"};
  if (options.load == "copy") return copy(file);
  std::string why;
  if (is_auto && bytes >= kLeastBytes) {
    if (!gives_huge_pages()) {
      why = "this system has no huge pages to copy it into";
    } else if (bytes > available_memory_bytes() / 2) {
      why = "a copy would take more than half of the free memory";
    } else {
      return copy(file);
    }
  }
  // Of all parts, so that each is asked for.
  size_t n_huge = 0;
  for (const gguf::File::Part& part : file.parts()) {
    if (part.map->comes_in_huge_pages()) n_huge += part.bytes.size();
  }
  return {false, fmt::format("mapped in {} pages{}{}", n_huge * 2 > bytes ? "huge" : "small",
                             why.empty() ? "" : "; ", why)};
}

}  // namespace troika::engine
