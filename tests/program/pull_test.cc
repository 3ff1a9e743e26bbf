// Fetches models by name, from a hub on this machine that behaves as documented, and from hubs that
// do not.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/program/troika.h"
#include "tests/support/hub_server.h"

namespace troika::test {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// The name of the organisation decides how the hub behaves (tests/support/hub_server.py).
class Pull : public ProgramTest {
 protected:
  void SetUp() override {
    for (const char* variable : {"HF_TOKEN", "HF_HUB_OFFLINE"}) unsetenv(variable);
    fs::create_directories(folder_.file("hub/parts"));
    model_ = model_bytes(small_chat_model());
    write(model_, "hub/tiny-Q8_0.gguf");
    write(model_, "hub/parts/tiny-Q4_0.gguf");
    write("", "log");
    server_ = std::make_unique<test_support::HubServer>(folder_.file("hub"), folder_.file("log"));
  }
  Command command(std::vector<std::string> words) const {
    Command command = troika_command(std::move(words));
    command.environment = environment_;
    command.environment["HF_ENDPOINT"] = server_->endpoint();
    command.environment["XDG_CACHE_HOME"] = folder_.file("cache");
    command.environment["no_proxy"] = "127.0.0.1";
    return command;
  }
  Finished run(std::vector<std::string> words) const {
    return run_program(command(std::move(words)));
  }
  Finished pull(const std::string& name, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"pull", name});
    return run(std::move(more));
  }
  std::string kept(const std::string& path) const {
    return folder_.file("cache/troika/models/" + path);
  }
  std::string log() const { return read_whole(folder_.file("log")); }
  bool has_asked() const { return !log().empty(); }
  void forget_log() const { write_whole(folder_.file("log"), ""); }
  std::vector<std::string> parts() const {
    std::vector<std::string> found;
    if (!fs::exists(kept(""))) return found;
    for (const auto& entry : fs::recursive_directory_iterator(kept(""))) {
      if (entry.path().extension() == ".part") found.push_back(entry.path().string());
    }
    return found;
  }

  std::string model_;
  std::map<std::string, std::string> environment_;
  std::unique_ptr<test_support::HubServer> server_;
};

TEST_F(Pull, DownloadsAndSaysWhere) {
  const Finished finished = pull("hf:good/tiny:q8_0");
  expect_success(finished);
  EXPECT_NE(finished.out.find(kept("good/tiny/tiny-Q8_0.gguf")), std::string::npos) << finished.out;
  EXPECT_EQ(read_whole(kept("good/tiny/tiny-Q8_0.gguf")), model_);
  EXPECT_NE(log().find("cursor=2"), std::string::npos) << "the second page of the list";
  EXPECT_NE(log().find("cdn /good/tiny-Q8_0.gguf"), std::string::npos) << "the redirection";
  EXPECT_TRUE(parts().empty());
}

TEST_F(Pull, JsonTellsWhatHappened) {
  json j = json::parse(pull("hf:good/tiny", {"--json"}).out);
  EXPECT_EQ(j["state"], "downloaded");
  EXPECT_EQ(j["label"], "Q4_0");  // is the default where there is no Q4_K_M
  EXPECT_EQ(j["path"], kept("good/tiny/parts/tiny-Q4_0.gguf"));
  EXPECT_EQ(j["bytes"], model_.size());
  EXPECT_EQ(j["files"][0]["sha256"].get<std::string>().size(), 64u);
  EXPECT_EQ(json::parse(pull("hf:good/tiny", {"--json"}).out)["state"], "current");
  // The hub gets another model of the same name and size.
  std::string newer = model_;
  newer.back() = static_cast<char>(newer.back() ^ 1);
  write(newer, "hub/parts/tiny-Q4_0.gguf");
  EXPECT_EQ(json::parse(pull("hf:good/tiny", {"--json"}).out)["state"], "replaced");
  EXPECT_EQ(read_whole(kept("good/tiny/parts/tiny-Q4_0.gguf")), newer);
}

TEST_F(Pull, ARunDownloadsOnceAndNeverAsksAgain) {
  const std::vector<std::string> words = {
      "run", "hf:good/tiny:Q8_0", "-p", "Once", "-n", "3", "--json", "--seed", "1"};
  const Finished first = run(words);
  expect_success(first);
  EXPECT_NE(first.err.find("downloading tiny-Q8_0.gguf"), std::string::npos) << first.err;
  forget_log();
  const Finished second = run(words);
  expect_success(second);
  EXPECT_FALSE(has_asked()) << log();
  server_->stop();
  const Finished offline = run(words);
  expect_success(offline);
  EXPECT_EQ(json::parse(offline.out)["text"], json::parse(first.out)["text"]);
  environment_["HF_HUB_OFFLINE"] = "1";
  expect_success(run(words));
  expect_refusal(run({"inspect", "hf:good/other"}), 1, {"HF_HUB_OFFLINE"});
}

