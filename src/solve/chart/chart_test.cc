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
    for (const LineChart& chart : {empty, one}) {
      const std::string svg = chart_svg("", "", {chart});
      EXPECT_EQ(svg.find("nan"), std::string::npos);
      EXPECT_EQ(svg.find("inf"), std::string::npos);
      EXPECT_GT(count(svg, "<line"), 1u) << static_cast<int>(scale);
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
