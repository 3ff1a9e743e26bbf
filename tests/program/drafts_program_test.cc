// Tests sources of drafts from the command line: a history that helps the next run, and refusals of
// bad ones.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/program/troika.h"
#include "tests/support/repository.h"

namespace troika::test {
namespace {

using nlohmann::json;

class DraftSources : public ProgramTest {
 protected:
  void SetUp() override { model_ = write(small_model()); }
  std::vector<std::string> words(const std::string& history) const {
    return {"run",    model_,  "-p",           "Once upon a time", "-n", "40",
            "--seed", "5",     "--ignore-end", "--draft-width",    "8",  "--history",
            history,  "--json"};
  }
  json run(const std::string& history) const {
    const Finished finished = troika(words(history));
    expect_success(finished);
    return json::parse(finished.out, nullptr, /*allow_exceptions=*/false);
  }
  std::string model_;
};

TEST_F(DraftSources, D5TheSecondRunOfATaskAcceptsMore) {
  const std::string history = folder_.file("task.bin");
  const json first = run(history), second = run(history);
  EXPECT_EQ(first["text"], second["text"]);
  EXPECT_EQ(first["tokens"], second["tokens"]);
  EXPECT_GT(second["draft"]["accepted"], first["draft"]["accepted"]);
  EXPECT_LT(second["draft"]["verifications"], 10);
  EXPECT_EQ(second["draft"]["sources"].back()["name"], "history");
  EXPECT_GT(second["draft"]["sources"].back()["accepted"], 20);
}

TEST_F(DraftSources, ANewHistoryIsAnnouncedWithItsSizeOnce) {
  const std::string history = folder_.file("task.bin");
  const Finished first = troika(words(history)), second = troika(words(history));
  expect_success(first);
  const size_t at = first.err.find(history + " (");
  ASSERT_NE(at, std::string::npos) << first.err;
  EXPECT_NE(first.err.find("B): keeps answers", at), std::string::npos) << first.err;
  EXPECT_EQ(second.err.find(history), std::string::npos) << second.err;
}

TEST_F(DraftSources, AHistoryThatIsNoneIsRefusedWithASentence) {
  const std::string letter = folder_.file("letter.txt");
  write_whole(letter, "Dear friend, I hope that this letter finds you well.");
  expect_refusal(troika(words(letter)), 1, {"letter.txt", "no history"});
  const std::string history = folder_.file("task.bin");
  run(history);
  test_support::TinyModel other = small_model();
  other.vocabulary += 32;
  const std::string other_model = write(other, "other.gguf");
  std::vector<std::string> others = words(history);
  others[1] = other_model;
  expect_refusal(troika(others), 1, {"task.bin", "another tokenizer"});
}

TEST_F(DraftSources, AHistoryThatWasCutOffGoesOn) {
  const std::string history = folder_.file("task.bin");
  run(history);
  run(history);
  const auto size = std::filesystem::file_size(history);
  std::filesystem::resize_file(history, size - 10);
  const Finished finished = troika(words(history));
  expect_success(finished);
  EXPECT_NE(finished.err.find("dropped"), std::string::npos) << finished.err;
  EXPECT_EQ(std::filesystem::file_size(history), size);
}

TEST_F(DraftSources, EvalOfTasksWithTheirContext) {
  const std::string tasks = folder_.file("tasks.jsonl");
  write_whole(tasks,
              "{\"kind\":\"a\",\"prompt\":\"one two three one two three one two\"}\n"
              "{\"kind\":\"b\",\"prompt\":\"one two\",\"answer\":\"three\"}\n");
  const Finished finished = troika({"eval", model_, "--cag", tasks, "--answer", "12", "--json"});
  expect_success(finished);
  const json j = json::parse(finished.out, nullptr, /*allow_exceptions=*/false);
  EXPECT_EQ(j["different"], 0);
  EXPECT_EQ(j["scores"].size() % 3, 0u);  // scores come for two kinds of tasks and for all
  EXPECT_EQ(j["scores"].front()["draft"], "none");
  EXPECT_GT(j["head_share"], 0);
  expect_success(
      troika({"eval", model_, "--cag", tasks, "--answer", "12", "--coverages", "0,50,100"}));
  expect_refusal(troika({"eval", model_, "--cag", tasks, "--drafts", "guess"}), 2, {"guess"});
  expect_refusal(troika({"eval", model_, "--cag", tasks, "-c", "8"}), 1, {"tasks.jsonl:", "-c"});
  write_whole(tasks, "{\"kind\":\"a\",\"messages\":[1]}\n");
  expect_refusal(troika({"eval", model_, "--cag", tasks}), 1, {"tasks.jsonl:1", "message"});
}

// Measures on this machine what the paper's Tables 3 and 4 show, beside what is simulated.
TEST_F(DraftSources, ReproduceMeasuresDraftsOnThisMachine) {
  const std::string tasks = folder_.file("tasks.jsonl");
  write_whole(tasks,
              "{\"kind\":\"ui\",\"prompt\":\"one two three one two three one two\"}\n"
              "{\"kind\":\"qa\",\"prompt\":\"one two\"}\n"
              // The context that is chosen unasked has no room for an answer behind this one.
              "{\"kind\":\"qa\",\"prompt\":\"" +
                  std::string(480, 'a') + "\"}\n");
  const std::string phones = repository_file("phones");
  const Finished finished = troika(
      {"reproduce", "sd.npu", "--phones", phones, "--measure", model_, "--tasks", tasks, "--json"});
  expect_success(finished);
  EXPECT_NE(finished.err.find("simulating sd.npu"), std::string::npos) << finished.err;
  const json measured = json::parse(finished.out, nullptr, false)["this_machine"];
  EXPECT_EQ(measured["n_tasks"], 3);
  // There are five settings, each for two kinds of tasks and for all.
  ASSERT_EQ(measured["scores"].size(), 15u);
  for (const json& score : measured["scores"]) {
    EXPECT_GT(score["ms_per_token"], 0) << score;
    EXPECT_GT(score["total_ms_per_token"], 0) << score;
    EXPECT_GE(score["tokens_per_verification"], 1) << score;
  }
  expect_refusal(troika({"reproduce", "sd.npu", "--phones", phones, "--measure", model_}), 2,
                 {"--tasks", "cag_tasks.py"});
  expect_refusal(troika({"reproduce", "micro", "--phones", phones, "--measure", model_}), 2,
                 {"sd.npu and heterollm"});
}

}  // namespace
}  // namespace troika::test
