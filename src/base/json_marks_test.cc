#include "base/json_marks.h"

#include <gtest/gtest.h>

#include <string>

namespace troika {
namespace {

std::string marks_of(std::string_view json) {
  std::string text;
  visit_json_marks(json, [&](const JsonMark& mark) {
    text += mark.c + std::to_string(mark.n_levels) + std::to_string(mark.n_keys) + " ";
    return true;
  });
  return text;
}

TEST(JsonMarks, HaveLevelsAndKeys) {
  EXPECT_EQ(marks_of(R"({"a": [1, {"b": 2}], "c": {}})"),
            "{10 :11 [20 ,20 {30 :31 }20 ]11 ,11 :12 {20 }12 }00 ");
}

TEST(JsonMarks, AreNoneInsideOfTexts) {
  EXPECT_EQ(marks_of(R"(["{[:,", "a\"]", "\\"])"), "[10 ,10 ,10 ]00 ");
  EXPECT_EQ(marks_of(R"(["never ends], [)"), "[10 ");
  EXPECT_EQ(marks_of(R"(["\)"), "[10 ");
}

TEST(JsonMarks, OfWhatIsNoJsonStayWithinBounds) {
  EXPECT_EQ(marks_of("]}:,["), "]00 }00 :00 ,00 [10 ");
  EXPECT_EQ(marks_of(""), "");
}

TEST(JsonMarks, HavePlaces) {
  size_t last = 0;
  visit_json_marks(R"({"a": 1} b)", [&](const JsonMark& mark) {
    last = mark.place;
    return true;
  });
  EXPECT_EQ(last, 7U);
}

TEST(JsonMarks, AreVisitedUntilSomebodyStops) {
  int n = 0;
  visit_json_marks("[[[[", [&](const JsonMark&) { return ++n < 2; });
  EXPECT_EQ(n, 2);
}

TEST(JsonMarks, SayWhetherATextNestsDeeper) {
  EXPECT_FALSE(nests_deeper("1", 0));
  EXPECT_TRUE(nests_deeper("[]", 0));
  EXPECT_FALSE(nests_deeper(R"([{}, [], "[["])", 2));
  EXPECT_TRUE(nests_deeper(R"([{"a": []}])", 2));
  EXPECT_TRUE(nests_deeper(std::string(1'000'000, '['), 100));
}

}  // namespace
}  // namespace troika
