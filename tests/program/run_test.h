// The base of tests that call `troika run` with one model and shared options, and read its --json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/program/troika.h"

namespace troika::test {

class RunTest : public ProgramTest {
 protected:
  // `usual` are the words that stand between the model's name and those of a test.
  explicit RunTest(std::vector<std::string> usual) : usual_(std::move(usual)) {}

  Finished run(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"run", model_};
    words.insert(words.end(), usual_.begin(), usual_.end());
    words.insert(words.end(), more.begin(), more.end());
    return troika(std::move(words));
  }
  nlohmann::json run_json(std::vector<std::string> more) const {
    more.push_back("--json");
    const Finished finished = run(more);
    expect_success(finished);
    return nlohmann::json::parse(finished.out, nullptr, /*allow_exceptions=*/false);
  }

  std::string model_;

 private:
  std::vector<std::string> usual_;
};

}  // namespace troika::test
