// The timeline as SVG.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/trace.h"

namespace troika {
namespace {

constexpr double kWidth = 1600.0;
constexpr double kLeft = 110.0;  // lane names
constexpr double kRowHeight = 44.0;
constexpr double kTop = 34.0;  // the scale
constexpr double kCharWidth = 6.2;
// Okabe and Ito's colours, which people with any kind of colour vision can tell apart.
constexpr const char* kColours[] = {"#56B4E9", "#E69F00", "#009E73", "#F0E442",
                                    "#CC79A7", "#0072B2", "#D55E00", "#999999"};

std::string xml_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

// 1, 2 or 5 times a power of ten, so that the scale has 5 to 12 marks.
double mark_distance(double span_us) {
  double distance = 1.0;
  while (span_us / distance > 12.0) {
    for (const double factor : {2.0, 2.5, 2.0}) {
      if (span_us / distance > 12.0) distance *= factor;
    }
  }
  return distance;
}

std::string time_text(double us) {
  if (us >= 1e6) return fmt::format("{:g} s", us * 1e-6);
  if (us >= 1e3) return fmt::format("{:g} ms", us * 1e-3);
  return fmt::format("{:g} us", us);
}

std::string scale(double span_us, double pixels_per_us, double height) {
  std::string svg;
  const double distance = mark_distance(span_us);
  for (double at = 0.0; at <= span_us; at += distance) {
    const double x = kLeft + at * pixels_per_us;
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#ddd\"/>"
        "<text x=\"{0:.1f}\" y=\"22\" text-anchor=\"middle\">{3}</text>\n",
        x, kTop - 6, height, time_text(at));
  }
  return svg;
}

}  // namespace

std::string timeline_svg(const Trace& trace) {
  const std::vector<TraceEvent> events = trace.events();
  const TraceSummary summary = summarise(trace);
  const double span = std::max(summary.span_us, 1e-3);
  const double origin = events.empty() ? 0.0 : events.front().start_us;
  const double pixels_per_us = (kWidth - kLeft - 20.0) / span;
  const double height = kTop + kRowHeight * static_cast<double>(trace.lanes().size()) + 10.0;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\" font-size=\"11\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      kWidth, height);
  svg += scale(span, pixels_per_us, height - 6);
  for (size_t lane = 0; lane < trace.lanes().size(); ++lane) {
    const LaneUse& use = summary.lanes[lane];
    svg += fmt::format(
        "<text x=\"8\" y=\"{:.1f}\">{}</text><text x=\"8\" y=\"{:.1f}\" "
        "fill=\"#666\">{:.0f}% busy</text>\n",
        kTop + kRowHeight * static_cast<double>(lane) + 16, xml_text(use.lane),
        kTop + kRowHeight * static_cast<double>(lane) + 31, 100 * use.busy_us / span);
  }
  std::map<std::string, size_t> colour_of;
  for (const TraceEvent& e : events) {
    const size_t colour = colour_of.try_emplace(e.name, colour_of.size()).first->second;
    const double x = kLeft + (e.start_us - origin) * pixels_per_us;
    const double width = std::max((e.end_us - e.start_us) * pixels_per_us, 0.5);
    const double y = kTop + kRowHeight * e.lane + 4;
    const std::string label =
        e.block < 0 ? std::string(e.name) : fmt::format("{} {}", e.name, e.block);
    svg += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\">"
        "<title>{}, {} tokens, {:.1f} us</title></rect>\n",
        x, y, width, kRowHeight - 8, kColours[colour % std::size(kColours)], xml_text(label),
        e.n_tokens, e.end_us - e.start_us);
    if (width > kCharWidth * static_cast<double>(label.size()) + 4) {
      svg += fmt::format("<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                         x + width / 2, y + kRowHeight / 2, xml_text(label));
    }
  }
  return svg + "</svg>\n";
}

}  // namespace troika
