#include "measure/step_bounds.h"

#include "base/system.h"
#include "measure/measure.h"
#include "measure/work.h"

namespace troika::measure {

StepBounds step_bounds(const engine::Engine& engine, const Peaks& peaks, int width, int depth) {
  StepBounds bounds;
  // The last row stands behind the tokens before the step, and behind the other rows.
  const double n_bytes = bytes_per_step(engine, depth + width);
  if (peaks.read_gb_s > 0) bounds.read_ms = 1e-6 * n_bytes / peaks.read_gb_s;
  bounds.fits_last_cache = n_bytes < static_cast<double>(last_cache_bytes());
  const Work work = count_work(engine.blueprint(), engine.weights());
  if (peaks.int8_tops > 0) {
    bounds.multiply_ms = 1e-9 * work.step(width, depth + 1) / peaks.int8_tops;
  }
  return bounds;
}

}  // namespace troika::measure
