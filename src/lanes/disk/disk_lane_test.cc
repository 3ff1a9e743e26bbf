#include "lanes/disk/disk_lane.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <liburing.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <deque>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/error.h"
#include "base/random.h"
#include "lanes/machine.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/temp_folder.h"

namespace troika::lanes {
namespace {

std::vector<std::byte> random_bytes(size_t n) {
  std::vector<std::byte> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(random_bits(3, i) & 0xff);
  return bytes;
}

// Says, without the lane, whether this process may have a ring of so many reads and use it.
bool may_use_io_uring(int depth) {
  io_uring ring{};
  if (io_uring_queue_init(static_cast<unsigned>(depth) + 1, &ring, 0) < 0) return false;
  io_uring_probe* const probe = io_uring_get_probe_ring(&ring);
  bool is_usable = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ) != 0;
  io_uring_free_probe(probe);
  io_uring_prep_nop(io_uring_get_sqe(&ring));
  io_uring_cqe* entry = nullptr;
  is_usable = is_usable && io_uring_submit(&ring) == 1 && io_uring_wait_cqe(&ring, &entry) == 0;
  io_uring_queue_exit(&ring);
  return is_usable;
}

// Each test runs with io_uring, and without it as where it is forbidden.
class DiskLaneTest : public testing::TestWithParam<bool> {
 protected:
  DiskLaneTest() : content(random_bytes(1'000'003)), path(folder.file("data")) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(content.data()),
               static_cast<std::streamsize>(content.size()));
    options.files = {path};
    options.may_use_io_uring = GetParam();
  }
  Status read(DiskLane& lane, const std::vector<ReadRequest>& reads) {
    lanes::Run run;
    run.reads = reads;
    Ended waiting;
    const auto task = lane.make_read();
    lane.submit(*task, run, waiting);
    waiting.latch.wait();
    return waiting.status;
  }

  static bool has_note(const DiskLane& lane, std::string_view part) {
    const std::vector<std::string> notes = lane.notes();
    return std::any_of(notes.begin(), notes.end(), [&](const std::string& note) {
      return note.find(part) != std::string::npos;
    });
  }

  test::TempFolder folder;
  std::vector<std::byte> content;
  std::string path;
  DiskOptions options;
};

// Returns memory to which direct reads may go. Tests read to it in turn.
std::span<std::byte> aligned_buffer() {
  alignas(DiskLane::kAlignment) static std::array<std::byte, size_t{1} << 16> buffer;
  return buffer;
}

TEST_P(DiskLaneTest, ReadsTheBytesOfAFile) {
  DiskLane lane(options);
  // The lane uses io_uring wherever this process may, and says why not where it may not.
  const bool may_use = may_use_io_uring(options.depth);
  EXPECT_EQ(has_note(lane, "io_uring cannot be used"), GetParam() && !may_use);
  EXPECT_EQ(lane.info().capabilities, kRead);
  std::vector<std::byte> part(5000);
  ASSERT_EQ(read(lane, {{0, 12345, part.size(), part.data()}}), Status::kDone);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), content.begin() + 12345));
  EXPECT_EQ(lane.n_direct_reads(), 0u);  // the read is not aligned
  EXPECT_GT(lane.n_cached_reads(), 0u);
}

TEST_P(DiskLaneTest, ReadsPastThePageCacheWhereEverythingIsAligned) {
  DiskLane lane(options);
  const std::span<std::byte> buffer = aligned_buffer();
  ASSERT_EQ(read(lane, {{0, 8192, 4096, buffer.data()}, {0, 0, 8192, buffer.data() + 4096}}),
            Status::kDone);
  EXPECT_TRUE(std::equal(buffer.begin(), buffer.begin() + 4096, content.begin() + 8192));
  EXPECT_TRUE(std::equal(buffer.begin() + 4096, buffer.begin() + 12288, content.begin()));
  // Either the reads were direct, or the lane says that none can be.
  const bool is_refused = has_note(lane, "the file system does not read past the page cache");
  EXPECT_EQ(lane.n_direct_reads(), is_refused ? 0u : 2u);
  EXPECT_EQ(lane.n_cached_reads(), is_refused ? 2u : 0u);
}

