// What a stream of neurons tells people.
#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_text.h"
#include "prepare/streaming/neurons/neuron_stream.h"

namespace troika::prepare {

std::string NeuronStream::problem() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (problem_.empty()) return {};
  return fmt::format(
      "{}. Neurons that stand there are read from the model's own file, which is slow. Remove {}, "
      "and it is made again",
      problem_, file_->path());
}

WaitTimes NeuronStream::waited() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return waits_.times();
}

NeuronStream::Counters NeuronStream::counters() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  Counters counters = counters_;
  counters.cache = cache_->counters(weights::NeuronCache::Region::kCold);
  if (ahead_ != nullptr) counters.ahead = ahead_->counters();
  return counters;
}

std::string NeuronStream::text() const {
  const weights::BundleShape& shape = file_->layout().shape();
  std::string pins =
      cache_->n_pins() > 0 ? fmt::format(", the {} hottest for good", cache_->n_pins()) : "";
  if (options_.pinned_share.size() > 1) {
    pins = ", the hottest for good as steps have tokens:";
    for (const double share : options_.pinned_share) pins += fmt::format(" {:.0f}", 100.0 * share);
    pins += " %";
  }
  const std::string ahead =
      ahead_ == nullptr ? ""
                        : fmt::format(", {} of them for what is read ahead{}",
                                      bytes_text(ahead_bytes()), knows_heat_ ? "" : " in prompts");
  const uint64_t n_hot = shape.n_layers * shape.n_neurons - n_askable();
  const std::string apart = n_hot > 0 ? fmt::format(" beside {} hot ones", n_hot) : "";
  const uint64_t n_places = std::min(static_cast<uint64_t>(cache_->n_slots()), n_askable());
  return fmt::format("{} of {} neurons{} have places ({} with scales{}){}; {} read from {}",
                     n_places, n_askable(), apart, bytes_text(bytes()), ahead, pins,
                     n_places < n_askable() ? "the others are" : "all of them are once",
                     file_->path());
}

}  // namespace troika::prepare
