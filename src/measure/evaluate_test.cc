#include "measure/evaluate.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <string>

#include "base/error.h"
#include "engine/engine.h"
#include "measure/evaluate_drafts.h"
#include "tests/support/gguf_bytes.h"
#include "tests/support/random_tensor.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_tokenizer.h"

namespace troika::measure {
namespace {

using test_support::GgufBytes;

constexpr int kEnd = 2;
constexpr uint32_t kWidth = 32;
constexpr uint32_t kVocabulary = 512;

// Returns a token of tests/support/tiny_tokenizer.h: bytes stand behind the three special tokens,
// and letters, in the order of their frequency, behind the mark of a space.
int token_of(char c) {
  if (c == '\n') return 3 + '\n';
  const std::string letters = "etaoinshrdlucmfwypvbgkjqxz";
  return 3 + 256 + 1 + static_cast<int>(letters.find(c));
}

// A model that writes a fixed text: a token alone decides which token follows. Its block adds
// nothing, and each token of the chain has a direction of its own.
class ChainModel {
 public:
  // Makes the model that writes after each character of `text` the next one, and after the last one
  // the end token.
  explicit ChainModel(const std::string& text) {
    for (size_t i = 0; i < text.size(); ++i) {
      const int next = i + 1 < text.size() ? token_of(text[i + 1]) : kEnd;
      if (!next_.emplace(token_of(text[i]), next).second) ADD_FAILURE() << "a repeated character";
    }
  }

