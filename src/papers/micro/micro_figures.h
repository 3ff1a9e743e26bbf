// What the virtual phone takes for single operations, as figures that phones/simulated/micro.json
// names.
#pragma once

#include "lanes/virtual/cost.h"
#include "papers/figures.h"

namespace troika::papers {

// Values have the units of the published rows. `model` must outlive the figures.
Figures micro_figures(const lanes::CostModel& model);

}  // namespace troika::papers
