#include "papers/given.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/atomic_file.h"
#include "base/error.h"
#include "plan/phones/published.h"
#include "tests/support/repository.h"
#include "tests/support/temp_folder.h"

namespace troika::papers {
namespace {

namespace fs = std::filesystem;

// A folder with three published rows of one paper, and what its runs are given.
class FolderOfGiven {
 public:
  explicit FolderOfGiven(const std::string& given, const std::string& lists = "") {
    fs::create_directory(folder_.file("published"));
    fs::create_directory(folder_.file("simulated"));
    for (const char* paper : plan::kPapers) {
      write_file(folder_.file(std::string("published/") + paper + ".json"),
                 std::string(paper) == "sd.npu" ? kRows : R"({"rows": []})");
    }
    write_file(
        folder_.file("simulated/sd.npu.json"),
        R"({"version": 1, "groups": [], "given": [)" + given + R"(], "lists": [)" + lists + "]}");
  }
  Given read() const {
    return Given(fs::path(folder_.file("simulated")).parent_path().string(), "sd.npu");
  }

 private:
  static constexpr const char* kRows = R"({"paper": "sd.npu", "rows": [
      {"id": "x001", "use": "input", "values": [{"name": "", "published": 5.5}]},
      {"id": "x002", "use": "input", "values": [{"name": "prompts", "published": 256},
                                                {"name": "steps", "published": 32}]},
      {"id": "x003", "use": "input", "values": [{"name": "", "published_range": [1, 2]}]}]})";
  test::TempFolder folder_;
};

// Expects that an error says both texts.
template <typename Ask>
void expect_refused(const Ask& ask, const std::string& says, const std::string& also) {
  try {
    ask();
    ADD_FAILURE() << says;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(also), std::string::npos) << error.what();
  }
}

TEST(Given, V3_NumbersAreThoseOfTheirRows) {
  const Given given = FolderOfGiven(R"({"name": "accepted", "row": "x001"},
                       {"name": "chunk", "row": "x002", "value": "steps"},
                       {"name": "lengths", "number": [64, 1024], "why": "Figure 1"},
                       {"name": "hot", "number": 3, "why": "percent"},
                       {"name": "too hot", "number": 101, "why": "percent"})")
                          .read();
  EXPECT_EQ(given.number("accepted"), 5.5);
  EXPECT_EQ(given.count("chunk"), 32);
  EXPECT_EQ(given.counts("lengths"), (std::vector<int>{64, 1024}));
  EXPECT_EQ(given.share("hot"), 0.03);
  expect_refused([&] { given.share("too hot"); }, "no percentage", "101");
  EXPECT_TRUE(given.has("hot"));
  EXPECT_FALSE(given.has("cold"));
  expect_refused([&] { given.number("cold"); }, "sd.npu.json", "'cold'");
  expect_refused([&] { given.number("lengths"); }, "one number", "'lengths'");
  expect_refused([&] { given.count("accepted"); }, "no count", "5.5");
  expect_refused([&] { given.share("lengths"); }, "one number", "'lengths'");
}

TEST(Given, V3_ARowOrAValueThatIsNotThereIsNamed) {
  const auto refused = [](const std::string& given, const std::string& says) {
    expect_refused([&] { FolderOfGiven(given).read(); }, says, "'accepted'");
  };
  refused(R"({"name": "accepted", "row": "x009"})", "'x009'");
  refused(R"({"name": "accepted", "row": "x002"})", "'x002'");
  refused(R"({"name": "accepted", "row": "x002", "value": "all"})", "'all'");
  refused(R"({"name": "accepted", "row": "x003"})", "'x003'");  // is a range
  expect_refused([&] { FolderOfGiven("", R"({"name": "l", "rows": ["x001", "x008"]})").read(); },
                 "'x008'", "'l'");
}

TEST(Given, V3_ListsKeepTheirOrderAndSayWhyRowsDoNotCount) {
  const Given given = FolderOfGiven("", R"({"name": "all", "rows": ["x003", "x001", "x002"]},
                                           {"name": "slips", "rows": ["x001"], "reason": "a slip"})")
                          .read();
  EXPECT_EQ(given.rows("all"), (std::vector<std::string>{"x003", "x001", "x002"}));
  EXPECT_EQ(given.why_not_counted("x001"), "a slip");
  EXPECT_EQ(given.why_not_counted("x002"), "");
  expect_refused([&] { given.rows("none"); }, "lists", "'none'");
}

// The figures that the papers print for their own systems.
TEST(Given, V3_TheRepositorysFilesHoldWhatThePapersPrint) {
  const std::string phones = test::repository_file("phones");
  const Given sd(phones, "sd.npu"), npu(phones, "llm.npu"), power(phones, "powerinfer-2");
  EXPECT_EQ(sd.number("tokens accepted from a draft model"), 5.5);
  EXPECT_EQ(sd.count("tokens of the graph for both"), 112);
  EXPECT_EQ(sd.count("tokens of the graph for prompts"), 256);
  EXPECT_EQ(sd.count("tokens of the graph for steps"), 32);
  EXPECT_EQ(sd.count("rows of a verification"), 6);
  EXPECT_EQ(sd.rows("accepted tokens").size(), 12u);
  EXPECT_EQ(npu.share("percent of channels that are hot"), 0.03);
  EXPECT_EQ(npu.count("percent of blocks without outliers"), 85);
  EXPECT_EQ(npu.rows("whole tasks of llm.npu").size(), 25u);
  EXPECT_EQ(power.share("percent of the FFN that a token uses of mixtral-8x7b"), 0.124);
  EXPECT_EQ(power.share("percent of the FFN that a token uses of mistral-7b"), 0.5);
}

}  // namespace
}  // namespace troika::papers
