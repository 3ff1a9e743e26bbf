// Draws generation over the memory that a program may have, in the form of Figure 10.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/xml_text.h"
#include "papers/power/reproduce_power.h"

namespace troika::papers {
namespace {

constexpr double kWidth = 760.0, kHeight = 460.0;
constexpr double kLeft = 70.0, kRight = 20.0, kTop = 96.0, kBottom = 60.0;

// A line of the picture, in Okabe and Ito's colours, as timelines have them.
struct Line {
  double BudgetRow::*value;
  const char* name;
  const char* colour;
  const char* dash;
};
constexpr Line kLines[] = {{&BudgetRow::ours, "clusters of neurons on CPU and NPU", "#0072B2", ""},
                           {&BudgetRow::llmflash, "as LLMFlash", "#D55E00", "7 4"},
                           {&BudgetRow::llama, "pages of the mapped file", "#009E73", "2 3"}};

class Picture {
 public:
  explicit Picture(const std::vector<BudgetRow>& rows) : rows_(rows) {
    for (const BudgetRow& row : rows) {
      for (const Line& line : kLines) most_ = std::max(most_, row.*line.value);
    }
    step_ = most_ > 20.0 ? 5.0 : most_ > 8.0 ? 2.0 : 1.0;
    most_ = step_ * std::ceil(most_ / step_);
  }

  std::string svg(const std::string& title) const {
    std::string text = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" font-family=\"sans-serif\" font-size=\"13\">\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n"
        "<text x=\"{2}\" y=\"26\" font-size=\"17\">{3}</text>\n",
        kWidth, kHeight, kLeft, xml_text(title));
    text += axes();
    double x = kLeft;
    for (const Line& line : kLines) {
      text += fmt::format(
          "<line x1=\"{0}\" y1=\"56\" x2=\"{1}\" y2=\"56\" stroke=\"{2}\" stroke-width=\"3\" "
          "stroke-dasharray=\"{3}\"/><text x=\"{4}\" y=\"61\">{5}</text>\n",
          x, x + 26, line.colour, line.dash, x + 32, line.name);
      x += 60.0 + 7.3 * static_cast<double>(std::string_view(line.name).size());
    }
    for (const Line& line : kLines) text += curve(line);
    return text + "</svg>\n";
  }

 private:
  double x_of(double gb) const {
    const double share = (gb - rows_.front().gb) / (rows_.back().gb - rows_.front().gb);
    return kLeft + share * (kWidth - kLeft - kRight - 20.0);
  }
  double y_of(double rate) const {
    return kHeight - kBottom - rate / most_ * (kHeight - kTop - kBottom);
  }

  std::string axes() const {
    std::string text;
    for (double rate = 0.0; rate <= most_ + 1e-9; rate += step_) {
      text += fmt::format(
          "<line x1=\"{0}\" y1=\"{1:.1f}\" x2=\"{2}\" y2=\"{1:.1f}\" stroke=\"#ccc\"/>"
          "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:g}</text>\n",
          kLeft, y_of(rate), kWidth - kRight, kLeft - 8, y_of(rate) + 4.5, rate);
    }
    for (const BudgetRow& row : rows_) {
      text += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g}</text>\n",
                          x_of(row.gb), kHeight - kBottom + 20, row.gb);
    }
    text += fmt::format(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">memory, GB</text>\n"
        "<text x=\"{}\" y=\"{}\">tokens a second</text>\n",
        (kLeft + kWidth - kRight) / 2, kHeight - 16, kLeft - 50, kTop - 14);
    return text;
  }

  std::string curve(const Line& line) const {
    std::string points, marks;
    for (const BudgetRow& row : rows_) {
      const double x = x_of(row.gb), y = y_of(row.*line.value);
      points += fmt::format("{:.1f},{:.1f} ", x, y);
      marks += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"><title>{} at {:g} GB: {:.2f} "
          "tokens a second</title></circle>\n",
          x, y, line.colour, line.name, row.gb, row.*line.value);
    }
    return fmt::format(
               "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2.5\" "
               "stroke-dasharray=\"{}\"/>\n",
               points, line.colour, line.dash) +
           marks;
  }

  const std::vector<BudgetRow>& rows_;
  double most_ = 1.0, step_ = 1.0;
};

}  // namespace

std::string budget_picture(const std::vector<BudgetRow>& rows, const std::string& title) {
  return Picture(rows).svg(title);
}

}  // namespace troika::papers
