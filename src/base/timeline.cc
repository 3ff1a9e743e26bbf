#include "base/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <string_view>

#include "base/xml_text.h"

namespace troika {
namespace {

constexpr double kWidth = 1600.0;
constexpr double kLeft = 150.0;  // room for names of lanes
constexpr double kRight = 20.0;
constexpr double kRowHeight = 52.0;
constexpr double kBox = 34.0;        // the height of a task
constexpr double kLegendTop = 66.0;  // the base of the legend's first line
constexpr double kLegendLine = 20.0;
constexpr double kLegendGap = 18.0;
constexpr double kPhases = 18.0;  // the height of the marks of prompts and steps
constexpr double kScale = 26.0;
// The width of a letter in a sans-serif font of 12 pixels, estimated generously.
constexpr double kCharWidth = 6.6;
// A narrower wait is not drawn, because it would be a line.
constexpr double kLeastWait = 1.5;

// The colours of Okabe and Ito, which people with any kind of colour vision can tell apart, and
// tints of them for kinds of tasks that seldom stand beside these.
struct Kind {
  std::string_view name;
  const char* colour;
  const char* words;
};
constexpr Kind kKinds[] = {
    {"qkv", "#56B4E9", "queries, keys, values"},
    {"attention", "#E69F00", "attention"},
    {"estimate", "#332288", "estimate of heads"},
    {"select", "#999933", "selection of positions"},
    {"exact", "#E69F00", "exact attention of a head"},
    {"out", "#0072B2", "projection behind attention"},
    {"ffn", "#009E73", "feed-forward"},
    {"norm", "#F0E442", "norms"},
    {"embed", "#CC79A7", "embedding"},
    {"head", "#D55E00", "logits"},
    {"extract", "#E8B4D0", "outliers found"},
    {"shadow", "#8C5A9E", "outliers in float"},
    {"sum", "#C9A0DC", "outliers added"},
    {"read", "#999999", "read from disk"},
    {"panels", "#B8B8E0", "block in the layout of prompts"},
    {"blocks", "#5B5EA6", "block in the layout of steps"},
    {"load", "#C44536", "block loaded for steps"},
    {"load back", "#7B2D26", "block made for prompts again"},
    {"predict", "#8C5A9E", "which neurons fire"},
    {"hot", "#009E73", "hot neurons, dense"},
    {"in memory", "#66C2A4", "cold neurons in memory"},
    {"gate read", "#999999", "neurons read"},
    {"up-down read", "#555555", "up and down read"},
    {"gate", "#F4A582", "gates that were read"},
    {"up-down", "#D6604D", "up and down that were read"},
    {"hot read", "#BBBB88", "hot neurons read"},
    {"read ahead", "#BBBB88", "next block read"},
    {"neurons", "#777777", "neurons read from disk"},
    {"neurons ahead", "#BBBB88", "next layer's neurons read"},
    {"experts", "#777777", "experts read from disk"},
    {"merge", "#C9A0DC", "sums of the lanes"},
};
constexpr Kind kOther = {"", "#BBBBBB", "other tasks"};

const Kind& kind_of(std::string_view name) {
  const auto* found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [&](const Kind& kind) { return kind.name == name; });
  return found != std::end(kKinds) ? *found : kOther;
}

// Returns black or white, whichever can be read on a colour "#rrggbb".
const char* ink_on(std::string_view colour) {
  const auto part = [&](size_t at) {
    int value = 0;
    std::from_chars(colour.data() + at, colour.data() + at + 2, value, 16);
    return value;
  };
  const int brightness = 299 * part(1) + 587 * part(3) + 114 * part(5);  // counts thousandths
  return brightness > 125000 ? "#000" : "#fff";
}

double text_width(std::string_view text) { return kCharWidth * static_cast<double>(text.size()); }

// Returns 1, 2 or 5 times a power of ten, so that the scale has 5 to 12 marks.
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
  return fmt::format("{:g} µs", us);
}

class Timeline {
 public:
  Timeline(const Trace& trace, const TimelineTitle& title)
      : events_(trace.events()), summary_(summarise(trace)), title_(title) {
    origin_us_ = events_.empty() ? 0.0 : events_.front().start_us;
    pixels_per_us_ = (kWidth - kLeft - kRight) / std::max(summary_.span_us, 1e-3);
  }

  std::string svg() {
    std::string body = legend();
    const double phases_top = y_;
    y_ += kPhases + kScale;
    const double lanes_top = y_;
    y_ += kRowHeight * static_cast<double>(summary_.lanes.size());
    body += scale(lanes_top) + phases(phases_top);
    for (size_t lane = 0; lane < summary_.lanes.size(); ++lane) {
      body += row(static_cast<int>(lane), lanes_top + kRowHeight * static_cast<double>(lane));
    }
    return head(y_ + 12.0) + body + "</svg>\n";
  }

 private:
  double x_of(double us) const { return kLeft + (us - origin_us_) * pixels_per_us_; }

