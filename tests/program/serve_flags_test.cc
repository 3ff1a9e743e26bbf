// Tests what `troika serve` says to options that make no sense.
#include <utility>
#include <vector>

#include "tests/program/troika.h"
#include "tests/support/repository.h"

namespace troika::test {
namespace {

class ServeOptions : public ProgramTest {
 protected:
  void SetUp() override { model_ = write(small_model()); }
  std::string model_;
};

TEST_F(ServeOptions, NamesOfTheMachineStandAlone) {
  for (const std::string name : {"box.example.org:80", "http://box", "*.example.org"}) {
    expect_refusal(troika({"serve", model_, "--allow-host", name}), 2, {"--allow-host", name});
  }
  expect_refusal(troika({"serve", model_, "--socket", folder_.file("s"), "--allow-host", "box"}), 2,
                 {"--allow-host", "socket"});
}

// Clients wait in real time, so no answer may be timed by the clock of a phone.
TEST_F(ServeOptions, APhoneServesNobody) {
  const std::string phone = repository_file("phones/8gen3.json");
  expect_refusal(troika({"serve", model_, "--port", "0", "--machine", phone, "--stack", "llm.npu"}),
                 2, {"--machine", "run, eval and chat"});
  // Nobody is told to name the phone that is refused then.
  for (const auto& [name, value] :
       {std::pair("--stack", "llm.npu"), std::pair("--phone-pipeline", "none"),
        std::pair("--attention-lanes", "npu,cpu,cpu")}) {
    const Finished refused = troika({"serve", model_, "--port", "0", name, value});
    expect_refusal(refused, 2, {name, "run, eval and chat"});
    EXPECT_EQ(refused.err.find("--machine"), std::string::npos) << refused.err;
  }
  const Finished help = troika({"serve", "--help"});
  expect_success(help);
  for (const char* const word : {"phone", "--machine", "--stack"}) {
    EXPECT_EQ(help.out.find(word), std::string::npos) << word << help.out;
  }
}

// Who takes --api-key for the option of a file would have the path as the key.
TEST_F(ServeOptions, AKeyThatIsAFileIsNoted) {
  const auto start = [&](const std::string& key) {
    return troika({"serve", folder_.file("none.gguf"), "--port", "0", "--api-key", key});
  };
  const Finished noted = start(write(std::string("SECRET\n"), "keys.txt"));
  EXPECT_NE(noted.err.find("note: --api-key is the key itself"), std::string::npos) << noted.err;
  EXPECT_NE(noted.err.find("--api-key-file"), std::string::npos) << noted.err;
  EXPECT_EQ(start("SECRET").err.find("--api-key-file"), std::string::npos);
}

TEST_F(ServeOptions, ASocketHasNoPort) {
  for (const auto& [name, value] : {std::pair("--port", "0"), std::pair("--host", "127.0.0.1")}) {
    expect_refusal(troika({"serve", model_, "--socket", folder_.file("s"), name, value}), 2,
                   {name, "--socket"});
  }
  expect_refusal(troika({"serve", model_, "--ping=nan"}), 2, {"--ping"});
  // A variable that is not set opens no port that others on this machine reach.
  expect_refusal(troika({"serve", model_, "--socket", ""}), 2, {"the path has 0 bytes"});
}

// Whoever gives no bytes to what is kept does not get the usual ones.
TEST_F(ServeOptions, KeptPrefixesHaveAFolderAndRoom) {
  const std::string folder = folder_.file("kept"), none = folder_.file("none.gguf");
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--cache-size", "0"}, {"--cache-size", "1G"}}) {
    expect_refusal(troika({"serve", none, words[0], words[1]}), 2, {"--cache-dir", "folder"});
  }
  expect_refusal(troika({"serve", none, "--cache-dir", folder, "--cache-size", "0"}), 2,
                 {"--cache-size 0", "--cache-dir"});
  const Finished shared = troika({"serve", none, "--port", "0", "--cache-shared"});
  expect_refusal(shared, 1, {none});
  EXPECT_NE(shared.err.find("note: --cache-shared does nothing here: "), std::string::npos)
      << shared.err;
}

// What the server's options say of sampling holds where a request says nothing, so that a request
// may make use of what another option would leave idle.
TEST_F(ServeOptions, DefaultsOfRequestsAreNeverIdle) {
  const std::string none = folder_.file("none.gguf");
  const Finished finished = troika({"serve", none, "--port", "0", "--temp", "0", "--seed", "7",
                                    "--top-k", "5", "--penalty-window", "3"});
  expect_refusal(finished, 1, {none});
  EXPECT_EQ(finished.err.find("does nothing here"), std::string::npos) << finished.err;
}

// What a client did not choose it is not refused for: wrong defaults end the server at once. Those
// of sampling are known before the model is loaded.
TEST_F(ServeOptions, WrongDefaultsOfRequestsAreToldAtTheStart) {
  const std::string none = folder_.file("none.gguf");
  const auto refuse = [](const std::string& model, const std::string& name,
                         const std::string& value, const std::string& part) {
    SCOPED_TRACE(name + " " + value);
    expect_refusal(troika({"serve", model, "--port", "0", name + "=" + value}), 2, {part});
  };
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"--temp", "-1"}, {"--top-p", "2"}, {"--top-p", "nan"}, {"--penalty-window", "-5"}}) {
    refuse(none, name, value, name);
  }
  refuse(model_, "--draft", "bogus", "'bogus'");
  refuse(model_, "--draft-width", "999", "--draft-width");
  refuse(model_, "--calibrate-drafts", "500", "--calibrate-drafts");
}

// No byte of a draft model is asked for that would not be used.
TEST_F(ServeOptions, ADraftModelIsRefusedBeforeItIsDownloaded) {
  Command serve = troika_command({"serve", model_, "--draft", "model:hf:a/b:Q4_0"});
  serve.environment["HF_HUB_OFFLINE"] = "1";
  expect_refusal(run_program(serve), 2, {"one answer at a time", "A server takes --draft"});
}

// A variable that is not set gives an empty key, which a request without a key has.
TEST_F(ServeOptions, KeysAreSuchAsClientsCanSend) {
  for (const std::string key : {"", " a", "a ", "a\tb"}) {
    expect_refusal(troika({"serve", model_, "--api-key", key}), 2, {"--api-key", "empty"});
  }
  const std::string file = folder_.file("keys");
  write_whole(file, "\r\n\n");
  expect_refusal(troika({"serve", model_, "--api-key-file", file}), 2, {file, "no key"});
  EXPECT_NE(troika({"serve", model_, "--api-key-file", ""}).status, 0);
}

}  // namespace
}  // namespace troika::test
