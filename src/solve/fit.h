// Fits a handful of positive constants by least squares.
#pragma once

#include <functional>
#include <vector>

namespace troika::solve {

// Changes `constants`, all above 0, so that the sum of squares of what `residuals` returns is least
// (Levenberg-Marquardt on the logarithms, derivatives by differences). Residuals are logarithms of
// simulated over published, so that each row counts by its relative error. Ends in a local minimum;
// the same start gives the same end.
void fit(std::vector<double>& constants,
         const std::function<std::vector<double>(const std::vector<double>&)>& residuals);

}  // namespace troika::solve
