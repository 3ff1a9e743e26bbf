#include "fetch/part_file.h"

#include <gtest/gtest.h>

#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "tests/support/temp_folder.h"

namespace {
// Is the error that locks fail with; 0: they do what the system does.
std::atomic<int> g_flock_error{0};
}  // namespace

// Takes the place of the C library's function in this program of tests.
extern "C" int flock(int descriptor, int operation) noexcept {
  if (g_flock_error == 0) return static_cast<int>(::syscall(SYS_flock, descriptor, operation));
  errno = g_flock_error;
  return -1;
}

namespace troika::fetch {
namespace {

using test::message_of;
using test::read_whole;
using test::TempFolder;
using test::write_whole;

const auto kNobody = [] { FAIL() << "nobody else has it"; };
const ProgressFunction kQuiet = [](uint64_t, uint64_t) {};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(PartFile, GrowsStaysAndGoesOn) {
  TempFolder folder;
  const std::string path = folder.file("a.part");
  { PartFile part(path, kNobody, kQuiet); }
  EXPECT_EQ(folder.n_files(), 0u);  // shows that an empty part is not kept
  {
    PartFile part(path, kNobody, kQuiet);
    part.append(bytes_of("xy"));
    part.restart();
    part.append(bytes_of("a"));
    const PartFile::Mark mark = part.mark();
    part.append(bytes_of("xyz"));
    part.back_to(mark);
  }
  PartFile part(path, kNobody, kQuiet);
  EXPECT_EQ(part.bytes(), 1u);
  part.append(bytes_of("bc"));
  EXPECT_EQ(part.hash(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  part.commit(folder.file("a"));
  EXPECT_EQ(read_whole(folder.file("a")), "abc");
  EXPECT_EQ(folder.n_files(), 1u);
}

TEST(PartFile, TheHashGoesOnFromItsStart) {
  TempFolder folder;
  Sha1 start;
  start.add("ab");
  PartFile part(folder.file("a.part"), kNobody, kQuiet, start);
  part.append(bytes_of("x"));
  part.restart();
  part.append(bytes_of("c"));
  EXPECT_EQ(part.hash(), "a9993e364706816aba3e25717850c26c9cd0d89d");  // of "abc"
}

// Whoever waited for a part begins one of its own, because the other one has another name or is
// gone by then.
TEST(PartFile, OneAtATime) {
  for (const bool commits : {true, false}) {
    TempFolder folder;
    const std::string path = folder.file("a.part");
    auto first = std::make_unique<PartFile>(path, kNobody, kQuiet);
    first->append(bytes_of("abc"));
    std::atomic<bool> waits{false};
    uint64_t n_found = 99;
    std::thread other([&] {
      PartFile second(
          path, [&] { waits = true; }, kQuiet);
      n_found = second.bytes();
      second.append(bytes_of("d"));
    });
    while (!waits) std::this_thread::yield();
    commits ? first->commit(folder.file("a")) : first->remove();
    other.join();
    EXPECT_EQ(n_found, 0u);
    EXPECT_EQ(read_whole(folder.file("a")), commits ? "abc" : "");
    EXPECT_EQ(read_whole(path), "d");
    first.reset();
    EXPECT_EQ(read_whole(path), "d");
  }
}

// 'troika cache --remove' does not ask for the lock, so a part may be replaced by that of the next
// download.
TEST(PartFile, AnothersFileOfTheSameNameIsLeftAlone) {
  for (const bool commits : {true, false}) {
    TempFolder folder;
    const std::string path = folder.file("a.part");
    PartFile first(path, kNobody, kQuiet);
    first.append(bytes_of("abc"));
    std::filesystem::remove(path);
    PartFile second(path, kNobody, kQuiet);
    second.append(bytes_of("d"));
    if (commits) {
      const std::string message = message_of<Error>([&] { first.commit(folder.file("a")); });
      EXPECT_NE(message.find("again"), std::string::npos) << message;
    } else {
      first.remove();
    }
    EXPECT_EQ(folder.n_files(), 1u);
    EXPECT_EQ(read_whole(path), "d");
  }
}

TEST(PartFile, AnEmptyOneLeavesAnothersFileAlone) {
  TempFolder folder;
  const std::string path = folder.file("a.part");
  {
    PartFile first(path, kNobody, kQuiet);
    std::filesystem::remove(path);
    write_whole(path, "d");
  }
  EXPECT_EQ(read_whole(path), "d");
  PartFile last(path, kNobody, kQuiet);
  std::filesystem::remove(path);
  EXPECT_THROW(last.commit(folder.file("a")), Error);
  EXPECT_EQ(folder.n_files(), 0u);
}

// A home on a network may know no locks.
TEST(PartFile, NobodyWaitsWhereThereAreNoLocks) {
  for (const int error : {ENOSYS, ENOLCK, EOPNOTSUPP, EBADF}) {
    TempFolder folder;
    const auto make = [&] {
      PartFile part(folder.file("a.part"), kNobody, kQuiet);
      part.append(bytes_of("abc"));
      part.commit(folder.file("a"));
    };
    g_flock_error = error;
    const std::string message = message_of<Error>(make);
    g_flock_error = 0;
    EXPECT_EQ(message.find("lock it") != std::string::npos, error == EBADF) << message;
    EXPECT_EQ(read_whole(folder.file("a")), error == EBADF ? "" : "abc");
  }
}

TEST(PartFile, WhatSomebodyHasIsNotRemoved) {
  TempFolder folder;
  const std::string path = folder.file("a.part");
  {
    PartFile part(path, kNobody, kQuiet);
    part.append(bytes_of("abc"));
    PartFile::remove_unused(path);
    EXPECT_EQ(read_whole(path), "abc");
  }
  g_flock_error = ENOLCK;
  PartFile::remove_unused(path);
  g_flock_error = 0;
  EXPECT_EQ(read_whole(path), "abc");
  std::filesystem::create_symlink(path, folder.file("b.part"));
  PartFile::remove_unused(folder.file("b.part"));
  EXPECT_EQ(folder.n_files(), 2u);
  PartFile::remove_unused(path);
  PartFile::remove_unused(folder.file("none.part"));
  EXPECT_EQ(folder.n_files(), 1u);
}

TEST(PartFile, WhereItCannotBe) {
  TempFolder folder;
  EXPECT_THROW(PartFile(folder.file("none/a.part"), kNobody, kQuiet), Error);
  write_whole(folder.file("target"), "precious");
  std::filesystem::create_symlink("target", folder.file("a.part"));
  EXPECT_THROW(PartFile(folder.file("a.part"), kNobody, kQuiet), Error);
}

}  // namespace
}  // namespace troika::fetch
