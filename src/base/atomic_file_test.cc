#include "base/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "base/error.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temp_folder.h"

namespace troika {
namespace {

using test::message_of;
using test::read_whole;
using test::TempFolder;
using test::write_whole;

TEST(AtomicFile, AppearsWithCommitOnly) {
  TempFolder folder;
  const std::string path = folder.file("a");
  write_whole(path, "old");
  AtomicFile file(path);
  file.write("new ");
  file.write("text");
  EXPECT_EQ(read_whole(path), "old");
  EXPECT_EQ(file.bytes_written(), 8u);
  file.commit();
  EXPECT_EQ(read_whole(path), "new text");
  EXPECT_EQ(folder.n_files(), 1u);
}

TEST(AtomicFile, LeavesNothingWhenAbandoned) {
  TempFolder folder;
  {
    AtomicFile file(folder.file("a"));
    file.write("text");
  }
  EXPECT_EQ(folder.n_files(), 0u);
}

TEST(AtomicFile, WritesThroughASymbolicLink) {
  TempFolder folder;
  write_whole(folder.file("real"), "old");
  std::filesystem::create_symlink("real", folder.file("link"));
  AtomicFile file(folder.file("link"));
  file.write("new");
  file.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file("link")));
  EXPECT_EQ(read_whole(folder.file("real")), "new");
}

// A link may lead to another folder, where nothing is yet.
TEST(AtomicFile, WritesWhereASymbolicLinkWillLead) {
  TempFolder folder;
  std::filesystem::create_directory(folder.file("big"));
  std::filesystem::create_symlink("big/second", folder.file("link"));
  std::filesystem::create_symlink(folder.file("big/real"), folder.file("big/second"));
  AtomicFile file(folder.file("link"));
  file.write("new");
  file.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file("link")));
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file("big/second")));
  EXPECT_EQ(read_whole(folder.file("big/real")), "new");
}

TEST(ReadWholeFile, WhatCannotBeReadIsNothing) {
  TempFolder folder;
  write_whole(folder.file("a"), std::string("b\0c", 3));
  EXPECT_EQ(read_whole_file(folder.file("a")), std::string("b\0c", 3));
  EXPECT_EQ(read_whole_file(folder.file("none")), std::nullopt);
  EXPECT_EQ(read_whole_file(folder.file("")), std::nullopt);  // the folder itself
}