TEST_F(Pull, EveryCommandTakesAName) {
  expect_success(pull("hf:good/tiny:Q8_0"));
  forget_log();
  const std::string text = write("Once upon a time there was a little girl", "text");
  const std::string name = "hf:good/tiny";  // means the file that is here
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"inspect", name},
        {"tokenize", name, "-p", "Once"},
        {"plan", name, "--explain"},
        {"eval", name, "--perplexity", text},
        {"run", write(model_, "large.gguf"), "-p", "Once", "-n", "3", "--draft", "model:" + name},
        {"quantize", name, folder_.file("out.gguf"), "--type", "q4_0"}}) {
    SCOPED_TRACE(words[0]);
    const Finished finished = run(words);
    expect_success(finished);
    EXPECT_NE(finished.err.find("hf:good/tiny is tiny-Q8_0.gguf here"), std::string::npos)
        << finished.err;
  }
  EXPECT_FALSE(has_asked()) << log();
}

TEST_F(Pull, ASplitModelComesWithAllItsParts) {
  write("one", "hub/parts/t-F16-00001-of-00002.gguf");
  write("two!", "hub/parts/t-F16-00002-of-00002.gguf");
  const json j = json::parse(pull("hf:good/tiny:f16", {"--json"}).out);
  EXPECT_EQ(j["files"].size(), 2u);
  EXPECT_EQ(j["bytes"], 7);
  EXPECT_EQ(j["path"], kept("good/tiny/parts/t-F16-00001-of-00002.gguf"));
  EXPECT_EQ(read_whole(kept("good/tiny/parts/t-F16-00002-of-00002.gguf")), "two!");
  fs::remove(kept("good/tiny/parts/t-F16-00001-of-00002.gguf"));
  forget_log();
  // One of two files is no model.
  EXPECT_EQ(run({"inspect", "hf:good/tiny:f16"}).status, 1);
  EXPECT_TRUE(has_asked()) << "half a model is none";
}

TEST_F(Pull, NamesThatAreWrong) {
  for (const char* name : {"hf:", "hf:good", "hf:../tiny", "hf:good/tiny:", "good/tiny"}) {
    expect_refusal(pull(name), 2, {name, "hf:ORG/REPO"});
  }
  expect_refusal(run({"run", "hf:good", "-p", "x"}), 2, {"hf:ORG/REPO"});
  EXPECT_FALSE(has_asked());
  expect_refusal(pull("hf:good/tiny:Q5_K_M"), 1, {"Q5_K_M", "Q4_0", "Q8_0"});
  environment_["HF_TOKEN"] = "two words";
  expect_refusal(pull("hf:good/tiny"), 2, {"HF_TOKEN"});
}

TEST_F(Pull, NoPlaceForModels) {
  Command nowhere = command({"pull", "hf:good/tiny"});
  nowhere.environment["XDG_CACHE_HOME"] = nowhere.environment["HOME"] = "";
  expect_refusal(run_program(nowhere), 1, {"Set one of them", "where a command has it"});
}

TEST_F(Pull, TheTokenGoesToTheHubOnly) {
  environment_["HF_TOKEN"] = "hf_secret";
  const Finished finished = pull("hf:good/tiny");
  expect_success(finished);
  EXPECT_EQ((finished.out + finished.err).find("hf_secret"), std::string::npos);
  const std::string lines = log();
  EXPECT_NE(lines.find("hub /good/tiny/resolve/main/parts/tiny-Q4_0.gguf [Bearer hf_secret]"),
            std::string::npos)
      << lines;
  EXPECT_NE(lines.find("cdn /good/parts/tiny-Q4_0.gguf [no token]"), std::string::npos) << lines;
}

TEST_F(Pull, ACutConnectionGoesOn) {
  expect_success(pull("hf:cut2/tiny"));
  EXPECT_NE(log().find("bytes=10000-"), std::string::npos) << log();
  EXPECT_NE(log().find("bytes=20000-"), std::string::npos) << log();
  EXPECT_EQ(read_whole(kept("cut2/tiny/parts/tiny-Q4_0.gguf")), model_);
  expect_success(pull("hf:norangecut1/tiny"));
  EXPECT_EQ(read_whole(kept("norangecut1/tiny/parts/tiny-Q4_0.gguf")), model_);
}

TEST_F(Pull, TheNextRunGoesOnWhereOneGaveUp) {
  expect_refusal(pull("hf:cut5/tiny"), 1, {"broke off 5 times", "50.0 KB of", "goes on there"});
  EXPECT_EQ(parts().size(), 1u);
  forget_log();
  expect_success(pull("hf:cut5/tiny"));
  EXPECT_NE(log().find("bytes=50000-"), std::string::npos) << log();
  EXPECT_EQ(read_whole(kept("cut5/tiny/parts/tiny-Q4_0.gguf")), model_);
  EXPECT_TRUE(parts().empty());
}

