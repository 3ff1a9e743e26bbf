#include "measure/profile_here.h"

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "plan/profile_cache.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_engine.h"

namespace troika::measure {
namespace {

// Keeps profiles in a folder of its own. Each test measures one op of each kind only.
class ProfileHere : public testing::Test {
 protected:
  ProfileHere() {
    setenv("XDG_CACHE_HOME", folder_.file("cache").c_str(), 1);
    request_.models = {tiny_.engine->file().path(), "qwen2-0.5b"};
    request_.lanes.n_threads = 1;
    const plan::Plan& plan = tiny_.engine->plan();
    request_.activations = plan.activations;
    request_.prefill = plan.prefill;
    request_.kv_type = plan.kv_type;
    request_.budget_s = 1e-6;
    request_.with_cores = request_.with_storage = false;
  }
  ~ProfileHere() override { unsetenv("XDG_CACHE_HOME"); }

  ProfileResult profile() const {
    return profile_here(
        request_, [](const std::string&) -> ProgressFunction { return [](uint64_t, uint64_t) {}; });
  }
  // Changes what is kept, so that it can be told from what is measured.
  void age(plan::Profile profile, double load = 1000.0) const {
    profile.taken = kLongAgo;
    profile.load_average = load;
    for (plan::OpTime& time : profile.ops) time.spread = time.busy_load = 0.0;
    profile.cores = {{0, 1.0, 7.0}};
    plan::keep_profile(profile);
  }
  std::optional<plan::Profile> kept() const {
    std::string problem;
    std::optional<plan::Profile> profile = kept_profile_of(*tiny_.engine, &problem);
    EXPECT_EQ(problem, "");
    return profile;
  }

  static constexpr const char* kLongAgo = "2001-02-03T04:05:06Z";
  test::TempFolder folder_;
  test_support::TinyEngine tiny_;
  ProfileRequest request_;
};

TEST_F(ProfileHere, WhatIsKeptIsNotMeasuredAgain) {
  EXPECT_FALSE(kept().has_value());
  const ProfileResult first = profile();
  EXPECT_GT(first.n_measured, 0);
  EXPECT_EQ(first.kept_path, plan::kept_profile_path(first.profile.machine, first.profile.lanes));
  ASSERT_TRUE(kept().has_value());  // an engine finds it by its lanes and its arithmetic
  EXPECT_EQ(kept()->taken, first.profile.taken);

  age(first.profile);
  const ProfileResult second = profile();
  EXPECT_EQ(second.problem, "");
  EXPECT_EQ(second.n_measured, 0);
  EXPECT_EQ(second.profile.taken, kLongAgo);
  EXPECT_EQ(second.profile.load_average, 1000.0);
  ASSERT_EQ(second.profile.cores.size(), 1u);
  EXPECT_EQ(second.profile.cores[0].gb_s, 7.0);

  // Whoever measures again and keeps nothing leaves what is there.
  request_.again = true;
  request_.keeps = false;
  const ProfileResult third = profile();
  EXPECT_EQ(third.n_measured, first.n_measured);
  EXPECT_NE(third.profile.taken, kLongAgo);
  EXPECT_EQ(third.kept_path, "");
  EXPECT_EQ(kept()->taken, kLongAgo);

  const PassPredictions predicted =
      predict_passes(third.profile, request_.models, request_.kv_type);
  ASSERT_EQ(predicted.passes.size(), 3u);  // a name has no file whose passes could be predicted
  ASSERT_EQ(predicted.problems.size(), 1u);
  EXPECT_NE(predicted.problems.front().find("qwen2-0.5b"), std::string::npos);
  for (const PassPrediction& pass : predicted.passes) {
    EXPECT_EQ(pass.model, request_.models.front());
    EXPECT_GT(pass.us, 0.0);
    EXPECT_TRUE(std::isfinite(pass.us));
  }
}

// Where more wanted to run than there are cores, what is kept is wanted again, behind what is
// missing.
TEST_F(ProfileHere, WhatABusyMachineMeasuredIsWantedAgain) {
  const ProfileResult first = profile();
  const auto n_kept = static_cast<int>(first.profile.ops.size());
  age(first.profile, 0.0);
  EXPECT_EQ(profile().profile.n_left_out, first.profile.n_left_out);
  age(first.profile, 1e6);
  const ProfileResult again = profile();
  EXPECT_EQ(again.profile.n_left_out, first.profile.n_left_out + n_kept);
  EXPECT_EQ(again.profile.load_average, 1e6) << "no op was measured again";
  EXPECT_EQ(static_cast<int>(again.profile.ops.size()), n_kept);
  // What was taken again since is not wanted any more.
  plan::Profile partly = first.profile;
  age(partly, 1e6);
  for (size_t i = 0; i < partly.ops.size(); ++i) {
    partly.ops[i].spread = 0.0;
    partly.ops[i].busy_load = i == 0 ? 1e6 : 0.0;
  }
  partly.load_average = 1e6;
  plan::keep_profile(partly);
  EXPECT_EQ(profile().profile.n_left_out, first.profile.n_left_out + 1);
}

// What one lane cannot run, or what was not measured on it, says nothing about the other passes.
TEST_F(ProfileHere, PassesThatCannotBePredictedAreLeftOutAlone) {
  plan::Profile measured = profile().profile;
  request_.models.resize(1);
  measured.lanes.push_back({"npu", {}, 1, true});
  for (const auto& op : std::vector<plan::OpTime>(measured.ops)) {
    if (op.shape.op == model::OpKind::kAttention && op.shape.phase == plan::Phase::kStep) continue;
    measured.ops.push_back(op);
    measured.ops.back().lane = 1;
  }
  measured.refusals = {{1, model::OpKind::kAttention, plan::Phase::kStep}};
  const auto expect = [&](size_t n_passes, const char* problem) {
    const PassPredictions found = predict_passes(measured, request_.models, request_.kv_type);
    EXPECT_EQ(found.passes.size(), n_passes);
    ASSERT_EQ(found.problems.size(), 1u);
    EXPECT_NE(found.problems.front().find(problem), std::string::npos) << found.problems.front();
  };
  expect(5, "Lane 1 refuses the op 'attention' (phase step)");

  measured.refusals.clear();
  std::erase_if(measured.ops, [](const plan::OpTime& time) {
    return time.lane == 1 && time.shape.op == model::OpKind::kAttention;
  });
  expect(3, "no times of the op 'attention' on lane 1");

  request_.models = {folder_.file("none.gguf")};
  EXPECT_THROW(predict_passes(measured, request_.models, request_.kv_type), Error);
}

TEST_F(ProfileHere, AProfileStaysWhereTheDiskCannotBeMeasured) {
  request_.with_storage = true;
  request_.storage_way_out = "Find a larger disk.";
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 8u << 20;  // has room for a profile
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message = test::message_of<Error>([&] { profile(); });
  EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(message.find(request_.storage_way_out), std::string::npos) << message;
  ASSERT_TRUE(kept().has_value());
  EXPECT_FALSE(kept()->ops.empty());
  EXPECT_FALSE(kept()->storage.has_value());
}

}  // namespace
}  // namespace troika::measure
