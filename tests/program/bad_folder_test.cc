// Folders that cannot be converted are refused with a sentence and status 1, and leave no file.
#include <filesystem>

#include "tests/program/troika.h"

namespace troika::test {
namespace {

constexpr char kConfig[] =
    R"({"architectures": ["Qwen3ForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 96, "vocab_size": 300,
        "max_position_embeddings": 128})";

class BadFolder : public testing::Test {
 protected:
  void expect_refused(const std::vector<std::string>& parts) const {
    expect_refusal(troika({"convert", source(), temp_.file("out.gguf")}), 1, parts);
    EXPECT_LE(temp_.n_files(), 1u);  // counts the folder alone
  }
  std::string source() const { return temp_.file("source"); }
  void write(const char* name, const std::string& text) const {
    std::filesystem::create_directories(source());
    write_whole(source() + "/" + name, text);
  }

 private:
  const TempFolder temp_;
};

TEST_F(BadFolder, IsRefusedWithASentence) {
  expect_refused({source(), "it is no folder"});
  write("tokenizer.json", "{}");
  expect_refused({source(), "config.json"});
  write("config.json", "{\"architectures\": [\"BertModel\"]}");
  expect_refused({"config.json", "BertModel", "known are LlamaForCausalLM"});
  write("config.json", std::string(kConfig).replace(std::string(kConfig).find("64"), 2, "1e99"));
  expect_refused({"config.json", "'hidden_size' is", "must be a whole number"});
  write("config.json", kConfig);
  expect_refused({source(), "has no *.safetensors"});
  write("model-00001-of-00002.safetensors", "");
  expect_refused({"model-00002-of-00002.safetensors", "is missing"});
  write("model-00002-of-00002.safetensors", "");
  expect_refused({"model-00001-of-00002.safetensors", "too few for a safetensors file"});
  write("model.safetensors", std::string("\x02\0\0\0\0\0\0\0{}", 10));
  expect_refused({source(), "\"model.embed_tokens.weight\" is missing"});
}

TEST_F(BadFolder, WrongUseIsToldApart) {
  expect_refusal(troika({"convert", source()}), 2, {"OUT"});
  write("config.json", kConfig);
  expect_refusal(troika({"convert", source(), source() + "/x.gguf", "--type", "q9"}), 2, {"q9"});
}

}  // namespace
}  // namespace troika::test
