#include "solve/chart/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/text_lines.h"
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
// These are the sizes of letters, and the distance of lines of remarks, in pixels.
constexpr double kText = 12.0;
constexpr double kHeadline = 17.0;
constexpr double kRemarkLine = 17.0;
constexpr double kMargin = 16.0;
// Limit the values that an axis shows: what is farther away is nothing that anybody measured, and
// its products would be no finite numbers.
constexpr double kLeastShown = 1e-300;
constexpr double kMostShown = 1e300;
// Lists Okabe and Ito's colours without the yellow one, which is hard to see on white.
constexpr const char* kColours[] = {"#0072B2", "#E69F00", "#009E73", "#D55E00",
                                    "#CC79A7", "#56B4E9", "#555555", "#8C6D1F"};

std::string text_at(double x, double y, const std::string& text, const std::string& attributes) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, attributes,
                     xml_text(text));
}

bool is_log(Scale scale) { return scale != Scale::kLinear; }

bool can_show(Scale scale, double value) {
  return std::abs(value) <= kMostShown && (!is_log(scale) || value >= kLeastShown);
}

std::string mark_text(Scale scale, double value) {
  if (scale != Scale::kBytes) return fmt::format("{:g}", value);
  if (value >= 1048576.0) return fmt::format("{:g} MiB", value / 1048576.0);
  if (value >= 1024.0) return fmt::format("{:g} KiB", value / 1024.0);
  return fmt::format("{:g} B", value);
}

// Maps values to [0, 1], and knows where marks stand. REQUIRES: the scale can show both values.
class Ruler {
 public:
  Ruler(Scale scale, double lowest, double highest) : scale_(scale) {
    if (!is_log(scale)) {
      lowest_ = std::min(0.0, lowest);
      highest_ = std::max(0.0, highest * 1.06);
      if (highest_ - lowest_ < kLeastShown) highest_ = lowest_ + 1.0;
      return;
    }
    // The axis reaches a little farther than the values, and has a length even where all values are
    // equal.
    const double air = scale == Scale::kLog10 ? 1.25 : 1.12;
    lowest_ = lowest / air;
    highest_ = highest * air;
    if (marks().size() >= 2) return;
    // Nothing can be read off an axis with fewer marks, so it reaches to the next one on each side.
    lowest_ = mark_beside(lowest_, false);
    highest_ = mark_beside(highest_, true);
  }

  double place(double value) const {
    if (!is_log(scale_)) return (value - lowest_) / (highest_ - lowest_);
    return (std::log(value) - std::log(lowest_)) / (std::log(highest_) - std::log(lowest_));
  }
  std::vector<double> marks() const {
    if (scale_ == Scale::kLinear) return linear_marks();
    return scale_ == Scale::kLog10 ? marks_of_ten() : marks_of_two();
  }

 private:
  std::vector<double> linear_marks() const {
    std::vector<double> marks;
    const double step = linear_step();
    for (double at = std::ceil(lowest_ / step) * step; at <= highest_; at += step) {
      marks.push_back(std::abs(at) < step * 1e-9 ? 0.0 : at);
    }
    return marks;
  }
  std::vector<double> marks_of_ten() const {
    constexpr double kMostDecades = 12.0;
    const double n_decades = std::log10(highest_) - std::log10(lowest_);
    const bool fine = n_decades < std::log10(3e3);
    const int step = std::max(1, static_cast<int>(std::ceil(n_decades / kMostDecades)));
    const auto last = static_cast<int>(std::floor(std::log10(highest_)));
    std::vector<double> marks;
    for (auto power = static_cast<int>(std::floor(std::log10(lowest_))); power <= last;
         power += step) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        if (factor > 1.0 && !fine) continue;
        const double at = std::pow(10.0, power) * factor;
        if (at >= lowest_ && at <= highest_) marks.push_back(at);
      }
    }
    return marks;
  }
  std::vector<double> marks_of_two() const {
    const double most = scale_ == Scale::kBytes ? 6.0 : 12.0;
    const double n_octaves = std::log2(highest_) - std::log2(lowest_);
    const int step = std::max(1, static_cast<int>(std::ceil(n_octaves / most)));
    const auto last = static_cast<int>(std::floor(std::log2(highest_)));
    std::vector<double> marks;
    for (auto power = static_cast<int>(std::ceil(std::log2(lowest_))); power <= last;
         power += step) {
      marks.push_back(std::exp2(power));
    }
    return marks;
  }
  // Returns the nearest value above or below at which a logarithmic axis may have a mark.
  double mark_beside(double value, bool is_above) const {
    if (scale_ != Scale::kLog10) {
      const double power = std::log2(value);
      return std::exp2(is_above ? std::ceil(power) : std::floor(power));
    }
    const double ten = std::pow(10.0, std::floor(std::log10(value)));
    double below = ten;
    for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
      if (ten * factor >= value && is_above) return ten * factor;
      if (ten * factor <= value) below = ten * factor;
    }
    return below;
  }
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

