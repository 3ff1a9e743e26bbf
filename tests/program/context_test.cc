// Tests what is advised where the context has no room: each advice can be followed.
#include "tests/program/troika.h"

namespace troika::test {
namespace {

class ContextAdvice : public ProgramTest {
 protected:
  void SetUp() override { model_ = write(small_chat_model()); }
  // Returns the number behind "--context " in a sentence; 0 where there is none.
  static int advised(const std::string& told) {
    const std::string name = "--context ";
    const size_t at = told.find(name);
    return at == std::string::npos ? 0 : std::stoi(told.substr(at + name.size()));
  }
  std::string model_;
  const std::string prompt_ = std::string(600, 'a');
};

TEST_F(ContextAdvice, AnAnswerOfAnyLengthGetsALongContext) {
  for (const char* n : {"2147483647", "2000000000"}) {
    const Finished refused = troika({"run", model_, "-p", prompt_, "-c", "64", "-n", n});
    expect_refusal(refused, 1, {"context holds 64", "Shorten"});
    const int context = advised(refused.err);
    EXPECT_GT(context, 64) << refused.err;
    EXPECT_LT(context, 20000) << refused.err;
  }
}

// Beside a plan --context does nothing, so it is no advice.
TEST_F(ContextAdvice, WhoHasAPlanIsToldToMakeAnother) {
  const std::string plan = folder_.file("plan.json");
  expect_success(troika({"plan", model_, "-c", "64", "-o", plan}));
  const std::string tasks =
      write("{\"prompt\": \"" + std::string(300, 'a') + "\", \"answer\": \"b\"}\n", "tasks.jsonl");
  const std::vector<std::string> parts = {"context holds 64, as " + plan + " says",
                                          "use --context ", " without --plan, or make another"};
  expect_refusal(troika({"run", model_, "-p", prompt_, "--plan", plan}), 1, parts);
  expect_refusal(troika({"eval", model_, "--tasks", tasks, "--plan", plan}), 1, parts);
  expect_refusal(troika({"eval", model_, "--cag", tasks, "--plan", plan}), 1, parts);
  expect_refusal(troika({"bench", model_, "-p", "128", "-n", "1", "--plan", plan}), 1, parts);
  const Finished told =
      troika({"chat", model_, "-n", "40", "--temp", "0", "--plan", plan}, "hello\nhello\nhello\n");
  EXPECT_NE((told.out + told.err).find("without --plan, or make another plan"), std::string::npos)
      << told.out << told.err;
  // What is advised helps.
  const Finished refused = troika({"eval", model_, "--tasks", tasks, "--plan", plan});
  const std::string context = std::to_string(advised(refused.err));
  expect_success(troika({"plan", model_, "-c", context, "-o", plan}));
  expect_success(troika({"eval", model_, "--tasks", tasks, "--plan", plan}));
}

}  // namespace
}  // namespace troika::test
