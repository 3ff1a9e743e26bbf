#include "lanes/host/shadow_steps.h"

#include <algorithm>

namespace troika::lanes {
namespace {

// Rows of results that stay together on one worker.
constexpr int64_t kGranularity = 64;

}  // namespace

void gather_channels(const weights::ChannelInput& input, int n_tokens, ShadowArea* area) {
  constexpr size_t kPage = weights::ChannelInput::kPage;
  std::copy(input.resident.begin(), input.resident.end(), area->channels.begin());
  area->reads.clear();
  const size_t slot_bytes = input.page_bytes();
  for (size_t t = 0; t < static_cast<size_t>(n_tokens); ++t) {
    area->counters.n_outliers += area->counts[t];
    for (uint32_t i = 0; i < area->counts[t]; ++i) {
      const size_t channel = area->outliers[t * input.k + i].channel;
      if (input.resident[channel] != nullptr) continue;
      ++area->counters.n_cold;
      if (area->channels[channel] != nullptr) continue;  // another token wants it too
      const uint64_t offset = input.file_offset + channel * input.bytes;
      const uint64_t first_page = offset / kPage * kPage;
      std::byte* const to = area->cold + area->reads.size() * slot_bytes;
      area->reads.push_back(
          {0, first_page, (offset + input.bytes - first_page + kPage - 1) / kPage * kPage, to});
      area->channels[channel] = reinterpret_cast<const int8_t*>(to) + (offset - first_page);
    }
  }
}

void run_shadow_product(const Step& step, const StepContext& context, int worker) {
  const ShadowArea& area = step.shadow->of(context.run.buffer_set);
  const weights::ChannelInput& input = *step.channels;
  const size_t first_row = input.first_row_of(step.op.weight);
  const Part part = part_of(step.output_width, worker, context.team.n_active(), kGranularity);
  kernels::ChannelProduct product;
  product.first_row = first_row + static_cast<size_t>(part.begin);
  product.last_row = first_row + static_cast<size_t>(part.end);
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

void run_shadow_sum(const Step& step, const StepContext& context, int worker) {
  const ShadowArea& area = step.shadow->of(context.run.buffer_set);
  const size_t first_row = step.channels->first_row_of(step.op.weight);
  const auto width = static_cast<size_t>(step.output_width);
  const Part part = part_of(context.run.n_tokens, worker, context.team.n_active());
  for (auto token = static_cast<size_t>(part.begin); token < static_cast<size_t>(part.end);
       ++token) {
    if (area.counts[token] == 0) continue;
    float* y = step.output + token * width;
    context.kernels.add(y, area.addends + token * step.channels->bytes + first_row, y, width);
  }
}

}  // namespace troika::lanes
