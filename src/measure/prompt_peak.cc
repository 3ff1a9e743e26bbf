#include "measure/prompt_peak.h"

#include <algorithm>

namespace troika::measure {

bool has_known_peaks(const plan::Plan& plan) {
  return std::none_of(plan.lanes.begin(), plan.lanes.end(),
                      [](const plan::PlannedLane& lane) { return lane.is_device(); });
}

NamedPeak step_peak(const Peaks& peaks, const plan::Plan& plan, tensor::Type weights) {
  if (!has_known_peaks(plan)) return {};
  const bool is_int8 = plan.activations == plan::Activations::kQ8 && !tensor::is_float(weights);
  if (is_int8) return {peaks.int8_tops, "int8", peaks.int8_name};
  return {peaks.f32_tflops, "f32", peaks.f32_name};
}

double prompt_peak(const Peaks& peaks, const plan::Plan& plan, tensor::Type weights, int n_tokens) {
  if (!has_known_peaks(plan)) return 0.0;
  const plan::Prefill prefill =
      plan.n_prompt_phase(n_tokens) > 0 ? plan.prefill : plan::Prefill::kSame;
  const bool is_float = tensor::is_float(weights);
  // Without instructions for it, bfloat16 is computed in float.
  const double of_bf16 = peaks.bf16_tflops > 0 ? peaks.bf16_tflops : peaks.f32_tflops;
  switch (prefill) {
    case plan::Prefill::kInt8:
      return peaks.int8_tops;
    case plan::Prefill::kBf16:
      return of_bf16;
    case plan::Prefill::kF16:  // computed by a device
      return 0.0;
    case plan::Prefill::kF32:
      return peaks.f32_tflops;
    case plan::Prefill::kQ8:
      return is_float ? of_bf16 : peaks.int8_tops;
    case plan::Prefill::kSame:
      break;
  }
  return step_peak(peaks, plan, weights).per_s;
}

}  // namespace troika::measure
