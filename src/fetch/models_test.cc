#include "fetch/models.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "tests/support/temp_folder.h"

namespace troika::fetch {
namespace {

using test::message_of;
using test::read_whole;
using test::TempFolder;

// The tests have a hub with one repository, a/b.
class ModelsTest : public testing::Test {
 protected:
  struct PlayedHub : Transport {
    explicit PlayedHub(ModelsTest& test) : t(test) {}
    std::string get(const HttpRequest& request, const HttpSink& sink) override {
      t.n_asked_ += 1;
      if (t.is_offline_) return "no network";
      const std::string marker = "/a/b/resolve/main/";
      const size_t at = request.url.find(marker);
      if (at == std::string::npos) return answer(t.list(), sink);
      const std::string path = request.url.substr(at + marker.size());
      if (t.on_ask_) t.on_ask_(path);
      return answer(t.files_.at(path), sink);
    }
    static std::string answer(const std::string& body, const HttpSink& sink) {
      if (sink.head({200, {{"content-length", std::to_string(body.size())}}})) {
        sink.body(std::as_bytes(std::span(body)));
      }
      return "";
    }
    ModelsTest& t;
  };

  ModelsTest() {
    options_.folder = folder_.file("models");
    options_.transport = [this] { return std::make_unique<PlayedHub>(*this); };
  }
  std::string list() const {
    std::string text;
    for (const auto& [path, bytes] : files_) {
      Sha256 hash;
      hash.add(bytes);
      const std::string lfs = fmt::format(R"(, "lfs": {{"oid": "{}"}})", hash.hex());
      text += fmt::format(
          R"({}{{"type": "file", "path": "{}", "size": {}{}}})", text.empty() ? "" : ",", path,
          sizes_.count(path) != 0 ? sizes_.at(path) : bytes.size(), has_hashes_ ? lfs : "");
    }
    return "[" + text + "]";
  }
  std::string kept(const std::string& path) const { return options_.folder + "/a/b/" + path; }
  bool has(const std::string& path) const { return std::filesystem::exists(kept(path)); }

