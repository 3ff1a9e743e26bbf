// Checks what holds for every paper's report: each row is one marked test, and has a figure with an
// error or a reason why it has none.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "papers/test_rows.h"

namespace troika::test {

// Expects `n_rows` different rows of the paper.
inline void expect_whole_report(const papers::TestReport& report, size_t n_rows) {
  std::set<std::string> ids;
  for (const papers::TestRow& row : report.rows) {
    const std::string& id = row.base.row->id;
    ids.insert(id);
    EXPECT_EQ(row.base.row->use, "test") << id;
    if (!row.base.simulated) {
      EXPECT_FALSE(row.reason.empty()) << id;
      continue;
    }
    ASSERT_TRUE(row.error().has_value()) << id;
    EXPECT_TRUE(std::isfinite(*row.error())) << id;
  }
  EXPECT_EQ(ids.size(), n_rows);
}

}  // namespace troika::test
