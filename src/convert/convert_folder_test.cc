#include "convert/convert_folder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <filesystem>
#include <functional>
#include <limits>

#include "base/error.h"
#include "tests/support/hf_folder.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace troika::convert {
namespace {

using nlohmann::json;
using test::message_of;
using test_support::HfFolder;

HfFolder small_folder(const std::string& architecture = "qwen2") {
  test_support::TinyModel model = test_support::tiny_model(architecture);
  model.width = 64, model.n_heads = 2, model.n_kv_heads = 1, model.n_layers = 1;
  model.head_dim = model.rope_dims = 32, model.ffn_width = 64;
  const auto bytes = tiny_model_bytes(model);
  return test_support::hf_folder(gguf::File::parse(std::as_bytes(std::span(bytes)), "tiny"));
}

class ConvertFolder : public testing::Test {
 protected:
  std::string convert(const HfFolder& source, const std::string& type = "f16") {
    std::filesystem::remove_all(folder_);
    source.write(folder_);
    return convert_again(type);
  }
  // Returns the message of the error, or "" where converting worked.
  std::string convert_again(const std::string& type = "f16") {
    notes_.clear();
    ConvertOptions options = {.folder = folder_, .output = out_, .type = type};
    options.note = [this](const std::string& sentence) { notes_.push_back(sentence); };
    return message_of<Error>([&] { report_ = convert_folder(options); });
  }
  // Returns the only note about a folder that can be converted, or "" where there is none.
  std::string note_about(const HfFolder& source) {
    EXPECT_EQ(convert(source), "");
    EXPECT_LE(notes_.size(), 1u);
    return notes_.empty() ? "" : notes_.front();
  }
  // Expects that converting is refused with these words and leaves nothing behind.
  void expect_refused(const HfFolder& source, const std::string& problem) {
    expect_message(convert(source), problem);
  }
  void expect_message(const std::string& message, const std::string& problem) {
    EXPECT_NE(message.find(problem), std::string::npos) << message << "\nnot: " << problem;
    EXPECT_TRUE(message.starts_with(folder_)) << message;
    EXPECT_EQ(temp_.n_files(), 1u);  // counts the folder alone
    std::filesystem::remove(out_);
  }
  void expect_config_refused(const char* key, const json& value, const std::string& problem) {
    HfFolder source = small_folder();
    source.config[key] = value;
    expect_refused(source, problem);
  }
  std::string part(const char* name) const { return folder_ + "/" + name; }

  test::TempFolder temp_;
  ConvertReport report_;            // the last one
  std::vector<std::string> notes_;  // of the last one
  const std::string folder_ = temp_.file("model");
  const std::string out_ = temp_.file("out.gguf");
};

TEST_F(ConvertFolder, WritesTheNamesThatReadersKnow) {
  ASSERT_EQ(convert(small_folder(), "q8_0"), "");
  const gguf::File file = gguf::File::open(out_);
  EXPECT_EQ(file.get_string("general.architecture"), "qwen2");
  EXPECT_EQ(file.get_string("general.name"), "model");
  EXPECT_EQ(file.find_uint("general.file_type"), 7u);
  EXPECT_EQ(file.find_uint("qwen2.attention.head_count_kv"), 1u);
  EXPECT_EQ(file.get_tensor("blk.0.attn_q.weight").type, tensor::Type::kQ8_0);
  EXPECT_EQ(file.get_tensor("blk.0.attn_q.bias").type, tensor::Type::kF32);
  EXPECT_EQ(file.get_tensor("blk.0.ffn_down.weight").shape, (std::vector<uint64_t>{64, 64}));
}

TEST_F(ConvertFolder, SettingsOfTheTokenizerAreRead) {
  HfFolder source = small_folder();
  source.tokenizer["added_tokens"].push_back(
      {{"id", 300}, {"content", "<turn>"}, {"special", true}, {"rstrip", true}});
  source.tokenizer["added_tokens"].push_back(
      {{"id", 301}, {"content", "<end>"}, {"special", true}, {"lstrip", true}});
  source.config["vocab_size"] = 520;
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"}) {
    if (source.tensors.count(name) == 0) continue;
    source.tensors[name].shape[0] = 520;
    source.tensors[name].bytes.resize(520 * 64 * 4);
  }
  source.tokenizer_config = {{"eos_token", {{"content", "<|im_end|>"}}},
                             {"bos_token", "<|endoftext|>"},
                             {"add_bos_token", true},
                             {"chat_template",
                              {{{"name", "tool_use"}, {"template", "{{ tools }}"}},
                               {{"name", "default"}, {"template", "{{ x }}"}}}}};
  source.generation_config = {{"eos_token_id", {300, 301}}};
  ASSERT_EQ(convert(source), "");
  const text::Vocabulary v = text::read_vocabulary(gguf::File::open(out_));
  EXPECT_EQ(v.tokens[static_cast<size_t>(v.eos)], "<|im_end|>");
  EXPECT_EQ(v.tokens[static_cast<size_t>(v.bos)], "<|endoftext|>");
  EXPECT_EQ(v.eot, 300);
  EXPECT_TRUE(v.add_bos);
  EXPECT_EQ(v.tokens[300], "<turn>");
  EXPECT_EQ(v.types[300], text::TokenType::kControl);
  EXPECT_EQ(v.tokens.size(), 520u);
  EXPECT_EQ(v.types[519], text::TokenType::kUnused);
  EXPECT_EQ(v.chat_template, "{{ x }}");
  EXPECT_EQ(v.tool_template, "{{ tools }}");
  EXPECT_EQ(v.pre, "gpt-2");
  ASSERT_EQ(v.strips_right.size(), 520u);
  EXPECT_EQ(std::count(v.strips_right.begin(), v.strips_right.end(), true), 1);
  EXPECT_TRUE(v.strips_right[300]);
  ASSERT_EQ(v.strips_left.size(), 520u);
  EXPECT_EQ(std::count(v.strips_left.begin(), v.strips_left.end(), true), 1);
  EXPECT_TRUE(v.strips_left[301]);
}

