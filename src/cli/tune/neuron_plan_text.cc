#include "cli/tune/neuron_plan_text.h"

#include <fmt/format.h>

#include <string_view>

#include "base/bytes_text.h"
#include "cli/column_width.h"
#include "cli/output.h"

namespace troika::cli {
namespace {

constexpr double kPercentOfOne = 100.0;

std::string forecast_text(const plan::NeuronForecast& forecast) {
  return fmt::format("{:>9.1f} {:>10.1f} {:>8.1f} {:>8.0f} {:>10} {:>6.1f}", forecast.ms,
                     forecast.compute_ms, forecast.read_ms, forecast.n_reads,
                     bytes_text(static_cast<size_t>(forecast.read_bytes)),
                     kPercentOfOne * forecast.hit_share);
}

constexpr const char* kForecastHead = " ms/token  computing    reads requests       read  hits %";

std::string batches_text(const plan::StreamedNeurons& neurons) {
  if (neurons.batches.empty()) return {};
  std::string text = fmt::format(
      "  statistics of {} tokens; a neuron does what it did before with probability {:.2f} beyond "
      "chance\n  sequences   live %      hot       pins %{}\n",
      neurons.n_counted_tokens, neurons.stay, kForecastHead);
  for (const plan::NeuronBatch& batch : neurons.batches) {
    text += fmt::format("  {:>9} {:>8.1f} {:>8} {:>12}{}\n", batch.n_sequences,
                        kPercentOfOne * batch.live_share, batch.n_hot, batch.pinned_percent,
                        forecast_text(batch.forecast));
  }
  return text;
}

// Says how neurons are read.
std::string hardware_text(const plan::StreamedNeurons& neurons) {
  if (neurons.read_bytes == 0) return "no neuron is read by itself";
  return fmt::format("{} B for a neuron{}, {} pipeline, neighbours {} are read together",
                     neurons.read_bytes,
                     neurons.reads == plan::BundleReads::kTwice ? ", its gate before the rest" : "",
                     plan::kReadPipelines[static_cast<size_t>(neurons.pipeline)],
                     neurons.gap_bytes ? fmt::format("up to {} B apart", *neurons.gap_bytes)
                                       : std::string("as far apart as is measured at the start"));
}

}  // namespace

std::string streamed_neurons_text(const plan::Plan& plan) {
  if (!plan.streamed_neurons) return {};
  const plan::StreamedNeurons& neurons = *plan.streamed_neurons;
  std::string text = fmt::format(
      "\nneurons, planned in {:.1f} ms for {}\n  {}\n  memory: {} of weights, {} of neurons: {} "
      "of {} have places, {} % of them pinned in steps of one\n  hardware: {}\n",
      neurons.planning_ms, bytes_text(neurons.budget_bytes),
      terminal_text(with_flags(neurons.reason)), bytes_text(neurons.weight_bytes),
      bytes_text(neurons.neuron_bytes), neurons.n_places, neurons.n_neurons, neurons.pinned_percent,
      hardware_text(neurons));
  text += batches_text(neurons);
  constexpr std::string_view kHead = "alternatives, predicted";
  const size_t width =
      column_width(neurons.alternatives, &plan::NeuronAlternative::name, kHead.size());
  text += fmt::format("  {:<{}}{}\n", kHead, width, kForecastHead);
  for (const plan::NeuronAlternative& one : neurons.alternatives) {
    const bool is_known = one.forecast.ms > 0;
    text += fmt::format("  {:<{}}{}{}\n", terminal_text(one.name), width,
                        is_known ? forecast_text(one.forecast) : std::string("         -"),
                        one.is_chosen ? "  chosen" : "");
    if (!one.obstacle.empty())
      text += fmt::format("    not taken: {}\n", terminal_text(with_flags(one.obstacle)));
  }
  return text;
}

}  // namespace troika::cli
