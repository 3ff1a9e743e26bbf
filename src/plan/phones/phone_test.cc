#include "plan/phones/phone.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "plan/phones/published.h"
#include "tests/support/repository.h"

namespace troika::plan {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const fs::path kPhones = test::repository_file("phones");
constexpr const char* kPhoneNames[] = {"8gen3", "8gen2", "8plusgen1", "8elite"};
constexpr const char* kStackNames[] = {"llm.npu", "heterollm",      "shadowattn",
                                       "sd.npu",  "sd.npu.prompts", "powerinfer-2"};

void check_sources(const std::vector<Field>& fields, const std::vector<PublishedRow>& rows,
                   const std::string& file) {
  for (const Field& field : fields) {
    const std::string& source = field.constant->source;
    EXPECT_NE(source_kind(source), SourceKind::kUnknown) << file << ' ' << field.name;
    for (const std::string& id : source_rows(source)) {
      const PublishedRow* row = find_row(rows, id);
      ASSERT_NE(row, nullptr) << file << ' ' << field.name << " names " << id;
      // A phone may use what a paper says of its workload. The table of figures marks such rows as
      // inputs.
      const bool is_input = row->use == "input" || row->note.starts_with("input");
      EXPECT_TRUE(row->use == "calibrate" || is_input)
          << file << ' ' << field.name << " names " << id;
    }
  }
}

TEST(Phone, V2_EveryConstantNamesItsSourceAndNoneIsATestRow) {
  const std::vector<PublishedRow> rows = read_published((kPhones / "published").string());
  for (const std::string name : kPhoneNames) {
    Phone phone = read_phone((kPhones / (name + ".json")).string());
    EXPECT_EQ(phone.name, name);
    check_sources(phone.fields(), rows, name);
  }
  for (const std::string name : kStackNames) {
    Stack stack = read_stack((kPhones / "stacks" / (name + ".json")).string());
    EXPECT_EQ(stack.name, name);
    check_sources(stack.fields(), rows, name);
  }
}

TEST(Phone, V2_OnlyThe8Gen3IsFitted) {
  for (const std::string name : {"8gen2", "8plusgen1", "8elite"}) {
    Phone phone = read_phone((kPhones / (name + ".json")).string());
    for (const Field& field : phone.fields()) {
      const SourceKind kind = source_kind(field.constant->source);
      EXPECT_TRUE(kind != SourceKind::kFitted && kind != SourceKind::kRows)
          << name << ' ' << field.name;
    }
  }
}

TEST(Phone, V2_OtherPhonesHaveTheFittedBandwidthTimesThatOfTheirMemory) {
  const Phone base = read_phone((kPhones / "8gen3.json").string());
  for (const std::string name : {"8gen2", "8plusgen1", "8elite"}) {
    const Phone phone = read_phone((kPhones / (name + ".json")).string());
    const double rate = phone.memory.relative_rate;
    EXPECT_NEAR(phone.memory.reached_gb_s / (base.memory.reached_gb_s * rate), 1.0, 0.01) << name;
    EXPECT_NEAR(phone.memory.npu_gb_s / (base.memory.npu_gb_s * rate), 1.0, 0.01) << name;
  }
}

TEST(Constants, TellKindsOfSourcesApart) {
  EXPECT_EQ(source_kind("hf009"), SourceKind::kRows);
  EXPECT_EQ(source_kind("hf009, pf001: the middle"), SourceKind::kRows);
  EXPECT_EQ(source_kind("fitted to hf009"), SourceKind::kFitted);
  EXPECT_EQ(source_kind("fitted to taste"), SourceKind::kUnknown);
  EXPECT_EQ(source_kind("assumed: half"), SourceKind::kAssumed);
  EXPECT_EQ(source_kind(""), SourceKind::kUnknown);
  EXPECT_EQ(source_kind("a guess"), SourceKind::kUnknown);
  EXPECT_EQ(source_rows("fitted to nf001, nf005 (not nf0099)"),
            (std::vector<std::string>{"nf001", "nf005"}));
}

// The tests break copies of a phone, and know which words the error must hold.
class BrokenFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              ("phones_" + std::to_string(::getpid()) + "_" +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static Json load(const fs::path& path) {
    std::ifstream in(path);
    return Json::parse(in);
  }
  void expect(const std::string& text, bool is_stack, const std::vector<std::string>& words) {
    const std::string path = (folder_ / "broken.json").string();
    std::ofstream(path) << text;
    try {
      if (is_stack) {
        read_stack(path);
      } else {
        read_phone(path);
      }
      ADD_FAILURE() << "not noticed: " << words.back();
    } catch (const Error& error) {
      for (const std::string& word : words) {
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
      }
      EXPECT_NE(std::string(error.what()).find("broken.json"), std::string::npos) << error.what();
    }
  }

  fs::path folder_;
};

TEST_F(BrokenFile, OfAPhoneIsRefusedWithFileAndField) {
  const Json good = load(kPhones / "8gen3.json");
  const auto broken = [&](const auto& change, const std::vector<std::string>& words) {
    Json json = good;
    change(json);
    expect(json.dump(), false, words);
  };
  broken([](Json& j) { j["version"] = 2; }, {"version"});
  broken([](Json& j) { j["version"] = "1"; }, {"version"});
  broken([](Json& j) { j.erase("name"); }, {"name"});
  broken([](Json& j) { j["memory"].erase("peak_gb_s"); }, {"memory.peak_gb_s", "missing"});
  broken([](Json& j) { j["memory"]["peak_gb_s"]["value"] = -1; }, {"memory.peak_gb_s", "-1"});
  broken([](Json& j) { j["memory"]["peak_gb_s"]["value"] = 1e9; }, {"memory.peak_gb_s"});
  broken([](Json& j) { j["memory"]["peak_gb_s"]["value"] = "much"; }, {"not a number"});
  broken([](Json& j) { j["memory"]["peak_gb_s"]["value"] = 50; }, {"memory.reached_gb_s"});
  broken([](Json& j) { j["memory"]["peak_gb_s"].erase("source"); }, {"memory.peak_gb_s"});
  broken([](Json& j) { j["memory"]["peak_gb_s"]["source"] = "a guess"; }, {"source"});
  broken([](Json& j) { j["memory"] = 3; }, {"memory"});
  broken([](Json& j) { j["tpu"] = Json::object(); }, {"tpu", "not known"});
  broken([](Json& j) { j["like"] = "8gen2"; }, {"like"});
  broken(
      [](Json& j) {
        for (const char* type : {"prime", "middle", "small"}) j["cpu"][type]["count"]["value"] = 0;
      },
      {"count"});
  for (const char* type : {"prime", "middle", "small"}) {
    broken([&](Json& j) { j["cpu"][type]["count"]["value"] = 2.5; },
           {std::string("cpu.") + type + ".count", "2.5", "whole number"});
  }
  expect("[]", false, {"not a JSON object"});
  expect("", false, {"not a JSON object"});
  expect("{\"version\": 1", false, {"not a JSON object"});
}

TEST_F(BrokenFile, ThatIsDeepOrHasManyFieldsIsRefusedAtOnce) {
  std::string deep = load(kPhones / "8gen3.json").dump();
  deep.insert(1, "\"a\":" + std::string(100000, '[') + std::string(100000, ']') + ",");
  expect(deep, false, {"nested"});
  // Whoever looks at all fields for each field is busy for minutes.
  std::string wide = load(kPhones / "8gen3.json").dump();
  std::string fields;
  for (int i = 0; i < 300000; ++i) fields += "\"f" + std::to_string(i) + "\":0,";
  wide.insert(1, fields);
  expect(wide, false, {"'f", "not known"});
}

TEST_F(BrokenFile, OfAStackIsRefusedWithFileAndField) {
  const Json good = load(kPhones / "stacks/llm.npu.json");
  const auto broken = [&](const auto& change, const std::vector<std::string>& words) {
    Json json = good;
    change(json);
    expect(json.dump(), true, words);
  };
  broken([](Json& j) { j["npu"]["launch_us"]["value"] = -0.5; }, {"npu.launch_us"});
  broken([](Json& j) { j["npu"]["softmax_us"] = j["npu"]["launch_us"]; }, {"npu.softmax_us"});
  broken([](Json& j) { j["npu"]["launch_us"]["unit"] = "ms"; }, {"npu.launch_us", "unit"});
  broken([](Json& j) { j["npu"]["shape_power"]["value"] = 1.5; }, {"npu.shape_power"});
  broken([](Json& j) { j["like"] = "../../etc/passwd"; }, {"like"});
  EXPECT_THROW(read_stack((folder_ / "none.json").string()), Error);
}

TEST_F(BrokenFile, UpdatedKeepsTheRestAndIsReadBack) {
  const fs::path path = folder_ / "8gen3.json";
  fs::copy_file(kPhones / "8gen3.json", path);
  Phone phone = read_phone(path.string());
  phone.npu.relative_rate = {1.25, "fitted to hf001"};
  for (const Field& field : phone.fields()) {
    if (field.constant == &phone.npu.relative_rate) update_constants(path.string(), {field});
  }
  const Phone again = read_phone(path.string());
  EXPECT_EQ(again.npu.relative_rate.value, 1.25);
  EXPECT_EQ(again.npu.relative_rate.source, "fitted to hf001");
  EXPECT_EQ(again.memory.peak_gb_s.value, phone.memory.peak_gb_s.value);
}

TEST(Constants, CanBeGivenForARun) {
  Stack stack = read_stack((kPhones / "stacks/llm.npu.json").string());
  const ConstantChoice choice = constant_from_text("cpu.vector_gflops=100");
  EXPECT_EQ(choice.name, "cpu.vector_gflops");
  EXPECT_TRUE(choose_constant(choice, stack.fields()));
  EXPECT_EQ(stack.cpu.vector_gflops, 100.0);
  EXPECT_EQ(source_kind(stack.cpu.vector_gflops.source), SourceKind::kAssumed);
  EXPECT_FALSE(choose_constant({"cpu.speed", 1.0}, stack.fields()));
  EXPECT_THROW(choose_constant({"cpu.vector_gflops", -1.0}, stack.fields()), UsageError);
  for (const char* text : {"", "cpu.launch_us", "=5", "cpu.launch_us=", "cpu.launch_us=5x"}) {
    EXPECT_THROW(constant_from_text(text), UsageError) << text;
  }
}

// The power of some cores is a share of that of all, which a phone without any would not have.
TEST(Constants, CoresTakePower) {
  Phone phone = read_phone((kPhones / "8gen3.json").string());
  EXPECT_THROW(choose_constant({"power.cpu_w", 0.0}, phone.fields()), UsageError);
  EXPECT_TRUE(choose_constant({"power.gpu_w", 0.0}, phone.fields()));
}

TEST_F(BrokenFile, ARangeBesideAConstantHoldsItsValue) {
  Json json = load(kPhones / "8gen3.json");
  Json& peak = json["memory"]["peak_gb_s"];  // is 68 in the file
  for (const Json& range : {Json(5), Json({60}), Json({60, 67}), Json({-1, 70}), Json({"a", 70})}) {
    peak["range"] = range;
    expect(json.dump(), false, {"memory.peak_gb_s", "range"});
  }
  peak["range"] = {60, 70};
  const std::string path = (folder_ / "good.json").string();
  std::ofstream(path) << json.dump();
  EXPECT_EQ(read_phone(path).memory.peak_gb_s.range, std::pair(60.0, 70.0));
}

}  // namespace
}  // namespace troika::plan
