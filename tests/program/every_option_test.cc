// Tests that no option of any command can be forgotten: each has a row that says where it counts
// and where the program says that it does nothing.
#include <sched.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>

#include "tests/program/option_rows.h"
#include "tests/program/troika.h"
#include "tests/support/repository.h"

namespace troika::test {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool has_two_cores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof(cores), &cores) == 0 && CPU_ISSET(0, &cores) &&
         CPU_ISSET(1, &cores);
}

// Returns a core that this process may run on.
int first_core() {
  cpu_set_t cores;
  int core = 0;
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return core;
  while (core + 1 < CPU_SETSIZE && !CPU_ISSET(core, &cores)) ++core;
  return core;
}

// Returns the commands that 'troika --help' lists.
std::vector<std::string> commands() {
  std::vector<std::string> names;
  std::istringstream lines(troika({"--help"}).out);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = words_of(line);
    if (line.starts_with("  ") && line.size() > 2 && line[2] >= 'a' && line[2] <= 'z') {
      names.push_back(words.front());
    }
  }
  return names;
}

// Returns the long names of the options that --help of a command lists.
std::set<std::string> options_of(const std::string& command) {
  std::set<std::string> names;
  std::istringstream lines(troika({command, "--help"}).out);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  -")) continue;
    const std::string first = words_of(line).front();
    const std::string name = first.substr(std::min(first.find("--"), first.size()));
    if (!name.empty() && name != "--help") names.insert(name);
  }
  return names;
}

std::string option_of(const OptionRow& row) { return words_of(row.words).front(); }

// Says whether a text has this word, which may not be the beginning of a longer one.
bool speaks_of(const std::string& text, const std::string& word) {
  const auto is_of_word = [](char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; };
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if (end == text.size() || !is_of_word(text[end])) return true;
  }
  return false;
}

// Expects that the test which a row names ("see FILE", "see FILE FIELD") speaks of its option.
void expect_test_of(const std::string& see, const std::string& option) {
  const std::vector<std::string> words = words_of(see);
  ASSERT_GE(words.size(), 2u) << see;
  const std::string text = read_whole(repository_file(words[1]));
  const std::string wanted = words.size() > 2 ? "." + words[2] : option;
  EXPECT_TRUE(speaks_of(text, wanted))
      << words[1] << " does not say '" << wanted << "', though it is to show " << option;
}

bool is_for(const OwnRow& row, const std::string& command) {
  const std::vector<std::string> names = words_of(row.commands);
  return std::find(names.begin(), names.end(), command) != names.end();
}

class EveryOption : public ProgramTest {
 protected:
  void SetUp() override {
    text_ = write(std::string("Once upon a time there was a cat."), "text.txt");
    places_ = {{"MODEL", write(small_model())},
               {"CHAT", write(small_chat_model(), "chat.gguf")},
               {"BPE", write(small_model("qwen2"), "bpe.gguf")},
               {"RELU", repository_file("models/troika-relu-q8_0.gguf")},
               {"PHONE", repository_file("phones/8gen3.json")},
               {"PHONES", repository_file("phones")},
               {"TEXT", text_},
               {"CORE", std::to_string(first_core())},
               {"NONE", folder_.file("none")},
               {"OUT", folder_.file("out")}};
  }
  // Returns the command line of a text, with files in the places of their names.
  std::vector<std::string> line(const std::string& text) const {
    std::vector<std::string> words = words_of(text);
    for (std::string& word : words) {
      if (const auto found = places_.find(word); found != places_.end()) word = found->second;
    }
    return words;
  }
  // Expects that the program says of the option that it does nothing, or refuses it by its name, or
  // does neither.
  void expect(const std::string& text, const std::string& option, bool is_idle) const {
    SCOPED_TRACE(text);
    const Finished finished = troika(line(text));
    const bool is_noted = finished.err.find(option + " does nothing here: ") != std::string::npos;
    const bool is_refused = finished.status == 2 && finished.err.find(option) != std::string::npos;
    EXPECT_EQ(is_noted || is_refused, is_idle) << option << "\n" << finished.err;
    if (!is_idle) expect_success(finished);
  }
  std::string text_;
  std::map<std::string, std::string> places_;
};

