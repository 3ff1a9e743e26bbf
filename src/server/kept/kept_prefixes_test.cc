// A server keeps prefixes on disk: the text is the same with and without them, before and after a
// restart, and nobody gets those of others.
#include "server/kept/kept_prefixes.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/support/tiny_server.h"

namespace troika {
namespace {

namespace fs = std::filesystem;
using test_support::Json;

class KeptOnDisk : public test_support::ServerTest {
 protected:
  server::ServiceOptions keeping(uint64_t most_bytes = 1 << 30) const {
    server::ServiceOptions options;
    options.keep = {folder_.file("kept"), most_bytes, false};
    return options;
  }
  // What the server answered, and how many tokens of the prompt it had kept.
  struct Said {
    std::string text;
    int n_cached = 0;
    int n_prompt = 0;
  };
  Said ask(const std::string& key = "", int n_words = 200,
           const std::string& first = "Once ") const {
    std::string prompt = first;
    for (int i = 0; i < n_words; ++i) prompt += "word" + std::to_string(i % 7) + " ";
    const std::string body = Json{
        {"prompt", prompt},
        {"max_tokens", 30},
        {"ignore_eos", true},
        {"temperature", 1.2},
        {"seed", 5}}.dump();
    const std::string header = key.empty() ? "" : "Authorization: Bearer " + key + "\r\n";
    const auto answer = client().post("/v1/completions", body, header);
    EXPECT_EQ(answer.status, 200) << answer.body;
    if (answer.status != 200) return {};
    const Json json = Json::parse(answer.body);
    return {json["choices"][0]["text"], json["usage"]["prompt_tokens_details"]["cached_tokens"],
            json["usage"]["prompt_tokens"]};
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder_.file("kept"))) {
      if (entry.path().filename() != "lock") found.push_back(entry.path());
    }
    return found;
  }
};

TEST_F(KeptOnDisk, GiveTheSameTextAfterARestart) {
  start();
  const Said without = ask();
  ASSERT_GT(without.n_prompt, 400);
  EXPECT_EQ(without.n_cached, 0);
  start_again(keeping());
  EXPECT_EQ(ask().text, without.text);
  start_again(keeping());
  const Said kept = ask();
  EXPECT_EQ(kept.text, without.text);
  EXPECT_EQ(kept.n_cached, (without.n_prompt - 1) / 128 * 128);
  EXPECT_EQ(metric("kept_tokens_loaded_total"), std::to_string(kept.n_cached));
  // A prompt with another end shares the beginning, and one with another beginning shares nothing.
  start_again(keeping());
  EXPECT_EQ(ask("", 220).n_cached, without.n_prompt / 128 * 128);
  EXPECT_LT(ask("", 200, "Other ").n_cached, 128);
  for (const fs::path& file : files()) {
    struct stat status = {};
    ASSERT_EQ(::stat(file.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u) << file;
  }
}

TEST_F(KeptOnDisk, AreSharedBetweenKeysOnlyWhereTold) {
  server::ServiceOptions options = keeping();
  options.keys = {"a", "b"};
  start(options);
  const Said first = ask("a");
  start_again(options);
  EXPECT_EQ(ask("b").n_cached, 0);
  start_again(options);
  const Said again = ask("a");
  EXPECT_GT(again.n_cached, 0);
  EXPECT_EQ(again.text, first.text);
  options.keep.is_shared = true;
  start_again(options);
  EXPECT_EQ(ask("a").n_cached, 0);
  start_again(options);
  EXPECT_GT(ask("b").n_cached, 0);
}

// What was asked with one key does not make the answers of another key faster, in memory neither.
TEST_F(KeptOnDisk, KeysShareWhatIsInMemoryOnlyWhereTold) {
  for (const bool is_on_disk : {false, true}) {
    for (const bool is_shared : {false, true}) {
      server::ServiceOptions options = is_on_disk ? keeping() : server::ServiceOptions();
      options.keys = {"a", "b"};
      options.keep.is_shared = is_shared;
      start(options);
      const Said first = ask("a");
      EXPECT_GT(ask("a").n_cached, 0);
      const Said other = ask("b");
      EXPECT_EQ(other.n_cached > 0, is_shared) << other.n_cached;
      EXPECT_EQ(other.text, first.text);
      EXPECT_GT(ask("b").n_cached, 0);
      EXPECT_GT(ask("a").n_cached, 0);
      stop();
      fs::remove_all(folder_.file("kept"));
    }
  }
}

TEST_F(KeptOnDisk, AreOfNoUseToAnotherPlanOrModel) {
  start(keeping());
  const Said first = ask();
  prepare::Options floats;
  floats.memory.kv_type = tensor::Type::kF32;
  start_again(keeping(), floats);
  EXPECT_EQ(ask().n_cached, 0);
  prepare::Options longer;
  longer.memory.context = 2048;
  start_again(keeping(), longer);
  EXPECT_EQ(ask().n_cached, 0);
  // The file gets another content, which shows only in its weights.
  const std::string path = tiny_->folder.file("tiny.gguf");
  stop();
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-40, std::ios::end);
    file.put('\1');
  }
  prepare::Options usual;
  usual.memory.context = 1024;
  start_again(keeping(), usual);
  EXPECT_EQ(ask().n_cached, 0);
}

