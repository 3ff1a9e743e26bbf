#include "plan/profile.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/system.h"
#include "plan/profile_cache.h"
#include "tests/support/temp_folder.h"

namespace troika::plan {
namespace {

using model::OpKind;

Profile example() {
  Profile profile;
  profile.machine = {"A \"quoted\" CPU", 8, "avx2 fma", 34359738368u, "Linux 6.1", "avx2, q8"};
  profile.taken = "2026-01-31T12:00:00Z";
  profile.load_average = 0.25;
  profile.n_left_out = 3;
  profile.lanes = {{"host 0", {0}, 1, false}, {"host 1,2", {1, 2}, 2, true}};
  profile.ops = {
      {0, {OpKind::kLinear, tensor::Type::kQ4_0, 4096, 1024, 8, 0, 0}, 123.4, 0.05, 7, "a b", 1.25},
      {1, {OpKind::kAttention, tensor::Type::kF16, 512, 128, 4, 64, 64}, 5.5, 0.0, 3, "", 1.0},
      {1, {OpKind::kRmsNorm, tensor::Type::kF32, 512, 512, 1, 0, 0}, 0.75, 0.5, 9, "", 1.0}};
  profile.ops[0].preparation = {44.5, 22.25, 1.5};
  profile.ops[0].busy_load = 12.5;
  profile.refusals = {{1, OpKind::kRope, Phase::kStep}};
  profile.starts = {{0, 1.5}, {1, 0.0}};
  profile.bandwidth = {{{0}, {10.5}}, {{0, 1}, {6.25, 7.5}}};
  profile.handovers = {{0, 1, 2.25}};
  profile.cores = {{0, 99.5, 8.5}};
  profile.storage = Storage{"/tmp/x", true, {{4096, 1048576, true, 4, 81.5, 48.25}}};
  return profile;
}

TEST(Profile, ComesBackFromItsJson) {
  const Profile before = example();
  const std::string text = profile_to_json(before);
  const Profile after = profile_from_json(text, "p.json");
  EXPECT_EQ(profile_to_json(after), text);
  EXPECT_EQ(after.machine, before.machine);
  EXPECT_EQ(after.lanes, before.lanes);
  EXPECT_EQ(after.n_left_out, 3);
  ASSERT_EQ(after.ops.size(), 3u);
  EXPECT_EQ(after.ops[1].shape, before.ops[1].shape);
  EXPECT_EQ(after.ops[0].us, 123.4);
  EXPECT_EQ(after.ops[0].n_runs, 7);
  EXPECT_EQ(after.ops[0].busy_load, 12.5);
  EXPECT_EQ(after.ops[1].busy_load, 0.0);
  EXPECT_EQ(after.ops[0].arrangement, "a b");
  EXPECT_EQ(after.ops[0].arrangement_gain, 1.25);
  EXPECT_EQ(after.ops[1].arrangement, "");
  EXPECT_EQ(after.ops[0].preparation, before.ops[0].preparation);
  EXPECT_EQ(after.ops[1].preparation, plan::PreparationTime());
  EXPECT_EQ(after.bandwidth[1].gb_s, before.bandwidth[1].gb_s);
  EXPECT_EQ(after.handovers[0].us, 2.25);
  EXPECT_EQ(after.cores[0].gops, 99.5);
  ASSERT_TRUE(after.storage.has_value());
  EXPECT_EQ(after.storage->reads[0].mb_s, 48.25);
  EXPECT_TRUE(after.storage->is_direct);
  EXPECT_EQ(after.refusals, before.refusals);
  EXPECT_TRUE(after.refuses(1, OpKind::kRope, Phase::kStep));
  EXPECT_FALSE(after.refuses(1, OpKind::kRope, Phase::kPrompt));
  EXPECT_FALSE(after.refuses(0, OpKind::kRope, Phase::kStep));
  EXPECT_EQ(after.start_us(0), 1.5);
  EXPECT_NE(after.find(1, before.ops[1].shape), nullptr);
  EXPECT_EQ(after.find(0, before.ops[1].shape), nullptr);
}

TEST(Profile, N8OlderFilesCallAnArrangementALayout) {
  const std::string text = profile_to_json(example());
  std::string older = text;
  for (const auto& [from, to] :
       {std::pair<std::string, const char*>("\"arrangement\":", "\"layout\":"),
        {"\"arrangement_gain\":", "\"layout_gain\":"}}) {
    const size_t at = older.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    older.replace(at, from.size(), to);
  }
  EXPECT_EQ(profile_to_json(profile_from_json(older, "p.json")), text);
}

TEST(Profile, WithoutStorageAndOps) {
  Profile profile = example();
  profile.storage.reset();
  profile.ops.clear();
  const Profile after = profile_from_json(profile_to_json(profile), "p.json");
  EXPECT_FALSE(after.storage.has_value());
  EXPECT_TRUE(after.ops.empty());
}

TEST(Profile, AFolderWhoseNameIsNoUtf8IsWritten) {
  Profile profile = example();
  profile.storage->folder = "/tmp/\xff";
  const Profile after = profile_from_json(profile_to_json(profile), "p.json");
  EXPECT_EQ(after.storage->folder, "/tmp/\xef\xbf\xbd");
}

TEST(Profile, ABrokenFileIsRefusedByFileAndField) {
  struct Fault {
    const char* from;
    const char* to;
    const char* field;
  };
  const Fault faults[] = {
      {"troika-profile", "troika-plan", "'format'"},
      {"\"version\": 3", "\"version\": 1", "'version' is 1"},
      {"\"n_cores\":8", "\"n_cores\":0", "'machine.n_cores'"},
      {"\"n_cores\":8", "\"n_cores\":\"8\"", "'machine.n_cores' must be a whole number"},
      {"\"cpu\":", "\"cpx\":", "'machine.cpu' is missing"},
      {"\"lane\":1,\"op\":\"attention\"", "\"lane\":2,\"op\":\"attention\"", "'ops[1].lane'"},
      {"\"op\":\"linear\"", "\"op\":\"convolution\"", "unknown op 'convolution'"},
      {"\"type\":\"Q4_0\"", "\"type\":\"Q3_9\"", "'ops[0].type'"},
      {"\"us\":123.4", "\"us\":-123.4", "'ops[0].us'"},
      {"\"us\":123.4", "\"us\":0", "'ops[0].us' is 0"},
      {"\"us\":123.4", "\"us\":1e300", "'ops[0].us'"},
      {"\"us\":123.4", "\"us\":1e-307", "'ops[0].us' holds 1e-307, but nothing"},
      {"\"build_us\":44.5", "\"build_us\":1e-7", "'ops[0].build_us' holds 1e-07"},
      {"\"mb_s\":48.25", "\"mb_s\":1e-320", "'storage.reads[0].mb_s' holds"},
      {"\"gops\":99.5", "\"gops\":1e-9", "'cores[0].gops' holds"},
      {"\"gb_s\":[6.25,7.5]", "\"gb_s\":[6.25,1e-9]", "'bandwidth[1].gb_s' holds"},
      {"\"us\":123.4", "\"us\":null", "'ops[0].us'"},
      {"\"n_rows\":4096", "\"n_rows\":4096.5", "'ops[0].n_rows'"},
      {"\"n_rows\":4096", "\"n_rows\":99999999999", "'ops[0].n_rows'"},
      {"\"context\":64", "\"context\":3", "'ops[1].context'"},
      {"\"gb_s\":[6.25,7.5]", "\"gb_s\":[6.25]", "'bandwidth[1].gb_s'"},
      {"\"gb_s\":[6.25,7.5]", "\"gb_s\":7", "'bandwidth[1].gb_s' must be an array"},
      {"\"is_direct\": true", "\"is_direct\": 1", "'storage.is_direct'"},
      {"\"lane\":1,\"op\":\"rope\"", "\"lane\":7,\"op\":\"rope\"", "'refusals[0].lane'"},
      {"\"depth\":4", "\"depth\":0", "'storage.reads[0].depth'"},
      {"\"n_threads\":2", "\"n_threads\":-1", "'lanes[1].n_threads'"},
  };
  const std::string good = profile_to_json(example());
  for (const Fault& fault : faults) {
    std::string text = good;
    const size_t at = text.find(fault.from);
    ASSERT_NE(at, std::string::npos) << fault.from;
    text.replace(at, std::string(fault.from).size(), fault.to);
    const std::string message =
        test::message_of<Error>([&] { profile_from_json(text, "my/p.json"); });
    EXPECT_NE(message.find("my/p.json"), std::string::npos) << fault.to << ": " << message;
    EXPECT_NE(message.find(fault.field), std::string::npos) << fault.to << ": " << message;
  }
}

TEST(Profile, TheSmallestNumbersAreWrittenAsNumbers) {
  Profile profile = example();
  profile.starts = {{0, 1e-310}, {1, 5e-324}};
  profile.ops[0].us = 1e-6;  // the least that is read
  const std::string text = profile_to_json(profile);
  const Profile after = profile_from_json(text, "p.json");
  EXPECT_EQ(after.start_us(0), 1e-310);
  EXPECT_EQ(after.ops[0].us, 1e-6);
  EXPECT_EQ(profile_to_json(after), text);
}

TEST(Profile, WhatIsNoJsonIsRefused) {
  const std::string good = profile_to_json(example());
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{}"), std::string("7"),
        good.substr(0, good.size() / 2), std::string(100000, '[')}) {
    EXPECT_THROW(profile_from_json(text, "p.json"), Error);
  }
  EXPECT_THROW(load_profile("/nowhere/p.json"), Error);
  EXPECT_THROW(load_profile("/"), Error);
  EXPECT_THROW(load_profile("/dev/zero"), Error);
}

