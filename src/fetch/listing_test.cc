#include "fetch/listing.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/temp_folder.h"

namespace troika::fetch {
namespace {

using test::message_of;

Listing listing_of(const std::string& json) {
  Listing listing;
  add_page(json, "hf:a/b", &listing);
  return listing;
}

std::vector<HubFile> listed(const std::string& json) { return listing_of(json).files; }

std::vector<HubModel> models_named(const std::vector<std::pair<std::string, uint64_t>>& names) {
  std::vector<HubFile> files;
  for (const auto& [path, bytes] : names) files.push_back({path, bytes, ""});
  return models_of(files);
}

std::string label_of(const std::string& name) { return models_named({{name, 1}}).at(0).label; }

TEST(Listing, GgufFilesOfAPage) {
  const std::string hash(64, 'A');
  const auto files = listed(fmt::format(
      R"([{{"type": "directory", "path": "x.gguf", "size": 0}},
          {{"type": "file", "path": "README.md", "size": -1, "lfs": 7}},
          {{"type": "file", "path": "d/a.gguf", "size": 12, "oid": "00",
            "lfs": {{"oid": "{}", "size": 12, "pointerSize": 130}}}},
          {{"type": "file", "path": "b.GGUF", "size": 3}}])",
      hash));
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].path, "d/a.gguf");
  EXPECT_EQ(files[0].bytes, 12u);
  EXPECT_EQ(files[0].sha256, std::string(64, 'a'));
  EXPECT_EQ(files[0].git_sha1, "");  // is that of a pointer to the file
  EXPECT_EQ(files[1].sha256, "");
  EXPECT_EQ(files[1].hash(), "");
  EXPECT_TRUE(listed("[]").empty());
}

// A page of a few megabytes must not become hundreds of them.
TEST(Listing, APageOfCountlessValuesIsRefused) {
  const auto refusal = [](const std::string& page) {
    return message_of<Error>([&] { listed(page); });
  };
  EXPECT_NE(refusal(std::string(1 << 20, '[')).find("is nested more than 8 deep"),
            std::string::npos);
  std::string page = "[";
  for (int i = 0; i < 600'000; ++i) page += "{},";
  EXPECT_NE(refusal(page + "{}]").find("has no end"), std::string::npos);
  EXPECT_EQ(refusal(R"([{"type": "directory", "path": "a", "x": {"y": [{"z": [1]}]}}])"), "");
}

TEST(Listing, WhatGitKeepsItselfHasTheHashOfGit) {
  const std::string hash(40, 'B');
  const auto files = listed(fmt::format(
      R"([{{"type": "file", "path": "a.gguf", "size": 3, "oid": "{}"}},
          {{"type": "file", "path": "b.gguf", "size": 3, "oid": "12"}},
          {{"type": "file", "path": "c.gguf", "size": 3, "oid": 12}}])",
      hash));
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files[0].git_sha1, std::string(40, 'b'));
  EXPECT_EQ(files[0].hash(), files[0].git_sha1);
  EXPECT_EQ(files[1].hash(), "");
  EXPECT_EQ(files[2].hash(), "");
}

TEST(Listing, WhatIsNoList) {
  for (const char* json :
       {"", "{}", "<html>", "[1]", "[{}]", R"([{"type": "file"}])", R"([{"type": 1, "path": "a"}])",
        R"([{"type": "file", "path": "a.gguf"}])",
        R"([{"type": "file", "path": "a.gguf", "size": -1}])",
        R"([{"type": "file", "path": "a.gguf", "size": 1.5}])",
        R"([{"type": "file", "path": "a.gguf", "size": 9999999999999999}])",
        R"([{"type": "file", "path": "../a.gguf", "size": 1}])",
        R"([{"type": "file", "path": "/a.gguf", "size": 1}])",
        R"([{"type": "file", "path": "a/../../b.gguf", "size": 1}])",
        R"([{"type": "file", "path": "a.gguf", "size": 1, "lfs": {}}])",
        R"([{"type": "file", "path": "a.gguf", "size": 1, "lfs": {"oid": "12"}}])", "[[[[[["}) {
    const std::string message = message_of<Error>([&] { listed(json); });
    EXPECT_NE(message.find("hf:a/b"), std::string::npos) << json << "\n" << message;
  }
  const std::string hash(64, '0');
  EXPECT_THROW(listed(fmt::format(R"([{{"type": "file", "path": "a.gguf", "size": 1,
                                       "lfs": {{"oid": "{}", "size": 2}}}}])",
                                  hash)),
               Error);
  EXPECT_THROW(listed(std::string(1'000'000, '[')), Error);
}