// Where a row is missing, an option is new: say where it counts, and let the program say where not.
TEST_F(EveryOption, HasARow) {
  const std::vector<std::string> all = commands();
  EXPECT_GT(all.size(), 15u);
  std::set<std::string> of_engines, seen;
  for (const OptionRow& row : kOptionRows) of_engines.insert(option_of(row));
  for (const std::string& command : all) {
    const std::set<std::string> options = options_of(command);
    EXPECT_FALSE(options.empty()) << command;
    const bool has_engine = options.count("--activations") > 0 && options.count("--load") > 0;
    for (const std::string& option : options) {
      seen.insert(option);
      const bool is_own = std::any_of(
          std::begin(kOwnRows), std::end(kOwnRows),
          [&](const auto& row) { return row.option == option && is_for(row, command); });
      EXPECT_TRUE(is_own || (has_engine && of_engines.count(option) > 0))
          << command << " " << option << " has no row in tests/program/option_rows.h";
    }
  }
  // A row whose option is gone tests nothing.
  for (const std::string& option : of_engines) EXPECT_TRUE(seen.count(option) > 0) << option;
  for (const OwnRow& row : kOwnRows) EXPECT_TRUE(seen.count(row.option) > 0) << row.option;
}

TEST_F(EveryOption, OfACommandIsNotedWhereItDoesNothing) {
  for (const OwnRow& row : kOwnRows) {
    if (row.idle != nullptr && !std::string_view(row.idle).starts_with("see ")) {
      expect(row.idle, row.option, true);
    }
  }
}

// Whatever is idle in each of the usual runs counts in another one, which its row names.
TEST_F(EveryOption, OfEnginesCountsSomewhere) {
  for (const OptionRow& row : kOptionRows) {
    const bool counts = std::string_view(row.says).find('c') != std::string_view::npos;
    EXPECT_TRUE(counts || row.counts != nullptr) << row.words;
    if (row.counts == nullptr || std::string_view(row.counts).starts_with("see ")) continue;
    const std::string text = std::string(row.counts) + " " + row.words;
    if (text.find("0;1") != std::string::npos && !has_two_cores()) continue;
    expect(text, option_of(row), false);
  }
}

// A row that names a test which never says the option's name would let it be forgotten.
TEST_F(EveryOption, IsInTheTestThatItsRowNames) {
  const auto look_at = [](const char* see, const std::string& option) {
    if (see == nullptr || !std::string_view(see).starts_with("see ")) return false;
    expect_test_of(see, option);
    return true;
  };
  int n_named = 0;
  for (const OptionRow& row : kOptionRows) n_named += look_at(row.counts, option_of(row)) ? 1 : 0;
  for (const OwnRow& row : kOwnRows) n_named += look_at(row.idle, row.option) ? 1 : 0;
  EXPECT_GT(n_named, 0);
}

TEST_F(EveryOption, BesideOthersIsNotedWhereItDoesNothing) {
  for (const BesideRow& row : kBesideRows) {
    if (std::string_view(row.line).find("0;1") != std::string_view::npos && !has_two_cores()) {
      continue;
    }
    expect(row.line, row.option, row.is_idle);
  }
}

// Runs all options of engines in one of the usual runs.
class UsualRun : public EveryOption, public testing::WithParamInterface<size_t> {};

TEST_P(UsualRun, SaysOfEachOptionThatDoesNothing) {
  std::string basis = kUsualRuns[GetParam()];
  if (basis.find("PLAN") != std::string::npos) {
    places_["PLAN"] = folder_.file("plan.json");
    const bool is_phone = basis.find("PHONE") != std::string::npos;
    const std::string made = is_phone ? "plan tiny-llama --machine PHONE --stack llm.npu -o PLAN"
                                      : "plan MODEL --threads 1 -o PLAN";
    expect_success(troika(line(made)));
  }
  const Finished alone = troika(line(basis));
  expect_success(alone);
  EXPECT_EQ(alone.err.find("does nothing"), std::string::npos) << alone.err;
  for (const OptionRow& row : kOptionRows) {
    const char says = std::string_view(row.says)[GetParam()];
    if (says == '-') continue;
    expect(basis + " " + row.words, option_of(row), says == 'i');
  }
}

std::string name_of_run(const testing::TestParamInfo<size_t>& info) {
  constexpr const char* kNames[] = {"Here", "OnAPhone", "WithAPlan", "WithAPlanOnAPhone"};
  static_assert(std::size(kNames) == std::size(kUsualRuns));
  return kNames[info.param];
}

INSTANTIATE_TEST_SUITE_P(Every, UsualRun, testing::Range<size_t>(0, std::size(kUsualRuns)),
                         name_of_run);

}  // namespace
}  // namespace troika::test