  TempFolder folder_;
  ModelsOptions options_;
  std::map<std::string, std::string> files_;
  std::map<std::string, uint64_t> sizes_;  // stand in the list in place of those that files have
  std::function<void(const std::string& path)> on_ask_;  // is called when bytes are asked for
  int n_asked_ = 0;
  bool is_offline_ = false;
  bool has_hashes_ = true;
  const ModelName name_ = {"a", "b", ""};
};

constexpr char kShard1[] = "m-Q8_0-00001-of-00002.gguf";
constexpr char kShard2[] = "m-Q8_0-00002-of-00002.gguf";

TEST_F(ModelsTest, ShardsOfTwoVersionsNeverLieTogether) {
  files_ = {{kShard1, "old one"}, {kShard2, "old two"}};
  EXPECT_EQ(pull(name_, options_).n_downloaded, 2);
  files_ = {{kShard1, "new one"}, {kShard2, "new two"}};
  on_ask_ = [](const std::string& path) {
    if (path == kShard2) throw Error("no more today.");
  };
  EXPECT_THROW(pull(name_, options_), Error);
  EXPECT_EQ(read_whole(kept(kShard1)), "old one");
  EXPECT_EQ(read_whole(kept(kShard2)), "old two");
  on_ask_ = nullptr;
  n_asked_ = 0;
  EXPECT_EQ(pull(name_, options_).n_replaced, 2);
  EXPECT_EQ(n_asked_, 2) << "the list and the second shard: the first was here";
  EXPECT_EQ(read_whole(kept(kShard1)), "new one");
  EXPECT_EQ(read_whole(kept(kShard2)), "new two");
}

TEST_F(ModelsTest, AReplacementThatEndsHalfwayIsNoModel) {
  files_ = {{kShard1, "old one"}, {kShard2, "old two"}};
  pull(name_, options_);
  files_ = {{kShard1, "new one"}, {kShard2, "new two"}};
  on_ask_ = [this](const std::string& path) {
    if (path != kShard2) return;
    for (const auto& entry : std::filesystem::directory_iterator(kept(""))) {
      if (entry.path().string().starts_with(kept(kShard2) + ".")) remove(entry.path());
    }
  };
  EXPECT_THROW(pull(name_, options_), Error);
  EXPECT_EQ(read_whole(kept(kShard1)), "new one");
  EXPECT_FALSE(has(kShard2));
  on_ask_ = nullptr;
  EXPECT_EQ(find_or_fetch(name_, options_).n_downloaded, 1);
  EXPECT_EQ(read_whole(kept(kShard2)), "new two");
}

TEST_F(ModelsTest, AShardThatCannotBeReplacedLeavesNoMixture) {
  files_ = {{kShard1, "new one"}, {kShard2, "new two"}};
  std::filesystem::create_directories(kept(std::string(kShard2) + "/in the way"));
  const std::string message = message_of<Error>([&] { pull(name_, options_); });
  EXPECT_NE(message.find("cannot be replaced"), std::string::npos) << message;
  EXPECT_FALSE(has(kShard1));
}

TEST_F(ModelsTest, AnotherDivisionIntoFilesReplacesTheOldOne) {
  const std::map<std::string, std::string> shards = {{kShard1, "one"}, {kShard2, "two"}};
  const std::map<std::string, std::string> more_shards = {{"m-Q8_0-00001-of-00003.gguf", "1"},
                                                          {"m-Q8_0-00002-of-00003.gguf", "2"},
                                                          {"m-Q8_0-00003-of-00003.gguf", "3"}};
  const std::map<std::string, std::string> whole = {{"m-Q8_0.gguf", "a model"}};
  std::string notes;
  options_.hooks.note = [&](const std::string& sentence) { notes += sentence + "\n"; };
  files_ = whole;
  files_["old-Q4_0.gguf"] = "another";
  const ModelName name = {"a", "b", "Q8_0"};
  pull({"a", "b", "Q4_0"}, options_);
  pull(name, options_);
  EXPECT_EQ(notes.find("removed"), std::string::npos) << notes;
  for (const auto* files : {&shards, &more_shards, &whole}) {
    files_ = *files;
    is_offline_ = false;
    notes.clear();
    pull(name, options_);
    EXPECT_NE(notes.find("removed m-Q8_0"), std::string::npos) << notes;
    is_offline_ = true;
    EXPECT_EQ(find_or_fetch(name, options_).files.size(), files->size());
    EXPECT_EQ(has(kShard1), files == &shards);
    EXPECT_EQ(has("m-Q8_0.gguf"), files == &whole);
    EXPECT_TRUE(has("old-Q4_0.gguf")) << "of another model nothing is removed";
  }
}

TEST_F(ModelsTest, WithoutAConnectionItIsSaidWhyWhatIsHereWillNotDo) {
  files_ = {{"x-Q4_0.gguf", "one"}, {"y-Q4_0.gguf", "two"}};
  pull({"a", "b", "x-Q4_0"}, options_);
  pull({"a", "b", "y-Q4_0"}, options_);
  is_offline_ = true;
  std::string message = message_of<Error>([&] { find_or_fetch(name_, options_); });
  EXPECT_NE(message.find("cannot be asked"), std::string::npos) << message;
  EXPECT_NE(message.find("means several files: x-Q4_0.gguf"), std::string::npos) << message;
  message = message_of<Error>([&] { find_or_fetch({"a", "b", "Q8_0"}, options_); });
  EXPECT_NE(message.find("It has: Q4_0"), std::string::npos) << message;
  options_.transport = []() -> std::unique_ptr<Transport> { throw Error("Asking is forbidden."); };
  message = message_of<Error>([&] { find_or_fetch(name_, options_); });
  EXPECT_TRUE(message.starts_with("Asking is forbidden. As to what is here: ")) << message;
  EXPECT_NE(message.find("means several files: x-Q4_0.gguf"), std::string::npos) << message;
  message = message_of<Error>([&] { find_or_fetch({"a", "c", ""}, options_); });
  EXPECT_EQ(message, "Asking is forbidden.") << "nothing is here";
}

TEST_F(ModelsTest, RoomIsWantedForAllShardsAtOnce) {
  files_ = {{kShard1, "one"}, {kShard2, "two"}};
  sizes_[kShard2] = uint64_t{1} << 50;
  std::string message = message_of<Error>([&] { pull(name_, options_); });
  EXPECT_TRUE(message.starts_with(options_.folder + "/a/b: ")) << message;
  EXPECT_NE(message.find("more are needed on this disk"), std::string::npos) << message;
  EXPECT_EQ(n_asked_, 1) << "the list alone";
  EXPECT_FALSE(std::filesystem::exists(options_.folder));
  sizes_.clear();
  pull(name_, options_);
  n_asked_ = 0;
  sizes_[kShard2] = uint64_t{1} << 50;
  message = message_of<Error>([&] { pull(name_, options_); });
  EXPECT_NE(message.find("more are needed on this disk"), std::string::npos) << message;
  EXPECT_EQ(n_asked_, 1) << "the list alone";
}

// What is here counts: a disk with less room than the model needs may have enough for the rest.
TEST_F(ModelsTest, NoRoomIsWantedForWhatIsHere) {
  const uint64_t most = std::filesystem::space(folder_.file("")).capacity + 1;
  std::filesystem::create_directories(kept(""));
  HubFile file = {kShard1, most, std::string(64, 'a')};
  const auto make = [&](const std::string& path) {
    test::write_whole(path, "");
    std::error_code failure;
    std::filesystem::resize_file(path, most, failure);  // takes no room
    return !failure;
  };
  const std::string part = kept(kShard1) + "." + std::string(16, 'a') + ".part";
  EXPECT_THROW(check_room({file}, {kept(kShard1)}), Error);
  if (!make(part)) GTEST_SKIP() << "this file system knows no such files";
  check_room({file}, {kept(kShard1)});
  file.sha256.clear();
  EXPECT_THROW(check_room({file}, {kept(kShard1)}), Error);
  std::filesystem::rename(part, kept(kShard1));
  EXPECT_THROW(check_room({file}, {kept(kShard1)}), Error);
  file.sha256 = std::string(64, 'a');
  check_room({file}, {kept(kShard1)});
}

TEST_F(ModelsTest, WithoutHashesNothingIsTakenToBeCurrent) {
  has_hashes_ = false;
  files_ = {{"m-Q4_0.gguf", "older"}};
  EXPECT_EQ(pull(name_, options_).n_downloaded, 1);
  files_ = {{"m-Q4_0.gguf", "newer"}};
  EXPECT_EQ(find_or_fetch(name_, options_).n_downloaded, 0);
  EXPECT_EQ(pull(name_, options_).n_replaced, 1);
  EXPECT_EQ(read_whole(kept("m-Q4_0.gguf")), "newer");
}

// The hub replaces a file while it is downloaded, and its older version is asked for no more.
TEST_F(ModelsTest, PartsOfOlderVersionsGoWhenTheModelIsHere) {
  const std::string name = "m-Q4_0.gguf", hash(16, 'a');
  const std::vector<std::string> old = {name + "." + hash + ".part", name + ".123-bytes.part"};
  const std::vector<std::string> other = {"m-Q4_0.gguf.part",
                                          "m-Q4_0.gguf.mine.part",
                                          "m-Q4_0.gguf." + hash + ".part.txt",
                                          "m-Q4_0.gguf." + hash + "a.part",
                                          "m-Q4_0.gguf.-bytes.part",
                                          "n-Q4_0.gguf." + hash + ".part"};
  files_ = {{name, "a model"}};
  std::filesystem::create_directories(kept(""));
  const auto write_all = [&] {
    for (const auto* names : {&old, &other}) {
      for (const std::string& path : *names) test::write_whole(kept(path), "x");
    }
  };
  write_all();
  on_ask_ = [](const std::string&) { throw Error("no more today."); };
  EXPECT_THROW(pull(name_, options_), Error);
  for (const std::string& path : old) EXPECT_TRUE(has(path)) << "nothing has come in its place";
  on_ask_ = nullptr;
  for (const int n_downloaded : {1, 0}) {
    write_all();
    const std::string held = kept(name + "." + std::string(16, 'b') + ".part");
    PartFile part(
        held, [] {}, [](uint64_t, uint64_t) {});
    EXPECT_EQ(pull(name_, options_).n_downloaded, n_downloaded);
    for (const std::string& path : old) EXPECT_FALSE(has(path)) << path;
    for (const std::string& path : other) EXPECT_TRUE(has(path)) << path;
    EXPECT_TRUE(std::filesystem::exists(held)) << "another process has it";
  }
}

TEST_F(ModelsTest, WhatIsHereIsFoundInAnyCaseOfLetters) {
  files_ = {{"m.Q8_0.GGUF", "a model"}};
  pull(name_, options_);
  n_asked_ = 0;
  EXPECT_EQ(find_or_fetch(name_, options_).paths.front(), kept("m.Q8_0.GGUF"));
  EXPECT_EQ(n_asked_, 0);
}

}  // namespace
}  // namespace troika::fetch
