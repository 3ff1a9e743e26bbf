#include "cli/tune/neurons.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/bytes_text.h"
#include "base/median.h"
#include "machines/phone_neurons.h"
#include "machines/phone_setup.h"

namespace troika::cli {
namespace {

constexpr double kPercent = 100.0;

std::string reads_text(const plan::NeuronPlan& plan, const machines::NeuronChoiceMade& made) {
  std::string text =
      plan.second_read_bytes > 0
          ? fmt::format("{} bytes, then {}", plan.first_read_bytes, plan.second_read_bytes)
          : fmt::format("{} bytes at once", plan.first_read_bytes);
  if (made.read_once_us > 0.0) {
    text += fmt::format(" (at once {:.1f} us, in two {:.1f} us on this flash: K30)",
                        made.read_once_us, made.read_twice_us);
  }
  return text;
}

}  // namespace

std::string neuron_plan_text(const engine::Engine& engine) {
  if (!engine.plan().neurons || engine.phone().setup == nullptr) return {};
  const plan::NeuronPlan& plan = *engine.plan().neurons;
  const machines::NeuronChoiceMade& made = engine.phone().setup->neuron_choice;
  const lanes::NeuronShape& shape = engine.phone().neurons->work().shape();
  std::string text = fmt::format("FFN by neurons: {}\n", plan::neuron_system_name(plan.system));
  text += fmt::format(
      "  statistics   {:.0f} % of {} neurons fire at a token, power {:g}, overlap {:g}\n",
      kPercent * plan.statistics.live_share, shape.n_neurons, plan.statistics.power,
      plan.statistics.overlap);
  text += fmt::format(
      "  memory       {} = {} beside the FFN + {} predictors + {} scales + {} neurons ({:.1f} % "
      "of {})\n",
      bytes_text(plan.budget_bytes), bytes_text(plan.other_bytes), bytes_text(plan.predictor_bytes),
      bytes_text(plan.scale_bytes), bytes_text(plan.cache_bytes),
      kPercent * static_cast<double>(plan.cache_bytes) /
          static_cast<double>(shape.cacheable_bytes()),
      bytes_text(shape.cacheable_bytes()));
  for (const plan::HotNeurons& hot : plan.hot) {
    text += fmt::format("  hot neurons  {} of {} at {} sequence{}, {} more read ahead\n", hot.n_hot,
                        shape.n_neurons, hot.n_sequences, hot.n_sequences == 1 ? "" : "s",
                        hot.n_streamed);
    for (const machines::NeuronCandidate& candidate : made.candidates) {
      if (candidate.n_sequences != hot.n_sequences) continue;
      text += fmt::format("    {:>6} + {:<6} {:9.1f} us a block{}\n", candidate.hot.n_hot,
                          candidate.hot.n_streamed, candidate.block_us,
                          candidate.hot == hot ? "  chosen" : "");
    }
  }
  text += fmt::format(
      "  hardware     segments of {}, {} pipeline, reads by a {} core, {} in the "
      "queue, {}\n",
      plan.segment, plan::kNeuronPipelines[static_cast<size_t>(plan.pipeline)],
      plan.reads_on_large_core ? "large" : "small", plan.queue_depth, reads_text(plan, made));
  return text;
}

std::string neurons_text(const measure::Simulation& s, const engine::Engine& engine) {
  if (!engine.plan().neurons || s.decode.n_tokens == 0) return {};
  const plan::NeuronPlan& plan = *engine.plan().neurons;
  const double n = std::max(1, s.decode.n_tokens);
  return fmt::format(
      "neurons ({}, {} in memory): {:.1f} % of {:.0f} that fire are read, {:.0f} requests and {} "
      "a token\nsteps take {:.1f} ms at 50 %, {:.1f} at 90 %, {:.1f} at 99 %; the flash reads for "
      "{:.0f} % of the time, for {:.0f} % alone\n",
      plan::neuron_system_name(plan.system), bytes_text(plan.budget_bytes),
      kPercent * s.neurons.miss_rate(), static_cast<double>(s.neurons.n_fired) / n,
      static_cast<double>(s.neurons.n_requests) / n,
      bytes_text(static_cast<size_t>(s.neurons.read_bytes / n)),
      1e3 * percentile(s.decode.step_s, 0.5), 1e3 * percentile(s.decode.step_s, 0.9),
      1e3 * percentile(s.decode.step_s, 0.99), kPercent * s.decode.flash_share,
      kPercent * s.decode.flash_alone_share);
}

nlohmann::ordered_json neurons_json(const measure::Simulation& s, const engine::Engine& engine) {
  if (!engine.plan().neurons) return nullptr;
  const plan::NeuronPlan& plan = *engine.plan().neurons;
  const double n = std::max(1, s.decode.n_tokens);
  return {{"system", plan::neuron_system_name(plan.system)},
          {"budget_bytes", plan.budget_bytes},
          {"cache_bytes", plan.cache_bytes},
          {"miss_rate", s.neurons.miss_rate()},
          {"fired_per_token", static_cast<double>(s.neurons.n_fired) / n},
          {"requests_per_token", static_cast<double>(s.neurons.n_requests) / n},
          {"read_bytes_per_token", s.neurons.read_bytes / n},
          {"step_ms",
           {{"p50", 1e3 * percentile(s.decode.step_s, 0.5)},
            {"p90", 1e3 * percentile(s.decode.step_s, 0.9)},
            {"p99", 1e3 * percentile(s.decode.step_s, 0.99)}}},
          {"flash_share", s.decode.flash_share},
          {"flash_alone_share", s.decode.flash_alone_share},
          {"bus_gb_s", s.decode.bus_gb_s}};
}

}  // namespace troika::cli
