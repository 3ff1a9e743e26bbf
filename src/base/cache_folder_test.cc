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

TEST(CacheFolder, WhatIsInTheWayOfASideFileIsToBeRemoved) {
  const test::TempFolder folder;
  const std::string path = folder.file("a/side");
  make_place_for(path);
  test::write_whole(path, "");
  make_place_for(path);
  const std::string message = test::message_of<Error>([&] { make_place_for(folder.file("a")); });
  EXPECT_TRUE(message.starts_with(folder.file("a") + ": ")) << message;
  EXPECT_TRUE(message.ends_with("Remove it.")) << message;
  EXPECT_EQ(test::message_of<Error>([&] { check_kept_file(folder.file("a")); }), message);
}

}  // namespace
}  // namespace troika
