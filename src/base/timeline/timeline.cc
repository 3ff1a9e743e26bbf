#include "base/timeline/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "base/text_lines.h"
#include "base/timeline/timeline_kinds.h"
#include "base/xml_text.h"

namespace troika {
namespace {

// Pages show pictures in columns of 800 to 900 pixels, so that letters keep about their size.
constexpr double kWidth = 960.0;
constexpr double kMargin = 12.0;
constexpr double kRight = 24.0;       // has room for half of the last mark of the scale
constexpr double kLeastLeft = 100.0;  // has room for "100 % busy"
constexpr double kRowHeight = 58.0;
constexpr double kBox = 42.0;  // the height of a task
constexpr double kLegendLine = 22.0;
constexpr double kLegendGap = 20.0;
constexpr double kPhases = 24.0;  // the height of the marks of prompts and steps
constexpr double kScale = 28.0;
// These are the sizes of letters, in pixels.
constexpr double kTitle = 18.0;
constexpr double kText = 14.0;
constexpr double kLabel = 13.0;        // in a task
constexpr double kNarrowLabel = 11.0;  // of a number in a narrow task
// A narrower wait is not drawn, because it would be a line.
constexpr double kLeastWait = 1.5;

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

// Returns what stands in a task: "queries" for "queries, keys, values".
std::string_view first_word(std::string_view words) {
  return words.substr(0, words.find_first_of(", "));
}

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
  if (us == 0.0) return "0";
  if (us >= 1e6) return fmt::format("{:g} s", us * 1e-6);
  if (us >= 1e3) return fmt::format("{:g} ms", us * 1e-3);
  return fmt::format("{:g} µs", us);
}

class Timeline {
 public:
  Timeline(const Trace& trace, const TimelineTitle& title)
      : events_(trace.events()), summary_(summarise(trace)), title_(title) {
    origin_us_ = events_.empty() ? 0.0 : events_.front().start_us;
    for (const LaneUse& use : summary_.lanes) {
      left_ = std::max(left_, 2 * kMargin + text_width(use.lane, kText, kBoldWidth));
    }
    pixels_per_us_ = (kWidth - left_ - kRight) / std::max(summary_.span_us, 1e-3);
    for (const TraceEvent& event : events_) numbers_[event.name].insert(event.block);
  }

  std::string svg() {
    std::string body = headline();
    body += legend();
    const double phases_top = y_;
    y_ += kPhases + kScale;
    const double lanes_top = y_;
    y_ += kRowHeight * static_cast<double>(summary_.lanes.size());
    body += scale(lanes_top) + phases(phases_top);
    for (size_t lane = 0; lane < summary_.lanes.size(); ++lane) {
      body += row(static_cast<int>(lane), lanes_top + kRowHeight * static_cast<double>(lane));
    }
    return head(y_ + 4.0) + body + "</svg>\n";
  }

 private:
  double x_of(double us) const { return left_ + (us - origin_us_) * pixels_per_us_; }

  static std::string head(double height) {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" "
        "height=\"{1:g}\" font-family=\"sans-serif\" font-size=\"{2:g}\">\n"
        "<defs><pattern id=\"wait\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#fff\"/>"
        "<rect width=\"2\" height=\"6\" fill=\"#c8c8c8\"/></pattern></defs>\n"
        "<rect width=\"{0:g}\" height=\"{1:g}\" fill=\"white\"/>\n",
        kWidth, height, kText);
  }

  // Counts passes, each of which begins with one task that looks up the embeddings of its tokens. A
  // prompt that is as short as a step is taken for one.
  std::string counted() const {
    int n_tokens = 0, n_steps = 0;
    for (const TraceEvent& event : events_) {
      if (std::string_view(event.name) != "embed") continue;
      if (event.is_prompt) n_tokens += event.n_tokens;
      if (!event.is_prompt) ++n_steps;
    }
    return passes_text(n_tokens, n_steps);
  }

  // Writes what ran, how, and how to read the picture.
  std::string headline() {
    const std::string about = title_.about.empty() ? counted() : title_.about;
    const std::string what = about.empty() ? title_.what : title_.what + ": " + about;
    std::string svg;
    y_ = 6.0;
    const auto write = [&](std::string_view text, double size, double char_width,
                           std::string_view look) {
      for (const std::string& line : lines_of(text, size, char_width, kWidth - 2 * kMargin)) {
        y_ += size + 6.0;
        svg += fmt::format("<text x=\"{:g}\" y=\"{:g}\" font-size=\"{:g}\" {}>{}</text>\n", kMargin,
                           y_, size, look, xml_text(line));
      }
    };
    write(what, kTitle, kBoldWidth, "font-weight=\"bold\"");
    write(title_.how, kText, kCharWidth, "fill=\"#555\"");
    std::string reading =
        "Time goes to the right. A row shows what one lane does, a box is a task.";
    if (shows_numbers()) reading += fmt::format(" Numbers: {}.", title_.numbers);
    write(reading, kText, kCharWidth, "fill=\"#555\"");
    y_ += 2.0;
    return svg;
  }

