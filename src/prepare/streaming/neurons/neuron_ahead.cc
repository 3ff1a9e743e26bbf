#include "prepare/streaming/neurons/neuron_ahead.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "prepare/streaming/neurons/joined_reads.h"

namespace troika::prepare {

using weights::BundleLayout;
using weights::BundleRange;
using weights::kBundlePage;
using weights::kSegmentNeurons;

namespace {

constexpr uint64_t kLeastBundles = 4;  // less memory than for these is not worth having

size_t segments_of(const BundleLayout& layout) {
  return static_cast<size_t>(weights::n_segments(static_cast<int>(layout.shape().n_neurons)));
}

// Returns the most requests that the bundles of a segment take.
size_t most_reads(const BundleLayout& layout) {
  const uint64_t last = std::min<uint64_t>(kSegmentNeurons, layout.shape().n_neurons) - 1;
  const BundleRange begin = layout.pages(0, 0), end = layout.pages(0, last);
  const uint64_t n_pages = (end.offset + end.bytes - begin.offset) / kBundlePage + 1;
  return std::min<size_t>(last + 1, n_pages);
}

uint64_t ahead_list_bytes(const BundleLayout& layout) {
  return segments_of(layout) *
         (sizeof(AheadBatch) + most_reads(layout) * sizeof(lanes::ReadRequest));
}

}  // namespace

void AheadBatch::finished(lanes::Status status) { owner->ended_(this, status); }

uint64_t NeuronAhead::layer_bytes(const BundleLayout& layout, uint64_t spare_bytes) {
  if (layout.shape().n_layers < 2) return 0;  // there is no other layer
  const uint64_t share = spare_bytes / 16;
  const uint64_t left = share - std::min(share, ahead_list_bytes(layout));
  const uint64_t bytes = std::min(left / kBundlePage * kBundlePage, layout.bundles_bytes());
  return bytes < kLeastBundles * layout.read_bytes() ? 0 : bytes;
}

uint64_t NeuronAhead::bytes_for(const BundleLayout& layout, uint64_t layer_bytes) {
  return layer_bytes == 0 ? 0 : 2 * (layer_bytes + ahead_list_bytes(layout));
}

NeuronAhead::NeuronAhead(const BundleLayout& layout, uint64_t layer_bytes, WhenEnded ended)
    : layout_(layout),
      layer_bytes_(layer_bytes),
      ended_(std::move(ended)),
      memory_(2 * layer_bytes) {
  TROIKA_ASSERT(layer_bytes > 0 && layer_bytes % kBundlePage == 0);
  for (size_t i = 0; i < layers_.size(); ++i) {
    layers_[i].memory = memory_.get() + i * layer_bytes;
    layers_[i].batches = std::vector<AheadBatch>(segments_of(layout));
    for (AheadBatch& batch : layers_[i].batches) {
      batch.owner = this;
      batch.reads.reserve(most_reads(layout));
    }
  }
}

bool NeuronAhead::is_reading_to(const Layer& layer) const {
  return std::any_of(layer.batches.begin(), layer.batches.end(), [](const AheadBatch& batch) {
    return batch.state == AheadBatch::State::kReading;
  });
}

void NeuronAhead::keep(int ffn, int next) {
  for (Layer& layer : layers_) {
    if (layer.ffn == ffn || layer.ffn == next || layer.ffn == kNoFfn) continue;
    layer.ffn = kNoFfn;
    for (AheadBatch& batch : layer.batches) {
      // What is being read keeps its memory until it ends.
      if (batch.state != AheadBatch::State::kReading) batch.state = AheadBatch::State::kNothing;
    }
  }
}

NeuronAhead::Layer* NeuronAhead::layer_of(int ffn) {
  for (Layer& layer : layers_) {
    if (layer.ffn == ffn) return &layer;
  }
  return nullptr;
}

// Returns the layer's memory, or memory that is free; null where there is none.
NeuronAhead::Layer* NeuronAhead::layer_for(int ffn) {
  if (Layer* const layer = layer_of(ffn)) return layer;
  Layer* const layer = layer_of(kNoFfn);
  if (layer == nullptr || is_reading_to(*layer)) return nullptr;
  layer->ffn = ffn;
  layer->n_used_bytes = 0;
  layer->n_begun = 0;
  for (AheadBatch& batch : layer->batches) batch.ffn = ffn;
  return layer;
}

AheadBatch* NeuronAhead::begin(int ffn, uint64_t n_places, uint64_t gap_bytes,
                               const std::function<bool(uint64_t place)>& is_wanted) {
  TROIKA_ASSERT(!is_reading_);
  Layer* const layer = n_places > 0 ? layer_for(ffn) : nullptr;
  if (layer == nullptr) return nullptr;
  while (layer->n_begun < layer->batches.size()) {
    const uint64_t first = layer->n_begun * kSegmentNeurons;
    AheadBatch& batch = layer->batches[layer->n_begun++];
    const uint64_t room = layer_bytes_ - layer->n_used_bytes;
    batch.unused.reset();
    JoinedReads joined(gap_bytes, &batch.reads);
    const uint64_t n = std::min<uint64_t>(n_places, kSegmentNeurons);
    for (uint64_t i = 0; i < n && first + i < layout_.shape().n_neurons; ++i) {
      if (!is_wanted(first + i)) continue;
      const BundleRange pages = layout_.pages(static_cast<uint64_t>(ffn), first + i);
      if (joined.bytes_with(pages) > room) break;
      joined.add(pages);
      batch.unused.set(i);
    }
    if (batch.reads.empty()) continue;
    joined.read_to(layer->memory + layer->n_used_bytes);
    batch.bytes = joined.bytes();
    layer->n_used_bytes += joined.bytes();
    counters_.read_bytes += joined.bytes();
    counters_.n_neurons += static_cast<int64_t>(batch.unused.count());
    batch.state = AheadBatch::State::kReading;
    is_reading_ = true;
    return &batch;
  }
  return nullptr;
}

void NeuronAhead::end(AheadBatch* batch, bool is_read) {
  TROIKA_ASSERT(is_reading_ && batch->state == AheadBatch::State::kReading);
  is_reading_ = false;
  const Layer* const layer = layer_of(batch->ffn);
  // A layer that was forgotten meanwhile has no use for it.
  const bool is_kept = layer != nullptr && batch >= layer->batches.data() &&
                       batch < layer->batches.data() + layer->batches.size();
  batch->state = !is_kept  ? AheadBatch::State::kNothing
                 : is_read ? AheadBatch::State::kRead
                           : AheadBatch::State::kFailed;
}

AheadBatch* NeuronAhead::find(int ffn, size_t segment) {
  Layer* const layer = layer_of(ffn);
  if (layer == nullptr) return nullptr;
  AheadBatch& batch = layer->batches[segment];
  const bool is_there =
      batch.state == AheadBatch::State::kReading || batch.state == AheadBatch::State::kRead;
  return is_there ? &batch : nullptr;
}

const std::byte* NeuronAhead::use(AheadBatch* batch, uint64_t place) {
  const auto ffn = static_cast<uint64_t>(batch->ffn);
  const BundleRange pages = layout_.pages(ffn, place);
  auto read = std::upper_bound(
      batch->reads.begin(), batch->reads.end(), pages.offset,
      [](uint64_t offset, const lanes::ReadRequest& one) { return offset < one.offset; });
  if (read == batch->reads.begin()) return nullptr;
  --read;
  if (pages.offset + pages.bytes > read->offset + read->bytes) return nullptr;
  const auto bit = static_cast<size_t>(place % kSegmentNeurons);
  if (batch->unused[bit]) {
    batch->unused.reset(bit);
    ++counters_.n_used;
  }
  return read->to + (layout_.bundle_offset(ffn, place) - read->offset);
}

}  // namespace troika::prepare
