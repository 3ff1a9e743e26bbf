#include "measure/step_bounds.h"

#include <cmath>

#include "base/system.h"
#include "measure/measure.h"
#include "measure/prompt_peak.h"
#include "measure/work.h"

namespace troika::measure {
namespace {

// Returns the bytes of experts that a step of so many rows reads beyond those of a single row.
double more_expert_bytes(const engine::Engine& engine, int width) {
  const model::Blueprint& blueprint = engine.blueprint();
  double bytes = 0.0;
  for (const model::Op& op : blueprint.ops) {
    if (op.kind != model::OpKind::kExpertLinear) continue;
    bytes += static_cast<double>(engine.weights().matrix(op.weight).bytes());
  }
  if (bytes == 0.0) return 0.0;
  const double share = static_cast<double>(blueprint.n_experts_used) / blueprint.n_experts;
  return bytes * (1.0 - std::pow(1.0 - share, width) - share);
}

}  // namespace

StepBounds step_bounds(const engine::Engine& engine, const Peaks& peaks, int width, int depth) {
  StepBounds bounds;
  // The last row stands behind the tokens before the step, and behind the other rows.
  const double n_bytes = bytes_per_step(engine, depth + width) + more_expert_bytes(engine, width);
  bounds.fits_last_cache = n_bytes < static_cast<double>(last_cache_bytes());
  const plan::Plan& plan = engine.plan();
  if (!has_known_peaks(plan) || plan.ffn.form == plan::FfnForm::kByNeuron) return bounds;
  if (peaks.read_gb_s > 0) bounds.read_ms = 1e-6 * n_bytes / peaks.read_gb_s;
  const Work work = count_work(engine.blueprint(), engine.weights());
  const NamedPeak peak = step_peak(peaks, plan, engine.weights().main_type());
  if (peak.per_s > 0) bounds.multiply_ms = 1e-9 * work.step(width, depth + 1) / peak.per_s;
  return bounds;
}

}  // namespace troika::measure
