#include "engine/memory/device_context.h"

#include <fmt/format.h>

#include "base/bytes_text.h"
#include "base/error.h"
#include "prepare/memory.h"

namespace troika::engine {

int context_within(const cache::KvShape& shape, const DeviceRoom& room) {
  const int64_t most = prepare::slots_within(shape, room.most_bytes);
  // Whole pages are taken.
  const size_t wanted_bytes = prepare::cache_bytes(shape, shape.limit());
  if (wanted_bytes <= room.most_bytes) return shape.limit();
  if (most > 0 && room.may_be_less) return static_cast<int>(most);
  const std::string advice = most > 0 ? fmt::format("‹context› {} fits", most)
                                      : std::string("Leave the lane out of ‹lanes›");
  throw Error(fmt::format(
      "The device of the lane {} gives {} of memory at once, and keys and values of {} tokens take "
      "{}. {}{}.",
      room.lane, bytes_text(room.most_bytes), shape.limit(), bytes_text(wanted_bytes), advice,
      shape.type == tensor::Type::kQ8_0 ? "" : ", and ‹kv› q8_0 takes half"));
}

}  // namespace troika::engine