TEST_F(KeptOnDisk, CountAsSavedOnceTheDiskHasTakenThem) {
  start(keeping());
  fs::remove_all(folder_.file("kept"));
  ask();
  for (int i = 0; i < 1000 && metric("kept_failed_total") == "0"; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_NE(metric("kept_failed_total"), "0");
  EXPECT_EQ(metric("kept_tokens_saved_total"), "0");
}

TEST_F(KeptOnDisk, StayWithinTheirSize) {
  start(keeping());
  ask();
  stop();
  uint64_t all = 0;
  for (const fs::path& file : files()) all += fs::file_size(file);
  ASSERT_GT(all, 0u);
  start_again(keeping(all));
  for (const char* const word : {"One ", "Two ", "Three ", "Four "}) ask("", 200, word);
  start_again(keeping(all));
  uint64_t now = 0;
  for (const fs::path& file : files()) now += fs::file_size(file);
  EXPECT_LE(now, all);
  // The newest prefix is asked for first, because prefixes that are computed again replace others.
  EXPECT_GT(ask("", 200, "Four ").n_cached, 0);
  EXPECT_EQ(ask("", 200, "One ").n_cached, 0);
}

TEST_F(KeptOnDisk, ThatAreSpoiltAreComputedAnew) {
  start(keeping());
  const Said first = ask();
  int n_bytes = 0;
  for (const int64_t at : {int64_t{3}, int64_t{20}, int64_t{75}, int64_t{85}, int64_t{5000}}) {
    stop();
    for (const fs::path& path : files()) {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(at);
      const int byte = file.get();
      file.seekp(at);
      file.put(static_cast<char>(byte ^ 0x10));
      ++n_bytes;
    }
    start_again(keeping());
    const Said said = ask();
    EXPECT_EQ(said.text, first.text) << at;
    EXPECT_EQ(said.n_cached, 0) << at;
  }
  stop();
  for (const fs::path& path : files()) fs::resize_file(path, fs::file_size(path) - 1);
  start_again(keeping());
  EXPECT_EQ(ask().n_cached, 0);
  EXPECT_GT(n_bytes, 0);
}

TEST_F(KeptOnDisk, ComeWhileOthersAreAnswered) {
  start(keeping());
  const Said first = ask();
  const Said other = ask("", 200, "Other ");
  start_again(keeping());
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      EXPECT_EQ(i % 2 == 0 ? ask().text : ask("", 200, "Other ").text,
                i % 2 == 0 ? first.text : other.text);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(KeptOnDisk, WantAFolderOfTheirOwn) {
  start(keeping());
  EXPECT_THROW(server::BlockFolder(folder_.file("kept"), 1 << 20), Error);
  EXPECT_THROW(server::BlockFolder(folder_.file("no/such"), 1 << 20), Error);
  stop();
  EXPECT_NO_THROW(server::BlockFolder(folder_.file("kept"), 1 << 20));
}

}  // namespace
}  // namespace troika
