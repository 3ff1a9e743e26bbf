#include "tune/kept_plan.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/cpu_features.h"
#include "base/error.h"
#include "prepare/plan/saved_plan.h"
#include "tests/support/tiny_engine.h"
#include "tune/default_text.h"
#include "weights/content_key.h"

namespace troika::tune {
namespace {

class KeptPlans : public testing::Test {
 protected:
  void SetUp() override {
    const char* before = std::getenv("XDG_CACHE_HOME");
    if (before != nullptr) before_ = before;
    ASSERT_EQ(setenv("XDG_CACHE_HOME", folder_.file("cache").c_str(), 1), 0);
    file_.plan = tiny_.engine->plan();
    file_.plan.context = 77;
    file_.made_for = prepare::plan_identity(model());
    file_.tuned = {"2026-11-22T22:15:00Z", program_name(kernels::choose(detect_cpu_features())),
                   fmt_key(weights::content_key(model()))};
  }
  void TearDown() override {
    if (before_) {
      setenv("XDG_CACHE_HOME", before_->c_str(), 1);
    } else {
      unsetenv("XDG_CACHE_HOME");
    }
  }

  static std::string fmt_key(uint64_t key) {
    char text[17];
    std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(key));
    return text;
  }
  const gguf::File& model() const { return tiny_.engine->file(); }
  std::optional<KeptPlan> find() {
    problem_.clear();
    return find_kept_plan(model().path(), &problem_);
  }
  // Replaces one text of the kept file by another.
  void change(const std::string& path, const std::string& from, const std::string& to) {
    std::ifstream in(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    std::ofstream(path, std::ios::binary) << text.replace(at, from.size(), to);
  }
  // Expects that no plan is found, and that the sentence says why and what to do.
  void expect_ignored(const std::string& why) {
    EXPECT_FALSE(find());
    EXPECT_NE(problem_.find(why), std::string::npos) << problem_;
    EXPECT_NE(problem_.find("troika tune"), std::string::npos) << problem_;
  }

  test::TempFolder folder_;
  test_support::TinyEngine tiny_;
  plan::PlanFile file_;
  std::string problem_;
  std::optional<std::string> before_;
};

// A device may be gone, or have another number or driver than when it was measured.
TEST_F(KeptPlans, SaysWhereItsDevicesAreGone) {
  plan::PlannedLane device;
  device.kind = "openvino";
  device.device = "CPU";
  file_.plan.lanes.push_back(device);
  file_.tuned->devices = "openvino:CPU: a processor that nobody has by OpenVINO 0";
  ASSERT_EQ(unsetenv("TROIKA_OPENVINO"), 0);
  keep_plan(model(), file_);
  const std::optional<KeptPlan> kept = find();
  ASSERT_TRUE(kept) << problem_;
  const std::string problem = device_problem(*kept);
  // Where OpenVINO is installed it is another one.
  EXPECT_TRUE(problem.find("cannot be used") != std::string::npos ||
              problem.find("other devices") != std::string::npos)
      << problem;
  EXPECT_NE(problem.find("troika tune"), std::string::npos) << problem;
}

TEST_F(KeptPlans, IsFoundByTheModelItWasKeptFor) {
  EXPECT_FALSE(find());
  EXPECT_EQ(problem_, "");
  const std::string path = keep_plan(model(), file_);
  const std::optional<KeptPlan> kept = find();
  ASSERT_TRUE(kept) << problem_;
  EXPECT_EQ(problem_, "");
  EXPECT_EQ(kept->path, path);
  EXPECT_EQ(kept->file.plan.context, 77);
  EXPECT_EQ(kept->file.tuned, file_.tuned);
  const test_support::TinyEngine other;
  EXPECT_FALSE(find_kept_plan(other.engine->file().path(), &problem_));
  EXPECT_FALSE(find_kept_plan(folder_.file("no-such-model.gguf"), &problem_));
  EXPECT_EQ(problem_, "");
}

TEST_F(KeptPlans, IsNotUsedOnceTheModelHasChanged) {
  keep_plan(model(), file_);
  const std::filesystem::path path = model().path();
  std::filesystem::last_write_time(
      path, std::filesystem::last_write_time(path) + std::chrono::seconds(1));
  EXPECT_FALSE(find());
  EXPECT_EQ(problem_, "");
}

TEST_F(KeptPlans, OfAnotherProgramIsIgnoredWithASentence) {
  change(keep_plan(model(), file_), "\"program\": \"troika", "\"program\": \"another");
  expect_ignored("was made by another");
}

TEST_F(KeptPlans, OfAnotherMachineIsIgnoredWithASentence) {
  const std::filesystem::path path = keep_plan(model(), file_);
  const std::string name = path.filename().string();
  std::filesystem::rename(path,
                          path.parent_path() / (name.substr(0, 22) + "0123456789abcdef.json"));
  expect_ignored("on another machine");
}

TEST_F(KeptPlans, DamagedOnesAreIgnoredWithASentence) {
  const std::string path = keep_plan(model(), file_);
  change(path, "\"context\": 77", "\"context\": -77");
  expect_ignored("'context'");
  EXPECT_NE(problem_.find("--remove"), std::string::npos) << problem_;
  std::filesystem::resize_file(path, 40);
  expect_ignored(path);
  std::filesystem::resize_file(path, 0);
  expect_ignored(path);
}

// A folder in the plan's place cannot be read, and a pipe might never be read to its end.
TEST_F(KeptPlans, WhatIsNoFileIsIgnoredWithASentence) {
  const std::string path = keep_plan(model(), file_);
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  expect_ignored("is no file");
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  expect_ignored("is no file");
}

TEST_F(KeptPlans, WithoutAFolderThereIsNone) {
  ASSERT_EQ(setenv("XDG_CACHE_HOME", "/dev/null/no-folder", 1), 0);
  EXPECT_FALSE(find());
  EXPECT_EQ(problem_, "");
  EXPECT_THROW(keep_plan(model(), file_), Error);
}

TEST(KeptPlan, TheSummarySaysWhatDiffers) {
  plan::Plan plan;
  plan.lanes = {{{}, 2}};
  plan.prefill = plan::Prefill::kInt8;
  plan.int8.method = plan::Int8Method::kTokenShadow;
  EXPECT_EQ(summary(plan), "prompts int8 (token-shadow), chunks of 512, 2 threads");
  plan.prefill = plan::Prefill::kBf16;
  plan.prompt_shapes = {32, 128};
  plan.lanes = {{{0}, 1}, {{1}, 1}};
  EXPECT_EQ(summary(plan), "prompts bf16, chunks of 128, 2 lanes");
}

TEST(DefaultText, IsTheOneOfTheFolder) {
  EXPECT_GT(default_text().size(), 40'000u);
  EXPECT_TRUE(default_text().starts_with("I. THE RIVER BANK"));
}

}  // namespace
}  // namespace troika::tune