TEST_F(ConvertFolder, TokensThatAreWholeWordsThereAreNoted) {
  HfFolder source = small_folder();
  source.tokenizer["added_tokens"].push_back(
      {{"id", 300}, {"content", "word"}, {"single_word", true}});
  source.config["vocab_size"] = 520;
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"}) {
    if (source.tensors.count(name) == 0) continue;
    source.tensors[name].shape[0] = 520;
    source.tensors[name].bytes.resize(520 * 64 * 4);
  }
  EXPECT_NE(note_about(source).find("'single_word'; 1 of them"), std::string::npos);
  EXPECT_EQ(note_about(small_folder()), "");
}

// The folder's name, which the file has, says nothing about the tokens.
TEST_F(ConvertFolder, NoTokenTakesWhiteSpaceUnlessTheTokenizerSaysSo) {
  ASSERT_EQ(convert(small_folder()), "");
  const gguf::File file = gguf::File::open(out_);
  EXPECT_NE(file.find(text::kStripsRightKey), nullptr);
  EXPECT_TRUE(text::read_vocabulary(file).strips_right.empty());
}

TEST_F(ConvertFolder, SpecialTokensThatAreNoneAreNone) {
  HfFolder source = small_folder();
  source.config["bos_token_id"] = nullptr;
  source.config["eos_token_id"] = json::array({nullptr, 511});
  source.config["pad_token_id"] = -1;
  source.tokenizer_config = {{"bos_token", nullptr},
                             {"eos_token", {{"content", nullptr}}},
                             {"pad_token", "none"},
                             {"unk_token", json::array()},
                             {"add_bos_token", nullptr},
                             {"chat_template", nullptr},
                             {"added_tokens_decoder", nullptr}};
  source.generation_config = {
      {"bos_token_id", "none"}, {"eos_token_id", nullptr}, {"pad_token_id", 1e9}};
  ASSERT_EQ(convert(source), "");
  const text::Vocabulary v = text::read_vocabulary(gguf::File::open(out_));
  EXPECT_EQ(v.bos, text::kNoToken);
  EXPECT_EQ(v.eos, 511);
  EXPECT_EQ(v.pad, text::kNoToken);
  EXPECT_FALSE(v.add_bos);
  EXPECT_EQ(v.chat_template, "");
}

json sequence(const json& a, const json& b) {
  return {{"type", "Sequence"}, {"pretokenizers", {a, b}}};
}

