#include "lanes/host/shadow_products.h"

#include <algorithm>

namespace troika::lanes {
namespace {

// A worker takes rows of results in multiples of this.
constexpr int64_t kGranularity = 64;

}  // namespace

void gather_channels(const weights::ChannelInput& input, int n_tokens, ShadowArea* area) {
  constexpr size_t kPage = weights::ChannelInput::kPage;
  std::copy(input.resident.begin(), input.resident.end(), area->channels.begin());
  area->reads.clear();
  area->cold_channels.clear();
  area->input = &input;
  const size_t slot_bytes = input.page_bytes();
  for (size_t t = 0; t < static_cast<size_t>(n_tokens); ++t) {
    area->counters.n_outliers += area->counts[t];
    for (uint32_t i = 0; i < area->counts[t]; ++i) {
      const size_t channel = area->outliers[t * input.k + i].channel;
      if (input.resident[channel] != nullptr) continue;
      ++area->counters.n_cold;
      // Another token wants this channel, too, and has noted it.
      if (area->channels[channel] != nullptr) continue;
      const uint64_t offset = input.file_offset + channel * input.bytes;
      const uint64_t first_page = offset / kPage * kPage;
      std::byte* const to = area->cold + area->reads.size() * slot_bytes;
      area->reads.push_back(
          {0, first_page, (offset + input.bytes - first_page + kPage - 1) / kPage * kPage, to});
      area->cold_channels.push_back(channel);
      area->channels[channel] = reinterpret_cast<const int8_t*>(to) + (offset - first_page);
    }
  }
}

void run_shadow_product(const BoundOp& bound, const OpContext& context, int worker) {
  const OutlierPart& part = bound.as<BoundProduct>().outliers;
  const ShadowArea& area = part.areas->of(context.run.buffer_set);
  const weights::ChannelInput& input = *part.channels;
  const size_t first_row = input.first_row_of(bound.op.weight);
  const Share share = share_of(bound.output_width, worker, context.team.n_active(), kGranularity);
  kernels::ChannelProduct product;
  product.first_row = first_row + static_cast<size_t>(share.begin);
  product.last_row = first_row + static_cast<size_t>(share.end);
  product.n_tokens = static_cast<size_t>(context.run.n_tokens);
  product.outliers = area.outliers;
  product.stride = input.k;
  product.counts = area.counts;
  product.channels = area.channels.data();
  product.scales = input.scales.data();
  product.y = area.addends;
  product.y_stride = input.bytes;
  context.kernels.multiply_channels(product);
}

void run_shadow_sum(const BoundOp& bound, const OpContext& context, int worker) {
  const OutlierPart& part = bound.as<BoundProduct>().outliers;
  const ShadowArea& area = part.areas->of(context.run.buffer_set);
  const size_t first_row = part.channels->first_row_of(bound.op.weight);
  const auto width = static_cast<size_t>(bound.output_width);
  const Share share = share_of(context.run.n_tokens, worker, context.team.n_active());
  for (auto token = static_cast<size_t>(share.begin); token < static_cast<size_t>(share.end);
       ++token) {
    if (area.counts[token] == 0) continue;
    float* y = context.output(bound) + token * width;
    context.kernels.add(y, area.addends + token * part.channels->bytes + first_row, y, width);
  }
}

}  // namespace troika::lanes
