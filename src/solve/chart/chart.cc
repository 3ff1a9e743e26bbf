#include "solve/chart/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "base/xml_text.h"

namespace troika::solve {
namespace {

constexpr double kPanelWidth = 540.0;
constexpr double kPlotHeight = 300.0;
constexpr double kLeft = 70.0;  // has room for marks and label of the y axis
constexpr double kRight = 18.0;
constexpr double kTop = 88.0;    // has room for headline, remark and title of the plot
constexpr double kBelow = 58.0;  // has room for marks and label of the x axis
constexpr double kLegendLine = 18.0;
constexpr double kPlotWidth = kPanelWidth - kLeft - kRight;
// Lists Okabe and Ito's colours without the yellow one, which is hard to see on white.
constexpr const char* kColours[] = {"#0072B2", "#E69F00", "#009E73", "#D55E00",
                                    "#CC79A7", "#56B4E9", "#555555", "#8C6D1F"};

std::string text_at(double x, double y, const std::string& text, const std::string& attributes) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, attributes,
                     xml_text(text));
}

bool is_log(Scale scale) { return scale != Scale::kLinear; }

bool can_show(Scale scale, double value) {
  return std::isfinite(value) && (is_log(scale) ? value > 0.0 : true);
}

std::string mark_text(Scale scale, double value) {
  if (scale != Scale::kBytes) return fmt::format("{:g}", value);
  if (value >= 1048576.0) return fmt::format("{:g} MiB", value / 1048576.0);
  if (value >= 1024.0) return fmt::format("{:g} KiB", value / 1024.0);
  return fmt::format("{:g} B", value);
}

// Maps values to [0, 1], and knows where marks stand.
class Ruler {
 public:
  Ruler(Scale scale, double lowest, double highest) : scale_(scale) {
    if (!is_log(scale)) {
      lowest_ = std::min(0.0, lowest);
      highest_ = highest > lowest_ ? highest * 1.06 : lowest_ + 1.0;
      return;
    }
    // The axis reaches a little farther than the values, and has a length even where all values are
    // equal.
    const double air = scale == Scale::kLog10 ? 1.25 : 1.12;
    lowest_ = lowest / air;
    highest_ = highest * air;
  }

  double place(double value) const {
    if (!is_log(scale_)) return (value - lowest_) / (highest_ - lowest_);
    return std::log(value / lowest_) / std::log(highest_ / lowest_);
  }
  std::vector<double> marks() const {
    std::vector<double> marks;
    if (scale_ == Scale::kLinear) {
      const double step = linear_step();
      for (double at = std::ceil(lowest_ / step) * step; at <= highest_; at += step) {
        marks.push_back(std::abs(at) < step * 1e-9 ? 0.0 : at);
      }
    } else if (scale_ == Scale::kLog10) {
      const bool fine = highest_ / lowest_ < 3e3;
      // A power of ten below all ordinary numbers would be 0, and no factor makes it grow.
      double ten = std::max(DBL_MIN, std::pow(10.0, std::floor(std::log10(lowest_))));
      for (; ten <= highest_; ten *= 10) {
        for (const double factor : {1.0, 2.0, 5.0}) {
          if (factor > 1.0 && !fine) continue;
          if (ten * factor >= lowest_ && ten * factor <= highest_) marks.push_back(ten * factor);
        }
      }
    } else {
      const double most = scale_ == Scale::kBytes ? 6.0 : 12.0;
      const double factor = std::log2(highest_ / lowest_) > most ? 4.0 : 2.0;
      for (double at = std::exp2(std::ceil(std::log2(lowest_))); at <= highest_; at *= factor) {
        marks.push_back(at);
      }
    }
    return marks;
  }

 private:
  // Returns 1, 2 or 5 times a power of ten, so that there are 4 to 9 marks.
  double linear_step() const {
    const double span = highest_ - lowest_;
    double step = std::pow(10.0, std::floor(std::log10(span / 4.0)));
    for (const double factor : {2.0, 2.5, 2.0}) {
      if (span / step > 9.0) step *= factor;
    }
    return step;
  }
  Scale scale_;
  double lowest_ = 0.0;
  double highest_ = 1.0;
};

