#include "draft/history.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/error.h"
#include "tests/support/temp_folder.h"

namespace troika::draft {
namespace {

using Tokens = std::vector<Token>;
constexpr int kVocab = 1000;

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string error_of(const HistoryFile& file) {
  try {
    file.read(nullptr);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class HistoryFileTest : public ::testing::Test {
 protected:
  test::TempFolder folder_;
  const std::string path_ = folder_.file("task/history.bin");
  const HistoryFile file_{path_, 42, kVocab};
};

TEST_F(HistoryFileTest, KeepsTextsInOrder) {
  std::string problem = "none yet";
  EXPECT_TRUE(file_.read(&problem).empty());
  EXPECT_EQ(problem, "");
  file_.append(Tokens{1, 2, 3});
  file_.append(Tokens{});
  file_.append(Tokens{999});
  EXPECT_EQ(file_.read(&problem), (Texts{{1, 2, 3}, {999}}));
  EXPECT_EQ(problem, "");
}

TEST_F(HistoryFileTest, DropsWhatACutOffWriteLeft) {
  file_.append(Tokens{1, 2, 3});
  const size_t n_one = bytes_of(path_).size();
  file_.append(Tokens{4, 5, 6, 7});
  const std::string whole = bytes_of(path_);
  for (size_t n = n_one + 1; n < whole.size(); ++n) {
    write(path_, whole.substr(0, n));
    std::string problem;
    EXPECT_EQ(file_.read(&problem), (Texts{{1, 2, 3}})) << n;
    EXPECT_NE(problem.find("dropped"), std::string::npos) << n;
  }
  // The next text takes the place of the dropped one.
  file_.append(Tokens{8});
  std::string problem;
  EXPECT_EQ(file_.read(&problem), (Texts{{1, 2, 3}, {8}}));
  EXPECT_EQ(problem, "");
  // A file that ends within its header is refused too.
  for (const size_t n : {0u, 1u, 7u, 8u, 20u, 31u}) {
    write(path_, whole.substr(0, n));
    EXPECT_TRUE(file_.read(&problem).empty());
    file_.append(Tokens{5});
    EXPECT_EQ(file_.read(&problem), (Texts{{5}})) << n;
  }
}

TEST_F(HistoryFileTest, NeverBelievesAFlippedBit) {
  file_.append(Tokens{1, 2, 3});
  file_.append(Tokens{4, 5});
  const std::string whole = bytes_of(path_);
  const Texts right = file_.read(nullptr);
  for (size_t i = 0; i < whole.size(); ++i) {
    // Four bytes of each record have no meaning.
    std::string bytes = whole;
    bytes[i] = static_cast<char>(bytes[i] ^ 0x10);
    write(path_, bytes);
    try {
      const Texts texts = file_.read(nullptr);
      ASSERT_LE(texts.size(), right.size());
      for (size_t t = 0; t < texts.size(); ++t) EXPECT_EQ(texts[t], right[t]) << i;
    } catch (const Error&) {
    }
  }
}

size_t n_open_files() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

TEST_F(HistoryFileTest, RefusesOthersWithASentence) {
  const size_t n_open = n_open_files();
  file_.append(Tokens{1, 2, 3});
  const HistoryFile other(path_, 43, kVocab);
  EXPECT_NE(error_of(other).find("another tokenizer"), std::string::npos) << error_of(other);
  EXPECT_THROW(other.append(Tokens{1}), Error);
  EXPECT_EQ(file_.read(nullptr), (Texts{{1, 2, 3}}));

  write(path_, "A letter to a friend, which nobody wants to lose.");
  EXPECT_NE(error_of(file_).find("is no history"), std::string::npos) << error_of(file_);
  EXPECT_THROW(file_.append(Tokens{1}), Error);
  EXPECT_EQ(bytes_of(path_).substr(0, 8), "A letter");

  write(path_, std::string(size_t{8} << 20, 'T'));
  EXPECT_NE(error_of(file_).find("more than a history"), std::string::npos) << error_of(file_);
  const HistoryFile in_folder(folder_.file(""), 42, kVocab);
  EXPECT_NE(error_of(in_folder).find("is no regular file. Give"), std::string::npos)
      << error_of(in_folder);
  EXPECT_EQ(n_open_files(), n_open) << "none stays open";
}

TEST_F(HistoryFileTest, RefusesTokensThatTheModelLacks) {
  file_.append(Tokens{1, 2, 3});
  file_.append(Tokens{900});
  const HistoryFile smaller(path_, 42, 100);
  EXPECT_EQ(smaller.read(nullptr), (Texts{{1, 2, 3}}));
}

TEST_F(HistoryFileTest, StaysSmall) {
  const Tokens text(1000, 7);
  size_t most_bytes = 0;
  for (int i = 0; i < 200; ++i) {
    Tokens numbered = text;
    numbered[0] = static_cast<Token>(i);
    file_.append(numbered);
    most_bytes = std::max(most_bytes, bytes_of(path_).size());
  }
  EXPECT_LE(most_bytes, kMostHistoryTokens * sizeof(Token) + 4096);
  const Texts texts = file_.read(nullptr);
  ASSERT_FALSE(texts.empty());
  EXPECT_EQ(texts.back()[0], 199) << "the newest stays";
  EXPECT_EQ(std::filesystem::status(path_).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write)
      << "answers are nobody else's, also once the file was replaced";
  file_.append(Tokens(3 * kMostHistoryTokens, 9));
  EXPECT_LE(bytes_of(path_).size(), kMostHistoryTokens * sizeof(Token) + 4096);
}

// Runs three programs that append texts and read them. Returns what is left.
Texts write_together(const HistoryFile& file, int n_texts, size_t n_tokens) {
  constexpr int kPrograms = 3;
  std::vector<pid_t> programs;
  for (int p = 0; p < kPrograms; ++p) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      int status = 0;
      try {
        for (int i = 0; i < n_texts; ++i) {
          Tokens text(n_tokens, 5);
          text[0] = p, text[1] = i;
          file.append(text);
          if (file.read(nullptr).empty()) status = 1;
        }
      } catch (const Error&) {
        status = 2;
      }
      ::_exit(status);
    }
    programs.push_back(pid);
  }
  for (const pid_t pid : programs) {
    int status = -1;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
  std::string problem;
  const Texts texts = file.read(&problem);
  EXPECT_EQ(problem, "");
  std::vector<int> last(kPrograms, -1);
  for (const Tokens& text : texts) {
    int& before = last[static_cast<size_t>(text[0])];
    EXPECT_GT(text[1], before) << "each in its order";
    before = text[1];
  }
  return texts;
}

TEST_F(HistoryFileTest, SeveralProgramsLoseNothing) {
  EXPECT_EQ(write_together(file_, 60, 100).size(), 180u);
}

TEST_F(HistoryFileTest, SeveralProgramsReplaceTheFileInTurn) {
  const size_t n_texts = write_together(file_, 50, 2000).size();
  EXPECT_LE(n_texts * 2000, kMostHistoryTokens);
  EXPECT_GE(n_texts * 2000, kMostHistoryTokens / 4);
}

TEST(History, GuessesWhatEarlierAnswersSaid) {
  auto texts = std::make_shared<Texts>(Texts{{1, 2, 3, 4, 5}, {9, 3, 7, 8}});
  HistorySource source(texts);
  source.observe(Tokens{50, 51, 2, 3});
  Tree tree;
  source.propose(8, &tree);
  ASSERT_NE(tree.child(kRoot, 4), Tree::kNoNode);
  EXPECT_NE(tree.child(tree.child(kRoot, 4), 5), Tree::kNoNode);
  tree.clear();
  source.observe(Tokens{60});
  source.propose(8, &tree);
  EXPECT_TRUE(tree.empty()) << "nobody knows this token";
  source.observe(Tokens{9, 3});
  source.propose(8, &tree);
  ASSERT_NE(tree.child(kRoot, 7), Tree::kNoNode);
  if (tree.child(kRoot, 4) != Tree::kNoNode) {
    EXPECT_GT(tree[tree.child(kRoot, 7)].chance, tree[tree.child(kRoot, 4)].chance);
  }
  // A text that is added later counts for the next answer.
  texts->push_back({60, 61});
  source.reset();
  source.observe(Tokens{60});
  tree.clear();
  source.propose(8, &tree);
  EXPECT_NE(tree.child(kRoot, 61), Tree::kNoNode);
}

TEST(History, KeepsTheEndOfThePromptToo) {
  Tokens prompt;
  for (int i = 0; i < 20; ++i) prompt.push_back(i);
  const Tokens text = history_text(prompt, Tokens{100, 101});
  EXPECT_EQ(text.front(), 12);
  EXPECT_EQ(text.back(), 101);
  EXPECT_EQ(text.size(), 10u);
  EXPECT_EQ(history_text(Tokens{1}, Tokens{2}), (Tokens{1, 2}));
}

}  // namespace
}  // namespace troika::draft