// A device has no end, and a pipe need not have one.
TEST(ReadWholeFile, WhatHasNoEndIsRefused) {
  EXPECT_EQ(message_of<Error>([] { read_whole_file("/dev/zero", 1'000'000); }),
            "/dev/zero: has more than 1000000 bytes, the most that is read of such a text. Name "
            "another file.");
  EXPECT_NE(message_of<Error>([] { read_whole_file("/dev/zero"); }).find("268435456"),
            std::string::npos);
  const TempFolder folder;
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  // The reader leaves, so that the next write fails, which a signal would tell otherwise.
  const auto before = signal(SIGPIPE, SIG_IGN);
  std::thread writer([&] {
    const int descriptor = ::open(pipe.c_str(), O_WRONLY);
    const std::string piece(4096, 'x');
    while (::write(descriptor, piece.data(), piece.size()) > 0) continue;
    ::close(descriptor);
  });
  EXPECT_NE(message_of<Error>([&] { read_whole_file(pipe, 100'000); }).find("more than 100000"),
            std::string::npos);
  writer.join();
  signal(SIGPIPE, before);
}

TEST(ReadWholeFile, APipeIsReadToItsEnd) {
  const TempFolder folder;
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string text(200'000, 'y');  // is longer than what a pipe holds
  std::thread writer([&] { write_whole(pipe, text); });
  EXPECT_EQ(read_whole_file(pipe, text.size()), text);
  writer.join();
}

// In a container all processes may have one number, those too that were killed before.
TEST(AtomicFile, PartsThatAKilledProcessLeftAreInNobodysWay) {
  TempFolder folder;
  constexpr size_t kLeft = 500;  // more than this process has written
  for (size_t i = 0; i < kLeft; ++i) {
    write_whole(folder.file("a.partial-" + std::to_string(getpid()) + "-" + std::to_string(i)),
                "left");
  }
  write_file(folder.file("a"), "new");
  EXPECT_EQ(read_whole(folder.file("a")), "new");
  EXPECT_EQ(folder.n_files(), kLeft + 1);
}

// Names no file, as Android does, where hard links are forbidden to programs.
int give_no_name(int, const char*) {
  errno = EACCES;
  return -1;
}

// What stands beside the file for a while has a short name where the file's own is long.
TEST(AtomicFile, ANameMayBeAsLongAsTheSystemAllows) {
  for (const GiveName give_name : {give_name_by_link, give_no_name}) {
    TempFolder folder;
    const std::string path = folder.file(std::string(250, 'n'));
    for (const std::string text : {"new", "newer"}) {  // the second one replaces a file
      AtomicFile file(path, 0666, give_name);
      file.write(text);
      file.commit();
      EXPECT_EQ(read_whole(path), text);
      EXPECT_EQ(folder.n_files(), 1u);
    }
  }
}

TEST(AtomicFile, WhatIsPrivateStaysPrivate) {
  using std::filesystem::perms;
  TempFolder folder;
  const std::string path = folder.file("a");
  std::filesystem::create_symlink("a", folder.file("link"));
  for (const GiveName give_name : {give_name_by_link, give_no_name}) {
    for (const perms own : {perms::owner_read | perms::owner_write, perms::owner_read}) {
      for (const std::string& name : {path, folder.file("link")}) {
        std::filesystem::remove(path);
        write_whole(path, "old");
        std::filesystem::permissions(path, own);
        AtomicFile file(name, 0666, give_name);
        file.write("new");
        file.commit();
        EXPECT_EQ(read_whole(path), "new");
        EXPECT_EQ(std::filesystem::status(path).permissions(), own);
      }
    }
  }
}

// What cannot get a name at the end must have one from the beginning.
TEST(AtomicFile, IsWrittenWholeWhereLinksAreForbidden) {
  for (const bool was_there : {false, true}) {
    TempFolder folder;
    const std::string path = folder.file("a");
    if (was_there) write_whole(path, "old");
    AtomicFile file(path, 0600, give_no_name);
    file.write("new ");
    EXPECT_EQ(std::filesystem::exists(path), was_there);
    EXPECT_EQ(folder.n_files(), was_there ? 2u : 1u);  // counts the part
    file.write("text");
    file.commit();
    EXPECT_EQ(read_whole(path), "new text");
    EXPECT_EQ(folder.n_files(), 1u);
    EXPECT_EQ(std::filesystem::status(path).permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }
}

TEST(AtomicFile, LeavesNothingOnFailureWhereLinksAreForbidden) {
  TempFolder folder;
  {
    AtomicFile file(folder.file("a"), 0666, give_no_name);
    file.write("text");
  }
  EXPECT_EQ(folder.n_files(), 0u);
  EXPECT_NE(message_of<Error>([&] {
              const test::FileSizeLimit limit(1000);
              AtomicFile file(folder.file("a"), 0666, give_no_name);
              file.write(std::string(5000, 'x'));
            }).find("cannot write more than 1000 bytes"),
            std::string::npos);
  EXPECT_EQ(folder.n_files(), 0u);
  // Something takes the path while the file is written.
  AtomicFile file(folder.file("b"), 0666, give_no_name);
  file.write("text");
  std::filesystem::create_directory(folder.file("b"));
  EXPECT_NE(message_of<Error>([&] { file.commit(); }).find("give it its name"), std::string::npos);
  EXPECT_EQ(folder.n_files(), 1u);  // counts the folder
}

TEST(AtomicFile, TheTrialOfANameLeavesNothing) {
  TempFolder folder;
  const AtomicFile file(folder.file("a"), 0666, [](int descriptor, const char* path) {
    write_whole(std::string(path) + ".tried", "");
    return give_name_by_link(descriptor, path);
  });
  size_t n_tried = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.file(""))) {
    const std::string tried = entry.path().string();
    if (!tried.ends_with(".tried")) continue;
    ++n_tried;
    EXPECT_FALSE(std::filesystem::exists(tried.substr(0, tried.size() - 6)));
  }
  EXPECT_LE(n_tried, 1u);  // a file system may make no files without a name
}

TEST(AtomicFile, SaysWhyItCannotBeWritten) {
  TempFolder folder;
  EXPECT_NE(message_of<Error>([&] { AtomicFile(folder.file("no/a")); }).find("no such file or"),
            std::string::npos);
  EXPECT_NE(message_of<Error>([&] { AtomicFile("/dev/null"); }).find("not a regular file"),
            std::string::npos);
  EXPECT_NE(message_of<Error>([&] { AtomicFile(folder.file("")); }).find("not a regular file"),
            std::string::npos);
  EXPECT_NE(message_of<Error>([&] { AtomicFile(""); }).find("empty"), std::string::npos);
  EXPECT_NE(message_of<UsageError>([&] { AtomicFile("-"); }).find("standard input"),
            std::string::npos);
}

TEST(AtomicFile, SaysThatPermissionIsMissing) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  TempFolder folder;
  std::filesystem::permissions(
      folder.file(""), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  EXPECT_NE(message_of<Error>([&] { AtomicFile(folder.file("a")); }).find("permission is missing"),
            std::string::npos);
  std::filesystem::permissions(folder.file(""), std::filesystem::perms::owner_all);
}

TEST(AtomicFile, AFullDiskIsASentenceAndLeavesNothing) {
  TempFolder folder;
  const std::string message = message_of<Error>([&] {
    const test::FileSizeLimit limit(1000);
    AtomicFile file(folder.file("a"));
    file.write(std::string(5000, 'x'));
  });
  EXPECT_NE(message.find("cannot write more than 1000 bytes"), std::string::npos) << message;
  EXPECT_NE(message.find("ulimit -f"), std::string::npos) << message;
  EXPECT_EQ(folder.n_files(), 0u);
}

}  // namespace
}  // namespace troika
