#include "server/kept/block_folder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "base/error.h"
#include "tests/support/temp_folder.h"

namespace troika::server {
namespace {

namespace fs = std::filesystem;

std::string key_of(int number) {
  std::string key(64, '0');
  for (size_t at = key.size(); number > 0; number /= 10) {
    key[--at] = static_cast<char>('0' + number % 10);
  }
  return key;
}

std::vector<std::byte> content_of(int number, size_t bytes) {
  std::mt19937 random(static_cast<unsigned>(number));
  std::vector<std::byte> content(bytes);
  for (std::byte& b : content) b = static_cast<std::byte>(random() & 0xff);
  return content;
}

TEST(BlockFolder, LetsGoOfWhatNobodyAskedForTheLongest) {
  const test::TempFolder temp;
  const std::string path = temp.file("kept");
  constexpr size_t kBytes = 1000;
  constexpr uint64_t kMost = 4 * (kBytes + 88);
  {
    BlockFolder folder(path, kMost);
    for (int i = 0; i < 4; ++i) folder.write(key_of(i), content_of(i, kBytes));
    EXPECT_EQ(folder.bytes(), kMost);
    EXPECT_EQ(folder.read(key_of(0)), content_of(0, kBytes));
    folder.touch(key_of(0));
    folder.write(key_of(4), content_of(4, kBytes));
    EXPECT_TRUE(folder.has(key_of(0)));
    EXPECT_FALSE(folder.has(key_of(1)));
    EXPECT_LE(folder.bytes(), kMost);
    folder.write(key_of(9), content_of(9, kMost));  // is larger than the folder may be
    EXPECT_FALSE(folder.has(key_of(9)));
    EXPECT_EQ(folder.n_files(), 4u);
  }
  // A smaller folder keeps the latest blocks.
  BlockFolder folder(path, kMost / 2);
  EXPECT_EQ(folder.n_files(), 2u);
  EXPECT_EQ(folder.read(key_of(4)), content_of(4, kBytes));
  EXPECT_EQ(folder.read(key_of(2)), std::nullopt);
}

// A folder that is to be smaller lets go of all files but a few, one after the other.
TEST(BlockFolder, LetsGoOfVeryManyFiles) {
  const test::TempFolder temp;
  const std::string path = temp.file("kept");
  fs::create_directory(path);
  constexpr int kFiles = 5000;
  constexpr int kLast = 10;
  for (int i = 0; i < kFiles; ++i) std::ofstream(path + "/prefix-" + key_of(i)) << "a";
  const auto now = fs::file_time_type::clock::now();
  for (int i = 0; i < kLast; ++i) {
    fs::last_write_time(path + "/prefix-" + key_of(i), now + std::chrono::hours(1 + i % 2));
  }
  BlockFolder folder(path, kLast);
  EXPECT_EQ(folder.n_files(), static_cast<size_t>(kLast));
  EXPECT_EQ(std::distance(fs::directory_iterator(path), fs::directory_iterator()), kLast + 1);
  for (int i = 0; i < kLast; ++i) EXPECT_TRUE(folder.has(key_of(i))) << i;
  EXPECT_EQ(folder.read(key_of(0)), std::nullopt) << "it is no block";
  EXPECT_EQ(folder.n_files(), static_cast<size_t>(kLast - 1));
}

TEST(BlockFolder, LeavesAloneWhatIsNotItsOwn) {
  const test::TempFolder temp;
  const std::string path = temp.file("kept");
  fs::create_directory(path);
  for (const char* const name : {"/letter.txt", "/prefix-abc", "/prefix-"}) {
    test::write_whole(path + name, "mine");
  }
  test::write_whole(path + "/prefix-" + key_of(1) + ".partial-12-3", "half");
  BlockFolder folder(path, 10);
  EXPECT_EQ(folder.n_files(), 0u);
  EXPECT_TRUE(fs::exists(path + "/letter.txt"));
  EXPECT_TRUE(fs::exists(path + "/prefix-abc"));
  EXPECT_FALSE(fs::exists(path + "/prefix-" + key_of(1) + ".partial-12-3"));
}

// Whoever opens a pipe in the usual way waits for its writer.
TEST(BlockFolder, DoesNotWaitForThePipeThatHasTakenAFilesPlace) {
  const test::TempFolder temp;
  BlockFolder folder(temp.file("kept"), 10'000);
  folder.write(key_of(1), content_of(1, 1000));
  const std::string path = temp.file("kept") + "/prefix-" + key_of(1);
  ASSERT_TRUE(fs::remove(path));
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(folder.read(key_of(1)), std::nullopt);
  EXPECT_FALSE(folder.has(key_of(1)));
}

// Whenever a process that writes is killed, the next one finds whole files or none, and no lock.
TEST(BlockFolder, IsCleanAfterAProcessWasKilled) {
  const test::TempFolder temp;
  const std::string path = temp.file("kept");
  constexpr size_t kBytes = 300'000;
  std::mt19937 random(3);
  int n_found = 0;
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        BlockFolder folder(path, 10'000'000);
        for (int i = 0;; ++i) folder.write(key_of(i % 50), content_of(i % 50, kBytes));
      } catch (...) {
      }
      _exit(1);
    }
    // A slow process gets more time in each round, until one was killed behind a whole block.
    const auto patience = static_cast<unsigned>(n_found == 0 ? round + 1 : 1);
    usleep(patience * (1000 + random() % 60'000));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself";
    BlockFolder folder(path, 10'000'000);
    for (int i = 0; i < 50; ++i) {
      if (!folder.has(key_of(i))) continue;
      ASSERT_EQ(folder.read(key_of(i)), content_of(i, kBytes)) << i;
      ++n_found;
    }
    for (const auto& entry : fs::directory_iterator(path)) {
      EXPECT_EQ(entry.path().string().find(".partial-"), std::string::npos) << entry.path();
    }
  }
  EXPECT_GT(n_found, 0);
}

}  // namespace
}  // namespace troika::server
