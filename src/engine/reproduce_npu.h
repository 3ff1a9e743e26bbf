// The test rows of llm.npu on the virtual phone (V3, N12): what the paper prints of whole prompts,
// of its ablation and of its scheduling. Nothing is fitted to them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/micro.h"

namespace troika::engine {

enum class TestKind {
  kValue,  // an absolute one: a time, a rate
  kRatio,  // of two of the phone's, or of the phone's and a published one
  kRange,  // a range or a bound over models
};

struct TestRow {
  MicroRow base;
  TestKind kind = TestKind::kValue;
  std::string left_out = {};  // why it does not count (contradictions of the paper); empty: it does
  std::optional<double> highest = std::nullopt;   // where models differ: `simulated` is the lowest
  std::optional<double> measured = std::nullopt;  // on this machine

  // As that of the base; of a range of models, of the end that is farther off.
  std::optional<double> error() const;
};

// That one thing is faster than another, as published and as simulated.
struct Ordering {
  std::string text;
  bool is_kept = false;
};

struct TestReport {
  std::vector<TestRow> rows;
  std::vector<Ordering> orderings;
  // Of the scheduler, in real time.
  uint64_t n_decisions = 0;
  double decision_us = 0.0;  // all together

  // Over the rows that count, of a kind or of all.
  int count(std::optional<TestKind> kind = {}) const;
  double median_error(std::optional<TestKind> kind = {}) const;
};

// The folder must outlive the report, whose rows point into it.
TestReport simulate_llm_npu(const PhoneFolder& folder);
// A report of a folder that is gone would point to nothing.
TestReport simulate_llm_npu(PhoneFolder&& folder) = delete;

}  // namespace troika::engine