// Returns a pre-tokenizer that splits by a pattern and writes bytes as letters.
json split_by(const std::string& regex) {
  const json split = {{"type", "Split"},
                      {"pattern", {{"Regex", regex}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return sequence(split,
                  {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
}

// Returns a pre-tokenizer with a pattern that several models share, but for how digits are split.
json split_with_digits(const std::string& digits) {
  return split_by(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)" + digits +
                  R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)");
}

TEST_F(ConvertFolder, PreTokenizersAreKnownByWhatTheyDo) {
  const auto pre_of = [&](const json& pre, const json& ignore_merges = false) {
    HfFolder source = small_folder();
    source.tokenizer["pre_tokenizer"] = pre;
    source.tokenizer["model"]["ignore_merges"] = ignore_merges;
    const std::string message = convert(source);
    if (message.empty()) return text::read_vocabulary(gguf::File::open(out_)).pre;
    return message.find("is not known") == std::string::npos ? message : "not known";
  };
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  EXPECT_EQ(pre_of(bytes), "gpt-2");
  EXPECT_EQ(pre_of(sequence({{"type", "Digits"}, {"individual_digits", true}}, bytes)), "smollm");
  EXPECT_EQ(pre_of(split_with_digits(R"(\p{N})")), "qwen2");
  EXPECT_EQ(pre_of(split_with_digits(R"(\p{N}{1,3})")), "dbrx");
  EXPECT_EQ(pre_of(split_with_digits(R"(\p{N}{1,3})"), nullptr), "dbrx");
  EXPECT_EQ(pre_of(split_with_digits(R"(\p{N}{1,3})"), true), "llama-bpe");
  EXPECT_EQ(pre_of(split_with_digits(R"(\p{N})"), true), "not known");
  EXPECT_EQ(pre_of(bytes, true), "not known");
  std::filesystem::remove(out_);
  HfFolder source = small_folder();
  source.tokenizer["pre_tokenizer"] = split_by("a+");
  expect_refused(source, "(\"split:a+ letters\") is not known");
  source.tokenizer["pre_tokenizer"] = sequence(json::object(), bytes);
  expect_refused(source, "(\"a step without a type bytes\") is not known");
  source.tokenizer["pre_tokenizer"] = nullptr;
  expect_refused(source, "it names no pre-tokenizer. Where you know");
}

// A token that no merge makes is found only where merges are ignored.
TEST_F(ConvertFolder, MergesAreIgnoredWhereTheTokenizerSaysSo) {
  for (const bool ignores : {false, true}) {
    HfFolder source = small_folder();
    source.tokenizer["pre_tokenizer"] = split_with_digits(R"(\p{N}{1,3})");
    source.tokenizer["model"]["ignore_merges"] = ignores;
    const uint64_t n_vocab = source.config["vocab_size"];
    source.tokenizer["model"]["vocab"]["qzqz"] = n_vocab;
    source.config["vocab_size"] = n_vocab + 1;
    for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"}) {
      if (source.tensors.count(name) == 0) continue;
      test_support::RawTensor& tensor = source.tensors[name];
      tensor.shape[0] = n_vocab + 1;
      tensor.bytes.resize((n_vocab + 1) * tensor.shape[1] * sizeof(float));
    }
    ASSERT_EQ(convert(source), "");
    const gguf::File file = gguf::File::open(out_);
    const auto tokens = text::make_tokenizer(file)->encode("qzqz", {.add_special = false});
    if (ignores) {
      EXPECT_EQ(tokens, std::vector<text::Token>{static_cast<text::Token>(n_vocab)});
    } else {
      EXPECT_EQ(tokens.size(), 4u);
    }
  }
}

TEST_F(ConvertFolder, SentencePieceAsJsonGetsScoresFromItsMerges) {
  HfFolder source = small_folder("llama");
  source.tokenizer_model.clear();
  source.config["vocab_size"] = 512;
  source.tokenizer = {
      {"normalizer", {{"type", "Prepend"}, {"prepend", "\u2581"}}},
      {"added_tokens", {{{"id", 0}, {"content", "<unk>"}, {"special", true}}}},
      {"model",
       {{"type", "BPE"},
        {"byte_fallback", true},
        {"unk_token", "<unk>"},
        {"vocab", {{"<unk>", 0}, {"<0x41>", 1}, {"a", 2}, {"b", 3}, {"ab", 4}, {"abb", 5}}},
        {"merges", {"a b", json::array({"ab", "b"})}}}}};
  ASSERT_EQ(convert(source), "");
  const text::Vocabulary v = text::read_vocabulary(gguf::File::open(out_));
  EXPECT_EQ(v.kind, text::VocabularyKind::kSpm);
  EXPECT_EQ(v.types[0], text::TokenType::kUnknown);
  EXPECT_EQ(v.types[1], text::TokenType::kByte);
  EXPECT_EQ(v.scores[4], -1.0F);
  EXPECT_EQ(v.scores[5], -2.0F);
  EXPECT_LT(v.scores[2], -1e6F);
  EXPECT_TRUE(v.add_space_prefix);
}

// A template says which tokens stand around a text; without one, tokenizer.json says nothing of it.
TEST_F(ConvertFolder, TheModelOfSentencePieceAddsBosUnlessATemplateSaysOtherwise) {
  HfFolder source = small_folder("llama");
  source.config["bos_token_id"] = 1;
  const auto adds_bos = [&] {
    EXPECT_EQ(convert(source), "");
    return text::read_vocabulary(gguf::File::open(out_)).add_bos;
  };
  EXPECT_TRUE(adds_bos());
  source.tokenizer = {{"model",
                       {{"type", "BPE"},
                        {"byte_fallback", true},
                        {"vocab", {{"<unk>", 0}, {"a", 1}, {"b", 2}, {"ab", 3}}},
                        {"merges", {"a b"}}}}};
  EXPECT_TRUE(adds_bos());
  const json text = {{"Sequence", {{"id", "A"}}}}, bos = {{"SpecialToken", {{"id", "<s>"}}}};
  source.tokenizer["post_processor"] = {{"type", "TemplateProcessing"},
                                        {"single", json::array({text})}};
  EXPECT_FALSE(adds_bos());
  source.tokenizer["post_processor"]["single"] = json::array({bos, text});
  EXPECT_TRUE(adds_bos());
}

// A cache of downloads holds links, and one that leads nowhere is a file that is still wanted.
TEST_F(ConvertFolder, LinksThatLeadNowhereAreNotTakenForAbsentFiles) {
  for (const char* name :
       {"tokenizer_config.json", "generation_config.json", "added_tokens.json", "tokenizer.json",
        "tokenizer.model", "chat_template.jinja", "model.safetensors"}) {
    small_folder(name == std::string("tokenizer.model") ? "llama" : "qwen2").write(folder_);
    std::filesystem::remove(part(name));
    std::filesystem::create_symlink("nowhere", part(name));
    expect_message(convert_again(), std::string(name) + ": cannot open it");
    std::filesystem::remove_all(folder_);
  }
  const HfFolder source = small_folder();
  source.write_settings(folder_);
  source.write_parts(folder_, /*has_index=*/false);
  std::filesystem::create_symlink("nowhere", part("model.safetensors.index.json"));
  expect_message(convert_again(), "model.safetensors.index.json: cannot open it");
}

TEST_F(ConvertFolder, IncompleteFoldersAreSentences) {
  std::filesystem::create_directory(folder_);
  expect_message(convert_again(), "config.json: cannot open it");
  const HfFolder source = small_folder();
  source.write_settings(folder_);
  expect_message(convert_again(), "has no *.safetensors. Download");
  test::write_whole(part("pytorch_model.bin"), "x");
  expect_message(convert_again(), "save the model as such first");
  for (const bool has_index : {true, false}) {
    source.write_parts(folder_, has_index);
    std::filesystem::remove(part("model-00002-of-00002.safetensors"));
    expect_message(convert_again(),
                   "model-00002-of-00002.safetensors: this part of the model is missing");
    std::filesystem::remove(part("model.safetensors.index.json"));
  }
  source.write(folder_);
  std::filesystem::remove(part("tokenizer.json"));
  expect_message(convert_again(), "neither tokenizer.json nor tokenizer.model");
  std::filesystem::remove_all(folder_);
  EXPECT_NE(convert_again().find("it is no folder"), std::string::npos);
}

TEST_F(ConvertFolder, IndexesThatAreWrongAreSentences) {
  const HfFolder source = small_folder();
  source.write_parts(folder_, true);
  const std::string index = part("model.safetensors.index.json");
  json map = json::parse(test::read_whole(index));
  const json good = map;
  map["weight_map"]["lm_head.extra"] = "model-00001-of-00002.safetensors";
  test::write_whole(index, map.dump());
  expect_message(convert_again(), "tensor \"lm_head.extra\" is not in it, as the index says");
  map["weight_map"]["lm_head.extra"] = "../model.safetensors";
  test::write_whole(index, map.dump());
  expect_message(convert_again(), "which is no file of this folder");
  map["weight_map"]["lm_head.extra"] = "\x1b]0;x\x07.safetensors";
  test::write_whole(index, map.dump());
  expect_message(convert_again(), "\"\\x1b]0;x\\x07.safetensors\", which is no file of this");
  test::write_whole(index, "{}");
  expect_message(convert_again(), "has no 'weight_map'");
  test::write_whole(index, good.dump());
  std::filesystem::copy_file(part("model-00001-of-00002.safetensors"),
                             part("model-00002-of-00002.safetensors"),
                             std::filesystem::copy_options::overwrite_existing);
  expect_message(convert_again(), " too. Remove the files that do not belong");
}

TEST_F(ConvertFolder, OneFileOfWeightsCountsMoreThanAnIndex) {
  HfFolder source = small_folder();
  EXPECT_EQ(note_about(source), "");
  const std::string wanted = test::read_whole(out_);
  HfFolder other = source;
  for (auto& [name, tensor] : other.tensors) tensor.bytes.assign(tensor.bytes.size(), '\0');
  other.write_parts(folder_, true);
  for (const bool is_complete : {true, false}) {
    if (!is_complete) std::filesystem::remove(part("model-00002-of-00002.safetensors"));
    EXPECT_EQ(convert_again(), "");
    EXPECT_EQ(test::read_whole(out_), wanted);
    ASSERT_EQ(notes_.size(), 1u);
    EXPECT_NE(notes_[0].find("not from those that model.safetensors.index.json names, such "
                             "as \"model-00001-of-00002.safetensors\""),
              std::string::npos)
        << notes_[0];
  }
  // Some indexes name the one file.
  json index;
  for (const auto& [name, tensor] : source.tensors) {
    index["weight_map"][name] = "model.safetensors";
  }
  test::write_whole(part("model.safetensors.index.json"), index.dump());
  EXPECT_EQ(convert_again(), "");
  EXPECT_EQ(notes_.size(), 0u);
  index["weight_map"]["lm_head.extra"] = "model.safetensors";
  test::write_whole(part("model.safetensors.index.json"), index.dump());
  std::filesystem::remove(out_);
  expect_message(convert_again(), "tensor \"lm_head.extra\" is not in it, as the index says");
  // A download that was cut off leaves such an index.
  for (const char* text : {"{\"weight_map\": {\"lm_", "{}"}) {
    test::write_whole(part("model.safetensors.index.json"), text);
    EXPECT_EQ(convert_again(), "");
    EXPECT_EQ(test::read_whole(out_), wanted);
    ASSERT_EQ(notes_.size(), 1u);
    EXPECT_NE(notes_[0].find("this index cannot be used"), std::string::npos) << notes_[0];
  }
}

TEST_F(ConvertFolder, WeightsThatDoNotFitAreSentences) {
  HfFolder source = small_folder();
  source.tensors.erase("model.norm.weight");
  expect_refused(source, "the tensor \"model.norm.weight\" is missing");
  source = small_folder();
  source.config["intermediate_size"] = 32;
  expect_refused(source, "is 64 x 64, but config.json asks for 32 x 64");
  source = small_folder();
  source.tensors["model.layers.0.adapter.weight"] = {"F32", {1}, std::string(4, '\0')};
  expect_refused(source, "\"model.layers.0.adapter.weight\" has no place in a model of this class");
  source = small_folder();
  source.tensors["model.norm.weight"].dtype = "I32";
  expect_refused(source, "has the element type \"I32\"");
  source = small_folder();
  const float infinity = std::numeric_limits<float>::infinity();
  source.tensors["model.layers.0.mlp.up_proj.weight"].bytes.replace(
      400, 4, reinterpret_cast<const char*>(&infinity), 4);
  expect_refused(source, "not finite numbers");
  source = small_folder();
  const float large = 1e6F;
  source.tensors["model.layers.0.mlp.up_proj.weight"].bytes.replace(
      400, 4, reinterpret_cast<const char*>(&large), 4);
  expect_refused(source, "too large for F16. Try ‹type› bf16");
  EXPECT_EQ(convert_again("bf16"), "");
  std::filesystem::remove(out_);
  const float too_large = 1e8F;  // is too large for the scale of a block, too
  source.tensors["model.layers.0.mlp.up_proj.weight"].bytes.replace(
      400, 4, reinterpret_cast<const char*>(&too_large), 4);
  source.write(folder_);
  expect_message(convert_again("q8_0"), "too large for Q8_0. Try ‹type› bf16");
}

TEST_F(ConvertFolder, BiasesAreTakenWhereTheyAreAndMissedWhereTheyMustBe) {
  HfFolder source = small_folder();
  source.tensors.erase("model.layers.0.self_attn.k_proj.bias");
  expect_refused(source, "the tensor \"model.layers.0.self_attn.k_proj.bias\" is missing");
  source = small_folder("llama");
  ASSERT_EQ(convert(source), "");
  EXPECT_EQ(gguf::File::open(out_).find_tensor("blk.0.attn_q.bias"), nullptr);
  source.config["attention_bias"] = true;
  std::filesystem::remove(out_);
  expect_refused(source, "_proj.bias\" is missing, which config.json asks for");
  for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
    const std::string matrix = std::string("model.layers.0.self_attn.") + name;
    const uint64_t n_rows = source.tensors.at(matrix + ".weight").shape[0];
    source.tensors[matrix + ".bias"] = {"F32", {n_rows}, std::string(n_rows * 4, '\0')};
  }
  for (const json& said : {json(true), json(false), json()}) {
    source.config["attention_bias"] = said;
    ASSERT_EQ(convert(source), "") << said;
    EXPECT_NE(gguf::File::open(out_).find_tensor("blk.0.attn_q.bias"), nullptr) << said;
  }
}

TEST_F(ConvertFolder, ConfigurationsThatCannotBeAreSentences) {
  expect_config_refused("architectures", json::array({"OtherForCausalLM"}),
                        "models of the class \"OtherForCausalLM\" cannot be converted");
  expect_config_refused("architectures", 3, "does not name the class");
  expect_config_refused("quantization_config", json::object(), "are quantised already");
  expect_config_refused("hidden_size", 1e18, "'hidden_size' is \"1e+18\", but must be");
  expect_config_refused("hidden_size", 0, "must be a whole number from 1");
  expect_config_refused("num_hidden_layers", 4000000000u, "'num_hidden_layers' is");
  expect_config_refused("num_hidden_layers", -1, "'num_hidden_layers' is");
  expect_config_refused("num_attention_heads", 3, "asks for 96 x 64");
  expect_config_refused("num_key_value_heads", 3, "'num_key_value_heads' is \"3\"");
  expect_config_refused("head_dim", 1048576, "are not possible");
  expect_config_refused("head_dim", 31, "are not possible");
  expect_config_refused("vocab_size", json::array(), "'vocab_size' is \"[]\"");
  expect_config_refused("vocab_size", uint64_t{1} << 60, "'vocab_size' is");
  expect_config_refused("rope_theta", "x", "'rope_theta' is");
  expect_config_refused("rope_scaling", {{"type", "new"}}, "the kind of rotation \"new\"");
  expect_config_refused("rope_scaling", {{"type", "linear"}}, "'factor' is missing");
  expect_config_refused("hidden_act", "tanh", "the activation \"tanh\" is not known");
  std::filesystem::create_directories(folder_);
  small_folder().write(folder_);
  test::write_whole(part("config.json"), "{");
  expect_message(convert_again(), "no JSON text");
  test::write_whole(part("config.json"), "[]");
  expect_message(convert_again(), "holds no JSON object");
  test::write_whole(part("config.json"), "{\"a\":" + std::string(100000, '['));
  expect_message(convert_again(), "nested more than");
}

TEST_F(ConvertFolder, TokenizersThatCannotBeAreSentences) {
  const auto expect_tokenizer_refused = [&](const std::function<void(json&)>& spoil,
                                            const std::string& problem) {
    HfFolder source = small_folder();
    spoil(source.tokenizer);
    expect_refused(source, problem);
  };
  expect_tokenizer_refused([](json& t) { t["model"]["type"] = "Unigram"; },
                           "of the kind \"Unigram\"");
  expect_tokenizer_refused([](json& t) { t["model"]["type"] = "WordPiece"; },
                           "of the kind \"WordPiece\"");
  expect_tokenizer_refused(
      [](json& t) {
        t["model"] = {{"vocab", json::object()}};
      },
      "of the kind \"unknown\"");
  expect_tokenizer_refused([](json& t) { t.erase("model"); }, "it has no 'model'");
  expect_tokenizer_refused([](json& t) { t["model"]["vocab"]["x y"] = 1e10; }, "has no number");
  expect_tokenizer_refused([](json& t) { t["model"]["vocab"]["x y"] = 4000000000u; },
                           "a token has the number 4000000000");
  expect_tokenizer_refused([](json& t) { t["model"]["vocab"]["x y"] = 7; }, "the same number");
  expect_tokenizer_refused([](json& t) { t["model"]["vocab"]["x y"] = 600; },
                           "but the model knows 512");
  expect_tokenizer_refused([](json& t) { t["model"]["merges"] = {"ab"}; }, "no pair of tokens");
  expect_tokenizer_refused([](json& t) { t["model"].erase("merges"); }, "no 'merges'");
  expect_tokenizer_refused([](json& t) { t["model"]["merges"] = json::array(); },
                           "no merges. Download the files of its tokenizer again.");
  expect_tokenizer_refused([](json& t) { t["added_tokens"][0].erase("id"); }, "has no number");
  HfFolder source = small_folder("llama");
  const std::string model = source.tokenizer_model;
  source.tokenizer_model = model.substr(0, model.size() - 1);
  expect_refused(source, "no model of SentencePiece, or a damaged one");
  source.tokenizer_model = model.substr(0, model.size() - 1) + "\x01";
  expect_refused(source, "of the kind unigram");
  source.tokenizer_model = std::string(12, '\xff');
  expect_refused(source, "no model of SentencePiece");
}

TEST_F(ConvertFolder, NormalizersThatAreNotComputedAreNoted) {
  HfFolder source = small_folder();
  const auto expect_noted = [&](const json& normalizer, const std::string& types) {
    source.tokenizer["normalizer"] = normalizer;
    const std::string note = note_about(source);
    EXPECT_TRUE(note.starts_with(part("tokenizer.json") + ": the tokenizer changes")) << note;
    EXPECT_NE(note.find("does not do: " + types + ". Texts"), std::string::npos) << note;
  };
  const auto expect_silent = [&](const json& normalizer) {
    source.tokenizer["normalizer"] = normalizer;
    EXPECT_EQ(note_about(source), "");
  };
  const auto sequence_of = [](const json& steps) {
    return json{{"type", "Sequence"}, {"normalizers", steps}};
  };
  const json prepend = {{"type", "Prepend"}, {"prepend", "\u2581"}};
  const json spaces = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}};
  expect_silent(nullptr);
  expect_silent({{"type", "NFC"}});
  expect_silent(sequence_of(json::array()));
  for (const char* type : {"NFD", "NFKC", "NFKD", "Nmt", "Lowercase", "Strip", "StripAccents",
                           "BertNormalizer", "Precompiled", "ByteLevel"}) {
    expect_noted({{"type", type}}, fmt::format("\"{}\"", type));
  }
  expect_noted(sequence_of({{{"type", "NFC"}}, {{"type", "Lowercase"}}, prepend}),
               R"("Lowercase", "Prepend")");
  expect_noted(json::object(), "a step without a type");
  // In a tokenizer of SentencePiece these two write spaces, which this program does too.
  source.tokenizer["model"]["byte_fallback"] = true;
  expect_silent(spaces);
  expect_silent(sequence_of({prepend, spaces}));
  const json many = {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", "\u2581"}};
  expect_noted(sequence_of({{{"type", "Precompiled"}}, many}), R"("Precompiled", "Replace")");
}

// SentencePiece removes spaces unless a model says otherwise; that of OpenLLaMA does not.
TEST_F(ConvertFolder, NormalisationBySentencePieceIsNoted) {
  const auto bytes = tiny_model_bytes(test_support::tiny_model("llama"));
  const gguf::File file = gguf::File::parse(std::as_bytes(std::span(bytes)), "tiny");
  HfFolder source = test_support::hf_folder(file);
  EXPECT_EQ(note_about(source), "");
  source.tokenizer_model = test_support::hf_sentencepiece(file, "");
  std::string note = note_about(source);
  EXPECT_TRUE(note.starts_with(part("tokenizer.model"))) << note;
  EXPECT_NE(note.find("do: spaces at the ends and repeated ones are removed. "), std::string::npos)
      << note;
  const std::string map_alone = std::string("\x12\x03map\x20\0", 7);
  source.tokenizer_model = test_support::hf_sentencepiece(file, map_alone);
  note = note_about(source);
  EXPECT_NE(note.find("do: some characters become others. "), std::string::npos) << note;
  // What the library transformers goes by is tokenizer.json, where there is one.
  source.tokenizer = {{"model",
                       {{"type", "BPE"},
                        {"byte_fallback", true},
                        {"vocab", {{"<unk>", 0}, {"a", 1}, {"b", 2}, {"ab", 3}}},
                        {"merges", {"a b"}}}}};
  EXPECT_EQ(note_about(source), "");
  source.tokenizer["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_TRUE(note_about(source).starts_with(part("tokenizer.json"))) << note;
}

// Gemma 3's tokenizer knows one token more than its embedding: the one of a picture.
TEST_F(ConvertFolder, AddedTokensBeyondTheEmbeddingAreLeftOut) {
  HfFolder source = small_folder();
  const uint64_t n_vocab = source.config["vocab_size"];
  source.tokenizer["added_tokens"].push_back(
      {{"id", n_vocab}, {"content", "<image>"}, {"special", true}});
  ASSERT_EQ(convert(source), "");
  EXPECT_EQ(text::read_vocabulary(gguf::File::open(out_)).tokens.size(), n_vocab);
}

TEST_F(ConvertFolder, WhatLooksSpecialIsSpecial) {
  HfFolder source = small_folder();
  source.tokenizer["added_tokens"].push_back(
      {{"id", 300}, {"content", "<|fim_prefix|>"}, {"special", false}});
  source.tokenizer["added_tokens"].push_back(
      {{"id", 301}, {"content", "<tool>"}, {"special", false}});
  ASSERT_EQ(convert(source), "");
  const text::Vocabulary v = text::read_vocabulary(gguf::File::open(out_));
  EXPECT_EQ(v.types[300], text::TokenType::kControl);
  EXPECT_EQ(v.types[301], text::TokenType::kUserDefined);
}

// A tied model's folder may have a head all the same, which is not read.
TEST_F(ConvertFolder, ProgressReachesTheEnd) {
  HfFolder source = small_folder();
  source.config["tie_word_embeddings"] = true;
  source.tensors["lm_head.weight"] = source.tensors["model.embed_tokens.weight"];
  source.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {.shape = {16},
                                                                    .bytes = std::string(64, '\0')};
  source.write(folder_);
  uint64_t last = 0, whole = 0;
  convert_folder({.folder = folder_,
                  .output = out_,
                  .n_threads = 3,
                  .progress = [&](uint64_t done, uint64_t total) {
                    EXPECT_GE(done, last);
                    last = done;
                    whole = total;
                  }});
  EXPECT_GT(whole, 0u);
  EXPECT_EQ(last, whole);
}

TEST_F(ConvertFolder, AFileOfTheFolderIsNotReplaced) {
  small_folder().write(folder_);
  for (const char* name : {"model.safetensors", "config.json", "tokenizer.json"}) {
    const std::string before = test::read_whole(part(name));
    EXPECT_THROW(convert_folder({.folder = folder_, .output = part(name)}), UsageError) << name;
    EXPECT_EQ(test::read_whole(part(name)), before);
  }
}

TEST_F(ConvertFolder, AnUnknownPreTokenizerIsRefusedBeforeTheWork) {
  small_folder().write(folder_);
  EXPECT_NE(message_of<Error>([&] {
              convert_folder({.folder = folder_, .output = out_, .pre = "qwen"});
            }).find("qwen"),
            std::string::npos);
  EXPECT_EQ(temp_.n_files(), 1u);
}

TEST_F(ConvertFolder, NoPreTokenizerCanBeNamedForSentencePiece) {
  small_folder("llama").write(folder_);
  for (const char* pre : {"nonsense", "llama-bpe"}) {
    const std::string message = message_of<UsageError>(
        [&] { convert_folder({.folder = folder_, .output = out_, .pre = pre}); });
    EXPECT_TRUE(message.starts_with(part("tokenizer.model"))) << message;
    EXPECT_NE(message.find("leave ‹pre› out"), std::string::npos) << message;
    EXPECT_EQ(temp_.n_files(), 1u);
  }
}

TEST_F(ConvertFolder, OutputsThatCannotBeWrittenAreSentences) {
  small_folder().write(folder_);
  EXPECT_NE(message_of<Error>(
                [&] { convert_folder({.folder = folder_, .output = temp_.file("no/out.gguf")}); }),
            "");
  EXPECT_THROW(convert_folder({.folder = folder_, .output = out_, .type = "q9"}), UsageError);
  EXPECT_EQ(temp_.n_files(), 1u);
}

}  // namespace
}  // namespace troika::convert