TEST(Profile, CountsBytesAndOperations) {
  const OpShape product = {OpKind::kLinear, tensor::Type::kQ4_0, 64, 32, 2, 0, 0};
  EXPECT_EQ(op_bytes(product), 64 * 18 + 4 * 2 * (64 + 32));  // a block of 32 has 18 bytes
  EXPECT_EQ(op_flops(product), 2 * 2 * 64 * 32);
  // The two tokens see 9 and 10 positions.
  const OpShape attention = {OpKind::kAttention, tensor::Type::kF16, 128, 64, 2, 10, 64};
  EXPECT_EQ(op_flops(attention), 4 * 19 * 128);
}

class KeptProfile : public testing::Test {
 protected:
  KeptProfile() { setenv("XDG_CACHE_HOME", folder_.file("cache").c_str(), 1); }
  ~KeptProfile() override { unsetenv("XDG_CACHE_HOME"); }
  test::TempFolder folder_;
};

TEST_F(KeptProfile, IsFoundForTheSameMachineAndLanesOnly) {
  const Profile profile = example();
  EXPECT_FALSE(kept_profile(profile.machine, profile.lanes, nullptr).has_value());
  const std::string path = keep_profile(profile);
  EXPECT_EQ(path.rfind(folder_.file("cache") + "/troika/profile-", 0), 0u);
  EXPECT_TRUE(kept_profile(profile.machine, profile.lanes, nullptr).has_value());
  MachineIdentity other = profile.machine;
  other.kernel = "Linux 6.2";
  EXPECT_FALSE(kept_profile(other, profile.lanes, nullptr).has_value());
  EXPECT_FALSE(kept_profile(profile.machine, {profile.lanes[0]}, nullptr).has_value());
}