// Somebody's Mac or a slip must not cost the other files of the repository.
TEST(Listing, FilesOfOddNamesAreLeftOut) {
  const std::string long_name = std::string(230, 'a') + ".gguf";
  const Listing listing = listing_of(fmt::format(
      R"([{{"type": "file", "path": "m-Q8_0.gguf", "size": 8}},
          {{"type": "file", "path": "._m-Q8_0.gguf", "size": -1}},
          {{"type": "file", "path": ".cache/m-Q4_0.gguf", "size": 4}},
          {{"type": "file", "path": "a\\b.gguf", "size": 4}},
          {{"type": "file", "path": "a//b.gguf", "size": 4}},
          {{"type": "file", "path": "a\u001b[2J.gguf", "size": 4}},
          {{"type": "file", "path": "{}", "size": 4}}])",
      long_name));
  ASSERT_EQ(listing.files.size(), 1u);
  EXPECT_EQ(listing.left_out.size(), 6u);
  const auto models = models_of(listing.files);
  EXPECT_EQ(choose_model(models, "", "n", listing.left_out).file_name(), "m-Q8_0.gguf");
  EXPECT_EQ(choose_model(models, "Q8_0", "n", listing.left_out).file_name(), "m-Q8_0.gguf");
  // What is asked for and was left out is named, and nothing else.
  std::string message =
      message_of<Error>([&] { choose_model(models, "Q4_0", "n", listing.left_out); });
  EXPECT_NE(message.find("\".cache/m-Q4_0.gguf\", which this program leaves out"),
            std::string::npos)
      << message;
  EXPECT_EQ(message.find("._m"), std::string::npos) << message;
  message = message_of<Error>([&] { choose_model(models, "Q5_0", "n", listing.left_out); });
  EXPECT_EQ(message.find("leaves out"), std::string::npos) << message;
  message = message_of<Error>([&] { choose_model({}, "", "n", listing.left_out); });
  EXPECT_NE(message.find("leaves out"), std::string::npos) << message;
  EXPECT_NE(message.find("._m-Q8_0.gguf"), std::string::npos) << message;
  EXPECT_EQ(message.find('\x1b'), std::string::npos) << message;
}

TEST(Listing, LabelsAreTypesInNames) {
  EXPECT_EQ(label_of("Qwen2.5-0.5B-Instruct-Q4_K_M.gguf"), "Q4_K_M");
  EXPECT_EQ(label_of("llama_3.1_8b_q4_k_m.gguf"), "Q4_K_M");
  EXPECT_EQ(label_of("Q4_K_M.gguf"), "Q4_K_M");
  EXPECT_EQ(label_of("model.IQ3_XXS.gguf"), "IQ3_XXS");
  EXPECT_EQ(label_of("m-UD-Q4_K_XL.gguf"), "UD-Q4_K_XL");
  EXPECT_EQ(label_of("m.fp16.gguf"), "FP16");
  EXPECT_EQ(label_of("gpt-oss-20b-mxfp4.gguf"), "MXFP4");
  EXPECT_EQ(label_of("BF16/m-BF16-00001-of-00001.gguf"), "BF16");
  EXPECT_EQ(label_of("stories260K.gguf"), "stories260K");
  EXPECT_EQ(label_of("Q10.gguf"), "Q10");
  EXPECT_EQ(label_of("m-imatrix-Q4_K_M.gguf"), "Q4_K_M");
}

TEST(Listing, ShardsAreOneModel) {
  const auto models = models_named({{"d/m-Q8_0-00002-of-00002.gguf", 5},
                                    {"d/m-Q8_0-00001-of-00002.gguf", 7},
                                    {"m-Q4_0-00001-of-00003.gguf", 1},
                                    {"mmproj-m-F16.gguf", 1},
                                    {"m.mmproj-f16.gguf", 1},
                                    {"m-mmproj-Q8_0.gguf", 1},
                                    {"m-Q8_0.mmproj.gguf", 1},
                                    {"m.imatrix.gguf", 1}});
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[1].label, "Q8_0");
  EXPECT_EQ(models[1].bytes(), 12u);
  EXPECT_EQ(models[1].file_name(), "m-Q8_0-00001-of-00002.gguf");
  EXPECT_TRUE(models[1].is_complete);
  EXPECT_FALSE(models[0].is_complete);
  const std::string message = message_of<Error>([&] { choose_model(models, "", "hf:a/b"); });
  EXPECT_NE(message.find("only 1 of the parts"), std::string::npos) << message;
}

