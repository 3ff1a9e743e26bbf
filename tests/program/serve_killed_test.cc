// A server is killed while it keeps prefixes. The next start finds whole files, and gives the same
// answers.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <thread>

#include "tests/program/troika.h"
#include "tests/support/http_client.h"

namespace troika::test {
namespace {

using nlohmann::json;
using test_support::HttpAnswer;
using test_support::HttpClient;

class KilledServers : public ProgramTest {
 protected:
  void SetUp() override {
    test_support::TinyModel model = small_model();
    model.context = 2048;
    model_ = write(model);
    kept_ = folder_.file("kept");
    socket_ = folder_.file("s");
  }
  void TearDown() override {
    if (child_ > 0) kill_it();
  }
  void start() {
    std::filesystem::remove(socket_);
    std::vector<std::string> words = {TROIKA_PROGRAM, "serve",       model_, "--socket",
                                      socket_,        "--cache-dir", kept_,  "--context",
                                      "2048",         "--no-plan",   "-t",   "1"};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    child_ = fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      execv(arguments[0], arguments.data());
      _exit(127);
    }
    for (int i = 0; i < 6000; ++i) {
      try {
        if (HttpClient(socket_).get("/health").status == 200) return;
      } catch (const std::runtime_error&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      ASSERT_EQ(waitpid(child_, nullptr, WNOHANG), 0) << "the server ended by itself";
    }
    FAIL() << "the server does not answer";
  }
  void kill_it() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    child_ = -1;
  }
  json ask(int number) const {
    std::string prompt = "Story " + std::to_string(number) + ": ";
    for (int i = 0; i < 120; ++i) prompt += "word " + std::to_string((i * 7 + number) % 23) + " ";
    const json body = {
        {"prompt", prompt}, {"max_tokens", 4}, {"temperature", 0}, {"ignore_eos", true}};
    const HttpAnswer answer = HttpClient(socket_).post("/v1/completions", body.dump());
    if (answer.status != 200) throw std::runtime_error("refused: " + answer.body);
    return json::parse(answer.body, nullptr, false);
  }
  std::string model_, kept_, socket_;
  pid_t child_ = -1;
};

TEST_F(KilledServers, LeaveWholeFilesAndTheSameAnswers) {
  std::mt19937 random(5);
  std::vector<std::string> expected(3);
  int n_cached = 0;
  for (int round = 0; round < 8; ++round) {
    start();
    if (HasFatalFailure()) return;
    const int number = round % 3;
    const json answer = ask(number);
    const std::string text = answer["choices"][0]["text"];
    std::string& known = expected[static_cast<size_t>(number)];
    if (known.empty()) known = text;
    EXPECT_EQ(text, known) << "round " << round;
    n_cached += answer["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30'000));
    kill_it();
    for (const auto& entry : std::filesystem::directory_iterator(kept_)) {
      struct stat status = {};
      ASSERT_EQ(stat(entry.path().c_str(), &status), 0);
      EXPECT_EQ(status.st_mode & 0777, 0600u) << entry.path();
    }
  }
  EXPECT_GT(n_cached, 0) << "nothing was kept";
}

// No page in a browser reaches a socket file, so any name does. Proxies send what they were asked.
TEST_F(KilledServers, AreReachedUnderAnyNameBehindASocketFile) {
  start();
  if (HasFatalFailure()) return;
  HttpClient client(socket_);
  client.send("GET /health HTTP/1.1\r\nHost: box.example.org\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 200);
}

}  // namespace
}  // namespace troika::test
