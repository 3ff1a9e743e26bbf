// Tests how --help reads, and what --version and --kernels list print.
#include <algorithm>
#include <iterator>
#include <sstream>

#include "tests/program/troika.h"

namespace troika::test {
namespace {

// These run models, so that they have the options of all groups but some.
constexpr const char* kRunners[] = {"run",  "chat", "serve",   "bench",
                                    "eval", "plan", "neurons", "sparsity"};
constexpr const char* kOthers[] = {"tune",     "profile",  "pull",    "cache", "inspect",
                                   "tokenize", "quantize", "convert", "synth", "reproduce"};

std::string help_of(const std::string& command) {
  const Finished help = troika({command, "--help"});
  expect_success(help);
  return help.out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Returns the headings without what stands in parentheses, in their order.
std::vector<std::string> headings_of(const std::string& help) {
  std::vector<std::string> headings;
  for (const std::string& line : lines_of(help)) {
    if (!line.starts_with(' ') && line.ends_with(':')) {
      headings.push_back(line.substr(0, std::min(line.find(" ("), line.size() - 1)));
    }
  }
  return headings;
}

// Returns the words of a text with one space between two, whatever lines they stand in.
std::string joined(const std::string& text) {
  std::istringstream words(text);
  std::string all;
  for (std::string word; words >> word;) all += (all.empty() ? "" : " ") + word;
  return all;
}

TEST(Help, WhatMostPeopleNeedComesFirst) {
  EXPECT_EQ(headings_of(help_of("run")),
            (std::vector<std::string>{"Examples", "Arguments", "Options", "Sampling",
                                      "What an answer may be", "Drafts", "This machine", "Prompts",
                                      "Neurons", "Lanes", "Measuring"}));
  EXPECT_EQ(
      headings_of(help_of("bench")),
      (std::vector<std::string>{"Examples", "Arguments", "Options", "Drafts", "This machine",
                                "Prompts", "Neurons", "Lanes", "Measuring", "Virtual phones"}));
}

TEST(Help, ExamplesStandBelowTheUsage) {
  std::vector<std::string> commands(std::begin(kRunners), std::end(kRunners));
  for (const char* command : {"tune", "pull", "convert", "synth", "reproduce"}) {
    commands.emplace_back(command);
  }
  for (const std::string& command : commands) {
    SCOPED_TRACE(command);
    const std::vector<std::string> lines = lines_of(help_of(command));
    const auto usage = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
      return line.starts_with("Usage: ");
    });
    ASSERT_GT(lines.end() - usage, 3);
    EXPECT_EQ(usage[1], "");
    EXPECT_TRUE(usage[2] == "Example:" || usage[2] == "Examples:") << usage[2];
    EXPECT_TRUE(usage[3].starts_with("  troika " + command + " ")) << usage[3];
  }
}

TEST(Help, FitsATerminal) {
  std::vector<std::string> commands(std::begin(kRunners), std::end(kRunners));
  commands.insert(commands.end(), std::begin(kOthers), std::end(kOthers));
  for (const std::string& command : commands) {
    SCOPED_TRACE(command);
    const std::string help = help_of(command);
    for (const std::string& line : lines_of(help)) EXPECT_LE(line.size(), 100u) << line;
    EXPECT_EQ(help.find("{false}"), std::string::npos);
    EXPECT_EQ(help.find("\n\n\n"), std::string::npos);
  }
}

// Who looks for one option reads its text alone.
TEST(Help, NoOptionLeansOnTheOneAboveIt) {
  std::vector<std::string> commands(std::begin(kRunners), std::end(kRunners));
  commands.insert(commands.end(), std::begin(kOthers), std::end(kOthers));
  for (const std::string& command : commands) {
    SCOPED_TRACE(command);
    for (const std::string& line : lines_of(help_of(command))) {
      if (!line.starts_with("  ")) continue;
      for (const char* word : {"With it", "With them", "Likewise", "Instead:", "  The same,"}) {
        EXPECT_EQ(line.find(word), std::string::npos) << line;
      }
    }
  }
}

TEST(Help, OptionsOfPhonesAreListedWhereOneSimulates) {
  for (const std::string command : kRunners) {
    SCOPED_TRACE(command);
    const std::string help = help_of(command);
    const bool simulates = command == "bench" || command == "plan";
    EXPECT_EQ(help.find("--npu-step") != std::string::npos, simulates);
    if (command == "serve" || command == "neurons" || command == "sparsity") {
      EXPECT_EQ(help.find("--machine"), std::string::npos);  // which these refuse
      continue;
    }
    EXPECT_EQ(joined(help).find("'troika bench --help' lists") == std::string::npos, simulates);
    EXPECT_NE(help.find("--machine"), std::string::npos);
  }
}

TEST(Help, NamesTheFormsOfDevices) {
  const std::string help = joined(help_of("run"));
  EXPECT_NE(help.find("opencl:0@1"), std::string::npos);
  EXPECT_NE(help.find("openvino:CPU@1"), std::string::npos);
}

TEST(Version, NamesTheKernels) {
  const Finished finished = troika({"--version"});
  expect_success(finished);
  EXPECT_EQ(finished.out.rfind("troika ", 0), 0u);
  EXPECT_NE(finished.out.find("\nkernels: "), std::string::npos);
  EXPECT_EQ(std::count(finished.out.begin(), finished.out.end(), '\n'), 5);
  const Finished all = troika({"--kernels", "list"});
  expect_success(all);
  EXPECT_NE(all.out.find("\n  matmul_q8 "), std::string::npos) << all.out;
  EXPECT_NE(all.out.find(" Q4_0,"), std::string::npos) << all.out;
  for (const std::string& line : lines_of(all.out)) EXPECT_LE(line.size(), 80u) << line;
  expect_refusal(troika({"--kernels", "some"}), 2, {"list"});
  const Finished both = troika({"--version", "--kernels", "list"});
  expect_success(both);
  EXPECT_EQ(both.out, finished.out + "\n" + all.out);
}

// It is what a report of a bug begins with, also of a service, which has no home.
TEST(Version, NeedsNoHome) {
  Command command = troika_command({"--version"});
  command.environment["XDG_CACHE_HOME"] = command.environment["HOME"] = "";
  const Finished finished = run_program(command);
  expect_success(finished);
  EXPECT_NE(finished.out.find("\nkernels: "), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("kept between runs: nothing"), std::string::npos) << finished.out;
}

// Says whether a word stands in a list that commas or spaces part.
bool has_word(std::string list, const std::string& word) {
  std::replace(list.begin(), list.end(), ',', ' ');
  return (" " + joined(list) + " ").find(" " + word + " ") != std::string::npos;
}

class KernelsList : public ProgramTest {};

TEST_F(KernelsList, SaysOfAllInThisBuildWhetherTheyRunHere) {
  const std::string model = write(small_model());
  const Finished wrong = troika({"run", model, "-p", "Once", "--kernels", "none"});
  const std::string begin = "It has: ";
  const size_t at = wrong.err.find(begin);
  ASSERT_NE(at, std::string::npos) << wrong.err;
  std::string names = wrong.err.substr(at + begin.size());
  names.resize(names.find('.'));
  std::replace(names.begin(), names.end(), ',', ' ');

  const std::string list = troika({"--kernels", "list"}).out;
  const size_t end_of_used = std::min(list.find("also in this build\n"), list.size());
  const std::string used = "\n" + list.substr(0, end_of_used), unused = list.substr(end_of_used);
  const size_t at_slower = std::min(unused.find("\n  slower "), unused.size());
  const std::string foreign = unused.substr(0, at_slower), slower = unused.substr(at_slower);
  std::istringstream words(names);
  for (std::string name; words >> name;) {
    SCOPED_TRACE(name);
    const bool is_here =
        used.find("\n" + name + "\n") != std::string::npos || has_word(slower, name);
    EXPECT_NE(is_here, has_word(foreign, name)) << list;
    const Finished finished =
        troika({"run", model, "-p", "Once", "-n", "1", "-t", "1", "--kernels", name});
    EXPECT_EQ(finished.status, is_here ? 0 : 2) << finished.err;
  }
}

TEST(Help, IsACommandToo) {
  EXPECT_EQ(troika({"help"}).out, troika({"--help"}).out);
  const Finished of_run = troika({"help", "run"});
  expect_success(of_run);
  EXPECT_EQ(of_run.out, troika({"run", "--help"}).out);
}

TEST(Help, AWordThatIsNoneOfSomeIsASentence) {
  expect_refusal(troika({"reproduce", "bogus"}), 2, {"FIGURES", "'bogus' is none of all, micro"});
}

}  // namespace
}  // namespace troika::test
