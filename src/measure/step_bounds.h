// What the machine allows a step: the time to read what it reads, and to compute what it computes.
#pragma once

#include "engine/engine.h"
#include "measure/peaks.h"

namespace troika::measure {

struct StepBounds {
  // The time of its bytes, the cache's too, at the machine's read rate. In mixtures rows that go to
  // experts by chance read some experts together. 0 where it is not known.
  double read_ms = 0.0;
  // The time of its operations at the machine's peak in the precision of steps; 0 where it is not
  // known.
  double multiply_ms = 0.0;
  bool fits_last_cache = false;  // if set, the step may take less than read_ms
};

// Returns the bounds of a step of so many rows, all with logits, behind `depth` + 1 tokens. Neither
// is known where a device computes, or where only live neurons are read.
StepBounds step_bounds(const engine::Engine& engine, const Peaks& peaks, int width, int depth);

}  // namespace troika::measure
