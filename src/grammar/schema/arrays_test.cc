#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "grammar/grammar_test_support.h"

namespace troika::grammar {
namespace {

constexpr const char* kElements[] = {"1", "\"a\"", "null"};
using List = std::vector<int>;  // numbers of elements

std::string text_of(const List& list) {
  std::string text = "[";
  for (size_t i = 0; i < list.size(); ++i)
    text += (i > 0 ? "," : "") + std::string(kElements[list[i]]);
  return text + "]";
}

// Checks every list of up to so many elements.
void check_lists(const std::string& schema, int most,
                 const std::function<bool(const List&)>& fits) {
  bool is_any = false;
  std::vector<List> lists = {{}};
  for (size_t at = 0; at < lists.size(); ++at) {
    is_any |= fits(lists[at]);
    if (lists[at].size() == static_cast<size_t>(most)) continue;
    for (int e = 0; e < 3; ++e) {
      List longer = lists[at];
      longer.push_back(e);
      lists.push_back(longer);
    }
  }
  if (!is_any) {
    EXPECT_NE(error_of(schema, Format::kJsonSchema), "") << schema;
    return;
  }
  const auto grammar = compiled(schema, Format::kJsonSchema);
  for (const List& list : lists) {
    ASSERT_EQ(reads(grammar, text_of(list)), fits(list)) << schema << text_of(list);
  }
}

int count(const List& list, int element) {
  return static_cast<int>(std::count(list.begin(), list.end(), element));
}

TEST(Arrays, CountsOfFittingElementsAgreeWithCounting) {
  uint32_t random = 3;
  constexpr int kNone = -1, kMost = 5;
  const auto maybe = [&](uint32_t below) {
    return next_random(&random, 2) == 0 ? kNone : static_cast<int>(next_random(&random, below));
  };
  const auto keyword = [](const char* name, int n) {
    return n == kNone ? std::string() : std::string(",\"") + name + "\":" + std::to_string(n);
  };
  for (int i = 0; i < 60; ++i) {
    const int least_ones = maybe(4), most_ones = maybe(4), least_texts = maybe(3);
    const int most_texts = maybe(3), least = maybe(4), most = maybe(kMost + 1);
    const bool has_texts = next_random(&random, 2) == 0, has_first = next_random(&random, 3) == 0;
    const bool is_turned = next_random(&random, 4) == 0;
    const std::string ones = R"({"contains":{"const":1})" + keyword("minContains", least_ones) +
                             keyword("maxContains", most_ones) + "}";
    const std::string texts = R"({"contains":{"type":"string"})" +
                              keyword("minContains", least_texts) +
                              keyword("maxContains", most_texts) + "}";
    std::string schema = R"({"type":"array","items":{"enum":[1,"a",null]})" +
                         keyword("minItems", least) + keyword("maxItems", most);
    if (has_first) schema += R"(,"prefixItems":[{"type":["string","null"]}])";
    schema += R"(,"allOf":[)" + (is_turned ? R"({"not":)" + ones + "}" : ones) +
              (has_texts ? "," + texts : "") + "]}";
    // Lists of more elements than are looked at may be the only ones that fit.
    const auto is_in = [](int n, int at_least, int at_most, int usual) {
      return n >= (at_least == kNone ? usual : at_least) && (at_most == kNone || n <= at_most);
    };
    const auto fits = [&](const List& list) {
      const auto n = static_cast<int>(list.size());
      return is_in(n, least, most, 0) && (!has_first || list.empty() || list[0] != 0) &&
             is_in(count(list, 0), least_ones, most_ones, 1) != is_turned &&
             (!has_texts || is_in(count(list, 1), least_texts, most_texts, 1));
    };
    check_lists(schema, kMost + 1, fits);
  }
}

TEST(Arrays, DifferentElementsOfNamedValues) {
  const auto differ = [](const List& list) {
    return std::set<int>(list.begin(), list.end()).size() == list.size();
  };
  check_lists(R"({"type":"array","uniqueItems":true,"items":{"enum":[1,"a",null]}})", 4, differ);
  check_lists(R"({"type":"array","uniqueItems":true,"items":{"enum":["a",null,1,1.0]},
      "minItems":2,"maxItems":2})",
              4, [&](const List& list) { return differ(list) && list.size() == 2; });
  check_lists(R"({"type":"array","uniqueItems":true,"minItems":1,"items":{"type":"null"}})", 3,
              [](const List& list) { return list == List{2}; });
  check_lists(R"({"type":"array","uniqueItems":true,"minItems":4,
      "items":{"enum":[1,"a",null]}})",
              4, [](const List&) { return false; });
  check_lists(R"({"type":"array","uniqueItems":true,"items":{"enum":[1,"a"]},
      "prefixItems":[{"enum":["a",null]}]})",
              4, [&](const List& list) {
                return differ(list) && (list.empty() || list[0] != 0) && count(list, 2) <= 1 &&
                       (count(list, 2) == 0 || list[0] == 2);
              });
  const auto grammar = compiled(R"({"type":"array","uniqueItems":true,"items":
      {"enum":["a","ab",1.0,[1],{"a":"a"}]}})",
                                Format::kJsonSchema);
  EXPECT_TRUE(accepts(grammar, R"(["ab",[1],"a",1,{"a":"a"}])"));
  EXPECT_FALSE(accepts(grammar, R"([1,"a",1.0])"));
  EXPECT_FALSE(accepts(grammar, R"(["ab","a","ab"])"));
}

TEST(Arrays, NegationsOfFirstElementsAndConditions) {
  check_lists(R"({"type":"array","items":{"enum":[1,"a",null]},
      "not":{"prefixItems":[{"type":"integer"},{"type":"string"}]}})",
              3, [](const List& list) {
                return (!list.empty() && list[0] != 0) || (list.size() > 1 && list[1] != 1);
              });
  check_lists(
      R"({"type":"array","items":{"enum":[1,"a",null]},"not":{"if":{"minItems":2},
      "then":{"contains":{"type":"null"}},"else":{"maxItems":0}}})",
      3, [](const List& list) { return list.size() < 2 ? list.size() == 1 : count(list, 2) == 0; });
}

TEST(Arrays, ThatCannotBeComparedOrCountedAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"uniqueItems":true})", "#/uniqueItems: a grammar cannot compare"},
      {R"({"uniqueItems":true,"items":{"type":"boolean"},"prefixItems":[true]})", "#/uniqueItems"},
      {R"({"uniqueItems":true,"items":{"type":"null"},"contains":true})", "beside 'contains'"},
      {R"({"contains":{"uniqueItems":true},"maxContains":1})", "#/contains: elements cannot be"},
      {R"({"contains":{"const":1},"minContains":30000})", "#/contains: beside so many counts"},
      {R"({"contains":{"const":1},"maxContains":100,"maxItems":1000})", "#/contains: beside"}};
  for (const auto& [schema, part] : cases) {
    const std::string error = error_of(schema, Format::kJsonSchema);
    EXPECT_NE(error.find(part), std::string::npos) << schema << ": " << error;
  }
  EXPECT_EQ(error_of(R"({"maxContains":1,"uniqueItems":false})", Format::kJsonSchema), "");
}

}  // namespace
}  // namespace troika::grammar