// A file system may take the flag of direct reads, and refuse the reads.
TEST_P(DiskLaneTest, P10WhatMayNotGoPastThePageCacheGoesThroughIt) {
  std::atomic<int> n_calls = 0;
  options.spoil = [&](const ReadRequest&, int64_t returned) -> int64_t {
    return n_calls++ == 0 ? -EINVAL : returned;
  };
  DiskLane lane(options);
  if (has_note(lane, "does not read past the page cache")) GTEST_SKIP() << "Nothing is direct.";
  const std::span<std::byte> buffer = aligned_buffer();
  const std::vector<ReadRequest> two = {{0, 8192, 4096, buffer.data()},
                                        {0, 0, 8192, buffer.data() + 4096}};
  ASSERT_EQ(read(lane, two), Status::kDone) << lane.problem();
  EXPECT_TRUE(std::equal(buffer.begin(), buffer.begin() + 4096, content.begin() + 8192));
  EXPECT_TRUE(std::equal(buffer.begin() + 4096, buffer.begin() + 12288, content.begin()));
  EXPECT_TRUE(has_note(lane, "refused to read past the page cache"));
  // The second read may have been under way when the first was refused.
  const uint64_t n_direct = lane.n_direct_reads();
  EXPECT_LE(n_direct, 1u);
  EXPECT_GE(lane.n_cached_reads(), 1u);
  ASSERT_EQ(read(lane, two), Status::kDone);
  EXPECT_EQ(lane.n_direct_reads(), n_direct);
}

TEST_P(DiskLaneTest, ManyReadsAreUnderWayAtOnce) {
  options.depth = 8;
  DiskLane lane(options);
  constexpr size_t kReads = 500;
  constexpr size_t kBytes = 777;
  std::vector<std::byte> all(kReads * kBytes);
  std::vector<ReadRequest> reads;
  for (size_t i = 0; i < kReads; ++i) {
    reads.push_back(
        {0, random_bits(9, i) % (content.size() - kBytes), kBytes, all.data() + i * kBytes});
  }
  // The ten tasks have fifty reads each, and none of them waits for another.
  std::vector<Ended> waiting(10);
  const auto task = lane.make_read();
  std::vector<lanes::Run> runs(waiting.size());
  for (size_t i = 0; i < waiting.size(); ++i) {
    runs[i].reads = std::span<const ReadRequest>(reads).subspan(i * 50, 50);
    lane.submit(*task, runs[i], waiting[i]);
  }
  for (Ended& w : waiting) {
    w.latch.wait();
    EXPECT_EQ(w.status, Status::kDone);
  }
  for (const ReadRequest& r : reads) {
    EXPECT_TRUE(
        std::equal(r.to, r.to + kBytes, content.begin() + static_cast<ptrdiff_t>(r.offset)));
  }
}

TEST_P(DiskLaneTest, AFileThatWasCutShortIsAFailureThatSaysWhere) {
  DiskLane lane(options);
  std::vector<std::byte> part(4096);
  EXPECT_EQ(read(lane, {{0, 0, 100, part.data()}, {0, 1'000'000, 100, part.data() + 100}}),
            Status::kFailed);
  EXPECT_NE(lane.problem().find("ends at byte 1000003"), std::string::npos) << lane.problem();
  EXPECT_NE(lane.problem().find(path), std::string::npos);
  // The lane works on after the failure.
  EXPECT_EQ(read(lane, {{0, 0, 100, part.data()}}), Status::kDone);
}

TEST_P(DiskLaneTest, ADescriptorThatWasClosedIsAFailure) {
  options.may_read_directly = false;
  DiskLane lane(options);
  // The test closes the lane's descriptor, as a program that closes descriptors of others does.
  int descriptor = -1;
  DIR* const open_files = opendir("/proc/self/fd");
  for (const dirent* entry = readdir(open_files); entry != nullptr; entry = readdir(open_files)) {
    char target[4096] = {};
    const std::string link = std::string("/proc/self/fd/") + entry->d_name;
    if (readlink(link.c_str(), target, sizeof(target) - 1) > 0 && path == target) {
      descriptor = std::stoi(entry->d_name);
    }
  }
  closedir(open_files);
  ASSERT_GE(descriptor, 0);
  ASSERT_EQ(dup2(open("/dev", O_RDONLY | O_DIRECTORY), descriptor), descriptor);
  std::vector<std::byte> part(100);
  EXPECT_EQ(read(lane, {{0, 0, 100, part.data()}}), Status::kFailed);
  EXPECT_NE(lane.problem().find("cannot be read"), std::string::npos) << lane.problem();
}

TEST_P(DiskLaneTest, ATaskWithoutReadsEndsAtOnce) {
  DiskLane lane(options);
  EXPECT_EQ(read(lane, {}), Status::kDone);
}

TEST_P(DiskLaneTest, ACompletionMaySubmitTheNextTask) {
  DiskLane lane(options);
  struct Chain : Completion {
    void finished(Status) override {
      if (--n_left == 0) {
        latch.open();
      } else {
        lane->submit(*task, run, *this);
      }
    }
    DiskLane* lane = nullptr;
    std::unique_ptr<Executable> task;
    lanes::Run run;
    int n_left = 200;
    Latch latch;
  };
  std::byte byte{};
  const std::vector<ReadRequest> one = {{0, 1000, 1, &byte}};
  Chain chain;
  chain.lane = &lane;
  chain.task = lane.make_read();
  chain.run.reads = one;
  lane.submit(*chain.task, chain.run, chain);
  chain.latch.wait();
  EXPECT_EQ(byte, content[1000]);
}

