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
  const BarChart bars = {"", "GB/s", {{"0", {{"0", 8.0}}}, {"0 + 1", {{"0", 5.0}, {"1", 6.0}}}}};
  const std::string svg = chart_svg("", "", bars);
  EXPECT_NE(svg.find(">11.0<"), std::string::npos);  // shows the sum above the bars
  EXPECT_NE(svg.find(">8.0<"), std::string::npos);
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
