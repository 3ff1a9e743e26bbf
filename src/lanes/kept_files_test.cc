#include "lanes/kept_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/atomic_file.h"
#include "base/error.h"
#include "tests/support/temp_folder.h"

namespace troika::lanes {
namespace {

namespace fs = std::filesystem;

constexpr KeptKind kDishes = {"dish", ".dish", "cooked dishes"};
constexpr KeptKind kDrinks = {"drink", ".dish", "mixed drinks"};

void keep_text(KeptFiles& files, uint64_t key, const std::string& text) {
  files.keep(key, [&](const std::string&) { return text; });
}

TEST(KeptFiles, AreFoundByTheirKeysInTheNextRun) {
  const test::TempFolder folder;
  KeptFiles first(folder.file("new/kept"), kDishes);
  keep_text(first, 7, "soup");
  first.keep(8, [](const std::string& path) {
    write_file(path, "bread");
    return read_whole_file(path).value();
  });
  KeptFiles next(folder.file("new/kept"), kDishes);
  EXPECT_EQ(next.find(7), "soup");
  EXPECT_EQ(next.find(8), "bread");
  EXPECT_EQ(next.find(9), std::nullopt);
  EXPECT_EQ(next.problem(), "");
  size_t n_files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.file("new/kept"))) {
    EXPECT_EQ(entry.path().extension(), ".dish");
    ++n_files;
  }
  EXPECT_EQ(n_files, 2u);
}

TEST(KeptFiles, HaveNamesThatTellThemApartFromOthersInTheFolder) {
  constexpr KeptKind kNamed = {"dish", ".dish", "cooked dishes", "dish-"};
  const test::TempFolder folder;
  KeptFiles files(folder.file("kept"), kNamed);
  keep_text(files, 7, "soup");
  EXPECT_TRUE(fs::exists(folder.file("kept/dish-0000000000000007.dish")));
  EXPECT_EQ(KeptFiles(folder.file("kept"), kNamed).find(7), "soup");
}

TEST(KeptFiles, DamagedOnesAreNotFoundAndCounted) {
  const test::TempFolder folder;
  const std::string path = folder.file("kept/0000000000000007.dish");
  const auto problem = [&](auto damage) {
    KeptFiles files(folder.file("kept"), kDishes);
    keep_text(files, 7, "soup");
    damage();
    EXPECT_EQ(files.find(7), std::nullopt);
    return files.problem();
  };
  const std::string one = "1 of the cooked dishes in ";
  EXPECT_TRUE(problem([&] { write_file(path, *read_whole_file(path) + "salt"); }).starts_with(one));
  EXPECT_TRUE(problem([&] { fs::resize_file(path, 20); }).starts_with(one));
  EXPECT_TRUE(problem([&] { fs::resize_file(path, 0); }).starts_with(one));
  // Another key stands in the head, or another kind.
  EXPECT_TRUE(problem([&] {
                KeptFiles other(folder.file("kept"), kDishes);
                keep_text(other, 8, "soup");
                fs::rename(folder.file("kept/0000000000000008.dish"), path);
              }).starts_with(one));
  EXPECT_TRUE(problem([&] {
                KeptFiles other(folder.file("kept"), kDrinks);
                keep_text(other, 7, "tea");
              }).starts_with(one));
  KeptFiles files(folder.file("kept"), kDishes);
  keep_text(files, 7, "soup");
  files.note_refused();
  EXPECT_TRUE(files.problem().starts_with(one)) << files.problem();
}

TEST(KeptFiles, WhatCannotBeKeptIsSaid) {
  const test::TempFolder folder;
  write_file(folder.file("taken"), "");
  KeptFiles files(folder.file("taken"), kDishes);
  keep_text(files, 7, "soup");
  EXPECT_NE(files.problem().find("The cooked dishes are not kept in "), std::string::npos)
      << files.problem();
  KeptFiles others(folder.file("kept"), kDishes);
  others.keep(7, [](const std::string&) -> std::string { throw Error("there is no salt"); });
  EXPECT_TRUE(others.problem().ends_with(": there is no salt")) << others.problem();
  EXPECT_EQ(others.find(7), std::nullopt);
}

TEST(KeptFiles, WithoutAFolderKeepNothing) {
  KeptFiles files("", kDishes);
  files.keep(7, [](const std::string&) -> std::string { throw Error("is not called"); });
  EXPECT_EQ(files.find(7), std::nullopt);
  EXPECT_EQ(files.problem(), "");
}

}  // namespace
}  // namespace troika::lanes