  std::string head(double height) const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<defs><pattern id=\"wait\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#fff\"/>"
        "<rect width=\"2\" height=\"6\" fill=\"#c8c8c8\"/></pattern></defs>\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n"
        "<text x=\"12\" y=\"26\" font-size=\"18\" font-weight=\"bold\">{2}</text>\n"
        "<text x=\"12\" y=\"45\" font-size=\"13\" fill=\"#555\">{3}</text>\n",
        kWidth, height, xml_text(title_.what), xml_text(title_.how));
  }

  // Draws the kinds of tasks that there are, in the order of the table.
  std::string legend() {
    double x = 12.0, y = kLegendTop;
    std::string svg;
    const auto add = [&](const char* fill, std::string_view words) {
      if (x + text_width(words) > kWidth - kRight) x = 12.0, y += kLegendLine;
      svg += fmt::format(
          "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"12\" height=\"12\" fill=\"{}\" "
          "stroke=\"#888\" stroke-width=\"0.5\"/><text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n",
          x, y - 10, fill, x + 17, y, words);
      x += 17 + text_width(words) + kLegendGap;
    };
    const auto is_there = [&](const Kind& kind) {
      return std::any_of(events_.begin(), events_.end(),
                         [&](const TraceEvent& e) { return kind_of(e.name).words == kind.words; });
    };
    for (const Kind& kind : kKinds) {
      if (is_there(kind)) add(kind.colour, kind.words);
    }
    if (is_there(kOther)) add(kOther.colour, kOther.words);
    add("url(#wait)", "the lane waits");
    y_ = y + 14.0;
    return svg;
  }

  std::string scale(double lanes_top) const {
    std::string svg;
    const double distance = mark_distance(std::max(summary_.span_us, 1e-3));
    for (double at = 0.0; at <= summary_.span_us; at += distance) {
      svg += fmt::format(
          "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
          "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\" fill=\"#555\">{4}</text>\n",
          x_of(origin_us_ + at), lanes_top - 6, y_, lanes_top - 10, time_text(at));
    }
    return svg;
  }

  // Marks where passes of prompts run, and where steps do. The two may overlap for a moment.
  std::string phases(double top) const {
    std::string svg;
    for (size_t i = 0; i < events_.size();) {
      const bool is_prompt = events_[i].is_prompt;
      const double start_us = events_[i].start_us;
      double end_us = start_us;
      for (; i < events_.size() && events_[i].is_prompt == is_prompt; ++i) {
        end_us = std::max(end_us, events_[i].end_us);
      }
      const double x = x_of(start_us), width = x_of(end_us) - x;
      const char* words = is_prompt ? "prompt" : "steps";
      svg += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", x,
          top, std::max(width, 1.0), kPhases - 3, is_prompt ? "#333" : "#bbb");
      if (width < text_width(words) + 8) continue;
      svg += fmt::format(
          "<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"{}\">{}</text>\n",
          x + width / 2, top + kPhases - 6, is_prompt ? "#fff" : "#000", words);
    }
    return svg;
  }

  std::string row(int lane, double top) const {
    const LaneUse& use = summary_.lanes[static_cast<size_t>(lane)];
    std::string svg = fmt::format(
        "<text x=\"12\" y=\"{:.1f}\" font-weight=\"bold\">{}</text>"
        "<text x=\"12\" y=\"{:.1f}\" fill=\"#555\">{:.0f} % busy</text>\n",
        top + 18, xml_text(use.lane), top + 34,
        100 * use.busy_us / std::max(summary_.span_us, 1e-3));
    double free_since_us = -1.0;
    for (const TraceEvent& event : events_) {
      if (event.lane != lane) continue;
      if (free_since_us >= 0.0) svg += wait(free_since_us, event.start_us, top);
      svg += task(event, top);
      free_since_us = std::max(free_since_us, event.end_us);
    }
    return svg;
  }

  std::string wait(double from_us, double to_us, double top) const {
    const double width = (to_us - from_us) * pixels_per_us_;
    if (width < kLeastWait) return {};
    return fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"url(#wait)\">"
        "<title>waits {}</title></rect>\n",
        x_of(from_us), top + 4, width, kBox, time_text(to_us - from_us));
  }

  std::string task(const TraceEvent& event, double top) const {
    const double x = x_of(event.start_us);
    const double width = std::max((event.end_us - event.start_us) * pixels_per_us_, 0.5);
    const std::string label =
        event.block < 0 ? std::string(event.name) : fmt::format("{} {}", event.name, event.block);
    std::string svg = fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\">"
        "<title>{}, {} tokens, {:.1f} µs</title></rect>\n",
        x, top + 4, width, kBox, kind_of(event.name).colour, xml_text(label), event.n_tokens,
        event.end_us - event.start_us);
    if (width > text_width(label) + 4) {
      svg += fmt::format(
          "<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"{}\">{}</text>\n",
          x + width / 2, top + 4 + kBox / 2 + 4, ink_on(kind_of(event.name).colour),
          xml_text(label));
    }
    return svg;
  }

  const std::vector<TraceEvent> events_;
  const TraceSummary summary_;
  const TimelineTitle title_;
  double origin_us_ = 0.0;
  double pixels_per_us_ = 1.0;
  double y_ = 0.0;  // everything above this is drawn
};

}  // namespace

std::string timeline_svg(const Trace& trace, const TimelineTitle& title) {
  return Timeline(trace, title).svg();
}

}  // namespace troika
