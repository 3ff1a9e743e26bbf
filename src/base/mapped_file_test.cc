#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/huge_pages.h"
#include "base/threads/team.h"
#include "tests/support/temp_folder.h"

namespace troika {
namespace {

using test::message_of;
using test::TempFolder;
using test::write_whole;

constexpr size_t kPage = 65536;  // is a multiple of every page size in use

TEST(MappedFile, ShowsTheBytes) {
  TempFolder folder;
  write_whole(folder.file("a"), "hello");
  MappedFile file = MappedFile::open(folder.file("a"));
  ASSERT_EQ(file.bytes().size(), 5u);
  EXPECT_EQ(std::to_integer<char>(file.bytes()[1]), 'e');
  EXPECT_FALSE(file.damaged());
  MappedFile moved = std::move(file);
  EXPECT_EQ(moved.bytes().size(), 5u);
  EXPECT_EQ(moved.path(), folder.file("a"));
  EXPECT_FALSE(moved.damaged());
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  TempFolder folder;
  write_whole(folder.file("a"), "");
  EXPECT_TRUE(MappedFile::open(folder.file("a")).bytes().empty());
}

TEST(MappedFile, SaysWhyAFileCannotBeOpened) {
  TempFolder folder;
  EXPECT_NE(message_of<Error>([&] { MappedFile::open(folder.file("no")); }).find("no such file"),
            std::string::npos);
  EXPECT_NE(message_of<Error>([&] { MappedFile::open("/tmp"); }).find("not a regular file"),
            std::string::npos);
  ASSERT_EQ(mkfifo(folder.file("pipe").c_str(), 0600), 0);
  EXPECT_NE(message_of<Error>([&] { MappedFile::open(folder.file("pipe")); }).find("not a regular"),
            std::string::npos);
}

TEST(MappedFile, TruncationReadsAsZerosAndIsSeen) {
  TempFolder folder;
  write_whole(folder.file("a"), std::string(8 * kPage, 'x'));
  write_whole(folder.file("b"), std::string(8 * kPage, 'y'));
  MappedFile file = MappedFile::open(folder.file("a"));
  MappedFile other = MappedFile::open(folder.file("b"));
  ASSERT_EQ(truncate(folder.file("a").c_str(), 2 * kPage), 0);
  EXPECT_EQ(std::to_integer<char>(file.bytes()[6 * kPage + 5]), 0);
  EXPECT_EQ(std::to_integer<char>(file.bytes()[3 * kPage]), 0);
  EXPECT_EQ(std::to_integer<char>(file.bytes()[kPage]), 'x');
  EXPECT_TRUE(file.damaged());
  EXPECT_EQ(std::to_integer<char>(other.bytes()[6 * kPage]), 'y');
  EXPECT_FALSE(other.damaged());
}

TEST(MappedFile, TruncationInsideAPageIsSeenToo) {
  TempFolder folder;
  write_whole(folder.file("a"), "hello");
  MappedFile file = MappedFile::open(folder.file("a"));
  ASSERT_EQ(truncate(folder.file("a").c_str(), 2), 0);
  EXPECT_TRUE(file.damaged());
}

TEST(MappedFile, DamageStaysKnownWhenTheFileGrowsBack) {
  TempFolder folder;
  write_whole(folder.file("a"), std::string(4 * kPage, 'x'));
  MappedFile file = MappedFile::open(folder.file("a"));
  ASSERT_EQ(truncate(folder.file("a").c_str(), 0), 0);
  EXPECT_EQ(std::to_integer<char>(file.bytes()[0]), 0);
  ASSERT_EQ(truncate(folder.file("a").c_str(), 4 * kPage), 0);
  EXPECT_TRUE(file.damaged());
}

std::string text_of_length(size_t size) {
  std::string text(size, ' ');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + (i * 7 + i / 4096) % 26);
  return text;
}

std::string text_in(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(MappedFile, ACopyHasTheBytesAtTheSameAddresses) {
  constexpr size_t kMb = size_t{1} << 20;
  TempFolder folder;
  Team team(2);
  // The sizes are less than a page, huge pages with an odd rest, and more than one piece.
  for (const size_t size : {size_t{5}, 3 * kMb + 17, 70 * kMb + 4097}) {
    const std::string text = text_of_length(size);
    write_whole(folder.file("a"), text);
    MappedFile file = MappedFile::open(folder.file("a"));
    const std::byte* const begin = file.bytes().data();
    EXPECT_EQ(file.copy_into_memory(team), size);
    EXPECT_EQ(file.bytes().data(), begin);
    EXPECT_TRUE(text_in(file) == text) << size;
    // The copy no longer depends on the file.
    write_whole(folder.file("a"), "short");
    EXPECT_TRUE(text_in(file) == text) << size;
    EXPECT_FALSE(file.damaged());
  }
}

TEST(MappedFile, PartsOfItCanBeCopiedAlone) {
  constexpr size_t kSize = 40 * kHugePageBytes + 77;
  TempFolder folder;
  Team team(2);
  const std::string text = text_of_length(kSize);
  write_whole(folder.file("a"), text);
  MappedFile file = MappedFile::open(folder.file("a"));
  // One part reaches from within a huge page into the middle of a small one, the other to the end
  // of the file.
  const size_t copied = file.copy_into_memory(
      team, {{kHugePageBytes + 10, 3 * kHugePageBytes + 10}, {39 * kHugePageBytes, kSize}});
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  EXPECT_EQ(copied, 2 * kHugePageBytes + page + kHugePageBytes + 77);
  EXPECT_TRUE(text_in(file) == text);
  EXPECT_FALSE(file.damaged());
  // What was not copied still comes from the file.
  write_whole(folder.file("a"), "short");
  EXPECT_TRUE(file.damaged());
  const char* const part = reinterpret_cast<const char*>(file.bytes().data()) + kHugePageBytes;
  EXPECT_TRUE(std::string(part, 2 * kHugePageBytes) ==
              text.substr(kHugePageBytes, 2 * kHugePageBytes));
}

TEST(MappedFile, AFileCutShortBeforeItIsCopiedIsDamaged) {
  TempFolder folder;
  write_whole(folder.file("a"), std::string(8 * kPage, 'x'));
  MappedFile file = MappedFile::open(folder.file("a"));
  ASSERT_EQ(truncate(folder.file("a").c_str(), kPage), 0);
  Team team(1);
  EXPECT_LT(file.copy_into_memory(team), 8 * kPage);
  EXPECT_TRUE(file.damaged());
  EXPECT_EQ(std::to_integer<char>(file.bytes()[0]), 'x');
  EXPECT_EQ(std::to_integer<char>(file.bytes()[4 * kPage]), 0);
}

TEST(MappedFile, ACopyIsInHugePagesWhereTheSystemGivesThem) {
  if (!gives_huge_pages()) GTEST_SKIP() << "this system gives no huge pages";
  constexpr size_t kSize = 16 * kHugePageBytes;
  TempFolder folder;
  write_whole(folder.file("a"), std::string(kSize, 'x'));
  MappedFile file = MappedFile::open(folder.file("a"));
  Team team(1);
  ASSERT_EQ(file.copy_into_memory(team), kSize);
  if (huge_bytes_within(file.bytes().data(), kSize) == 0) {
    GTEST_SKIP() << "the system had none free";
  }
  EXPECT_TRUE(file.comes_in_huge_pages());
}

TEST(MappedFileDeathTest, ForeignFaultsStillEndTheProcess) {
  // The style "threadsafe" would execute the test program, which an emulator without binfmt cannot
  // do.
  GTEST_FLAG_SET(death_test_style, "fast");
  TempFolder folder;
  write_whole(folder.file("a"), "hello");
  EXPECT_EXIT(
      {
        signal(SIGBUS, SIG_DFL);  // replaces the handler that sanitizers set
        MappedFile file = MappedFile::open(folder.file("a"));
        std::FILE* foreign = std::tmpfile();
        if (ftruncate(fileno(foreign), kPage) != 0) _exit(3);
        auto* bytes = static_cast<volatile char*>(
            mmap(nullptr, kPage, PROT_READ, MAP_SHARED, fileno(foreign), 0));
        if (ftruncate(fileno(foreign), 0) != 0) _exit(3);
        _exit(bytes[0]);
      },
      testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace troika
