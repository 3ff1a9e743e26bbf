#include "base/timeline.h"

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
  trace.add({0, "qkv", 0, 128, 0.0, 400.0, true});
  trace.add({1, "attention", 0, 128, 400.0, 700.0, true});
  trace.add({0, "ffn", 0, 128, 700.0, 1000.0, true});
  trace.add({0, "head", -1, 1, 1000.0, 1300.0, false});
  const std::string svg = timeline_svg(trace, {"A & B", "two lanes"});
  for (const char* part : {"A &amp; B", "two lanes", "cores &lt;1&gt;", ">attention<", ">logits<",
                           ">queries, keys, values<", ">feed-forward<", ">prompt<", ">steps<",
                           "77 % busy", "23 % busy", "waits 300 µs"}) {
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(svg.find(">norms<"), std::string::npos) << "none ran";
  EXPECT_EQ(n_times(svg, "<title>waits"), 1u) << "before its first task a lane does not wait";
  EXPECT_EQ(n_times(svg, "tokens, "), 4u);
}

TEST(Timeline, ATraceOfNothingIsAPictureToo) {
  const std::string svg = timeline_svg(Trace({"a"}), {"nothing", ""});
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_NE(svg.find("0 % busy"), std::string::npos);
}

}  // namespace
}  // namespace troika