TEST_F(Pull, CtrlCLeavesThePart) {
  const Command stalled = command({"pull", "hf:stall1/tiny"});
  {
    test_support::TerminalProgram program(stalled.words, stalled.environment);
    // The progress bar has begun.
    EXPECT_NE(program.read_until("hf:stall1/tiny ["), "") << program.pending();
    program.type("\x03");
    EXPECT_NE(program.wait(), 0);
  }
  ASSERT_EQ(parts().size(), 1u);
  EXPECT_EQ(fs::file_size(parts()[0]), 10'000u);
  const json listed = json::parse(run({"cache", "--json"}).out);
  EXPECT_EQ(listed["files"][0]["kind"], "download");
  expect_success(pull("hf:stall1/tiny"));
  EXPECT_EQ(read_whole(kept("stall1/tiny/parts/tiny-Q4_0.gguf")), model_);
}

TEST_F(Pull, TwoAtOnceDownloadOnce) {
  Finished first, second;
  std::thread other([&] { first = pull("hf:slow1/tiny"); });
  second = pull("hf:slow1/tiny");
  other.join();
  expect_success(first);
  expect_success(second);
  EXPECT_EQ(read_whole(kept("slow1/tiny/parts/tiny-Q4_0.gguf")), model_);
  const std::string lines = log();
  const size_t once = lines.find("cdn ");
  EXPECT_EQ(lines.find("cdn ", once + 1), std::string::npos) << lines;
}

TEST_F(Pull, LiesAboutTheBytesAreFound) {
  const std::pair<const char*, const char*> lies[] = {{"wrong", "SHA-256"},
                                                      {"longer", "promises"},
                                                      {"shorter", "promises"},
                                                      {"endless", "more bytes"}};
  for (const auto& [org, words] : lies) {
    SCOPED_TRACE(org);
    expect_refusal(pull(std::string("hf:") + org + "/tiny"), 1, {words, "again", org});
    EXPECT_TRUE(parts().empty());
    EXPECT_FALSE(fs::exists(kept(std::string(org) + "/tiny/parts/tiny-Q4_0.gguf")));
  }
}

// Without a hash nobody knows whether the file here is the one that the hub has.
TEST_F(Pull, FilesWithoutASha256) {
  for (const bool is_second : {false, true}) {
    const Finished finished = pull("hf:nohash/tiny");
    expect_success(finished);
    EXPECT_NE(finished.err.find("only its size was checked"), std::string::npos) << finished.err;
    EXPECT_NE(finished.out.find(is_second ? "downloaded again: the hub knows no hash"
                                          : "downloaded; only its size was checked"),
              std::string::npos)
        << finished.out;
  }
  EXPECT_EQ(json::parse(pull("hf:git/tiny", {"--json"}).out)["state"], "downloaded");
  EXPECT_EQ(json::parse(pull("hf:git/tiny", {"--json"}).out)["state"], "current");
  std::string newer = model_;
  newer.back() = static_cast<char>(newer.back() ^ 1);
  write(newer, "hub/parts/tiny-Q4_0.gguf");
  EXPECT_EQ(json::parse(pull("hf:git/tiny", {"--json"}).out)["state"], "replaced");
  EXPECT_EQ(read_whole(kept("git/tiny/parts/tiny-Q4_0.gguf")), newer);
}

TEST_F(Pull, RefusalsOfTheHubAreSentences) {
  const std::pair<const char*, const char*> refusals[] = {
      {"list401", "HF_TOKEN"}, {"list403", "licence"}, {"list404", "spelling"},
      {"list429", "in 7 s"},   {"list503", "503"},     {"file403", "licence"},
      {"file404", "no such"},  {"file429", "HF_TOKEN"}};
  for (const auto& [org, words] : refusals) {
    expect_refusal(pull(std::string("hf:") + org + "/tiny"), 1, {words, org});
  }
  EXPECT_TRUE(parts().empty());
}

TEST_F(Pull, ListsThatAreNoneWriteNothing) {
  const std::pair<const char*, const char*> lists[] = {{"garbage", "JSON"},
                                                       {"evil", "outside"},
                                                       {"bighead", "a head of more than 256 KiB"},
                                                       {"bigpage", "without an end"},
                                                       {"endlesspages", "without an end"},
                                                       {"elsewhere", "another host"}};
  for (const auto& [org, words] : lists) {
    expect_refusal(pull(std::string("hf:") + org + "/tiny"), 1, {words, org});
  }
  EXPECT_FALSE(fs::exists(folder_.file("cache")));
  for (const char* org : {"loop", "filescheme"}) {
    expect_refusal(pull(std::string("hf:") + org + "/tiny"), 1, {"sends us"});
  }
  EXPECT_TRUE(parts().empty());
}

TEST_F(Pull, NobodyIsThere) {
  server_->stop();
  expect_refusal(pull("hf:good/tiny"), 1, {"cannot be asked", "connection"});
  environment_["HF_HUB_OFFLINE"] = "1";
  expect_refusal(pull("hf:good/tiny"), 1, {"HF_HUB_OFFLINE"});
}

TEST_F(Pull, AFullDiskLeavesThePart) {
  Command full = command({"pull", "hf:good/tiny"});
  full.most_file_bytes = 4096;
  expect_refusal(run_program(full), 1, {"tiny-Q4_0.gguf", "larger than the limit"});
  ASSERT_EQ(parts().size(), 1u);
  EXPECT_EQ(fs::file_size(parts()[0]), 4096u);
  expect_success(pull("hf:good/tiny"));
  EXPECT_EQ(read_whole(kept("good/tiny/parts/tiny-Q4_0.gguf")), model_);
}

TEST_F(Pull, TheCacheListsAndRemovesModels) {
  expect_success(pull("hf:good/tiny:Q8_0"));
  expect_success(pull("hf:good/tiny:Q4_0"));
  write_whole(folder_.file("cache/troika/profile-0.json"), "{}");
  json j = json::parse(run({"cache", "--json"}).out);
  ASSERT_EQ(j["files"].size(), 3u);
  EXPECT_EQ(j["files"][0]["name"], "models/good/tiny/parts/tiny-Q4_0.gguf");
  EXPECT_EQ(j["files"][0]["kind"], "model");
  EXPECT_EQ(j["bytes"], 2 * model_.size() + 2);
  expect_success(run({"cache", "--remove", "models/good/tiny/parts/tiny-Q4_0.gguf"}));
  EXPECT_FALSE(fs::exists(kept("good/tiny/parts")));
  EXPECT_TRUE(fs::exists(kept("good/tiny/tiny-Q8_0.gguf")));
  write_whole(kept("good/tiny/m.gguf.0.part"), "x");
  expect_success(run({"cache", "--remove-all"}));
  j = json::parse(run({"cache", "--json"}).out);
  ASSERT_EQ(j["files"].size(), 2u) << "models cost more than the rest, and stay";
  EXPECT_EQ(j["files"][0]["kind"], "download");
  write_whole(folder_.file("cache/troika/profile-0.json"), "{}");
  expect_success(run({"cache", "--remove-models"}));
  EXPECT_FALSE(fs::exists(kept("")));
  EXPECT_TRUE(fs::exists(folder_.file("cache/troika/profile-0.json")));
  EXPECT_EQ(run({"cache", "--remove-models", "--remove", "profile-0.json"}).status, 2);
  expect_success(run({"cache", "--remove-models", "--remove-all"}));
  EXPECT_EQ(json::parse(run({"cache", "--json"}).out)["files"].size(), 0u);
  const Finished none = run({"cache", "--remove-models"});
  expect_success(none);
  EXPECT_NE(none.err.find("nothing to remove"), std::string::npos) << none.err;
}

// Whoever puts models on a larger disk leaves a link in their place.
TEST_F(Pull, TheFolderOfModelsMayBeALink) {
  fs::create_directories(folder_.file("disk"));
  fs::create_directories(folder_.file("cache/troika"));
  const fs::path link = folder_.file("cache/troika/models");
  fs::create_directory_symlink(folder_.file("disk"), link);
  expect_success(pull("hf:good/tiny:Q8_0"));
  const json j = json::parse(run({"cache", "--json"}).out);
  ASSERT_EQ(j["files"].size(), 1u);
  EXPECT_EQ(j["files"][0]["name"], "models/good/tiny/tiny-Q8_0.gguf");
  EXPECT_EQ(j["files"][0]["kind"], "model");
  expect_success(run({"cache", "--remove-models"}));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_TRUE(fs::is_empty(folder_.file("disk")));
}

// Earlier answers of a task cannot be made again.
TEST_F(Pull, TheCacheKeepsHistories) {
  fs::create_directories(folder_.file("cache/troika"));
  for (const char* name : {"history-task.bin", "profile-0.json"}) {
    write_whole(folder_.file(std::string("cache/troika/") + name), "{}");
  }
  expect_success(run({"cache", "--remove-all", "--remove-models"}));
  const json j = json::parse(run({"cache", "--json"}).out);
  ASSERT_EQ(j["files"].size(), 1u);
  EXPECT_EQ(j["files"][0]["kind"], "history");
  EXPECT_NE(run({"cache", "--help"}).out.find("histories"), std::string::npos);
  expect_success(run({"cache", "--remove", "history-task.bin"}));
  EXPECT_EQ(json::parse(run({"cache", "--json"}).out)["files"].size(), 0u);
}

}  // namespace
}  // namespace troika::test
