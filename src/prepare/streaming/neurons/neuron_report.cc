// What a stream of neurons tells people.
#include <fmt/format.h>

#include "base/bytes_text.h"
#include "prepare/streaming/neurons/neuron_stream.h"

namespace troika::prepare {

std::string NeuronStream::problem() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (problem_.empty()) return {};
  return fmt::format(
      "{}. Neurons that stand there are read from the model's own file, which is slow. Remove {}, "
      "and "
      "it is made again",
      problem_, file_->path());
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
  return fmt::format(
      "{} of {} neurons have places ({} with scales{}){}; the others are read from {}",
      cache_->n_slots(), shape.n_layers * shape.n_neurons, bytes_text(bytes()), ahead, pins,
      file_->path());
}

}  // namespace troika::prepare