Ruler ruler_for(const LineChart& chart, bool is_x) {
  const Scale scale = is_x ? chart.x.scale : chart.y.scale;
  double lowest = 0.0;
  double highest = 0.0;
  bool any = false;
  for (const Series& series : chart.series) {
    for (const auto& [x, y] : series.points) {
      if (!can_show(chart.x.scale, x) || !can_show(chart.y.scale, y)) continue;
      const double value = is_x ? x : y;
      lowest = any ? std::min(lowest, value) : value;
      highest = any ? std::max(highest, value) : value;
      any = true;
    }
  }
  return any ? Ruler(scale, lowest, highest) : Ruler(scale, 1.0, 10.0);
}

// Draws what stands around the lines: title, grid, marks, labels.
std::string frame(double left, const std::string& title, const Axis& x, const Axis& y,
                  const Ruler* x_ruler, const Ruler& y_ruler) {
  const double bottom = kTop + kPlotHeight;
  std::string svg = text_at(left, kTop - 12, title, "font-weight=\"bold\"");
  for (const double mark : y_ruler.marks()) {
    const double at = bottom - y_ruler.place(mark) * kPlotHeight;
    svg += fmt::format(
        "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#e2e2e2\"/>\n",
        left, left + kPlotWidth, at, at);
    svg += text_at(left - 8, at + 4, mark_text(y.scale, mark), "text-anchor=\"end\"");
  }
  if (x_ruler != nullptr) {
    for (const double mark : x_ruler->marks()) {
      const double at = left + x_ruler->place(mark) * kPlotWidth;
      svg += fmt::format(
          "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#eeeeee\"/>\n",
          at, at, kTop, bottom);
      svg += text_at(at, bottom + 17, mark_text(x.scale, mark), "text-anchor=\"middle\"");
    }
  }
  svg += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" "
      "stroke=\"#888\"/>\n",
      left, kTop, kPlotWidth, kPlotHeight);
  svg += text_at(left + kPlotWidth / 2, bottom + 38, x.label, "text-anchor=\"middle\"");
  const double middle = kTop + kPlotHeight / 2;
  svg += text_at(left - 52, middle, y.label,
                 fmt::format("text-anchor=\"middle\" transform=\"rotate(-90 {:.1f} {:.1f})\"",
                             left - 52, middle));
  return svg;
}

std::string line(const Series& series, const LineChart& chart, double left, const Ruler& x,
                 const Ruler& y, const char* colour) {
  std::string path;
  std::string dots;
  for (const auto& [at_x, at_y] : series.points) {
    if (!can_show(chart.x.scale, at_x) || !can_show(chart.y.scale, at_y)) continue;
    const double px = left + x.place(at_x) * kPlotWidth;
    const double py = kTop + kPlotHeight - y.place(at_y) * kPlotHeight;
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", px, py);
    dots += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\" fill=\"{}\"><title>{}: {:.4g}, "
        "{:.4g}</title></circle>\n",
        px, py, series.dashed ? "white" : colour, xml_text(series.name), at_x, at_y);
    if (series.dashed) {
      dots.insert(dots.rfind("><title>"), fmt::format(" stroke=\"{}\"", colour));
    }
  }
  if (path.empty()) return "";
  return fmt::format(
             "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"{}/>\n", path,
             colour, series.dashed ? " stroke-dasharray=\"5 3\"" : "") +
         dots;
}

// Returns 2 columns below the plot, or 1 where names are long.
size_t legend_columns(const std::vector<std::string>& names) {
  constexpr size_t kLongName = 30;
  for (const std::string& name : names) {
    if (name.size() > kLongName) return 1;
  }
  return 2;
}

size_t legend_lines(const std::vector<std::string>& names) {
  const size_t n_columns = legend_columns(names);
  return (names.size() + n_columns - 1) / n_columns;
}

