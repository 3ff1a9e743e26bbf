#include "lanes/shadow_area.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"

namespace troika::lanes {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kPage = weights::ChannelInput::kPage;

size_t whole(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }
size_t whole_cache_lines(size_t bytes) { return whole(bytes, kCacheLine); }

}  // namespace

void ShadowAreas::Free::operator()(std::byte* bytes) const { std::free(bytes); }

ShadowAreas::ShadowAreas(const weights::Channels& channels, int most_tokens, int n_sets)
    : areas_(static_cast<size_t>(n_sets)) {
  size_t k = 0, n_rows = 0, cold = 0, n_cold = 0;
  for (const weights::ChannelInput& input : channels.inputs()) {
    k = std::max(k, input.k);
    n_rows = std::max(n_rows, input.bytes);
    if (!input.has_cold()) continue;
    cold = std::max(cold, input.k * input.page_bytes());
    n_cold = std::max(n_cold, input.k);
  }
  const auto n_tokens = static_cast<size_t>(most_tokens);
  // Keeps its alignment: it is a multiple of a line.
  const size_t prepared = n_tokens * kernels::int8_token_bytes(k);
  const size_t outliers = whole_cache_lines(n_tokens * k * sizeof(kernels::Outlier));
  const size_t counts = whole_cache_lines(n_tokens * sizeof(uint32_t));
  const size_t addends = whole_cache_lines(n_tokens * n_rows * sizeof(float));
  const size_t stride = whole(prepared + outliers + counts + addends, kPage) + cold;
  const size_t bytes = stride * areas_.size() + kPage;
  held_bytes_ = (prepared + counts + addends) * areas_.size();
  // The system zeroes this memory and backs a page when it is first touched.
  storage_.reset(static_cast<std::byte*>(std::calloc(bytes, 1)));
  if (storage_ == nullptr) {
    throw Error(fmt::format(
        "No memory for {} bytes of buffers for outliers, {} sets of them. Keep fewer chunks in "
        "flight, or leave '‹place› shadow' out.",
        bytes, n_sets));
  }
  const auto address = reinterpret_cast<uintptr_t>(storage_.get());
  std::byte* next = storage_.get() + (kPage - address % kPage) % kPage;
  for (ShadowArea& area : areas_) {
    area.prepared = next;
    area.outliers = reinterpret_cast<kernels::Outlier*>(next + prepared);
    area.counts = reinterpret_cast<uint32_t*>(next + prepared + outliers);
    area.addends = reinterpret_cast<float*>(next + prepared + outliers + counts);
    area.channels.resize(k);
    area.reads.reserve(n_cold);
    area.cold_channels.reserve(n_cold);
    next += stride;
    if (cold > 0) area.cold = next - cold;
  }
}

void ShadowCounters::add(const ShadowCounters& other) {
  n_outliers += other.n_outliers;
  n_cold += other.n_cold;
  n_reads += other.n_reads;
  read_bytes += other.read_bytes;
  read_us += other.read_us;
  wait_us += other.wait_us;
}

ShadowCounters ShadowAreas::counters() const {
  ShadowCounters sum;
  for (const ShadowArea& area : areas_) sum.add(area.counters);
  return sum;
}

void ShadowAreas::forget_counters() {
  for (ShadowArea& area : areas_) area.counters = {};
}

}  // namespace troika::lanes
