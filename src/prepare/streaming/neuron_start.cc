// What of a stream's neurons is in memory before anything is asked for: the hottest, which stand
// first in the order of their layer, so that they are read in long requests.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "prepare/streaming/neuron_stream.h"

namespace troika::prepare {
namespace {

using weights::kBundlePage;
using weights::NeuronCache;
using weights::NeuronId;

constexpr uint64_t kStartRequest = uint64_t{256} << 10;

// The mutex is held while it is told, so that whoever waits may forget it then.
struct StartRead : lanes::Completion {
  void finished(lanes::Status told) override {
    const std::lock_guard<std::mutex> lock(mutex);
    status = told;
    ended.notify_all();
  }
  lanes::Status wait() {
    std::unique_lock<std::mutex> lock(mutex);
    ended.wait(lock, [this] { return status != lanes::Status::kPending; });
    return status;
  }
  std::mutex mutex;
  std::condition_variable ended;
  lanes::Status status = lanes::Status::kPending;
};

}  // namespace

void NeuronStream::read_hottest() {
  const auto n_slots = static_cast<uint64_t>(cache_->n_slots());
  std::vector<NeuronId> hottest = options_.heat->hottest(n_slots);
  // Layers may have fewer neurons than the largest: what they lack stands last.
  std::erase_if(hottest, [this](NeuronId id) {
    const auto layer = static_cast<size_t>(id.group);
    const uint32_t neuron = file_->tables().order(layer)[static_cast<size_t>(id.neuron)];
    return neuron >= forms_[layer].n_neurons();
  });
  std::vector<uint64_t> n_first(forms_.size());
  for (const NeuronId id : hottest) ++n_first[static_cast<size_t>(id.group)];
  for (uint64_t layer = 0; layer < n_first.size(); ++layer) {
    if (options_.progress) options_.progress(layer, n_first.size());
    read_first(layer, n_first[layer]);
  }
  if (options_.progress) options_.progress(n_first.size(), n_first.size());
  // Those that make room first are the coldest.
  for (auto id = hottest.rbegin(); id != hottest.rend(); ++id) {
    const Held held = cache_->acquire(*id);
    TROIKA_ASSERT(held.found == NeuronCache::Found::kHit);
    cache_->give_back(held);
  }
  cache_->reset_counters();
}

// The first n places of a layer, as many at once as the memory for reads holds.
void NeuronStream::read_first(uint64_t layer, uint64_t n) {
  const weights::BundleLayout& layout = file_->layout();
  const uint64_t bundle_bytes = layout.shape().bundle_bytes;
  const std::span<const uint32_t> order = file_->tables().order(layer);
  const std::byte* const resident = file_->tables().resident(layer).data();
  for (uint64_t first = 0; first < n;) {
    const uint64_t begin = layout.pages(layer, first).offset;
    uint64_t last = first, end = begin;  // the places [first, last)
    for (; last < n; ++last) {
      const weights::BundleRange pages = layout.pages(layer, last);
      if (pages.offset + pages.bytes - begin > staging_.size()) break;
      end = pages.offset + pages.bytes;
    }
    TROIKA_ASSERT(last > first);
    const Staging::Piece piece = staging_.take(end - begin);
    std::vector<lanes::ReadRequest> reads;
    for (uint64_t at = begin; at < end; at += kStartRequest) {
      reads.push_back({0, at, std::min(kStartRequest, end - at), piece.memory + (at - begin)});
    }
    StartRead start;
    lanes::Run run;
    run.reads = reads;
    disk_->submit(*read_, run, start);
    const bool is_read = start.wait() == lanes::Status::kDone;
    if (!is_read) note(disk_->problem());
    for (; first < last; ++first) {
      const std::byte* const bundle = piece.memory + (layout.bundle_offset(layer, first) - begin);
      const Held held = cache_->acquire({static_cast<int>(layer), static_cast<int>(first)});
      TROIKA_ASSERT(held.found == NeuronCache::Found::kMiss);
      const uint32_t check = file_->tables().checks(layer)[first];
      if (is_read && weights::bundle_check({bundle, bundle_bytes}) == check) {
        forms_[layer].assemble(resident, order[first], bundle, place(held.slot));
      } else {
        if (is_read) note(fmt::format("{} was damaged since it was made", file_->path()));
        const ModelNeurons::Wanted wanted = {order[first], place(held.slot)};
        model_.read(forms_[layer], static_cast<int>(layer), {&wanted, 1});
        ++counters_.n_from_model;
      }
      cache_->filled(held);
      cache_->give_back(held);
    }
    staging_.give_back(piece);
  }
}

}  // namespace troika::prepare
