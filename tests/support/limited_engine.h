// Finds limits of memory with which a tiny engine holds only a part of its weights.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/error.h"
#include "tests/support/tiny_engine.h"

namespace troika::test_support {

// Returns an engine with the largest limit, to 64 KB, at which no more than this many things have
// places. `places_of` counts them in an engine, and returns nothing where all of them are in
// memory.
template <typename PlacesOf>
std::unique_ptr<TinyEngine> engine_with_places(const TinyModel& model, prepare::Options options,
                                               size_t whole_bytes, double most,
                                               const PlacesOf& places_of) {
  size_t low = 0, high = whole_bytes;  // `low` may be refused, and `high` has too many places
  std::unique_ptr<TinyEngine> found;
  while (high - low > size_t{64} << 10) {
    options.memory.limit_bytes = low + (high - low) / 2;
    try {
      auto engine = std::make_unique<TinyEngine>(model, options);
      const std::optional<int64_t> n_places = places_of(*engine);
      const bool is_more = !n_places || static_cast<double>(*n_places) > most;
      (is_more ? high : low) = options.memory.limit_bytes;
      if (!is_more) found = std::move(engine);
    } catch (const Error&) {
      low = options.memory.limit_bytes;
    }
  }
  return found;
}

}  // namespace troika::test_support
