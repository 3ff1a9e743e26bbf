// Factors between the units in which papers print their figures and those that are measured.
#pragma once

namespace troika::papers {

inline constexpr double kMsPerS = 1e3;

}  // namespace troika::papers