// Returns nothing where no point can be shown.
std::optional<Ruler> ruler_for(const LineChart& chart, bool is_x) {
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
  if (!any) return std::nullopt;
  return Ruler(scale, lowest, highest);
}

// Draws what stands around the lines: title, grid, marks, labels. An axis without a ruler has no
// marks.
std::string frame(double left, double width, const std::string& title, const Axis& x, const Axis& y,
                  const std::optional<Ruler>& x_ruler, const std::optional<Ruler>& y_ruler) {
  const double bottom = kTop + kPlotHeight;
  std::string svg = text_at(left, kTop - 12, title, "font-weight=\"bold\"");
  for (const double mark : y_ruler ? y_ruler->marks() : std::vector<double>()) {
    const double at = bottom - y_ruler->place(mark) * kPlotHeight;
    svg += fmt::format(
        "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#e2e2e2\"/>\n",
        left, left + width, at, at);
    svg += text_at(left - 8, at + 4, mark_text(y.scale, mark), "text-anchor=\"end\"");
  }
  for (const double mark : x_ruler ? x_ruler->marks() : std::vector<double>()) {
    const double at = left + x_ruler->place(mark) * width;
    svg += fmt::format(
        "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#eeeeee\"/>\n", at,
        at, kTop, bottom);
    svg += text_at(at, bottom + 17, mark_text(x.scale, mark), "text-anchor=\"middle\"");
  }
  svg += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" "
      "stroke=\"#888\"/>\n",
      left, kTop, width, kPlotHeight);
  svg += text_at(left + width / 2, bottom + 38, x.label, "text-anchor=\"middle\"");
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

// Puts plots below a headline and remarks, of which each takes as many lines as its words need.
std::string document(const std::string& headline, const std::string& remark, double width,
                     size_t n_legend_lines, const std::string& content) {
  std::string head;
  double y = 9.0;
  const auto write = [&](const std::string& text, double size, double char_width, double distance,
                         const std::string& look) {
    for (const std::string& line : lines_of(text, size, char_width, width - kMargin)) {
      y += distance;
      head += text_at(kMargin, y, line, look);
    }
  };
  write(headline, kHeadline, kBoldWidth, kHeadline, "font-size=\"17\" font-weight=\"bold\"");
  y += 4.0;
  write(remark, kText, kCharWidth, kRemarkLine, "fill=\"#666\"");
  // The plots have room below one line of each.
  const double down = std::max(0.0, y - 47.0);
  const double height =
      kTop + down + kPlotHeight + kBelow + static_cast<double>(n_legend_lines) * kLegendLine + 6.0;
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
             "width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
             "<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"white\"/>\n",
             width, height) +
         head + fmt::format("<g transform=\"translate(0 {:.0f})\">\n", down) + content +
         "</g>\n</svg>\n";
}

// The bars of a chart with what they need: names of parts in the order of their colours, the
// highest total, and how wide the place of a bar is.
struct BarSizes {
  std::vector<std::string> names;
  double highest = 0.0;
  double slot = 0.0;
};

