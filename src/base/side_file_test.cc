#include "base/side_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <utility>

#include "tests/support/temp_folder.h"

namespace troika {
namespace {

TEST(SideFile, ReadsFromAnyPlaceAndSaysWhereTheFileEnds) {
  const test::TempFolder folder;
  test::write_whole(folder.file("a"), "hello");
  std::string problem = "old";
  SideFile opened(folder.file("a"), &problem);
  const SideFile file = std::move(opened);
  ASSERT_TRUE(file.is_open());
  EXPECT_EQ(problem, "");
  EXPECT_EQ(file.bytes(), 5u);
  std::string text(3, ' ');
  EXPECT_TRUE(file.read(2, std::as_writable_bytes(std::span(text))));
  EXPECT_EQ(text, "llo");
  EXPECT_FALSE(file.read(3, std::as_writable_bytes(std::span(text))));
}

TEST(SideFile, APipeIsRefusedAtOnceAndSoIsAFolder) {
  const test::TempFolder folder;
  ASSERT_EQ(mkfifo(folder.file("pipe").c_str(), 0600), 0);
  for (const std::string& path : {folder.file("pipe"), folder.file("")}) {
    std::string problem;
    EXPECT_FALSE(SideFile(path, &problem).is_open());
    EXPECT_EQ(problem, "is no regular file") << path;
  }
}

TEST(SideFile, AMissingFileIsNoProblemAndWhatElseFailsIs) {
  const test::TempFolder folder;
  test::write_whole(folder.file("a"), "hello");
  std::string problem;
  EXPECT_FALSE(SideFile(folder.file("no"), &problem).is_open());
  EXPECT_EQ(problem, "");
  EXPECT_FALSE(SideFile(folder.file("a/below"), &problem).is_open());
  EXPECT_NE(problem.find("cannot be read"), std::string::npos) << problem;
}

}  // namespace
}  // namespace troika
