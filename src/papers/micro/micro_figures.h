// Figures of what single operations take on the virtual phone, under the names that
// phones/simulated/micro.json uses.
#pragma once

#include "lanes/virtual/cost.h"
#include "papers/figures.h"

namespace troika::papers {

// Returns figures in the units of the published rows. `model` must outlive them.
Figures micro_figures(const lanes::CostModel& model);

}  // namespace troika::papers
