// Chooses the peak to which the rate of a prompt is compared.
#pragma once

#include "measure/peaks.h"
#include "plan/plan.h"
#include "tensor/type.h"

namespace troika::measure {

// Says whether cores alone compute, so that peaks that were measured on cores bound the plan. The
// peaks of devices are not known.
bool has_known_peaks(const plan::Plan& plan);

// Returns the peak, in 1e12 operations a second, of the precision in which a prompt of n_tokens
// tokens is multiplied with weights of a type; 0 where it is not known, as on a device.
double prompt_peak(const Peaks& peaks, const plan::Plan& plan, tensor::Type weights, int n_tokens);

}  // namespace troika::measure