std::string legend(double left, const std::vector<std::string>& names,
                   const std::vector<bool>& dashed) {
  std::string svg;
  const size_t n_columns = legend_columns(names);
  for (size_t i = 0; i < names.size(); ++i) {
    const double x = left + static_cast<double>(i % n_columns) * kPlotWidth / 2;
    const double y = kTop + kPlotHeight + kBelow + static_cast<double>(i / n_columns) * kLegendLine;
    svg += fmt::format(
        "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
        "stroke-width=\"3\"{}/>\n",
        x, x + 22, y, y, kColours[i % std::size(kColours)],
        dashed[i] ? " stroke-dasharray=\"5 3\"" : "");
    svg += text_at(x + 28, y + 4, names[i], "");
  }
  return svg;
}

std::string document(const std::string& headline, const std::string& remark, size_t n_panels,
                     size_t n_legend_lines, const std::string& content) {
  const double width = kPanelWidth * static_cast<double>(n_panels);
  const double height =
      kTop + kPlotHeight + kBelow + static_cast<double>(n_legend_lines) * kLegendLine + 6.0;
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
             "width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
             "<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"white\"/>\n",
             width, height) +
         text_at(16, 26, headline, "font-size=\"17\" font-weight=\"bold\"") +
         text_at(16, 47, remark, "fill=\"#666\"") + content + "</svg>\n";
}

}  // namespace

std::string chart_svg(const std::string& headline, const std::string& remark,
                      const std::vector<LineChart>& plots) {
  std::string content;
  size_t n_legend_lines = 0;
  for (size_t i = 0; i < plots.size(); ++i) {
    const LineChart& chart = plots[i];
    const double left = kPanelWidth * static_cast<double>(i) + kLeft;
    const Ruler x = ruler_for(chart, true);
    const Ruler y = ruler_for(chart, false);
    content += frame(left, chart.title, chart.x, chart.y, &x, y);
    std::vector<std::string> names;
    std::vector<bool> dashed;
    for (const Series& series : chart.series) {
      content += line(series, chart, left, x, y, kColours[names.size() % std::size(kColours)]);
      names.push_back(series.name);
      dashed.push_back(series.dashed);
    }
    content += legend(left, names, dashed);
    n_legend_lines = std::max(n_legend_lines, legend_lines(names));
  }
  return document(headline, remark, plots.size(), n_legend_lines, content);
}

std::string chart_svg(const std::string& headline, const std::string& remark,
                      const BarChart& plot) {
  double highest = 0.0;
  std::vector<std::string> names;
  for (const BarChart::Bar& bar : plot.bars) {
    double total = 0.0;
    for (const auto& [name, height] : bar.parts) {
      total += height;
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    highest = std::max(highest, total);
  }
  const Ruler y(Scale::kLinear, 0.0, highest);
  std::string content = frame(kLeft, plot.title, {}, {plot.y_label}, nullptr, y);
  const double slot = kPlotWidth / static_cast<double>(std::max<size_t>(plot.bars.size(), 1));
  const double width = std::min(slot * 0.6, 90.0);
  for (size_t i = 0; i < plot.bars.size(); ++i) {
    const double middle = kLeft + (static_cast<double>(i) + 0.5) * slot;
    double total = 0.0;
    for (const auto& [name, height] : plot.bars[i].parts) {
      const auto colour =
          static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
      const double pixels = y.place(height) * kPlotHeight;
      total += height;
      content += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" "
          "stroke=\"white\"/>\n",
          middle - width / 2, kTop + kPlotHeight - y.place(total) * kPlotHeight, width, pixels,
          kColours[colour % std::size(kColours)]);
      if (pixels > 16.0 && plot.bars[i].parts.size() > 1) {
        content +=
            text_at(middle, kTop + kPlotHeight - y.place(total - height / 2) * kPlotHeight + 4,
                    fmt::format("{:.1f}", height), "text-anchor=\"middle\" fill=\"white\"");
      }
    }
    content += text_at(middle, kTop + kPlotHeight - y.place(total) * kPlotHeight - 5,
                       fmt::format("{:.1f}", total), "text-anchor=\"middle\"");
    content +=
        text_at(middle, kTop + kPlotHeight + 17, plot.bars[i].name, "text-anchor=\"middle\"");
  }
  content += legend(kLeft, names, std::vector<bool>(names.size(), false));
  return document(headline, remark, 1, legend_lines(names), content);
}

}  // namespace troika::solve
