// Reads the hottest neurons of a stream before anything is asked for. The hottest of a layer are
// one stretch of the file, so they are read in long requests.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "prepare/streaming/awaited_read.h"
#include "prepare/streaming/neurons/joined_reads.h"
#include "prepare/streaming/neurons/neuron_stream.h"

namespace troika::prepare {

using weights::NeuronCache;
using weights::NeuronId;

bool NeuronStream::is_hot(NeuronId id) const {
  const auto layer = static_cast<size_t>(id.group);
  const uint32_t neuron = file_->tables().order(layer)[static_cast<size_t>(id.neuron)];
  return options_.hot != nullptr && neuron < forms_[layer].n_neurons() &&
         options_.hot->is_hot(layer, neuron);
}

uint64_t NeuronStream::n_askable() const {
  const weights::BundleShape& shape = file_->layout().shape();
  const auto n_hot = static_cast<uint64_t>(options_.hot != nullptr ? options_.hot->n_neurons() : 0);
  return shape.n_layers * shape.n_neurons - n_hot;
}

std::vector<NeuronId> NeuronStream::hottest(uint64_t n) const {
  const weights::BundleShape& shape = file_->layout().shape();
  const uint64_t n_hot = shape.n_layers * shape.n_neurons - n_askable();
  std::vector<NeuronId> hottest = options_.heat->hottest(n + n_hot);
  std::erase_if(hottest, [this](NeuronId id) { return is_hot(id); });
  hottest.resize(std::min<size_t>(hottest.size(), n));
  return hottest;
}

void NeuronStream::read_hottest() {
  const auto n_slots = static_cast<uint64_t>(cache_->n_slots());
  std::vector<NeuronId> hottest = this->hottest(n_slots);
  // Some layers may have fewer neurons than the largest layer.
  std::erase_if(hottest, [this](NeuronId id) {
    const auto layer = static_cast<size_t>(id.group);
    const uint32_t neuron = file_->tables().order(layer)[static_cast<size_t>(id.neuron)];
    return neuron >= forms_[layer].n_neurons();
  });
  std::vector<std::vector<uint32_t>> of_layer(forms_.size());
  for (const NeuronId id : hottest) {
    of_layer[static_cast<size_t>(id.group)].push_back(static_cast<uint32_t>(id.neuron));
  }
  for (uint64_t layer = 0; layer < of_layer.size(); ++layer) {
    if (options_.progress) options_.progress(layer, of_layer.size());
    std::sort(of_layer[layer].begin(), of_layer[layer].end());
    std::span<const uint32_t> places = of_layer[layer];
    while (!places.empty()) places = read_first(layer, places);
  }
  if (options_.progress) options_.progress(of_layer.size(), of_layer.size());
  // The coldest are acquired first, so that they are the first to make room.
  for (auto id = hottest.rbegin(); id != hottest.rend(); ++id) {
    const Held held = cache_->acquire(cached(*id));
    TROIKA_ASSERT(held.found == NeuronCache::Found::kHit);
    cache_->give_back(held);
  }
  cache_->reset_counters();
}

// Reads neurons by their places in a layer, which ascend, as many as the memory for reads holds.
// Returns the places that are left.
std::span<const uint32_t> NeuronStream::read_first(uint64_t layer,
                                                   std::span<const uint32_t> places) {
  const weights::BundleLayout& layout = file_->layout();
  std::vector<lanes::ReadRequest> reads;
  JoinedReads joined(0, &reads);
  size_t n = 0;
  for (; n < places.size(); ++n) {
    const weights::BundleRange pages = layout.pages(layer, places[n]);
    if (joined.bytes() + pages.bytes > staging_.size()) break;
    joined.add(pages);
  }
  TROIKA_ASSERT(n > 0);
  const Staging::Loan loan = staging_.take(joined.bytes());
  joined.read_to(loan.memory);
  AwaitedRead awaited;
  lanes::Run run;
  run.reads = reads;
  disk_->submit(*read_, run, awaited);
  const bool is_read = awaited.wait() == lanes::Status::kDone;
  if (!is_read) note(disk_->problem());
  std::vector<ModelNeurons::Wanted> lost;
  std::vector<Held> held_of_lost;
  for (const uint32_t at : places.first(n)) {
    const std::byte* const bundle = joined.find(layout.bundle_offset(layer, at));
    const Held held = cache_->acquire(cached({static_cast<int>(layer), static_cast<int>(at)}));
    TROIKA_ASSERT(held.found == NeuronCache::Found::kMiss);
    const uint32_t neuron = file_->tables().order(layer)[at];
    if (is_read && has_check(layer, at, bundle)) {
      forms_[layer].assemble(file_->tables().resident(layer).data(), neuron, bundle,
                             place(held.slot));
    } else {
      if (is_read) note(fmt::format("{} was damaged since it was made", file_->path()));
      lost.push_back({neuron, place(held.slot)});
      held_of_lost.push_back(held);
      continue;
    }
    cache_->filled(held);
    cache_->give_back(held);
  }
  staging_.give_back(loan);
  // They are read together: any of them brings a whole matrix into memory, which then goes again.
  std::sort(lost.begin(), lost.end(),
            [](const auto& a, const auto& b) { return a.neuron < b.neuron; });
  if (!lost.empty()) model_.read(forms_[layer], static_cast<int>(layer), lost);
  counters_.n_from_model += static_cast<int64_t>(lost.size());
  for (const Held& held : held_of_lost) {
    cache_->filled(held);
    cache_->give_back(held);
  }
  return places.subspan(n);
}

}  // namespace troika::prepare