BarSizes sizes_of(const BarChart& plot) {
  BarSizes sizes;
  double widest = 0.0;  // of what stands below and above bars
  for (const BarChart::Bar& bar : plot.bars) {
    double total = 0.0;
    for (const auto& [name, height] : bar.parts) {
      total += height;
      if (std::find(sizes.names.begin(), sizes.names.end(), name) == sizes.names.end()) {
        sizes.names.push_back(name);
      }
    }
    sizes.highest = std::max(sizes.highest, total);
    widest = std::max({widest, text_width(bar.name, kText, kDigitWidth),
                       text_width(fmt::format("{:.1f}", total), kText, kDigitWidth)});
  }
  const double n_bars = static_cast<double>(std::max<size_t>(plot.bars.size(), 1));
  sizes.slot = std::max(kPlotWidth / n_bars, widest + 8.0);
  return sizes;
}

// Draws a bar around `middle`, with its name below it and its total above it. Parts have their
// numbers where these have room.
std::string bar_svg(const BarChart::Bar& bar, const BarSizes& sizes, const Ruler& y,
                    double middle) {
  const double bottom = kTop + kPlotHeight;
  const double width = std::min(sizes.slot * 0.6, 90.0);
  const auto at = [&](double value) { return bottom - y.place(value) * kPlotHeight; };
  std::string svg;
  double total = 0.0;
  for (const auto& [name, height] : bar.parts) {
    const auto colour = static_cast<size_t>(
        std::find(sizes.names.begin(), sizes.names.end(), name) - sizes.names.begin());
    const double pixels = y.place(height) * kPlotHeight;
    total += height;
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" "
        "stroke=\"white\"/>\n",
        middle - width / 2, at(total), width, pixels, kColours[colour % std::size(kColours)]);
    const std::string number = fmt::format("{:.1f}", height);
    const bool has_room = pixels > 16.0 && text_width(number, kText, kDigitWidth) < width;
    if (has_room && bar.parts.size() > 1) {
      svg += text_at(middle, at(total - height / 2) + 4, number,
                     "text-anchor=\"middle\" fill=\"white\"");
    }
  }
  svg += text_at(middle, at(total) - 5, fmt::format("{:.1f}", total), "text-anchor=\"middle\"");
  return svg + text_at(middle, bottom + 17, bar.name, "text-anchor=\"middle\"");
}

}  // namespace

std::string chart_svg(const std::string& headline, const std::string& remark,
                      const std::vector<LineChart>& plots) {
  std::string content;
  size_t n_legend_lines = 0;
  for (size_t i = 0; i < plots.size(); ++i) {
    const LineChart& chart = plots[i];
    const double left = kPanelWidth * static_cast<double>(i) + kLeft;
    const std::optional<Ruler> x = ruler_for(chart, true);
    const std::optional<Ruler> y = ruler_for(chart, false);
    content += frame(left, kPlotWidth, chart.title, chart.x, chart.y, x, y);
    if (!x || !y) {
      content += text_at(left + kPlotWidth / 2, kTop + kPlotHeight / 2, "not measured",
                         "text-anchor=\"middle\" fill=\"#666\"");
      continue;
    }
    std::vector<std::string> names;
    std::vector<bool> dashed;
    for (const Series& series : chart.series) {
      content += line(series, chart, left, *x, *y, kColours[names.size() % std::size(kColours)]);
      names.push_back(series.name);
      dashed.push_back(series.dashed);
    }
    content += legend(left, names, dashed);
    n_legend_lines = std::max(n_legend_lines, legend_lines(names));
  }
  return document(headline, remark, kPanelWidth * static_cast<double>(plots.size()), n_legend_lines,
                  content);
}

std::string chart_svg(const std::string& headline, const std::string& remark,
                      const BarChart& plot) {
  const BarSizes sizes = sizes_of(plot);
  const double width = sizes.slot * static_cast<double>(std::max<size_t>(plot.bars.size(), 1));
  const Ruler y(Scale::kLinear, 0.0, sizes.highest);
  std::string content =
      frame(kLeft, width, plot.title, {plot.x_label}, {plot.y_label}, std::nullopt, y);
  for (size_t i = 0; i < plot.bars.size(); ++i) {
    const double middle = kLeft + (static_cast<double>(i) + 0.5) * sizes.slot;
    content += bar_svg(plot.bars[i], sizes, y, middle);
  }
  content += legend(kLeft, sizes.names, std::vector<bool>(sizes.names.size(), false));
  return document(headline, remark, kLeft + width + kRight, legend_lines(sizes.names), content);
}

}  // namespace troika::solve
