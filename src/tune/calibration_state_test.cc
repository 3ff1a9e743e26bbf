#include "tune/calibration_state.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/support/temp_folder.h"

namespace troika::tune {
namespace {

class CalibrationStates : public testing::Test {
 protected:
  double find(CalibrationState& state, const std::string& pass, double value) {
    const auto run = [&] {
      ++n_run_;
      return nlohmann::ordered_json{{"loss", value}};
    };
    return state.finding(pass, run).at("loss").get<double>();
  }

  test::TempFolder folder_;
  int n_run_ = 0;
};

TEST_F(CalibrationStates, APassOfACutOffCalibrationIsNotRunAgain) {
  const double value = 0.1 + 0.2;
  {
    CalibrationState state(folder_.file("side"), "a model and a text");
    EXPECT_EQ(find(state, "first", value), value);
  }
  CalibrationState state(folder_.file("side"), "a model and a text");
  EXPECT_EQ(state.n_found_earlier(), 1u);
  EXPECT_EQ(find(state, "first", 7.0), value);
  EXPECT_EQ(find(state, "second", 2.0), 2.0);
  EXPECT_EQ(n_run_, 2);
  state.remove();
  EXPECT_TRUE(std::filesystem::is_empty(folder_.file("side")));
}

// What was measured beside other programs must not come back when somebody asks for it anew.
TEST_F(CalibrationStates, WhatWasFoundIsRemovedWhereAllIsToBeFoundAnew) {
  {
    CalibrationState state(folder_.file("side"), "a model and a text");
    EXPECT_EQ(find(state, "first", 1.0), 1.0);
  }
  CalibrationState anew(folder_.file("side"), "a model and a text", "calibration", true);
  EXPECT_EQ(anew.n_found_earlier(), 0u);
  EXPECT_EQ(find(anew, "first", 2.0), 2.0);
  // A run that is cut off in its turn goes on with its own values.
  CalibrationState next(folder_.file("side"), "a model and a text");
  EXPECT_EQ(find(next, "first", 3.0), 2.0);
}

// A pass may need what another one finds out.
TEST_F(CalibrationStates, WhatAPassFindsOnItsWayIsKeptToo) {
  {
    CalibrationState state(folder_.file("side"), "a model and a text");
    const auto run = [&] { return nlohmann::ordered_json{{"loss", find(state, "inner", 1.0)}}; };
    EXPECT_EQ(state.finding("outer", run).at("loss"), 1.0);
    EXPECT_EQ(find(state, "inner", 7.0), 1.0);
  }
  CalibrationState state(folder_.file("side"), "a model and a text");
  EXPECT_EQ(state.n_found_earlier(), 2u);
  EXPECT_EQ(find(state, "inner", 7.0), 1.0);
  EXPECT_EQ(find(state, "outer", 7.0), 1.0);
  EXPECT_EQ(n_run_, 1);
}

TEST_F(CalibrationStates, ANameThatIsNoUtf8LosesNoPass) {
  const auto run = [] { return nlohmann::ordered_json{{"text", "b\xffok.txt"}}; };
  {
    CalibrationState state(folder_.file("side"), "a model and a text");
    EXPECT_EQ(state.finding("first", run).at("text"), "b\xef\xbf\xbdok.txt");
  }
  CalibrationState state(folder_.file("side"), "a model and a text");
  EXPECT_EQ(state.n_found_earlier(), 1u);
}

TEST_F(CalibrationStates, AnotherCalibrationHasAFileOfItsOwn) {
  CalibrationState state(folder_.file("side"), "a model and a text");
  find(state, "first", 1.0);
  CalibrationState other(folder_.file("side"), "a model and another text");
  EXPECT_EQ(find(other, "first", 2.0), 2.0);
  EXPECT_EQ(other.n_found_earlier(), 0u);
}

TEST_F(CalibrationStates, AllOfAKindAreRemovedAndNoOthers) {
  const std::string side = folder_.file("side");
  for (const char* const identity : {"ten seconds", "a minute"}) {
    CalibrationState state(side, identity, "tuning-a");
    find(state, "first", 1.0);
  }
  CalibrationState other(side, "a minute", "tuning-b");
  find(other, "first", 1.0);
  CalibrationState(side, "an hour", "tuning-a").remove_all();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(side), {}), 1);
  EXPECT_TRUE(std::filesystem::exists(other.path()));
  CalibrationState("", "an hour", "tuning-a").remove_all();
}

TEST_F(CalibrationStates, WithoutAFolderNothingIsKept) {
  CalibrationState state("", "a model and a text");
  EXPECT_EQ(find(state, "first", 1.0), 1.0);
  EXPECT_EQ(find(state, "first", 2.0), 1.0);
  state.remove();
}

TEST_F(CalibrationStates, ABrokenFileIsRefusedWithAdvice) {
  CalibrationState state(folder_.file("side"), "x");
  const std::string deep =
      "{\"first\": " + std::string(300'000, '[') + std::string(300'000, ']') + "}";
  for (const std::string& text :
       {std::string(), std::string("[1]"), std::string("{\"first\":"), std::string("\xff"), deep}) {
    std::ofstream(state.path()) << text;
    EXPECT_THROW(CalibrationState(folder_.file("side"), "x"), Error) << text.substr(0, 20);
  }
  std::filesystem::remove(state.path());
  std::filesystem::create_directory(state.path());
  EXPECT_THROW(CalibrationState(folder_.file("side"), "x"), Error);
}

// Another advice, to remove all files, would cost every tuned plan and profile.
TEST_F(CalibrationStates, AWrongFieldIsRefusedWithTheNameOfItsFile) {
  const std::string side = folder_.file("side");
  const std::string path = CalibrationState(side, "x", "tuning").path();
  std::ofstream(path) << R"({"first": {"loss": "much"}})";
  CalibrationState state(side, "x", "tuning");
  const std::string message =
      test::message_of<Error>([&] { (void)state.fields("first", nullptr).number("loss", 0, 1); });
  const std::string name = std::filesystem::path(path).filename().string();
  EXPECT_TRUE(name.starts_with("tuning-")) << name;
  EXPECT_NE(message.find("troika cache --remove " + name + "'"), std::string::npos) << message;
}

}  // namespace
}  // namespace troika::tune