// "opencl:0" is whatever the system lists first: another device, or the same one with a newer
// driver, has other times.
TEST_F(KeptProfile, IsOfTheDeviceAndTheDriverThatItWasTakenOn) {
  Profile profile = example();
  profile.lanes[1].name = "opencl:0";
  const std::vector<ProfileLane> unknown = profile.lanes;
  profile.lanes[1].identity = "A \"GPU\" of Somebody, OpenCL 3.0, driver 1";
  const std::string path = keep_profile(profile);
  ASSERT_TRUE(kept_profile(profile.machine, profile.lanes, nullptr).has_value());
  EXPECT_EQ(load_profile(path).lanes, profile.lanes);
  std::vector<ProfileLane> newer = profile.lanes;
  newer[1].identity.back() = '2';
  for (const std::vector<ProfileLane>& lanes : {newer, unknown}) {
    EXPECT_NE(kept_profile_path(profile.machine, lanes), path);
    EXPECT_FALSE(kept_profile(profile.machine, lanes, nullptr).has_value());
    // Even under the right name it would not be taken.
    test::write_whole(kept_profile_path(profile.machine, lanes), profile_to_json(profile));
    EXPECT_FALSE(kept_profile(profile.machine, lanes, nullptr).has_value());
  }
}

TEST_F(KeptProfile, ABrokenOneCountsAsNoneAndSaysWhy) {
  const Profile profile = example();
  test::write_whole(keep_profile(profile), "{\"format\": 3}");
  std::string problem;
  EXPECT_FALSE(kept_profile(profile.machine, profile.lanes, &problem).has_value());
  EXPECT_NE(problem.find("'format'"), std::string::npos);
}

// Whoever opens a pipe in the usual way waits for its writer.
TEST_F(KeptProfile, APipeInItsPlaceCountsAsNone) {
  const Profile profile = example();
  const std::string path = keep_profile(profile);
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::string problem;
  EXPECT_FALSE(kept_profile(profile.machine, profile.lanes, &problem).has_value());
  EXPECT_NE(problem.find(path), std::string::npos) << problem;
}

// What 'troika profile --again' measures is kept, and a file that somebody names stays as it is.
TEST_F(KeptProfile, OneThatIsNamedIsMeasuredAgainIntoItsFile) {
  const std::string named = folder_.file("named.json");
  const std::string again = fmt::format("'troika profile MODEL -o {}'.", named);
  test::write_whole(named, "{\"format\": 3}");
  const std::string message = test::message_of<Error>([&] { load_profile(named); });
  EXPECT_TRUE(message.ends_with(again)) << message;
  test::write_whole(named, profile_to_json(example()));
  EXPECT_TRUE(load_profile(named).advice.ends_with(again));
  test::write_whole(keep_profile(example()), "{\"format\": 3}");
  std::string problem;
  (void)kept_profile(example().machine, example().lanes, &problem);
  EXPECT_TRUE(problem.ends_with("'troika profile --again'.")) << problem;
}

TEST(ThisMachine, HasAName) {
  const MachineIdentity machine = this_machine();
  EXPECT_EQ(machine.cpu, processor_name());
  EXPECT_GE(machine.n_cores, 1);
  EXPECT_GT(machine.memory_bytes, 0u);
}

}  // namespace
}  // namespace troika::plan
