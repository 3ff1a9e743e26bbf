#include "solve/chart/chart.h"

#include <gtest/gtest.h>

#include <limits>

#include "solve/chart/profile_plots.h"

namespace troika::solve {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Chart, ShowsEveryPointThatAnAxisCanShow) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const LineChart chart = {"plot",
                           {"x", Scale::kLog2},
                           {"y", Scale::kLog10},
                           {{"a < b", {{1, 5}, {2, 50}, {4, 0}, {0, 3}, {8, nan}, {16, 7}}}}};
  const std::string svg = chart_svg("head & line", "remark", {chart, chart});
  EXPECT_EQ(count(svg, "<circle"), 2u * 3u);
  EXPECT_EQ(count(svg, "<polyline"), 2u);
  EXPECT_NE(svg.find("head &amp; line"), std::string::npos);
  EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

TEST(Chart, SurvivesNoAndEqualValues) {
  for (const Scale scale : {Scale::kLinear, Scale::kLog2, Scale::kLog10, Scale::kBytes}) {
    const LineChart empty = {"", {"x", scale}, {"y", scale}, {}};
    const LineChart one = {"", {"x", scale}, {"y", scale}, {{"a", {{4096, 4096}}}}};
    for (const LineChart* const chart : {&empty, &one}) {
      const std::string svg = chart_svg("", "", {*chart});
      EXPECT_EQ(svg.find("nan"), std::string::npos);
      EXPECT_EQ(svg.find("inf"), std::string::npos);
      EXPECT_EQ(count(svg, "<line") > 1, chart == &one) << static_cast<int>(scale);
      EXPECT_EQ(count(svg, "not measured"), chart == &empty ? 1u : 0u);
    }
  }
}

// A profile is a claim: its values may be as large or small as numbers can be.
TEST(Chart, SurvivesExtremeValues) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const Scale scale : {Scale::kLinear, Scale::kLog2, Scale::kLog10, Scale::kBytes}) {
    for (const auto& [from, to] : {std::pair(5e-324, 1e-310),
                                   {1e-299, 1e299},
                                   {1.0, 1.7e308},
                                   {1e299, 1e300},
                                   {1e-300, 2e-300},
                                   {1.0, inf},
                                   {-1e300, -1e299}}) {
      const LineChart chart = {"", {"x", scale}, {"y", scale}, {{"a", {{from, from}, {to, to}}}}};
      const std::string svg = chart_svg("", "", {chart});
      EXPECT_LT(svg.size(), 20'000u) << static_cast<int>(scale) << " " << from;
      EXPECT_EQ(svg.find("nan"), std::string::npos) << static_cast<int>(scale) << " " << from;
      EXPECT_EQ(svg.find("inf"), std::string::npos) << static_cast<int>(scale) << " " << from;
    }
  }
}

TEST(Chart, EveryAxisHasTwoMarks) {
  for (const Scale scale : {Scale::kLog2, Scale::kLog10, Scale::kBytes}) {
    for (const double value : {1.0, 2.7, 3.0, 7.0, 50.0, 300.0, 4096.0}) {
      const LineChart chart = {"", {"x", scale}, {"y", scale}, {{"a", {{value, value}}}}};
      const std::string svg = chart_svg("", "", {chart});
      EXPECT_GE(count(svg, "stroke=\"#e2e2e2\""), 2u) << static_cast<int>(scale) << " " << value;
      EXPECT_GE(count(svg, "stroke=\"#eeeeee\""), 2u) << static_cast<int>(scale) << " " << value;
    }
  }
}

TEST(Chart, StacksTheBarsOfAPlace) {
  const BarChart bars = {
      "", "", "GB/s", {{"0", {{"0", 8.0}}}, {"0 + 1", {{"0", 5.0}, {"1", 6.0}}}}};
  const std::string svg = chart_svg("", "", bars);
  EXPECT_NE(svg.find(">11.0<"), std::string::npos);  // shows the sum above the bars
  EXPECT_NE(svg.find(">8.0<"), std::string::npos);
}