TEST(Listing, AFileInAFolderIsNoShardOfItsNeighbour) {
  const auto models =
      models_named({{"m-00001-of-00002.gguf", 3}, {"m-00002-of-00002.gguf", 4}, {"m/2.gguf", 5}});
  ASSERT_EQ(models.size(), 2u);
  for (const HubModel& model : models) {
    EXPECT_TRUE(model.is_complete) << model.label;
    EXPECT_EQ(model.bytes(), model.label == "m" ? 7u : 5u) << model.label;
  }
}

TEST(Choice, DefaultIsWhatOtherProgramsTake) {
  const auto chosen = [](const std::vector<std::pair<std::string, uint64_t>>& names) {
    return choose_model(models_named(names), "", "hf:a/b").label;
  };
  EXPECT_EQ(chosen({{"m-Q2_K.gguf", 2}, {"m-Q4_0.gguf", 4}, {"m-q4_k_m.gguf", 5}}), "Q4_K_M");
  EXPECT_EQ(chosen({{"m-Q2_K.gguf", 2}, {"m-Q4_0.gguf", 4}, {"m-Q4_1.gguf", 3}}), "Q4_0");
  EXPECT_EQ(chosen({{"m-Q2_K.gguf", 2}, {"m-Q8_0.gguf", 8}, {"m-Q5_K_M.gguf", 5}}), "Q5_K_M");
  EXPECT_EQ(chosen({{"m-F16.gguf", 16}, {"m-IQ3_S.gguf", 3}}), "F16");
  EXPECT_EQ(chosen({{"m-IQ1_S.gguf", 1}, {"m-IQ3_S.gguf", 3}}), "IQ3_S");
  EXPECT_EQ(chosen({{"stories.gguf", 3}}), "stories");
  EXPECT_EQ(chosen({{"m.Q8_0.gguf", 8}, {"m.f16.gguf", 15}, {"m.mmproj-f16.gguf", 1}}), "Q8_0");
}

TEST(Choice, ByLabelOrFileInAnyCase) {
  const auto models = models_named({{"a-Q8_0.gguf", 8}, {"b-Q8_0.gguf", 8}, {"a-Q4_0.gguf", 4}});
  EXPECT_EQ(choose_model(models, "q4_0", "n").file_name(), "a-Q4_0.gguf");
  EXPECT_EQ(choose_model(models, "B-q8_0", "n").file_name(), "b-Q8_0.gguf");
  EXPECT_EQ(choose_model(models, "a-Q8_0.gguf", "n").file_name(), "a-Q8_0.gguf");
  std::string message = message_of<Error>([&] { choose_model(models, "Q8_0", "n"); });
  EXPECT_NE(message.find("b-Q8_0.gguf"), std::string::npos) << message;
  message = message_of<Error>([&] { choose_model(models, "Q4", "n"); });
  EXPECT_NE(message.find("\"Q4\". It has: Q4_0"), std::string::npos) << message;
  EXPECT_THROW(choose_model({}, "", "n"), Error);
}

TEST(Choice, ByPathWhereNamesAreEqual) {
  const auto models =
      models_named({{"x/m-Q8_0.gguf", 8}, {"y/m-Q8_0.gguf", 8}, {"m-Q8_0.gguf", 8}});
  const std::string message = message_of<Error>([&] { choose_model(models, "Q8_0", "n"); });
  for (const char* path : {"x/m-Q8_0.gguf", "y/m-Q8_0.gguf", "m-Q8_0.gguf"}) {
    EXPECT_NE(message.find(path), std::string::npos) << message;
    EXPECT_EQ(choose_model(models, path, "n").files.front().path, path);
  }
  EXPECT_EQ(choose_model(models, "X/M-q8_0", "n").files.front().path, "x/m-Q8_0.gguf");
}

}  // namespace
}  // namespace troika::fetch
