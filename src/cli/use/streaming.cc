#include "cli/use/streaming.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/bytes_text.h"

namespace troika::cli {
namespace {

// Bytes per microsecond are megabytes per second.
double rate_mb_per_s(const prepare::WeightStream::Counters& c) {
  return c.read_us > 0 ? static_cast<double>(c.read_bytes) / c.read_us : 0.0;
}

}  // namespace

nlohmann::ordered_json streaming_json(const engine::Engine& engine) {
  const prepare::WeightStream* const stream = engine.loaded().stream.get();
  if (stream == nullptr) return nullptr;
  const prepare::WeightStream::Counters c = stream->counters();
  return {{"blocks", stream->n_blocks()},
          {"streamed_blocks", stream->n_streamed()},
          {"bytes_per_pass", stream->bytes_per_pass()},
          {"weight_bytes_at_most", stream->most_bytes()},
          {"read_blocks", c.n_blocks},
          {"read_bytes", c.read_bytes},
          {"read_mb_per_s", rate_mb_per_s(c)},
          {"wait_s", c.wait_us / 1e6}};
}

std::string streaming_text(const engine::Engine& engine) {
  const prepare::WeightStream* const stream = engine.loaded().stream.get();
  if (stream == nullptr) return {};
  const prepare::WeightStream::Counters c = stream->counters();
  return fmt::format(
      "streamed   {:>10}   in {} blocks at {:.0f} MB/s; passes waited {:.2f} s for them\n",
      bytes_text(c.read_bytes), c.n_blocks, rate_mb_per_s(c), c.wait_us / 1e6);
}

}  // namespace troika::cli