TEST_P(DiskLaneTest, TheEndOfTheLaneWaitsForItsReads) {
  std::vector<std::byte> all(content.size());
  std::vector<ReadRequest> reads;
  for (size_t i = 0; i < 100; ++i)
    reads.push_back({0, i * 10'000, 10'000, all.data() + i * 10'000});
  lanes::Run run;
  run.reads = reads;
  Ended waiting;
  {
    DiskLane lane(options);
    const auto task = lane.make_read();
    lane.submit(*task, run, waiting);
  }
  EXPECT_EQ(waiting.status, Status::kDone);
  EXPECT_TRUE(std::equal(all.begin(), all.begin() + 1'000'000, content.begin()));
}

TEST_P(DiskLaneTest, AMissingFileIsASentence) {
  options.files.push_back(folder.file("nothing"));
  try {
    const DiskLane lane(options);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("nothing"), std::string::npos) << error.what();
  }
}

// Forbids a system call to this thread and those that it makes, as sandboxes do. Returns false
// where the system has no filters.
bool forbid(unsigned call) {
  const sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {static_cast<unsigned short>(std::size(program)),
                             const_cast<sock_filter*>(program)};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Containers forbid io_uring, some of them only a part of it.
TEST(DiskLane, P10WhereIoUringIsForbiddenAThreadReads) {
  const test::TempFolder folder;
  DiskOptions options;
  options.files = {folder.file("data")};
  test::write_whole(options.files.front(), "0123456789");
  for (const long call : {SYS_io_uring_setup, SYS_io_uring_enter}) {
    bool can_forbid = false;
    Status status = Status::kPending;
    std::vector<std::string> notes;
    char text[4] = {};
    std::thread sandbox([&] {
      can_forbid = forbid(static_cast<unsigned>(call));
      if (!can_forbid) return;
      DiskLane lane(options);
      notes = lane.notes();
      const ReadRequest read = {0, 3, 4, reinterpret_cast<std::byte*>(text)};
      lanes::Run run;
      run.reads = {&read, 1};
      Ended waiting;
      const auto task = lane.make_read();
      lane.submit(*task, run, waiting);
      waiting.latch.wait();
      status = waiting.status;
    });
    sandbox.join();
    if (!can_forbid) GTEST_SKIP() << "This system has no filters of system calls.";
    ASSERT_EQ(status, Status::kDone);
    EXPECT_EQ(std::string_view(text, 4), "3456");
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_NE(notes.front().find("io_uring cannot be used here"), std::string::npos);
  }
}

TEST_P(DiskLaneTest, P10TasksForWhichMemoryIsReservedAskForNone) {
  if (!test::AllocationCounter::is_on()) GTEST_SKIP() << "A sanitizer counts allocations itself.";
  constexpr size_t kTasks = 6, kReads = 40;
  DiskLane lane(options);
  const auto task = lane.make_read();
  std::vector<ReadRequest> reads(kReads, {0, 100, 8, aligned_buffer().data()});
  lanes::Run run;
  run.reads = reads;
  std::array<Ended, kTasks> tasks;
  lane.reserve(kTasks, kTasks * kReads);
  const test::AllocationCounter counter;
  for (Ended& waiting : tasks) lane.submit(*task, run, waiting);
  for (Ended& waiting : tasks) waiting.latch.wait();
  EXPECT_EQ(counter.n_allocations(), 0);
  for (const Ended& waiting : tasks) EXPECT_EQ(waiting.status, Status::kDone);
}

INSTANTIATE_TEST_SUITE_P(Ways, DiskLaneTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "IoUring" : "Pread"; });

TEST(KeptLine, IsALineWhoseMemoryGrowsAndStays) {
  KeptLine<int> line;
  std::deque<int> known;
  uint64_t n = 0;
  for (int round = 0; round < 3000; ++round) {
    const uint64_t choice = random_bits(3, n++) % 5;
    if (round % 100 == 0) line.reserve(line.size() + choice * 20);
    if (choice < 2) {
      line.push_back(round);
      known.push_back(round);
    } else if (choice == 2) {
      line.push_front(round);
      known.push_front(round);
    } else if (!known.empty()) {
      line.pop_front();
      known.pop_front();
    }
    ASSERT_EQ(line.size(), known.size());
    ASSERT_EQ(line.empty(), known.empty());
    if (!known.empty()) {
      ASSERT_EQ(line.front(), known.front());
    }
  }
}

}  // namespace
}  // namespace troika::lanes
