// Draws charts as SVG: lines over linear or logarithmic axes, and bars.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace troika::solve {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points = {};  // in ascending order of x
  bool dashed = false;
};

enum class Scale {
  kLinear,
  kLog2,   // has marks at powers of two
  kLog10,  // has marks at 1, 2 and 5 times powers of ten
  kBytes,  // has marks as kLog2, written as "4 KiB"
};

struct Axis {
  std::string label;  // contains the unit
  Scale scale = Scale::kLinear;
};

struct LineChart {
  std::string title;
  Axis x;
  Axis y;  // begins at 0 if it is linear
  std::vector<Series> series;
};

// A chart with a bar for each place, made of parts that stand on each other.
struct BarChart {
  struct Bar {
    std::string name;
    // A name for the legend and a height for each part.
    std::vector<std::pair<std::string, double>> parts;
  };
  std::string title;
  std::string x_label;  // says what bars are called by
  std::string y_label;
  std::vector<Bar> bars;
};

// Draws plots beside each other below a headline and remarks, which are broken into lines. Points
// that an axis cannot show (zero on a logarithmic one, not a number, beyond 1e300) are left out,
// and a plot without any says that it was not measured.
std::string chart_svg(const std::string& headline, const std::string& remark,
                      const std::vector<LineChart>& plots);
std::string chart_svg(const std::string& headline, const std::string& remark, const BarChart& plot);

}  // namespace troika::solve