  // Draws the kinds of tasks that there are, in the order of the table.
  std::string legend() {
    double x = kMargin;
    std::string svg;
    y_ += kLegendLine;
    const auto add = [&](const char* fill, std::string_view words) {
      if (x + 20 + text_width(words, kText) > kWidth - kMargin) x = kMargin, y_ += kLegendLine;
      svg += fmt::format(
          "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"14\" height=\"14\" fill=\"{}\" "
          "stroke=\"#888\" stroke-width=\"0.5\"/><text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n",
          x, y_ - 12, fill, x + 20, y_, words);
      x += 20 + text_width(words, kText) + kLegendGap;
    };
    const auto is_there = [&](const TaskKind& kind) {
      return std::any_of(events_.begin(), events_.end(), [&](const TraceEvent& e) {
        return task_kind(e.name).words == kind.words;
      });
    };
    for (const TaskKind& kind : task_kinds()) {
      if (is_there(kind)) add(kind.colour, kind.words);
    }
    if (is_there(kOtherTasks)) add(kOtherTasks.colour, kOtherTasks.words);
    add("url(#wait)", "waits");
    y_ += 14.0;
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
          top, std::max(width, 1.0), kPhases - 4, is_prompt ? "#333" : "#bbb");
      if (width < text_width(words, kText)) continue;
      svg += fmt::format(
          "<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"{}\">{}</text>\n",
          x + width / 2, top + kPhases - 9, is_prompt ? "#fff" : "#000", words);
    }
    return svg;
  }

  std::string row(int lane, double top) const {
    const LaneUse& use = summary_.lanes[static_cast<size_t>(lane)];
    std::string svg = fmt::format(
        "<text x=\"{0:g}\" y=\"{1:.1f}\" font-weight=\"bold\">{2}</text>"
        "<text x=\"{0:g}\" y=\"{3:.1f}\" fill=\"#555\">{4:.0f} % busy</text>\n",
        kMargin, top + 21, xml_text(use.lane), top + 39,
        100 * use.busy_us / std::max(summary_.span_us, 1e-3));
    // A lane waits before its first task and behind its last one too.
    double free_since_us = origin_us_;
    for (const TraceEvent& event : events_) {
      if (event.lane != lane) continue;
      svg += wait(free_since_us, event.start_us, top) + task(event, top);
      free_since_us = std::max(free_since_us, event.end_us);
    }
    return svg + wait(free_since_us, origin_us_ + summary_.span_us, top);
  }

  std::string wait(double from_us, double to_us, double top) const {
    const double width = (to_us - from_us) * pixels_per_us_;
    if (width < kLeastWait) return {};
    return fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"url(#wait)\">"
        "<title>waits {}</title></rect>\n",
        x_of(from_us), top + 4, width, kBox, time_text(to_us - from_us));
  }

  static bool has_room(std::string_view label, double width, double size = kLabel) {
    return text_width(label, size, kDigitWidth) + 2.0 < width;
  }

  double width_of(const TraceEvent& event) const {
    return (event.end_us - event.start_us) * pixels_per_us_;
  }

  // Returns the longest label that fits: where the numbers of a kind differ, its word and the
  // number, or the number; else the word. A number alone stands only where most tasks of the kind
  // in its row have room for theirs, because numbers of few of them say nothing.
  std::string label(const TraceEvent& event) const {
    const double width = width_of(event);
    const std::string word(first_word(task_kind(event.name).words));
    if (numbers_.at(event.name).size() < 2) return has_room(word, width) ? word : "";
    const std::string number = event.block < 0 ? "" : fmt::format("{}", event.block);
    const std::string both = word + " " + number;
    if (has_room(both, width)) return both;
    const bool fits = has_room(number, width, kNarrowLabel);
    return fits && most_have_room(event.name, event.lane) ? number : "";
  }

  bool most_have_room(std::string_view name, int lane) const {
    int n_tasks = 0, n_with_room = 0;
    for (const TraceEvent& event : events_) {
      if (event.name != name || event.lane != lane) continue;
      ++n_tasks;
      const std::string number = fmt::format("{}", event.block);
      n_with_room += has_room(number, width_of(event), kNarrowLabel) ? 1 : 0;
    }
    return 2 * n_with_room > n_tasks;
  }

  bool shows_numbers() const {
    return std::any_of(events_.begin(), events_.end(), [&](const TraceEvent& event) {
      return numbers_.at(event.name).size() > 1 && !label(event).empty();
    });
  }

  std::string task(const TraceEvent& event, double top) const {
    const double x = x_of(event.start_us);
    const double width = std::max(width_of(event), 0.5);
    const std::string name =
        event.block < 0 ? std::string(event.name) : fmt::format("{} {}", event.name, event.block);
    // A gap keeps tasks of one colour apart.
    std::string svg = fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\">"
        "<title>{}, {} tokens, {:.1f} µs</title></rect>\n",
        x, top + 4, width > 4.0 ? width - 0.7 : width, kBox, task_kind(event.name).colour,
        xml_text(name), event.n_tokens, event.end_us - event.start_us);
    const std::string text = label(event);
    if (text.empty()) return svg;
    return svg + fmt::format(
                     "<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\" font-size=\"{:g}\" "
                     "fill=\"{}\">{}</text>\n",
                     x + width / 2, top + 4 + kBox / 2 + 5,
                     has_room(text, width_of(event)) ? kLabel : kNarrowLabel,
                     ink_on(task_kind(event.name).colour), text);
  }

  const std::vector<TraceEvent> events_;
  const TraceSummary summary_;
  const TimelineTitle title_;
  std::map<std::string_view, std::set<int>> numbers_;  // of the tasks of a name
  double origin_us_ = 0.0;
  double left_ = kLeastLeft;  // the end of the room for names of lanes
  double pixels_per_us_ = 1.0;
  double y_ = 0.0;  // everything above this is drawn
};

}  // namespace

std::string passes_text(int n_prompt_tokens, int n_steps) {
  const auto counted = [](int n, const char* what) {
    return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
  };
  std::string text;
  if (n_prompt_tokens > 0) text = "a prompt of " + counted(n_prompt_tokens, "token");
  if (n_steps == 0) return text;
  return text + (text.empty() ? "" : ", then ") + counted(n_steps, "step") + " of the answer";
}

std::string timeline_svg(const Trace& trace, const TimelineTitle& title) {
  return Timeline(trace, title).svg();
}

}  // namespace troika
