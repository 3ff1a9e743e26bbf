#include "tune/findings.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"

namespace troika::tune {
namespace {

plan::JsonFields fields_of(const nlohmann::ordered_json& json) {
  return plan::JsonFields::parse(json.dump(), "tuning.json", "Remove it.");
}

std::vector<WindowLosses> windows_of(std::vector<size_t> lengths) {
  std::vector<WindowLosses> windows;
  for (const size_t n : lengths) {
    WindowLosses& window = windows.emplace_back();
    window.nll.assign(n, 2.5);
    window.divergence.assign((n + HeldOut::kEvery - 1) / HeldOut::kEvery, 0.25);
  }
  return windows;
}

TEST(Findings, TimesOfOtherPromptsAreRefused) {
  const std::vector<PromptTime> times = {{128, 10.5}, {512, 40.0}, {1, 2.0}};
  EXPECT_EQ(read_times(fields_of(to_json(times)), {128, 512, 1}), times);
  for (const std::vector<int>& others :
       {std::vector<int>{128, 512}, {128, 513, 1}, {512, 128, 1}, {128, 512, 1, 1}, {}}) {
    EXPECT_THROW(read_times(fields_of(to_json(times)), others), Error) << others.size();
  }
  EXPECT_THROW(read_times(fields_of(to_json(std::vector<PromptTime>())), {128}), Error);
}

TEST(Findings, WindowsThatCannotBeComparedAreRefused) {
  const std::vector<WindowLosses> usual = windows_of({9, 5});
  const auto read = [&](const nlohmann::ordered_json& json) {
    return read_windows(fields_of(json), &usual);
  };
  ASSERT_EQ(read(to_json(usual)).size(), 2u);
  EXPECT_EQ(read(to_json(usual))[1].nll, usual[1].nll);
  EXPECT_EQ(read(to_json(usual))[1].divergence, usual[1].divergence);
  EXPECT_EQ(read(to_json(windows_of({9}))).size(), 1u);  // a class may have read less
  EXPECT_THROW(read(to_json(windows_of({9, 5, 5}))), Error);
  EXPECT_THROW(read(to_json(windows_of({9, 4}))), Error);
  for (const std::vector<size_t>& few : {std::vector<size_t>{}, {0}, {4}}) {
    EXPECT_THROW(read_windows(fields_of(to_json(windows_of(few)))), Error) << few.size();
  }
  nlohmann::ordered_json uncompared = to_json(usual);
  uncompared["windows"][0]["tokens"][4].erase("divergence");
  EXPECT_THROW(read(uncompared), Error);
}

}  // namespace
}  // namespace troika::tune
