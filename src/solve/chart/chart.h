// Charts as SVG: lines over linear or logarithmic axes, and bars.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace troika::solve {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // by x, ascending
  bool dashed = false;
};

enum class Scale {
  kLinear,
  kLog2,   // marks at powers of two
  kLog10,  // marks at 1, 2 and 5 times powers of ten
  kBytes,  // as kLog2, with marks such as "4 KiB"
};

struct Axis {
  std::string label;  // with the unit
  Scale scale = Scale::kLinear;
};

struct LineChart {
  std::string title;
  Axis x;
  Axis y;  // a linear one begins at 0
  std::vector<Series> series;
};

// A bar for each place, made of parts that stand on each other.
struct BarChart {
  struct Bar {
    std::string name;
    std::vector<std::pair<std::string, double>> parts;  // name in the legend, height
  };
  std::string title;
  std::string y_label;
  std::vector<Bar> bars;
};

// Panels beside each other below a headline, with a line of remarks. Points that an axis cannot
// show (zero on a logarithmic one, not a number) are left out.
std::string chart_svg(const std::string& headline, const std::string& remark,
                      const std::vector<LineChart>& panels);
std::string chart_svg(const std::string& headline, const std::string& remark,
                      const BarChart& panel);

}  // namespace troika::solve
