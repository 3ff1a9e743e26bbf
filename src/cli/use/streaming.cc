#include "cli/use/streaming.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/bytes_text.h"
#include "prepare/streaming/expert_stream.h"
#include "prepare/streaming/neurons/neuron_stream.h"

namespace troika::cli {
namespace {

// Returns bytes per microsecond, which are megabytes per second.
double rate_mb_per_s(const prepare::WeightStream::Counters& c) {
  return c.read_us > 0 ? static_cast<double>(c.read_bytes) / c.read_us : 0.0;
}

nlohmann::ordered_json blocks_json(const prepare::WeightStream& stream) {
  const prepare::WeightStream::Counters c = stream.counters();
  return {{"parts", stream.n_parts()},
          {"streamed_parts", stream.n_streamed()},
          {"bytes_per_pass", stream.bytes_per_pass()},
          {"weight_bytes_at_most", stream.most_bytes()},
          {"read_parts", c.n_parts},
          {"read_bytes", c.read_bytes},
          {"read_mb_per_s", rate_mb_per_s(c)},
          {"wait_s", c.wait_us / 1e6}};
}

std::string blocks_text(const char* name, const prepare::WeightStream& stream) {
  if (stream.n_streamed() == 0) return {};
  const prepare::WeightStream::Counters c = stream.counters();
  if (c.n_parts == 0) return {};
  return fmt::format(
      "{:<10} {:>10}   in {} parts at {:.0f} MB/s; passes waited {:.2f} s for them\n", name,
      bytes_text(c.read_bytes), c.n_parts, rate_mb_per_s(c), c.wait_us / 1e6);
}

nlohmann::ordered_json neurons_json(const prepare::NeuronStream& neurons) {
  const prepare::NeuronStream::Counters c = neurons.counters();
  return {{"places", neurons.cache().n_slots()},
          {"bytes_at_most", neurons.bytes()},
          {"hits", c.cache.hits},
          {"misses", c.cache.misses},
          {"evictions", c.cache.evictions},
          {"reads", c.n_reads},
          {"read_bytes", c.read_bytes},
          {"read_s", c.read_us / 1e6},
          {"wait_s", c.wait_us / 1e6},
          {"ahead",
           {{"bytes_at_most", neurons.ahead_bytes()},
            {"read_bytes", c.ahead.read_bytes},
            {"neurons", c.ahead.n_neurons},
            {"used", c.ahead.n_used},
            {"for_nothing", c.ahead.n_for_nothing()}}},
          {"gap_bytes", neurons.gap_bytes()},
          {"gates_read_first", c.n_gates},
          {"rests_read", c.n_rests},
          {"from_model", c.n_from_model},
          {"problem", neurons.problem()}};
}

nlohmann::ordered_json experts_json(const prepare::ExpertStream& experts) {
  const prepare::ExpertStream::Counters c = experts.counters();
  return {{"places", experts.n_places()},
          {"bytes_at_most", experts.bytes()},
          {"hits", c.hits},
          {"misses", c.misses},
          {"right_guesses", c.right_guesses},
          {"wrong_guesses", c.wrong_guesses},
          {"evictions", c.evictions},
          {"read_bytes", c.read_bytes},
          {"read_s", c.read_us / 1e6},
          {"wait_s", c.wait_us / 1e6}};
}

std::string experts_text(const char* what, const prepare::ExpertStream& experts) {
  const prepare::ExpertStream::Counters c = experts.counters();
  const auto n_used = static_cast<double>(c.hits + c.misses + c.right_guesses);
  const auto percent = [&](int64_t n) {
    return 100.0 * static_cast<double>(n) / std::max(n_used, 1.0);
  };
  return fmt::format(
      "{:<10} {:>10}   in {} {}; {:.1f} % were in memory, {:.1f} % read ahead ({} for nothing); "
      "workers waited {:.2f} s\n",
      what, bytes_text(c.read_bytes), c.misses + c.right_guesses + c.wrong_guesses, what,
      percent(c.hits), percent(c.right_guesses), c.wrong_guesses, c.wait_us / 1e6);
}

std::string neurons_text(const prepare::NeuronStream& neurons) {
  const prepare::NeuronStream::Counters c = neurons.counters();
  const auto n_used = static_cast<double>(c.cache.hits + c.cache.misses);
  const std::string problem = c.n_from_model > 0 ? fmt::format("           {:>10}   neurons: {}.\n",
                                                               c.n_from_model, neurons.problem())
                                                 : "";
  const auto percent = [&](int64_t n) {
    return 100.0 * static_cast<double>(n) / std::max(n_used, 1.0);
  };
  const std::string ahead = neurons.ahead_bytes() == 0
                                ? ""
                                : fmt::format(", {:.1f} % read ahead ({} neurons for nothing)",
                                              percent(c.ahead.n_used), c.ahead.n_for_nothing());
  const std::string twice =
      neurons.reads_gates_first()
          ? fmt::format("           {:>10}   gates first, and behind them the rest of {}\n",
                        c.n_gates, c.n_rests)
          : "";
  return fmt::format(
      "neurons    {:>10}   in {} reads; {:.1f} % were in memory{}; workers waited {:.2f} s\n{}{}",
      bytes_text(c.read_bytes), c.n_reads, percent(c.cache.hits), ahead, c.wait_us / 1e6, twice,
      problem);
}

// Counts reads past the page cache and through it, of a stream and those that it knows.
std::pair<uint64_t, uint64_t> reads_of(const prepare::WeightStream& stream) {
  uint64_t n_direct = 0, n_cached = 0;
  const auto add = [&](const auto* one) {
    if (one == nullptr) return;
    n_direct += one->disk().n_direct_reads();
    n_cached += one->disk().n_cached_reads();
  };
  add(&stream);
  add(stream.neurons());
  add(stream.prompts());
  add(stream.experts());
  return {n_direct, n_cached};
}

// Says what is read by route: where neurons are read too, that is the gates of experts alone.
const char* routed_name(const prepare::WeightStream& stream) {
  return stream.neurons() != nullptr ? "gates" : "experts";
}

}  // namespace

nlohmann::ordered_json streaming_json(const engine::Engine& engine) {
  const prepare::WeightStream* const stream = engine.loaded().stream.get();
  if (stream == nullptr) return nullptr;
  nlohmann::ordered_json json = blocks_json(*stream);
  std::tie(json["direct_reads"], json["cached_reads"]) = reads_of(*stream);
  if (stream->neurons() != nullptr) json["neurons"] = neurons_json(*stream->neurons());
  if (stream->prompts() != nullptr) json["prompts"] = blocks_json(*stream->prompts());
  if (stream->experts() != nullptr) json[routed_name(*stream)] = experts_json(*stream->experts());
  return json;
}

std::string streaming_text(const engine::Engine& engine) {
  const prepare::WeightStream* const stream = engine.loaded().stream.get();
  if (stream == nullptr) return {};
  std::string text = stream->neurons() != nullptr ? neurons_text(*stream->neurons()) : "";
  if (stream->experts() != nullptr) text += experts_text(routed_name(*stream), *stream->experts());
  if (stream->prompts() != nullptr) text += blocks_text("prompts", *stream->prompts());
  return text + blocks_text("streamed", *stream);
}

}  // namespace troika::cli
