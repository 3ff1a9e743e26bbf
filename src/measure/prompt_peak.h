// Chooses the peak to which the rate of a prompt is compared.
#pragma once

#include <string>

#include "measure/peaks.h"
#include "plan/plan.h"
#include "tensor/type.h"

namespace troika::measure {

// Says whether cores alone compute, so that peaks that were measured on cores bound the plan. The
// peaks of devices are not known.
bool has_known_peaks(const plan::Plan& plan);

// A peak and what it is one of.
struct NamedPeak {
  double per_s = 0.0;          // in 1e12 operations a second; 0: it is not known
  const char* precision = "";  // "int8" or "f32"
  std::string instruction;     // the one that it was measured with
};

// Returns the peak of the precision in which steps are multiplied with weights of a type.
NamedPeak step_peak(const Peaks& peaks, const plan::Plan& plan, tensor::Type weights);

// Returns the peak, in 1e12 operations a second, of the precision in which a prompt of n_tokens
// tokens is multiplied with weights of a type; 0 where it is not known, as on a device.
double prompt_peak(const Peaks& peaks, const plan::Plan& plan, tensor::Type weights, int n_tokens);

}  // namespace troika::measure
