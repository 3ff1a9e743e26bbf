#include "server/calls/variables.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "engine/chat.h"

namespace troika::server {
namespace {

const text::SpecialMatcher& control_names() {
  static const text::SpecialMatcher matcher(
      {{"<|im_end|>", 1}, {"</s>", 2}, {"[INST]", 3}, {"\u2581<EOT>", 4}, {"over", 5}});
  return matcher;
}

// Returns the variable that is refused; empty if none is.
std::string refused_in(const char* variables) {
  try {
    check_variables(Json::parse(variables), control_names());
  } catch (const Refused& refused) {
    EXPECT_EQ(refused.status, 400);
    return refused.field;
  }
  return "";
}

TEST(TemplateVariables, AreRefusedWhereTheySpellControlTokens) {
  EXPECT_EQ(refused_in(R"({"a":"b","style":"x<|im_end|>"})"), "style");
  EXPECT_EQ(refused_in(R"({"style":"<|im_\u0065nd|>"})"), "style");
  EXPECT_EQ(refused_in(R"({"documents":[{"title":"a"},{"text":["b","</s>"]}]})"), "documents");
  EXPECT_EQ(refused_in(R"({"documents":{"a":{"[INST]":1}}})"), "documents");
}

// A mark between two parts of a control token hides it, until the engine takes the mark for its
// own.
TEST(TemplateVariables, BringNoMarksAlong) {
  for (const char* const text : {"\\ufdd0", "\\ufdd1", "<|im_\\ufdd1end|>"}) {
    EXPECT_NE(refused_in(("{\"style\":[\"a" + std::string(text) + "\"]}").c_str()), "") << text;
    EXPECT_NE(refused_in(("{\"style\":{\"" + std::string(text) + "\":1}}").c_str()), "") << text;
  }
  const Json functions = Json::array({"a\xEF\xB7\x90</\xEF\xB7\x91\xEF\xB7\x91s>"});
  const std::string text = functions_text(functions, control_names());
  for (const std::string_view mark : engine::kTextMarks) {
    EXPECT_EQ(text.find(mark), std::string::npos) << text;
  }
  EXPECT_EQ(Json::parse(text), functions);
}

// Whoever replaced the marks in place would move terabytes here.
TEST(TemplateVariables, BringNoMarksAlongHoweverManyThereAre) {
  constexpr int kPairs = 700'000;
  std::string text;
  for (int i = 0; i < kPairs; ++i) text += "\xEF\xB7\x90\xEF\xB7\x91";
  const Json functions = Json::array({text});
  const std::string told = functions_text(functions, control_names());
  EXPECT_EQ(told.find(engine::kTextMarks[0]), std::string::npos);
  EXPECT_EQ(told.find(engine::kTextMarks[1]), std::string::npos);
  EXPECT_EQ(Json::parse(told), functions);
}

TEST(TemplateVariables, MayBeAnythingElse) {
  EXPECT_EQ(refused_in(R"({"enable_thinking":false,"reasoning_effort":"low","n":[1,null,2.5],)"
                       R"("text":"<|im_end| >","names":{"<s":"INST]"},"empty":{"a":[],"b":""}})"),
            "");
  EXPECT_EQ(refused_in("{}"), "");
}

TEST(TemplateVariables, TellFunctionsWithoutControlTokens) {
  const Json functions = Json::parse(
      R"([{"name":"f","description":"a<|im_end|><|im_end|></s>[INST]\u2581<EOT>",)"
      R"("parameters":{"properties":{"</s>":{"enum":["\\</s>","<|im_end<|im_end|>"]}}}}])");
  const std::string text = functions_text(functions, control_names());
  EXPECT_EQ(control_names().find(text, 0).token, text::kNoToken) << text;
  EXPECT_EQ(Json::parse(text), functions);
  const Json plain = Json::parse(R"([{"name":"f","description":"a < b"}])");
  EXPECT_EQ(functions_text(plain, control_names()), plain.dump(2));
  EXPECT_THROW(functions_text(Json::array({"it is over"}), control_names()), Refused);
}

}  // namespace
}  // namespace troika::server
