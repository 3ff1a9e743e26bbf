#include "plan/phones/published.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/repository.h"

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

}  // namespace
}  // namespace troika::plan
