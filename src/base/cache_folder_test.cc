#include "base/cache_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "tests/support/temp_folder.h"

namespace troika {
namespace {

TEST(CacheFolder, AFolderThatCannotBeMadeIsASentenceWithAWayOut) {
  const test::TempFolder folder;
  make_kept_folder(folder.file("a/b"));
  EXPECT_TRUE(std::filesystem::is_directory(folder.file("a/b")));
  const std::string file = folder.file("file");
  test::write_whole(file, "");
  const std::string below = file + "/c";
  const std::string usual = test::message_of<Error>([&] { make_kept_folder(below); });
  EXPECT_TRUE(usual.starts_with(below + ": the folder cannot be made: ")) << usual;
  EXPECT_NE(usual.find(". Set XDG_CACHE_HOME"), std::string::npos) << usual;
  const std::string other =
      test::message_of<Error>([&] { make_kept_folder(below, "Leave it out."); });
  EXPECT_TRUE(other.ends_with(". Leave it out.")) << other;
  EXPECT_EQ(other.find("XDG_CACHE_HOME"), std::string::npos) << other;
}

}  // namespace
}  // namespace troika
