// A case of tests that run for every architecture and for several precisions of prompts.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/tiny_model.h"

namespace troika::test_support {

struct PromptCase {
  std::string architecture;
  std::string prefill;  // holds a value of --prefill
};

inline void PrintTo(const PromptCase& c, std::ostream* out) {
  *out << c.architecture << "_" << c.prefill;
}

inline std::string case_name(const testing::TestParamInfo<PromptCase>& info) {
  return info.param.architecture + "_" + info.param.prefill;
}

inline std::vector<PromptCase> prompt_cases(std::initializer_list<const char*> prefills) {
  std::vector<PromptCase> cases;
  for (const std::string& architecture : tiny_architectures()) {
    for (const char* prefill : prefills) cases.push_back({architecture, prefill});
  }
  return cases;
}

}  // namespace troika::test_support
