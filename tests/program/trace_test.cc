// Tests that whatever has an end records its tasks: rates, widths, replays, perplexity, tasks.
#include <nlohmann/json.hpp>

#include "tests/program/troika.h"
#include "tests/support/repository.h"

namespace troika::test {
namespace {

using nlohmann::json;

class TraceProgram : public ProgramTest {
 protected:
  void SetUp() override {
    model_ = write(small_model());
    text_ = write(std::string("Once upon a time there was a cat."), "text.txt");
  }
  // Runs a command, and expects the tasks of `n_passes` passes or more in both files.
  Finished expect_trace(std::vector<std::string> words, size_t n_passes) const {
    const std::string trace = folder_.file("trace.json"), picture = folder_.file("lanes.svg");
    words.insert(words.end(), {"--trace", trace, "--timeline", picture});
    Finished finished = troika(words);
    expect_success(finished);
    const json events = json::parse(read_whole(trace), nullptr, false);
    size_t n_heads = 0;
    for (const json& event : events["traceEvents"]) {
      n_heads += event.contains("name") && event["name"] == "head" ? 1 : 0;
    }
    EXPECT_GE(n_heads, n_passes) << words[0] << events.dump().substr(0, 2000);
    EXPECT_NE(read_whole(picture).find("<svg"), std::string::npos);
    EXPECT_NE(finished.err.find("% busy"), std::string::npos) << finished.err;
    return finished;
  }
  std::string model_, text_;
};

TEST_F(TraceProgram, OfRatesHere) {
  const Finished finished = expect_trace(
      {"bench", model_, "--threads", "1", "-p", "8", "-n", "4", "-r", "1", "--json"}, 5);
  EXPECT_NE(finished.err.find("recording every task takes time"), std::string::npos);
}

TEST_F(TraceProgram, OfWidthsAndReplays) {
  expect_trace({"bench", model_, "--threads", "1", "--widths", "1,2", "-r", "1"}, 2);
  expect_trace({"bench", model_, "--replay", text_, "--force-text", text_, "--pairs", "1"}, 2);
}

TEST_F(TraceProgram, OfPerplexityAndTasks) {
  expect_trace({"eval", model_, "--perplexity", text_}, 1);
  const std::string tasks =
      write(std::string("{\"prompt\": \"Once\", \"answer\": \"upon\"}\n"), "tasks.jsonl");
  expect_trace({"eval", model_, "--tasks", tasks}, 1);
}

// A prompt that is as short as a step is a prompt in words nevertheless.
TEST_F(TraceProgram, OfAShortPromptAndItsAnswer) {
  expect_trace({"run", model_, "-p", "a b", "-n", "4", "--temp", "0", "--ignore-end", "--draft",
                "none", "--threads", "1"},
               4);
  const std::string picture = read_whole(folder_.file("lanes.svg"));
  EXPECT_NE(picture.find("a prompt of "), std::string::npos);
  EXPECT_NE(picture.find(", then 3 steps of the answer"), std::string::npos);
}

// A shape without weights cannot be `run`; what a phone does with it is seen by `bench`.
TEST_F(TraceProgram, OfAShapeOnAPhoneWithTheSameRates) {
  const std::vector<std::string> bench = {
      "bench",   "tiny-llama", "--machine", repository_file("phones/8gen3.json"),
      "--stack", "llm.npu",    "-p",        "64",
      "-n",      "2",          "--json"};
  const Finished plain = troika(bench), traced = expect_trace(bench, 3);
  expect_success(plain);
  json without = json::parse(plain.out, nullptr, false);
  json with = json::parse(traced.out, nullptr, false);
  for (json* const one : {&without, &with}) {
    for (json& rate : (*one)["prefill"]) rate.erase("scheduler");  // times of this machine
  }
  EXPECT_EQ(without, with);
}

}  // namespace
}  // namespace troika::test
