#include "plan/phones/published.h"

#include <gtest/gtest.h>

#include <optional>
#include <sstream>
#include <string>

#include "base/error.h"
#include "tests/support/repository.h"
#include "tests/support/temp_folder.h"

namespace troika::plan {
namespace {

// "Up to 4.0x" says what was attained: less is an error. Only "<" and ">" say that no value is
// known, so that whatever lies on their side agrees.
TEST(Published, V3OnlyWhatIsPrintedAsABoundIsOne) {
  const auto says = [](const std::string& text, const char* word) {
    return text.find(word) != std::string::npos;
  };
  int n_bounds = 0;
  for (const PublishedRow& row : read_published(test::repository_file("phones/published"))) {
    for (const PublishedValue& value : row.values) {
      if (value.bound.empty()) continue;
      ++n_bounds;
      const bool is_printed = value.bound == "most"
                                  ? says(row.text, "<")
                                  : says(row.text, ">") || says(row.text, "at least");
      EXPECT_TRUE(is_printed) << row.id << ": " << row.text;
    }
  }
  EXPECT_GT(n_bounds, 10);
}

TEST(Published, AValueIsFoundByItsNameAndIsANumber) {
  PublishedRow row;
  row.id = "nf1";
  row.values = {{"end to end", "s", 2.0, 2.0, 2.0, ""},
                {"decode", "s", std::nullopt, 1.0, 2.0, ""}};
  EXPECT_EQ(number_of(row, "end to end"), 2.0);
  for (const char* name : {"prefill", "decode"}) {
    EXPECT_EQ(test::message_of<Error>([&] { number_of(row, name); }),
              std::string("The published row 'nf1' has no value '") + name + "'.");
  }
}

// Returns what stands outside of brackets and before an arrow: what follows is derived from it.
std::string printed_part(const std::string& text) {
  std::string part;
  int depth = 0;
  for (const char c : text.substr(0, text.find("\u2192"))) {
    depth += c == '(' ? 1 : 0;
    if (depth == 0) part += c;
    depth -= c == ')' ? 1 : 0;
  }
  for (size_t at; (at = part.find("tokens/s")) != std::string::npos;) part.replace(at, 8, "rate");
  return part;
}

TEST(Published, V3EveryPartOfATestRowIsAValue) {
  int n_divided = 0;
  for (const PublishedRow& row : read_published(test::repository_file("phones/published"))) {
    // Speedups beside a task's times follow from the cells that they compare.
    const std::string text = printed_part(row.text.substr(0, row.text.find("; speedup ")));
    if (row.use != "test" || row.values.empty()) continue;
    size_t n_parts = 0, n_signs = 0, n_bounds = 0;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line, ';');) {
      std::istringstream parts(line);
      for (std::string part; std::getline(parts, part, '/');) {
        n_parts += part.find_first_of("0123456789") == std::string::npos ? 0 : 1;
        n_signs += part.find_first_of("<>") != std::string::npos ||
                           part.find("at least") != std::string::npos
                       ? 1
                       : 0;
      }
    }
    for (const PublishedValue& value : row.values) n_bounds += value.bound.empty() ? 0 : 1;
    EXPECT_GE(row.values.size(), n_parts) << row.id << ": " << row.text;
    EXPECT_GE(n_bounds, n_signs) << row.id << ": " << row.text;
    n_divided += n_parts > 1 ? 1 : 0;
  }
  EXPECT_GT(n_divided, 20);
}

}  // namespace
}  // namespace troika::plan