TEST(Chart, NumbersAndNamesOfBarsHaveRoom) {
  BarChart bars;
  for (int i = 0; i < 14; ++i) {
    bars.bars.push_back({"0 + 1 + 2", {{"0: a", 10.0}, {"1: b", 12345.5}, {"2: c", 900.0}}});
  }
  const std::string svg = chart_svg("", "", bars);
  EXPECT_NE(svg.find(">13255.5<"), std::string::npos);
  EXPECT_EQ(svg.find(">12345.5<"), std::string::npos);  // is wider than its bar
  const size_t at = svg.find("width=\"") + 7;
  EXPECT_GT(std::stod(svg.substr(at)), 14 * 60.0);  // the picture grows with its names
}

TEST(Chart, LongRemarksAreBroken) {
  std::string remark = "a machine";
  for (int i = 0; i < 20; ++i) remark += " and words";
  const LineChart chart = {"plot", {"x"}, {"y"}, {{"a", {{1, 5}}}}};
  const std::string svg = chart_svg("head", remark, {chart});
  EXPECT_EQ(svg.find(remark), std::string::npos);
  EXPECT_GE(count(svg, "fill=\"#666\""), 3u);
  EXPECT_NE(svg.find("translate(0 34)"), std::string::npos)
      << "the plot stands below two lines more";
}

TEST(ProfilePlots, PhasesAreApart) {
  plan::Profile profile;
  profile.lanes = {{"host", {}, 1, false}};
  const auto add = [&](model::OpKind op, int n_tokens, int context, plan::Phase phase, double us) {
    const bool is_linear = op == model::OpKind::kLinear;
    const auto type = is_linear ? tensor::Type::kQ4_0 : tensor::Type::kF16;
    profile.ops.push_back(
        {0, {op, type, 1024, 1024, n_tokens, context, is_linear ? 0 : 64, phase}, us, 0.0, 3});
  };
  for (const plan::Phase phase : {plan::Phase::kStep, plan::Phase::kPrompt}) {
    add(model::OpKind::kLinear, 32, 0, phase, phase == plan::Phase::kStep ? 100.0 : 40.0);
    add(model::OpKind::kAttention, 32, 64, phase, phase == plan::Phase::kStep ? 50.0 : 20.0);
  }
  add(model::OpKind::kLinear, 1, 0, plan::Phase::kStep, 10.0);
  add(model::OpKind::kAttention, 1, 65, plan::Phase::kStep, 10.0);
  const std::vector<Plot> plots = profile_plots(profile);
  ASSERT_EQ(plots.size(), 3u);
  for (const Plot& plot : plots) {
    const bool has_step = plot.svg.find(", step<") != std::string::npos;
    const bool has_prompt = plot.svg.find(", prompt<") != std::string::npos;
    EXPECT_TRUE(has_step && has_prompt) << plot.file_name;
    EXPECT_EQ(plot.svg.find("q 1024, k 1024, 1 token, step"), std::string::npos)
        << "it is in one phase only";
  }
}

TEST(ProfilePlots, OnlyWhatWasMeasuredIsDrawn) {
  plan::Profile profile;
  profile.lanes = {{"host", {}, 1, false}};
  EXPECT_TRUE(profile_plots(profile).empty());
  profile.bandwidth = {{{0}, {10.0}}};
  ASSERT_EQ(profile_plots(profile).size(), 1u);
  EXPECT_EQ(profile_plots(profile)[0].file_name, "bandwidth.svg");
  profile.ops = {{0, {model::OpKind::kLinear, tensor::Type::kQ4_0, 1024, 1024, 8, 0, 0}, 9, 0, 3}};
  profile.storage = plan::Storage{"/tmp", true, {{4096, 1 << 20, true, 1, 80.0, 50.0}}};
  EXPECT_EQ(profile_plots(profile).size(), 5u);
}

}  // namespace
}  // namespace troika::solve
