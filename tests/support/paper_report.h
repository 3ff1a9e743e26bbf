// Checks what holds for every paper's report: each row that counts is one marked test, and each has
// a figure with an error or a reason why it has none.
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
    // A row that set a constant may stand beside what a run makes of it, but never counts.
    const bool set_a_constant = row.base.row->use == "calibrate" && !row.reason.empty();
    EXPECT_TRUE(row.base.row->use == "test" || set_a_constant) << id;
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
