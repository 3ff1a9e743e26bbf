// Measures host lanes and the disk of this machine, as profiles of it are.

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>
#include <string>

#include "base/cpu_features.h"
#include "base/error.h"
#include "kernels/choose.h"
#include "lanes/host/host_machine.h"
#include "solve/profile/profile_machine.h"
#include "solve/profile/profile_storage.h"
#include "tests/support/temp_folder.h"

namespace troika::measure {
namespace {

using model::OpKind;

TEST(ProfileHost, EveryOpRunsOnHostLanes) {
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
  plan::Plan plan;
  plan.lanes = {{{}, 1}, {{}, 1}};  // makes two lanes even where there is one core
  lanes::HostMachine machine(kernels.table, plan);
  solve::ProfileOptions options;
  options.arena_bytes = 4u << 20;
  options.budget_us = 1e12;
  options.patience = {1, 2, 2, 0.0};
  options.shapes = {{OpKind::kLinear, tensor::Type::kQ4_0, 64, 256, 3, 0, 0},
                    {OpKind::kLinear, tensor::Type::kF32, 64, 256, 1, 0, 0},
                    {OpKind::kEmbed, tensor::Type::kQ8_0, 256, 256, 2, 0, 0},
                    {OpKind::kRmsNorm, tensor::Type::kF32, 256, 256, 2, 0, 0},
                    {OpKind::kLayerNorm, tensor::Type::kF32, 256, 256, 2, 0, 0},
                    {OpKind::kGate, tensor::Type::kF32, 256, 256, 2, 0, 0},
                    {OpKind::kActivate, tensor::Type::kF32, 256, 256, 2, 0, 0},
                    {OpKind::kAdd, tensor::Type::kF32, 256, 256, 2, 0, 0},
                    {OpKind::kSelect, tensor::Type::kF32, 256, 256, 2, 0, 0},
                    {OpKind::kRope, tensor::Type::kF32, 256, 256, 2, 0, 64},
                    {OpKind::kAttention, tensor::Type::kF16, 256, 128, 3, 40, 64},
                    {OpKind::kAttention, tensor::Type::kQ8_0, 256, 128, 3, 3, 64}};
  const RealClock wall;
  const plan::Profile profile = solve::profile_machine(machine, options, nullptr, wall, {});
  EXPECT_EQ(profile.ops.size(), 2 * options.shapes.size());
  for (const plan::OpTime& time : profile.ops) {
    EXPECT_GT(time.us, 0.0);
    EXPECT_TRUE(std::isfinite(time.us));
  }
  EXPECT_EQ(profile.bandwidth.size(), 3u);
  EXPECT_EQ(profile.handovers.size(), 2u);
  // What was measured can be written and read back.
  const std::string text = plan::profile_to_json(profile);
  EXPECT_EQ(plan::profile_to_json(plan::profile_from_json(text, "here")), text);
}

TEST(ProfileHost, ADiskThatIsSlowerThanItsTimeGivesARead) {
  const test::TempFolder folder;
  solve::StorageOptions options;
  options.folder = folder.file("");
  options.file_bytes = 1u << 20;
  options.block_bytes = {4096};
  options.range_bytes = {1u << 20};
  options.depths = {1, 4};
  options.each_us = 0.0;
  const plan::Storage storage = solve::profile_storage(options, {});
  EXPECT_EQ(storage.reads.size(), 2u * 2u);  // at each depth, in order and in the range
  for (const plan::DiskRead& read : storage.reads) {
    EXPECT_GT(read.us, 0.0);
    EXPECT_GT(read.mb_s, 0.0);
  }
}

TEST(ProfileHost, StorageIsReadAndNothingStays) {
  const test::TempFolder folder;
  solve::StorageOptions options;
  options.folder = folder.file("");
  options.file_bytes = 2u << 20;
  options.block_bytes = {4096, 1u << 20};
  options.range_bytes = {1u << 20};
  options.depths = {1, 2};
  options.each_us = 1000.0;
  const plan::Storage storage = solve::profile_storage(options, {});
  EXPECT_EQ(storage.reads.size(), 2u * 2u * 2u);
  for (const plan::DiskRead& read : storage.reads) {
    EXPECT_GT(read.us, 0.0);
    EXPECT_GT(read.mb_s, 0.0);
  }
  EXPECT_EQ(folder.n_files(), 0u);
}

// Plans of neurons ask how fast the model's own file is read.
TEST(ProfileHost, P8AFileThatIsThereIsReadInOrderAndAtRandom) {
  const test::TempFolder folder;
  const std::string path = folder.file("model.gguf");
  EXPECT_NE(test::message_of<Error>([&] { solve::profile_file(path, {}); }).find(path),
            std::string::npos);
  const auto write = [&](uint64_t bytes) {
    const std::string piece(1u << 20, 'x');
    std::ofstream file(path, std::ios::binary);
    for (uint64_t at = 0; at < bytes; at += piece.size()) file << piece;
  };
  write(solve::kLeastProfiledFile / 2);
  EXPECT_TRUE(solve::profile_file(path, {}).reads.empty());
  write(solve::kLeastProfiledFile);
  const plan::Storage storage = solve::profile_file(path, {});
  ASSERT_EQ(storage.reads.size(), 2u * 6u);
  for (const plan::DiskRead& read : storage.reads) {
    EXPECT_GT(read.mb_s, 0.0);
    EXPECT_EQ(read.range_bytes, solve::kLeastProfiledFile);
    EXPECT_EQ(read.depth, storage.reads.front().depth);
  }
  EXPECT_TRUE(storage.reads[1].is_random && !storage.reads[0].is_random);
}

// The last write that still fits is short and sets no error, so the reason comes with the next one.
TEST(ProfileHost, AFileThatCannotBeWrittenWholeIsToldWithItsReason) {
  const test::TempFolder folder;
  solve::StorageOptions options;
  options.folder = folder.file("");
  options.file_bytes = 2u << 20;
  options.block_bytes = {4096};
  options.range_bytes = {1u << 20};
  options.depths = {1};
  options.each_us = 0.0;
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = (1u << 20) + (1u << 19);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message = test::message_of<Error>([&] { solve::profile_storage(options, {}); });
  EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(message.find(std::strerror(EFBIG)), std::string::npos) << message;
  EXPECT_EQ(folder.n_files(), 0u);
}

}  // namespace
}  // namespace troika::measure
