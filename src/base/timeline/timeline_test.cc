#include "base/timeline/timeline.h"

#include <gtest/gtest.h>

namespace troika {
namespace {

size_t n_times(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Timeline, SaysWhatItShows) {
  Trace trace({"cores 0", "cores <1>"});
  trace.add({0, "embed", -1, 128, 0.0, 10.0, true});
  trace.add({0, "qkv", 0, 128, 10.0, 400.0, true});
  trace.add({1, "attention", 0, 128, 400.0, 700.0, true});
  trace.add({0, "ffn", 0, 128, 700.0, 990.0, true});
  trace.add({0, "embed", -1, 1, 990.0, 1000.0, false});
  trace.add({0, "head", -1, 1, 1000.0, 1300.0, false});
  const std::string svg = timeline_svg(trace, {"A & B", "two lanes"});
  for (const char* part :
       {"A &amp; B: a prompt of 128 tokens, then 1 step of the answer", "two lanes",
        "cores &lt;1&gt;", ">attention<", ">logits<", ">queries, keys, values<", ">feed-forward<",
        ">prompt<", ">steps<", "77 % busy", "23 % busy"}) {
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(svg.find(">norms<"), std::string::npos) << "none ran";
  EXPECT_EQ(n_times(svg, "<title>") - n_times(svg, "<title>waits"), 6u);
}

TEST(Timeline, HatchesTheWaitsBeforeBetweenAndBehindTasks) {
  Trace trace({"cpu", "npu", "idle"});
  trace.add({0, "qkv", 0, 8, 1000.0, 1400.0, true});
  trace.add({1, "ffn", 0, 8, 1400.0, 1500.0, true});
  trace.add({1, "ffn", 0, 8, 1700.0, 1800.0, true});
  trace.add({0, "head", -1, 8, 1800.0, 2000.0, true});
  const std::string svg = timeline_svg(trace, {"m", ""});
  // The CPU waits between its tasks; the NPU before, between and behind them; the third all along.
  EXPECT_EQ(n_times(svg, "<title>waits 400 µs<"), 2u);
  EXPECT_EQ(n_times(svg, "<title>waits 200 µs<"), 2u);
  EXPECT_EQ(n_times(svg, "<title>waits 1 ms<"), 1u);
  EXPECT_EQ(n_times(svg, "<title>waits"), 5u);
}

TEST(Timeline, TasksAreCalledByWordsAndNumberedWhereNumbersDiffer) {
  Trace one({"cpu"});
  one.add({0, "qkv", 0, 8, 0.0, 1000.0, true});
  one.add({0, "exact", 0, 8, 1000.0, 2000.0, true});
  const std::string same = timeline_svg(one, {"m", ""});
  EXPECT_EQ(n_times(same, ">queries<"), 1u);
  EXPECT_EQ(n_times(same, ">exact<"), 1u);
  EXPECT_EQ(same.find("Numbers:"), std::string::npos);

  Trace two({"cpu"});
  two.add({0, "exact", 3, 8, 0.0, 1000.0, true});
  two.add({0, "exact", 12, 8, 1000.0, 2000.0, true});
  two.add({0, "exact", 5, 8, 2000.0, 2015.0, true});  // has room for no label
  const std::string svg = timeline_svg(two, {.what = "m", .about = "a head", .numbers = "heads"});
  EXPECT_NE(svg.find(">m: a head<"), std::string::npos);
  EXPECT_NE(svg.find("Numbers: heads."), std::string::npos);
  for (const char* label : {">exact 3<", ">exact 12<"}) EXPECT_EQ(n_times(svg, label), 1u);
  EXPECT_EQ(n_times(svg, ">5<") + n_times(svg, ">exact 5<"), 0u);
}

// Numbers of few tasks, which stand where these happen to be longer, say nothing.
TEST(Timeline, ANumberAloneStandsOnlyWhereMostTasksHaveRoomForTheirs) {
  for (const bool are_long : {false, true}) {
    Trace trace({"cpu"});
    for (int block = 0; block < 12; ++block) {
      trace.add({0, "load", block, 8, 40.0 * block, 40.0 * block + (are_long ? 30.0 : 5.0), true});
    }
    trace.add({0, "load", 12, 8, 480.0, 510.0, true});
    trace.add({0, "head", -1, 8, 950.0, 1000.0, true});
    const std::string svg = timeline_svg(trace, {"m"});
    EXPECT_EQ(n_times(svg, ">12<"), are_long ? 1u : 0u);
    EXPECT_EQ(n_times(svg, ">9<"), are_long ? 1u : 0u);
    EXPECT_EQ(n_times(svg, "Numbers: "), are_long ? 1u : 0u) << "none is shown";
  }
}

// Digits are 0.64 of the size of their letters in a wide font: two of them take 17 pixels and a gap
// where they are 13 pixels large, and 14 where they are 11.
TEST(Timeline, NumbersInNarrowBoxesDoNotTouch) {
  for (const double us : {15.0, 17.5, 22.0}) {
    Trace trace({"cpu"});
    for (int block = 10; block < 20; ++block) {
      const double start = us * (block - 10);
      trace.add({0, "load", block, 8, start, start + us, true});
    }
    trace.add({0, "head", -1, 8, 830.0, 836.0, true});  // a pixel is a microsecond
    const std::string svg = timeline_svg(trace, {"m"});
    EXPECT_EQ(n_times(svg, ">12<"), us > 16.5 ? 1u : 0u) << us;
    EXPECT_EQ(n_times(svg, "font-size=\"11\""), us > 16.5 && us < 19.0 ? 10u : 0u) << us;
  }
}

TEST(Timeline, LongTitlesAreBroken) {
  std::string long_title = "a model";
  for (int i = 0; i < 30; ++i) long_title += " and words";
  const std::string svg = timeline_svg(Trace({"a"}), {long_title, ""});
  EXPECT_EQ(svg.find(long_title), std::string::npos);
  EXPECT_GE(n_times(svg, "font-weight=\"bold\""), 1u + 4u);  // the lane's name, and lines of title
}

TEST(Timeline, ATraceOfNothingIsAPictureToo) {
  const std::string svg = timeline_svg(Trace({"a"}), {"nothing", ""});
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_NE(svg.find("0 % busy"), std::string::npos);
}

}  // namespace
}  // namespace troika
