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

WeightPages copy(MappedFile& map) {
  Team team(usable_cores());  // what the engine is to use of them does not matter yet
  const RealClock clock;
  const double start_us = clock.now_us();
  const size_t bytes = map.copy_into_memory(team);
  WeightPages pages;
  pages.seconds = 1e-6 * (clock.now_us() - start_us);
  pages.is_copied = bytes > 0;
  const size_t huge = huge_bytes_within(map.bytes().data(), map.bytes().size());
  pages.text = fmt::format(
      "{:.0f} MB copied into memory in {:.2f} s, {:.0f} MB of them in huge "
      "pages",
      bytes / kMb, pages.seconds, huge / kMb);
  if (bytes < map.bytes().size()) pages.text += "; no memory for the rest, which stays mapped";
  return pages;
}

}  // namespace

WeightPages place_weights(const Options& options, gguf::File& file) {
  const bool is_auto = options.load == "auto";
  if (!is_auto && options.load != "map" && options.load != "copy") {
    throw UsageError(fmt::format("--load {}: there are auto, map and copy.", options.load));
  }
  MappedFile* const map = file.map();
  if (map == nullptr || map->bytes().empty()) return {false, "given in memory"};
  if (options.load == "copy") return copy(*map);
  std::string why;
  if (is_auto && map->bytes().size() >= kLeastBytes) {
    if (!gives_huge_pages()) {
      why = "this system has no huge pages to copy it into";
    } else if (map->bytes().size() > available_memory_bytes() / 2) {
      why = "a copy would take more than half of the free memory";
    } else {
      return copy(*map);
    }
  }
  const bool is_huge = map->comes_in_huge_pages();
  return {false, fmt::format("mapped in {} pages{}{}", is_huge ? "huge" : "small",
                             why.empty() ? "" : "; ", why)};
}

}  // namespace troika::engine