  std::string write() const {
    GgufBytes file;
    file.add_string("general.architecture", "llama");
    for (const auto& [key, value] : std::map<std::string, uint32_t>{{"context_length", 64},
                                                                    {"embedding_length", kWidth},
                                                                    {"block_count", 1},
                                                                    {"feed_forward_length", kWidth},
                                                                    {"attention.head_count", 1}}) {
      file.add_uint32("llama." + key, value);
    }
    file.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    test_support::add_spm_tokenizer(file, kVocabulary);
    std::vector<float> embedding(kVocabulary * kWidth), output(kVocabulary * kWidth);
    uint32_t direction = 0;
    for (const auto& [token, next] : next_) {
      embedding[static_cast<size_t>(token) * kWidth + direction] = 1;
      output[static_cast<size_t>(next) * kWidth + direction] = 1;
      ++direction;
    }
    add(file, "token_embd.weight", {kWidth, kVocabulary}, embedding);
    add(file, "output.weight", {kWidth, kVocabulary}, output);
    for (const char* name : {"output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"}) {
      add(file, std::string(name) + ".weight", {kWidth}, std::vector<float>(kWidth, 1));
    }
    for (const char* name :
         {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
      add(file, "blk.0." + std::string(name) + ".weight", {kWidth, kWidth},
          std::vector<float>(kWidth * kWidth));
    }
    const std::string path = folder_.file("chain.gguf");
    const std::vector<uint8_t> bytes = file.finish();
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return path;
  }

 private:
  static void add(GgufBytes& file, const std::string& name, const std::vector<uint64_t>& shape,
                  const std::vector<float>& values) {
    std::vector<uint8_t> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    file.add_tensor(name, test_support::kF32, shape, bytes);
  }

  test::TempFolder folder_;
  std::map<int, int> next_;
};

// Returns the scores of a model that answers "q" with "ab
// cd".
std::vector<TaskScore> scores(const std::vector<EvalTask>& tasks, const TaskOptions& how = {}) {
  const ChainModel model("qab\ncd");
  prepare::Options options;
  options.model.file = model.write();
  options.lanes.n_threads = 1;
  engine::Engine engine(options);
  engine::Session session(engine);
  return score_tasks(session, tasks, how, {});
}

TEST(ScoreTasks, AnAnswerMayHaveSeveralLines) {
  EXPECT_EQ(scores({{"q", "ab\ncd", ""}})[0].n_right, 1);
  EXPECT_EQ(scores({{"q", "ab\nce", ""}})[0].n_right, 0);
}

TEST(ScoreTasks, TheWholeAnswerCounts) {
  EXPECT_EQ(scores({{"q", "ab", ""}})[0].n_right, 0);
  EXPECT_EQ(scores({{"q", "ab\ncd\ne", ""}})[0].n_right, 0);
  EXPECT_EQ(scores({{"q", "b\ncd", ""}})[0].n_right, 0);
}

TEST(ScoreTasks, WhiteSpaceAroundDoesNotCount) {
  EXPECT_EQ(scores({{"q", " \n ab\ncd\n\t ", ""}})[0].n_right, 1);
  EXPECT_EQ(scores({{"q", "ab \ncd", ""}})[0].n_right, 0);
  EXPECT_EQ(scores({{"qd", "  ", ""}})[0].n_right, 1);  // ends at once with the end token
}

TEST(ScoreTasks, OnlyTheFirstLineIfAskedFor) {
  EXPECT_EQ(scores({{"q", "ab", ""}}, {.first_line_only = true})[0].n_right, 1);
  EXPECT_EQ(scores({{"q", "ab\nxy", ""}}, {.first_line_only = true})[0].n_right, 1);
  EXPECT_EQ(scores({{"q", "a", ""}}, {.first_line_only = true})[0].n_right, 0);
}

TEST(ScoreTasks, OnlyTheFirstWordIfAskedFor) {
  EXPECT_EQ(scores({{"q", "ab", ""}}, {.first_word_only = true})[0].n_right, 1);
  EXPECT_EQ(scores({{"q", " \"ab,\" he", ""}}, {.first_word_only = true})[0].n_right, 1);
  EXPECT_EQ(scores({{"q", "a", ""}}, {.first_word_only = true})[0].n_right, 0);
  EXPECT_EQ(scores({{"q", "abc", ""}}, {.first_word_only = true})[0].n_right, 0);
  // The answer's word goes up to its end.
  EXPECT_EQ(scores({{"qab", "cd", ""}}, {.first_word_only = true})[0].n_right, 1);
}

TEST(SecondHalves, AreThoseOfWholeWindows) {
  const ChainModel model("qbcdfghj");
  prepare::Options options;
  options.model.file = model.write();
  options.lanes.n_threads = 1;
  options.memory.context = 8;
  engine::Engine engine(options);
  engine::Session session(engine);
  // A window has the begin token, a space and six letters. Its last three tokens are predicted,
  // each from the letter before it alone.
  const Perplexity known = perplexity_of_second_halves(session, "qbcdfg", {});
  EXPECT_EQ(known.n_tokens, 3u);
  EXPECT_LT(known.nll, 2.0);
  EXPECT_EQ(perplexity_of_second_halves(session, "xqcdfg", {}).nll, known.nll);
  EXPECT_GT(perplexity_of_second_halves(session, "qbcdfx", {}).nll, known.nll + 1.0);
  // The second window has eight letters, and the begin token replaces the first of them. What
  // follows is no whole window.
  const Perplexity two = perplexity_of_second_halves(session, "qbcdfgxxxxcdfgxxx", {});
  EXPECT_EQ(two.n_tokens, 6u);
  EXPECT_DOUBLE_EQ(two.nll, known.nll);
  EXPECT_THROW(perplexity_of_second_halves(session, "qbc", {}), Error);
}

// No longer text would help there, which the error must not ask for.
TEST(SecondHalves, AContextWithoutAPredictedTokenIsNamed) {
  const ChainModel model("qbcdfghj");
  prepare::Options options;
  options.model.file = model.write();
  options.lanes.n_threads = 1;
  options.memory.context = 2;
  engine::Engine engine(options);
  engine::Session session(engine);
  ASSERT_EQ(session.context(), 2);
  const std::string message =
      test::message_of<Error>([&] { perplexity_of_second_halves(session, "qbcdfg", {}); });
  EXPECT_NE(message.find("‹context›"), std::string::npos) << message;
}

// Answers of an hour must not be lost for the last prompt.
TEST(ScoreTasks, APromptThatIsTooLongIsNamedBeforeAnyAnswer) {
  const ChainModel model("qab\ncd");
  prepare::Options options;
  options.model.file = model.write();
  options.lanes.n_threads = 1;
  options.memory.context = 32;
  engine::Engine engine(options);
  engine::Session session(engine);
  bool has_answered = false;
  const std::string message = test::message_of<Error>([&] {
    score_tasks(
        session,
        {{"q", "ab", "", "tasks.jsonl:1"}, {std::string(40, 'q'), "a", "", "tasks.jsonl:2"}}, {},
        [&](uint64_t, uint64_t) { has_answered = true; });
  });
  EXPECT_NE(message.find("tasks.jsonl:2: "), std::string::npos) << message;
  EXPECT_NE(message.find("‹context›"), std::string::npos) << message;
  EXPECT_FALSE(has_answered);
}

// An answer that the context cuts off would count as wrong, and so would all of them after a rerun
// with a context as long as the longest prompt.
TEST(ScoreTasks, TheContextHasRoomForAnswersToo) {
  const ChainModel model("qab\ncd");
  prepare::Options options;
  options.model.file = model.write();
  options.lanes.n_threads = 1;
  const std::vector<EvalTask> tasks = {{std::string(26, 'q'), "ab\ncd", "", "tasks.jsonl:1"},
                                       {"q", "ab\ncd", "", "tasks.jsonl:2"},
                                       {std::string(30, 'q'), "ab\ncd", "", "tasks.jsonl:3"}};
  const auto right_in = [&](int context) {
    options.memory.context = context;
    engine::Engine engine(options);
    engine::Session session(engine);
    return score_tasks(session, tasks, {}, {})[0].n_right;
  };
  const std::string message = test::message_of<Error>([&] { right_in(32); });
  EXPECT_TRUE(message.starts_with("tasks.jsonl:3: ")) << message;
  EXPECT_NE(message.find("too little for 2 tasks"), std::string::npos) << message;
  const size_t advice = message.find("‹context› ");
  ASSERT_NE(advice, std::string::npos) << message;
  const int context = std::stoi(message.substr(advice + std::string("‹context› ").size()));
  EXPECT_GT(context, 30);
  EXPECT_EQ(right_in(context), 3);
}

TEST(ScoreTasks, NoKindIsCalledAsAllOfThemTogether) {
  const std::string message = test::message_of<Error>([] {
    scores({{"q", "ab", "form"}, {"q", "ab", "all", "tasks.jsonl:2"}});
  });
  EXPECT_TRUE(message.starts_with("tasks.jsonl:2: the kind \"all\"")) << message;
}

TEST(TokensOfSteps, AnAnswerWithoutTokensTakesNoneFromOthers) {
  const auto n = [](size_t n_tokens, engine::Stop stop) {
    engine::Generated answer;
    answer.tokens.resize(n_tokens);
    answer.stop = stop;
    return tokens_of_steps(answer);
  };
  EXPECT_EQ(n(0, engine::Stop::kEnd), 0);
  EXPECT_EQ(n(0, engine::Stop::kLength), 0);
  EXPECT_EQ(n(3, engine::Stop::kEnd), 3);
  EXPECT_EQ(n(3, engine::Stop::kLength), 2);
}

TEST(ScoreTasks, KindsAreCountedApart) {
  const auto s = scores(
      {{"q", "ab\ncd", "form"}, {"q", "no", "form"}, {"qb", "cd", "extract"}, {"qc", "d", ""}});
  ASSERT_EQ(s.size(), 3u);
  EXPECT_EQ(s[0].n, 4);
  EXPECT_EQ(s[0].n_right, 3);
  EXPECT_EQ(s[1].kind, "extract");
  EXPECT_EQ(s[1].n_right, 1);
  EXPECT_EQ(s[2].kind, "form");
  EXPECT_EQ(s[2].n, 2);
  EXPECT_EQ(s[2].n_right, 1);
}

}  // namespace
}  // namespace troika::measure
